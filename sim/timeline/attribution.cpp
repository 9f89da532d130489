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

std::vector<Attribution> round_parts(const std::vector<std::array<double, kBlameCount>>& parts,
                                     const Attribution& totals) {
  std::vector<Attribution> rounded(parts.size());
  for (std::size_t b = 0; b < kBlameCount; ++b) {
    double exact = 0;
    std::int64_t given = 0;
    std::size_t largest = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      exact += parts[p][b];
      const std::int64_t part = std::llround(exact) - given;
      given += part;
      rounded[p][b] = Duration(part);
      if (parts[p][b] > parts[largest][b]) largest = p;
    }
    if (!parts.empty()) rounded[largest][b] += totals[b] - Duration(given);
  }
  return rounded;
}

}  // namespace moesim
