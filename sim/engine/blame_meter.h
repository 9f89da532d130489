// Where the time goes, by the blame rule.
//
// At any moment every active item has one binding constraint (or shares of several); the interval is shared evenly over
// the active items and added to their constraints. Time with no active item belongs to the launch that is waited for.
// Once a kernel has no item left to start, what its items are slower than its best rate is blamed on the tail.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/engine/flow_table.h"
#include "sim/timeline/attribution.h"

namespace moesim {

// What a kernel's items do that are not flowing.
struct KernelActivity {
  std::uint32_t kernel = 0;
  std::int64_t delayed = 0;  // in dispatch, prologue, fill, epilogue
  std::int64_t waiting = 0;  // for other items
  bool all_started = false;
};

class BlameMeter {
 public:
  explicit BlameMeter(std::size_t kernels) : kernels_(kernels) {}

  // Call when items changed: shares of the interval until the next change.
  void resolve(const std::vector<KernelActivity>& running, const FlowTable& flows);
  // `launching`: the kernel that idle time belongs to.
  void advance(double picoseconds, std::uint32_t launching);
  [[nodiscard]] bool idle() const { return idle_; }
  // Share of its flowing items' time that a kernel loses to its tail at present.
  [[nodiscard]] double tail(std::uint32_t kernel) const { return kernels_[kernel].tail; }

  // Picoseconds by category; a helper kernel's time is all "helper kernels" but for its launch.
  [[nodiscard]] std::array<double, kBlameCount> total(std::uint32_t kernel, bool helper) const;

 private:
  struct Meter {
    std::array<double, kBlameCount> blame{};  // picoseconds
    std::array<double, kBlameCount> rate{};   // share of the current interval
    double best_steps = 0;                    // steps a second, highest so far
    double tail = 0;
  };
  std::vector<Meter> kernels_;
  std::vector<std::uint32_t> running_;
  bool idle_ = true;
};

}  // namespace moesim
