#include "traces/timeline/slice_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace moesim {
namespace {

const std::string& picoseconds_key(std::size_t blame) {
  static const std::array<std::string, kBlameCount> keys = [] {
    std::array<std::string, kBlameCount> made;
    for (std::size_t b = 0; b < kBlameCount; ++b) made[b] = fmt::format("{}_ps", blame_key(static_cast<Blame>(b)));
    return made;
  }();
  return keys[blame];
}

}  // namespace

void SliceArguments::clear() {
  arguments_.clear();
  texts_.clear();
}

void SliceArguments::text(std::string_view name, std::string value) {
  texts_.push_back(std::move(value));
  arguments_.push_back({name, std::string_view(texts_.back())});
}

void SliceArguments::limited_by(const std::array<double, kBlameCount>& shares) {
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (total <= 0) return;
  const auto most = std::max_element(shares.begin(), shares.end());
  text("limited_by",
       fmt::format("{} {:.0f} %", blame_name(static_cast<Blame>(most - shares.begin())), 100 * *most / total));
}

void SliceArguments::attribution(const Attribution& attribution) {
  std::array<double, kBlameCount> shares{};
  for (std::size_t b = 0; b < kBlameCount; ++b) shares[b] = attribution[b].as_double();
  limited_by(shares);
  for (std::size_t b = 0; b < kBlameCount; ++b) {
    if (attribution[b] != Duration(0)) whole(picoseconds_key(b), attribution[b].value());
  }
}

}  // namespace moesim
