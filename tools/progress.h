// "simulating 12/64" or the like on standard error, only when that is a terminal.
#pragma once

#include <chrono>
#include <cstddef>

namespace moesim {

class Progress {
 public:
  Progress();
  ~Progress();  // clears the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // `all` 0: not known.
  void show(std::size_t done, std::size_t all, const char* doing = "simulating");

 private:
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace moesim
