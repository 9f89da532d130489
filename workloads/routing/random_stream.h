// Own sampling over std::mt19937_64: the standard's distributions differ between libraries.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "sim/units/mix.h"

namespace moesim {

class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed) : engine_(seed) {}

  std::uint64_t bits() { return engine_(); }

  // Uniform in [0, n): draws that would make the low remainders likelier are thrown away.
  std::size_t below(std::size_t n) {
    constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t limit = kMax - kMax % n;
    std::uint64_t draw = engine_();
    while (draw >= limit) draw = engine_();
    return static_cast<std::size_t>(draw % n);
  }

  // Uniform in [0, n) to 2^-32, n below 2^32; faster.
  std::size_t index(std::size_t n) { return static_cast<std::size_t>(((engine_() >> 32U) * n) >> 32U); }

  // Uniform in (0, 1], 53 bits: its logarithm is finite.
  double unit() { return static_cast<double>((engine_() >> 11U) + 1) * 0x1p-53; }

  // Standard normal, by Marsaglia's polar method.
  double normal() {
    for (;;) {
      const double x = 2 * unit() - 1;
      const double y = 2 * unit() - 1;
      const double square = x * x + y * y;
      if (square > 0 && square < 1) return x * std::sqrt(-2 * std::log(square) / square);
    }
  }

  // Puts a uniform draw without replacement into the first `count` places (Fisher-Yates, stopped early).
  void deal(std::vector<std::int32_t>& pack, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) std::swap(pack[i], pack[i + below(pack.size() - i)]);
  }

 private:
  std::mt19937_64 engine_;
};

// Streams of a seed: samples (of `draw_batch`) and layers (of a trace) count up from 0, popularities down from the end.
inline RandomStream stream_of(std::uint64_t seed, std::uint64_t index) { return RandomStream(mix(mix(seed) ^ index)); }

}  // namespace moesim
