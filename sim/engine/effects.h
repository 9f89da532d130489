// Effects that a run can leave out: what one costs is the difference to a run without it (an ablation).
//
// They stand in the order of the speed-up ladder (workloads/studies/ladder.h): first what a kernel of other structure would
// do without, then what its items wait for, then what the device limits. A run without any of them is the stream of the
// bytes: those that come from memory once, at its highest rate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace moesim {

enum class Effect : std::uint8_t {
  kHelpers,         // helper kernels are not launched
  kFill,            // prologues, first bytes and epilogues take no time
  kLaunch,          // launches and dispatch take no time
  kPadding,         // matrix work of useful rows only
  kWeightLoad,      // matrix arrays hold their weights when products need them
  kMatrix,          // matrix products take no time
  kVector,          // vector work takes no time
  kSerialStep,      // K-steps have no dependent chain
  kRereads,         // what was read once is found in the nearest cache
  kCopies,          // what a kernel wrote is found in the nearest cache
  kCacheBandwidth,  // caches and load ports without limit
  kTail,            // items are cut into many small ones
  kInFlight,        // bytes in flight without limit, asked for at once: memory delivers at its highest rate
  kByteWeight,      // each byte costs memory what one of a plain stream does
  kWrites,          // written bytes take no time
};
inline constexpr std::size_t kEffectCount = 15;

class EffectSet {
 public:
  constexpr EffectSet() = default;
  constexpr explicit EffectSet(Effect effect) { add(effect); }
  [[nodiscard]] constexpr bool has(Effect effect) const { return (bits_ & bit(effect)) != 0; }
  constexpr void add(Effect effect) { bits_ |= bit(effect); }
  friend constexpr bool operator==(EffectSet, EffectSet) = default;

 private:
  static constexpr std::uint32_t bit(Effect effect) { return 1u << static_cast<unsigned>(effect); }
  std::uint32_t bits_ = 0;
};

// All, in order.
constexpr std::array<Effect, kEffectCount> all_effects() {
  std::array<Effect, kEffectCount> effects{};
  for (std::size_t i = 0; i < kEffectCount; ++i) effects[i] = static_cast<Effect>(i);
  return effects;
}

std::string_view effect_name(Effect effect);   // "serial_step", as users write it
std::string_view effect_title(Effect effect);  // "dependent chains of K-steps", what it costs time for
// The effect of this name; throws InputError that names the flag and the nearest right name.
Effect parse_effect(const std::string& flag, const std::string& name);

}  // namespace moesim
