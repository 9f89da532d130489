// The arguments of a slice, with the text that they refer to.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/timeline/attribution.h"
#include "traces/timeline/track_writer.h"

namespace moesim {

class SliceArguments {
 public:
  void clear();
  // Names live as long as the program or the writer's call.
  void whole(std::string_view name, std::int64_t value) { arguments_.push_back({name, value}); }
  void number(std::string_view name, double value) { arguments_.push_back({name, value}); }
  void text(std::string_view name, std::string value);
  // The largest category by name, with its share of their sum, as "limited_by"; nothing where all are 0.
  void limited_by(const std::array<double, kBlameCount>& shares);
  // The same, and the categories that are not zero, as "memory_stream_ps".
  void attribution(const Attribution& attribution);
  [[nodiscard]] std::span<const Argument> all() const { return arguments_; }

 private:
  std::vector<Argument> arguments_;
  std::deque<std::string> texts_;
};

}  // namespace moesim
