#include "tools/progress.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace moesim {
namespace {

constexpr std::chrono::milliseconds kInterval{200};

}  // namespace

Progress::Progress(bool wanted)
    : terminal_(wanted && isatty(STDERR_FILENO) != 0),
      begin_(std::chrono::steady_clock::now()),
      next_(begin_ + kInterval) {}

Progress::~Progress() {
  constexpr const char* kClearLine = "\r\x1b[K";
  if (shown_) std::fputs(kClearLine, stderr);
}

void Progress::show(std::size_t done, std::size_t all, const char* doing) {
  write(all == 0 ? fmt::format("{} {}", doing, done) : fmt::format("{} {}/{}", doing, done, all));
}

void Progress::show_left(std::size_t done, std::size_t before, std::size_t all, const char* doing) {
  std::string left;
  if (done > before) {
    const std::chrono::duration<double> so_far = std::chrono::steady_clock::now() - begin_;
    const double each = so_far.count() / static_cast<double>(done - before);
    const auto seconds = std::chrono::seconds(std::llround(each * static_cast<double>(all - done)));
    left = fmt::format(", {:%H:%M:%S} left", seconds);
  }
  write(fmt::format("{} {}/{}{}", doing, done, all, left));
}

void Progress::write(const std::string& line) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kInterval;
  shown_ = true;
  constexpr const char* kToLineEnd = "\x1b[K";
  std::fputs(fmt::format("\r{}{}", line, kToLineEnd).c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace moesim
