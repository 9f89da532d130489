#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace moesim {
namespace {

constexpr std::chrono::milliseconds kInterval{200};

}  // namespace

Progress::Progress() : terminal_(isatty(STDERR_FILENO) != 0), next_(std::chrono::steady_clock::now() + kInterval) {}

Progress::~Progress() {
  constexpr const char* kClearLine = "\r\x1b[K";
  if (shown_) std::fputs(kClearLine, stderr);
}

void Progress::show(std::size_t done, std::size_t all, const char* doing) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kInterval;
  shown_ = true;
  const std::string line = all == 0 ? fmt::format("\r{} {}", doing, done) : fmt::format("\r{} {}/{}", doing, done, all);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace moesim
