// Points of a grid as what `run` simulates: the flags that say what varies, and the request that a point makes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tools/run_request.h"
#include "workloads/studies/grid.h"

namespace moesim {

class FlagSet;

// --vary, --grid, --keep.
struct GridFlags {
  std::vector<std::string> vary;
  std::optional<std::string> grid, keep;

  void add(FlagSet& set);
  // The file's axes, then those of --vary. What the file says of strategies goes into `base` where its flag is silent.
  // Throws InputError.
  [[nodiscard]] AxisGrid load(RequestFlags& base) const;
};

// The axis takes this value, whatever the flags said of it before.
void apply_axis(const Axis& axis, const AxisValue& value, RequestFlags& flags);

// The flags with which `run` simulates these values of the axes, what is kept of the model's size included. Throws
// InputError where there is no such model.
RequestFlags flags_at(const RequestFlags& base, const std::vector<Axis>& axes, const std::vector<AxisValue>& values,
                      Keep keep);

}  // namespace moesim
