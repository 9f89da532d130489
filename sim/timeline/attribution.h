// Where the time went, to the picosecond: the categories sum to the run's time.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "sim/units/quantity.h"

namespace moesim {

enum class Blame : std::size_t {
  kLaunch,           // no item active, a launch is under way
  kDispatchFill,     // items being dispatched, in prologue or epilogue, or waiting for their first bytes
  kMemoryStream,     // memory delivers bytes needed once as fast as it can
  kUnderfilled,      // too few bytes in flight (or too few load instructions) for what memory and cache could deliver
  kMemoryRereads,    // memory delivers bytes that it had delivered before
  kCacheBandwidth,   // a cache or the load port delivers as fast as it can
  kMatrix,           // matrix products of rows that were asked for
  kPadding,          // matrix products of rows that nobody asked for
  kWeightLoad,       // the matrix pipe takes its stationary operand in, longer than its rows take to pass
  kVector,           // dequantise, scale, multiply on the vector pipe
  kSerialStep,       // dependent chain of a K-step; an in-order core's own time for a grid step
  kTail,             // slots idle while the last items run
  kSynchronisation,  // items waiting for other items or for a kernel's end
  kHelper,           // everything but launch in helper kernels
};
inline constexpr std::size_t kBlameCount = 14;

std::string_view blame_name(Blame blame);  // "memory stream"
std::string_view blame_key(Blame blame);   // "memory_stream", for JSON and CSV

using Attribution = std::array<Duration, kBlameCount>;

[[nodiscard]] Duration sum(const Attribution& attribution);
[[nodiscard]] Blame largest(const Attribution& attribution);

// Rounds shares (picoseconds, >= 0) so that they sum to total; what rounding leaves goes to the largest.
Attribution round_attribution(const std::array<double, kBlameCount>& shares, Duration total);

// Rounds the parts (picoseconds, >= 0) of each category so that they sum to its total, each by less than a picosecond: what
// rounding leaves of one goes to the next. What the totals were moved by goes to the category's largest part.
std::vector<Attribution> round_parts(const std::vector<std::array<double, kBlameCount>>& parts,
                                     const Attribution& totals);

}  // namespace moesim
