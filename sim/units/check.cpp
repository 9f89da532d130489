#include "sim/units/check.h"

#include <fmt/format.h>

#include <stdexcept>

namespace moesim {

void check_failed(const char* condition, const char* file, int line) {
  throw std::logic_error(
      fmt::format("internal error: '{}' does not hold ({}:{}); please report it", condition, file, line));
}

}  // namespace moesim
