#include "sim/engine/channel_solver.h"

#include <algorithm>
#include <cmath>

#include "sim/units/check.h"

namespace moesim {
namespace {

constexpr double kHighestT = 1e9;     // more bytes in flight than any machine holds
constexpr double kTolerance = 1e-7;   // of t
constexpr double kLeastStep = 1e-15;  // seconds; a step of nothing still ends
constexpr int kWarmSteps = 6;         // from the last solution; then once more from nothing
constexpr int kNewtonSteps = 20;
constexpr double kFar = 0.05;  // of t
constexpr int kFullSteps = 10;
constexpr double kBracketTolerance = 1e-9;  // of t, where Newton's method cycled
constexpr int kBracketSteps = 60;

// x^p and x^(1/p), the common ones without pow().
double raised(double x, double p) { return p == 2 ? x * x : p == 3 ? x * x * x : std::pow(x, p); }
double root(double x, double p) { return p == 2 ? std::sqrt(x) : p == 3 ? std::cbrt(x) : std::pow(x, 1 / p); }

double latency(const FlowClass& flow, const ChannelArray& factors) {
  double sum = flow.serial;
  for (std::size_t j = 0; j < kMaxChannels; ++j) sum += flow.hop[j] + flow.queue[j] * (factors[j] - 1);
  return sum;
}

// Solves a x = b for the first n unknowns by elimination with row pivoting; false when singular.
bool solve_linear(std::array<ChannelArray, kMaxChannels>& a, ChannelArray& b, std::size_t n) {
  for (std::size_t column = 0; column < n; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < n; ++row) {
      if (std::abs(a[row][column]) > std::abs(a[pivot][column])) pivot = row;
    }
    if (a[pivot][column] == 0) return false;
    std::swap(a[pivot], a[column]);
    std::swap(b[pivot], b[column]);
    for (std::size_t row = column + 1; row < n; ++row) {
      const double ratio = a[row][column] / a[column][column];
      for (std::size_t k = column; k < n; ++k) a[row][k] -= ratio * a[column][k];
      b[row] -= ratio * b[column];
    }
  }
  for (std::size_t row = n; row-- > 0;) {
    for (std::size_t k = row + 1; k < n; ++k) b[row] -= a[row][k] * b[k];
    b[row] /= a[row][row];
  }
  return true;
}

}  // namespace

// Powers of the small t^p or t^-p alone: any t is in range. Three powers of a knee come from two.
Knee knee(double t, double p) {
  if (t == 0) return {1, p > 1 ? 0.0 : 1.0};
  if (t <= 1) {
    const double power = raised(t, p), factor = root(1 + power, p);
    return {factor, power * factor / (t * (1 + power))};
  }
  const double power = raised(1 / t, p), use = root(1 + power, p);
  return {t * use, use / (1 + power)};
}

double step_time(const FlowClass& flow, const ChannelArray& factors) {
  return std::max({latency(flow, factors) / flow.stages, flow.floor, kLeastStep});
}

ChannelSolver::ChannelSolver(const Machine& machine) {
  MOESIM_CHECK(machine.channels.size() == machine.caches.size() + 1 && machine.channels.size() <= kMaxChannels);
  for (const Channel& channel : machine.channels) {
    MOESIM_CHECK(channel.peak.value() > 0 && channel.knee >= 1);
    peak_.push_back(channel.peak.value());
    knee_.push_back(channel.knee);
  }
  const Channel& memory = machine.channels.back();
  advantage_ = machine.ports.advantage;
  const double unloaded = memory.peak.value() * std::max(to_seconds(memory.latency), kLeastStep);
  queue_factor_ = knee(channels() - 1, machine.ports.queue.as_double() / unloaded).factor;
}

ChannelArray ChannelSolver::factors_of(const FlowClass& flow, const ChannelArray& factors) const {
  ChannelArray seen = factors;
  if (flow.short_port) {
    double& memory = seen[channels() - 1];
    memory = std::max(std::min(memory, queue_factor_), memory / advantage_);
  }
  return seen;
}

bool ChannelSolver::newton(std::span<const ActiveFlow> flows, ChannelArray& factors, ChannelArray& t, int steps) {
  const std::size_t n = channels();
  factors.fill(1);
  rates_.resize(flows.size());
  for (int step = 0; step < steps; ++step) {
    ChannelArray factor_by_t{};
    for (std::size_t j = 0; j < n; ++j) {
      const Knee at = knee(j, t[j]);
      factors[j] = at.factor;
      factor_by_t[j] = at.slope;
    }
    ChannelArray load{};
    for (std::size_t i = 0; i < flows.size(); ++i) {
      const FlowClass& flow = *flows[i].flow;
      const double by_latency = latency(flow, flow.short_port ? factors_of(flow, factors) : factors) / flow.stages;
      const double time = std::max({by_latency, flow.floor, kLeastStep});
      const double rate = flows[i].items / time;
      // By how much it falls with the latencies: not at all at the floor.
      rates_[i] = by_latency < time ? 0 : rate / (flow.stages * time);
      for (std::size_t j = 0; j < n; ++j) load[j] += rate * flow.bytes[j];
    }
    bool done = true;
    ChannelArray excess{};
    for (std::size_t j = 0; j < n; ++j) {
      excess[j] = factors[j] * load[j] / peak_[j] - t[j];
      MOESIM_CHECK(std::isfinite(excess[j]));
      if (std::abs(excess[j]) > kTolerance * std::max(1.0, t[j])) done = false;
    }
    if (done) return true;
    std::array<ChannelArray, kMaxChannels> slope{};  // of excess i by t_j
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (rates_[f] == 0) continue;
      const FlowClass& flow = *flows[f].flow;
      ChannelArray seen = flow.queue;  // by which its latency rises with each factor
      if (flow.short_port && factors[n - 1] > queue_factor_) {
        seen[n - 1] *= factors[n - 1] / advantage_ > queue_factor_ ? 1 / advantage_ : 0;
      }
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) slope[i][j] -= rates_[f] * flow.bytes[i] * seen[j];
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) slope[i][j] *= factors[i] / peak_[i] * factor_by_t[j];
      slope[i][i] += factor_by_t[i] * load[i] / peak_[i] - 1;
    }
    const ChannelArray wanted = excess;  // > 0: t is too low
    if (!solve_linear(slope, excess, n)) return false;
    const double damping = step < kFullSteps ? 1 : 0.5;  // kinks make full steps cycle
    for (std::size_t j = 0; j < n; ++j) {
      double next = t[j] - damping * excess[j];
      // Flows at their floor hide how the load will fall: far from the root, do not follow a step to the wrong side.
      const bool far = std::abs(wanted[j]) > kFar * std::max(1.0, t[j]);
      if (far && wanted[j] > 0 && next < t[j]) next = 2 * t[j] + 0.5;
      if (far && wanted[j] < 0 && next > t[j]) next = t[j] / 2;
      t[j] = std::clamp(next, 0.0, kHighestT);
    }
  }
  return false;
}

// Channels from `channel` on, those before held: false position with a bracket (Illinois variant), and for each value
// tried the channels after it solved in the same way.
void ChannelSolver::nested(std::size_t channel, std::span<const ActiveFlow> flows, ChannelArray& factors,
                           ChannelArray& t) const {
  if (channel == channels()) return;
  const auto excess = [&](double value) {
    t[channel] = value;
    factors[channel] = knee(channel, value).factor;
    nested(channel + 1, flows, factors, t);
    double load = 0;
    for (const ActiveFlow& f : flows) {
      load += f.items * f.flow->bytes[channel] / step_time(*f.flow, factors_of(*f.flow, factors));
    }
    return factors[channel] * load / peak_[channel] - value;
  };
  double low = 0, high = 1;
  double at_low = excess(low);
  if (at_low <= 0) return;
  double at_high = excess(high);
  while (at_high > 0 && high < kHighestT) {
    low = high;
    at_low = at_high;
    high *= 4;
    at_high = excess(high);
  }
  for (int i = 0; i < kBracketSteps && high - low > kBracketTolerance * high; ++i) {
    const double middle = (low * at_high - high * at_low) / (at_high - at_low);
    const double at_middle = excess(middle);
    if (std::abs(at_middle) <= kBracketTolerance * middle) return;
    if (at_middle > 0) {
      low = middle;
      at_low = at_middle;
      at_high /= 2;
    } else {
      high = middle;
      at_high = at_middle;
      at_low /= 2;
    }
  }
}

ChannelArray ChannelSolver::start(std::span<const ActiveFlow> flows) const {
  const std::size_t n = channels();
  ChannelArray unloaded{}, t{};
  unloaded.fill(1);
  for (const ActiveFlow& f : flows) {
    const double rate = f.items / step_time(*f.flow, unloaded);
    for (std::size_t j = 0; j < n; ++j) t[j] += rate * f.flow->bytes[j] / peak_[j];
  }
  const std::size_t busiest =
      static_cast<std::size_t>(std::max_element(t.begin(), t.begin() + static_cast<std::ptrdiff_t>(n)) - t.begin());
  const double over = t[busiest];
  if (over <= 1) return t;
  // Every step longer by so much: what the queue of the busiest channel must add, by shares of its load.
  double factor = 1;
  for (const ActiveFlow& f : flows) {
    if (f.flow->queue[busiest] == 0) continue;
    const double time = step_time(*f.flow, unloaded);
    const double share = f.items / time * f.flow->bytes[busiest] / (peak_[busiest] * over);
    factor += share * (over * time * f.flow->stages - latency(*f.flow, unloaded)) / f.flow->queue[busiest];
  }
  for (std::size_t j = 0; j < n; ++j) t[j] /= over;
  t[busiest] = factor;
  return t;
}

void ChannelSolver::solve(std::span<const ActiveFlow> flows, std::span<double> step_times, ChannelArray& factors,
                          ChannelArray& t) {
  const bool warm = std::any_of(t.begin(), t.end(), [](double value) { return value > 0; });
  bool solved = warm && newton(flows, factors, t, kWarmSteps);
  if (!solved) {
    t = start(flows);
    solved = newton(flows, factors, t, kNewtonSteps);
  }
  if (!solved) {
    factors.fill(1);
    nested(0, flows, factors, t);
  }
  for (std::size_t i = 0; i < flows.size(); ++i) {
    step_times[i] = step_time(*flows[i].flow, factors_of(*flows[i].flow, factors));
  }
}

}  // namespace moesim
