// Bounds of a request; beyond them a number is a slip of the pen.
#pragma once

#include <cstdint>

namespace moesim {

inline constexpr std::int64_t kMostTokens = 1'000'000;  // of a decode step
inline constexpr std::int64_t kMostContext = 100'000'000;
inline constexpr std::int64_t kMostSamples = 100'000;
inline constexpr std::int64_t kMostDevices = 65'536;

}  // namespace moesim
