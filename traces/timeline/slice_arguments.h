// The arguments of a slice, with the text that they refer to.
#pragma once

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
  // Categories that are not zero, as "memory_stream_ps"; and the largest of them by name, with its share of their sum, as
  // "limited_by".
  void attribution(const Attribution& attribution);
  [[nodiscard]] std::span<const Argument> all() const { return arguments_; }

 private:
  std::vector<Argument> arguments_;
  std::deque<std::string> texts_;
};

}  // namespace moesim
