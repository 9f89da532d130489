#include "tools/interrupt.h"

#include <atomic>
#include <csignal>

namespace moesim {
namespace {

std::atomic<bool> requested{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

constexpr int kSignals[] = {SIGINT, SIGTERM};

void set_handler(void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  requested = false;
  set_handler([](int) { requested = true; }, static_cast<int>(SA_RESETHAND) | SA_RESTART);
}

InterruptGuard::~InterruptGuard() { set_handler(SIG_DFL, 0); }

bool interrupt_requested() { return requested; }
void request_interrupt() { requested = true; }
void check_for_interrupt() {
  if (requested) throw Interrupted();
}

}  // namespace moesim
