#include "tools/resumable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "sim/io/input_error.h"

namespace moesim {

ResumableFile::ResumableFile(std::string path, std::string flag) : path_(std::move(path)), flag_(std::move(flag)) {
  constexpr mode_t kMode = 0666;
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kMode);
  if (file_ < 0) fail(fmt::format("which cannot be written ({})", std::strerror(errno)));
  struct stat info = {};
  std::string why;
  if (fstat(file_, &info) != 0 || !S_ISREG(info.st_mode)) {
    why = "which is no plain file, so that nothing could go on from it";
  } else if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    why = "which another sweep is writing";
  }
  bytes_ = info.st_size;
  if (why.empty()) return;
  close(file_);
  fail(why);
}

ResumableFile::~ResumableFile() { close(file_); }

void ResumableFile::read_lines(const std::function<void(std::string_view, std::int64_t)>& see) const {
  constexpr std::size_t kBlock = 1 << 20;
  std::vector<char> block(kBlock);
  std::string line;
  std::int64_t begin = 0, at = 0;
  while (at < bytes_) {
    const ssize_t got = pread(file_, block.data(), block.size(), at);
    if (got <= 0) fail("which cannot be read");
    for (std::string_view rest(block.data(), static_cast<std::size_t>(got)); !rest.empty();) {
      const std::size_t end = rest.find('\n');
      line += rest.substr(0, end);
      if (end == std::string_view::npos) break;
      see(line, begin);
      begin += static_cast<std::int64_t>(line.size()) + 1;
      line.clear();
      rest.remove_prefix(end + 1);
    }
    at += got;
  }
}

std::string ResumableFile::beginning() const {
  constexpr std::size_t kBytes = 4096;
  std::string text(kBytes, '\0');
  const ssize_t got = pread(file_, text.data(), text.size(), 0);
  if (got < 0) fail("which cannot be read");
  text.resize(static_cast<std::size_t>(got));
  return text;
}

void ResumableFile::cut(std::int64_t bytes) {
  if (ftruncate(file_, bytes) != 0) fail(fmt::format("which cannot be cut ({})", std::strerror(errno)));
  bytes_ = bytes;
}

void ResumableFile::append(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = pwrite(file_, text.data(), text.size(), bytes_);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(fmt::format("which takes no more ({})", std::strerror(errno)));
    bytes_ += written;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void ResumableFile::fail(const std::string& why) const {
  throw InputError({flag_, "", fmt::format("'{}', {}", path_, why), "a file that can be written", ""});
}

}  // namespace moesim
