#include "traces/routing_formats/json_lines.h"

#include <fmt/format.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "sim/io/input_error.h"

namespace moesim {

JsonLines::JsonLines(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "rb")) {
  if (!file_) throw InputError({path, "", std::generic_category().message(errno), "a readable file", ""});
}

bool JsonLines::fill() {
  constexpr std::size_t kBlock = 1 << 16;
  buffer_.resize(kBlock);
  buffer_.resize(std::fread(buffer_.data(), 1, kBlock, file_.get()));
  at_ = 0;
  if (std::ferror(file_.get()) != 0) {  // a directory, too
    throw InputError({path_, "", std::generic_category().message(errno), "a readable file", ""});
  }
  return !buffer_.empty();
}

std::optional<std::string> JsonLines::next_text() {
  while (at_ < buffer_.size() || fill()) {
    std::string line;
    ++line_;
    bool ended = false;
    while (!ended && (at_ < buffer_.size() || fill())) {
      const std::size_t end = buffer_.find('\n', at_);
      ended = end != std::string::npos;
      line.append(buffer_, at_, ended ? end - at_ : std::string::npos);
      at_ = ended ? end + 1 : buffer_.size();
      if (std::cmp_greater(line.size(), kMostLineBytes)) {
        throw InputError(
            {place(), "", fmt::format("a line of more than {} bytes", kMostLineBytes), "a shorter one", ""});
      }
    }
    if (line.find_first_not_of(" \t\r") != std::string::npos) return line;
  }
  return std::nullopt;
}

std::optional<JsonDocument> JsonLines::next() {
  const std::optional<std::string> line = next_text();
  if (!line) return std::nullopt;
  return JsonDocument::parse(*line, place());
}

std::string JsonLines::place() const { return fmt::format("{}:{}", path_, line_); }

}  // namespace moesim
