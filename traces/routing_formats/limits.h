// Bounds of sense and of memory for routings that are read; beyond them a number is a slip or damage.
#pragma once

#include <cstdint>

namespace moesim {

inline constexpr std::int64_t kMostExperts = 65'536;
inline constexpr std::int64_t kMostPicks = std::int64_t{1} << 28;  // tokens x layers x k of a trace: 1 GiB of ids
inline constexpr std::int64_t kMostSteps = 100'000'000;
inline constexpr std::int64_t kMostId = std::int64_t{1} << 53;     // of a step, a layer, a token
inline constexpr std::int64_t kMostCount = std::int64_t{1} << 46;  // of one expert's rows
inline constexpr std::int64_t kMostLayers = 100'000;

}  // namespace moesim
