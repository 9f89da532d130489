// A file of lines that grows piece by piece and survives that its writer is killed: what is there is whole pieces and
// perhaps the beginning of one more, which whoever goes on cuts off.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace moesim {

class ResumableFile {
 public:
  // Opens it, or makes it, for this process alone: throws InputError (of `flag`) where it cannot be written or another
  // process is writing it.
  ResumableFile(std::string path, std::string flag);
  ~ResumableFile();
  ResumableFile(const ResumableFile&) = delete;
  ResumableFile& operator=(const ResumableFile&) = delete;

  // Each whole line from the beginning on, without its end, and where it begins.
  void read_lines(const std::function<void(std::string_view line, std::int64_t begin)>& see) const;
  [[nodiscard]] std::string beginning() const;  // a few hundred bytes, or all
  // Cuts it there; append() goes on from there.
  void cut(std::int64_t bytes);
  // With one call of the system. Throws InputError where there is no room; what was there before stays.
  void append(std::string_view text);
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  [[noreturn]] void fail(const std::string& why) const;

  std::string path_, flag_;
  int file_ = -1;
  std::int64_t bytes_ = 0;
};

}  // namespace moesim
