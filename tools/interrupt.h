// Ctrl-C, or SIGTERM, as a question that long work asks itself.
#pragma once

#include <stdexcept>

namespace moesim {

class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

// While one lives, the first SIGINT or SIGTERM is only noted; a second one ends the program as ever.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

bool interrupt_requested();
void request_interrupt();    // as a signal would
void check_for_interrupt();  // throws Interrupted

}  // namespace moesim
