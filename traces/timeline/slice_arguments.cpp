#include "traces/timeline/slice_arguments.h"

#include <fmt/format.h>

#include <array>

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

void SliceArguments::attribution(const Attribution& attribution) {
  const Duration total = sum(attribution);
  if (total > Duration(0)) {
    const Blame most = largest(attribution);
    const double share = attribution[static_cast<std::size_t>(most)].as_double() / total.as_double();
    text("limited_by", fmt::format("{} {:.0f} %", blame_name(most), 100 * share));
  }
  for (std::size_t b = 0; b < kBlameCount; ++b) {
    if (attribution[b] != Duration(0)) whole(picoseconds_key(b), attribution[b].value());
  }
}

}  // namespace moesim
