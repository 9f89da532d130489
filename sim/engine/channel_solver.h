// Steady rates of classes of flows that share channels with soft knees.
//
// Unknown: the latency factor f_j >= 1 of each channel, which stands for its use u_j = (1 - f_j^-p)^(1/p). Each class's
// step time
//     L = sum_j hop_j + queue_j * (f_j - 1),   step time = max((L + serial) / stages, floor)
// must load each channel to just u_j: sum over classes of items * bytes_j / step time = u_j * peak_j. For one channel
// the left side falls and the right side rises with f_j, so there is one root.
//
// Newton's method runs on t_j, the load that would be offered without a queue over peak: f = (1 + t^p)^(1/p), u = t /
// f. For flows bound by latency alone, f * load - t * peak is linear in t and one step hits the knee R = (X^-p +
// peak^-p)^(-1/p) of machine.h. Where kinks (floors) make it cycle, the channels are solved one by one with brackets.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "sim/engine/machine.h"

namespace moesim {

using ChannelArray = std::array<double, kMaxChannels>;

// One step of one item of the class.
struct FlowClass {
  ChannelArray bytes{};     // load on each channel
  ChannelArray hop{};       // seconds: share of the step's bytes served by channel j times its unloaded latency
  ChannelArray queue{};     // seconds: share of the step's bytes that pass channel j times its unloaded latency
  double memory_share = 0;  // of the step's bytes read from memory, in [0, 1]
  double serial = 0;        // seconds: dependent chain after the data are there
  double stages = 1;        // steps in flight
  double floor = 0;         // seconds: least step time (serial chain, load issue, pipes)
  bool short_port = false;  // its items lie on units behind short ports (machine.h)
  friend bool operator==(const FlowClass&, const FlowClass&) = default;
};

struct ActiveFlow {
  const FlowClass* flow;
  double items;
};

// A channel's latency factor at an offered load t (bytes in flight / (peak x latency)), t >= 0, of a knee p >= 1.
struct Knee {
  double factor;  // f = (1 + t^p)^(1/p)
  double slope;   // df / dt = u^(p-1)
};
[[nodiscard]] Knee knee(double t, double p);

class ChannelSolver {
 public:
  explicit ChannelSolver(const Machine& machine);
  [[nodiscard]] std::size_t channels() const { return peak_.size(); }

  // The latency factors that items of this class see where those behind the other ports see `factors`: of the memory at
  // most what its own queues make, but at least what its port's share comes to.
  [[nodiscard]] ChannelArray factors_of(const FlowClass& flow, const ChannelArray& factors) const;

  // Fills step_times (seconds, one per flow, > 0) and the latency factors f_j. `t`: where to start (values >= 0: the
  // solution of a like state saves steps; zeros: none known), and the solution.
  void solve(std::span<const ActiveFlow> flows, std::span<double> step_times, ChannelArray& factors, ChannelArray& t);

 private:
  [[nodiscard]] Knee knee(std::size_t channel, double t) const { return moesim::knee(t, knee_[channel]); }
  // Of the loads without queues where the busiest channel can carry them; where it cannot, that channel's queue alone
  // slows all steps down to its peak.
  [[nodiscard]] ChannelArray start(std::span<const ActiveFlow> flows) const;
  [[nodiscard]] bool newton(std::span<const ActiveFlow> flows, ChannelArray& factors, ChannelArray& t, int steps);
  void nested(std::size_t channel, std::span<const ActiveFlow> flows, ChannelArray& factors, ChannelArray& t) const;
  std::vector<double> rates_;
  std::vector<double> peak_, knee_;
  double queue_factor_ = 1;  // of the memory when its own queues are full
  double advantage_ = 1;
};

// Seconds of one step when channel j's latencies are factors[j] times the unloaded ones.
[[nodiscard]] double step_time(const FlowClass& flow, const ChannelArray& factors);

}  // namespace moesim
