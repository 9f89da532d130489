// CHECK: an invariant of our own code, always on. Wrong input is an InputError instead.
#pragma once

namespace moesim {

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace moesim

#define MOESIM_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::moesim::check_failed(#condition, __FILE__, __LINE__))
