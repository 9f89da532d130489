// "simulating 12/64" or the like on standard error, only when that is a terminal.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace moesim {

class Progress {
 public:
  explicit Progress(bool wanted = true);
  ~Progress();  // clears the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // `all` 0: not known.
  void show(std::size_t done, std::size_t all, const char* doing = "simulating");
  // With the time that is left if what is left takes as long as what was done here, after `before` that were there.
  void show_left(std::size_t done, std::size_t before, std::size_t all, const char* doing);

 private:
  void write(const std::string& line);

  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace moesim
