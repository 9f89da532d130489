// A hash of whole numbers: neighbouring ones become unrelated.
#pragma once

#include <cstdint>

namespace moesim {

// Finaliser of SplitMix64 (Steele, Lea, Flood 2014); mix(0), mix(kMixStep), mix(2 kMixStep), ... is its sequence from 0 on.
inline constexpr std::uint64_t kMixStep = 0x9e3779b97f4a7c15U;

constexpr std::uint64_t mix(std::uint64_t x) {
  x += kMixStep;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

}  // namespace moesim
