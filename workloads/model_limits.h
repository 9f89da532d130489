// Bounds that no published model comes near; beyond them a value is a slip of the pen.
#pragma once

#include <cstdint>

namespace moesim {

inline constexpr std::int64_t kMaxWidth = 1'000'000;
inline constexpr std::int64_t kMaxExperts = 65'536;
inline constexpr std::int64_t kMaxLayers = 10'000;
inline constexpr std::int64_t kMaxHeads = 65'536;
inline constexpr std::int64_t kMaxVocabulary = 100'000'000;
inline constexpr double kMaxRoutedScale = 1e6;

}  // namespace moesim
