#include "sim/timeline/attribution.h"

#include <algorithm>
#include <cmath>

namespace moesim {
namespace {

struct Names {
  std::string_view name, key;
};
constexpr std::array<Names, kBlameCount> kNames = {{
    {"launch", "launch"},
    {"dispatch and fill", "dispatch_fill"},
    {"memory stream", "memory_stream"},
    {"under-filled stream", "underfilled_stream"},
    {"memory re-reads", "memory_rereads"},
    {"cache bandwidth", "cache_bandwidth"},
    {"matrix", "matrix"},
    {"padding", "padding"},
    {"weight load", "weight_load"},
    {"vector and dequantise", "vector"},
    {"serial K-step", "serial_step"},
    {"imbalance and tail", "tail"},
    {"synchronisation", "synchronisation"},
    {"helper kernels", "helper"},
}};

}  // namespace

std::string_view blame_name(Blame blame) { return kNames[static_cast<std::size_t>(blame)].name; }
std::string_view blame_key(Blame blame) { return kNames[static_cast<std::size_t>(blame)].key; }

Duration sum(const Attribution& attribution) {
  Duration total;
  for (const Duration d : attribution) total += d;
  return total;
}

Blame largest(const Attribution& attribution) {
  const auto it = std::max_element(attribution.begin(), attribution.end());
  return static_cast<Blame>(it - attribution.begin());
}

Attribution round_attribution(const std::array<double, kBlameCount>& shares, Duration total) {
  Attribution rounded;
  for (std::size_t i = 0; i < kBlameCount; ++i) rounded[i] = Duration(std::llround(shares[i]));
  rounded[static_cast<std::size_t>(largest(rounded))] += total - sum(rounded);
  return rounded;
}

}  // namespace moesim
