// JSON Lines of any size, a line at a time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "sim/io/strict_json.h"

namespace moesim {

// The most that one line may hold: its tree is the only memory that grows with it.
inline constexpr std::int64_t kMostLineBytes = std::int64_t{64} << 20;

class JsonLines {
 public:
  // Throws InputError where the file cannot be read.
  explicit JsonLines(const std::string& path);
  // The next line that is not blank; nothing at the end.
  std::optional<std::string> next_text();
  // The same as JSON, called "path:LINE" in errors.
  std::optional<JsonDocument> next();
  // "path:LINE" of the line read last, from 1.
  [[nodiscard]] std::string place() const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  bool fill();  // nothing left: false

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::string buffer_;
  std::size_t at_ = 0;  // of buffer_: what was handed out
  std::int64_t line_ = 0;
};

}  // namespace moesim
