// A sealed plan: kernels, the regions that they touch, and the order in which they may run.
// Made only by PlanBuilder, which checks it; the engine trusts it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/plan/kernel.h"

namespace moesim {

// How a kernel follows another one.
enum class LaunchMode { kStream, kGraph, kProgrammatic };

struct Region {
  std::string name;
  Bytes bytes;
};

class ExecutionPlan {
 public:
  [[nodiscard]] const std::vector<Kernel>& kernels() const { return kernels_; }
  [[nodiscard]] const std::vector<Region>& regions() const { return regions_; }
  [[nodiscard]] LaunchMode launch_mode() const { return launch_mode_; }

  // Kernels in a topological order; predecessors of kernel k are before_[offsets_[k] .. offsets_[k + 1]).
  [[nodiscard]] const std::vector<std::uint32_t>& order() const { return order_; }
  [[nodiscard]] const std::vector<std::uint32_t>& predecessor_offsets() const { return offsets_; }
  [[nodiscard]] const std::vector<std::uint32_t>& predecessors() const { return before_; }

 private:
  friend class PlanBuilder;
  std::vector<Kernel> kernels_;
  std::vector<Region> regions_;
  LaunchMode launch_mode_ = LaunchMode::kGraph;
  std::vector<std::uint32_t> order_, offsets_, before_;
};

class PlanBuilder {
 public:
  explicit PlanBuilder(LaunchMode mode) : mode_(mode) {}
  RegionId add_region(std::string name, Bytes bytes);
  // Kernels from now on are of this layer of a model.
  void begin_layer(std::int32_t layer) { layer_ = layer; }
  KernelId add_kernel(Kernel kernel);
  void add_dependence(KernelId before, KernelId after);
  // A sealed plan's kernels and regions, with ids of this one; its first kernels come after `before`. The last of its
  // order is returned. The plan's launch mode is of no matter.
  KernelId append(ExecutionPlan plan, std::optional<KernelId> before);
  // Checks (CHECK: a wrong plan is our bug): acyclic, ids valid, counts and shares in range, item dependencies point
  // backwards. The builder is empty afterwards.
  ExecutionPlan seal();

 private:
  LaunchMode mode_;
  std::int32_t layer_ = -1;
  std::vector<Kernel> kernels_;
  std::vector<Region> regions_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;
};

}  // namespace moesim
