// What happened when: one span per cohort of work items. Recorded only on request.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/units/quantity.h"

namespace moesim {

struct Span {
  std::uint32_t kernel = 0;
  std::uint32_t group = 0;  // of its first item
  std::int64_t items = 0;
  TimePoint start;  // dispatched
  TimePoint flow;   // first K-step
  TimePoint drain;  // last K-step done
  TimePoint end;    // epilogue done
};

struct Timeline {
  std::vector<Span> spans;
};

}  // namespace moesim
