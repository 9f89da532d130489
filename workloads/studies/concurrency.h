// One MoE layer, or one decode step, at several concurrencies under several strategies: who wins where, by how much, and why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "hwmodels/calibration.h"
#include "hwmodels/hardware_model.h"
#include "workloads/moe_model.h"
#include "workloads/predict.h"
#include "workloads/routing/routing_options.h"
#include "workloads/step/decode_step.h"
#include "workloads/studies/ladder.h"

namespace moesim {

struct ConcurrencyRequest {
  std::string tool_version;
  MoeModel model;
  std::vector<std::string> model_overrides;  // what was applied to `model`, for the record
  WeightFormat activations;
  HardwareModel hardware;
  std::vector<std::string> overrides;  // what was applied to `hardware`, for the record
  Routing routing;
  RoutingOptions routing_options;
  std::int64_t routing_layers = 1;  // sample i has the popularity of layer i mod so many; of a step: the MoE layers
  std::string routing_match;        // what the routing's number was matched to, for the record; "": given
  // Of RoutingKind::kTrace: its batches are the samples. Those of a step are as many batches as the model has MoE layers,
  // in order; a trace with fewer starts again.
  std::vector<RoutedBatch> trace;
  std::vector<std::int64_t> concurrencies;  // tokens of a decode step, ascending
  std::vector<StrategyChoice> strategies;
  std::int64_t samples = 8;  // routings drawn per concurrency
  std::uint64_t seed = 1;
  std::int64_t tp = 1;
  std::int64_t ep = 1;
  StepOptions step;        // of scope kStep
  PredictOptions options;  // but for its calibration
  std::optional<Calibration> calibration;
  bool explain = false;      // keep the kernels of the first concurrency, and climb a ladder there
  bool all_kernels = false;  // of all concurrencies, where explained
  // The ladder's ends; nullopt: of an explained study, the next best and the winner.
  std::optional<std::pair<StrategyChoice, StrategyChoice>> ladder;
  std::function<void(std::size_t done, std::size_t all)> progress;  // routings simulated
};

// Whose fitted constants a strategy takes.
struct StrategyConstants {
  std::string strategy;          // as asked for
  std::string implementation;    // "": nobody's, the device's constants alone
  std::int64_t most_tokens = 0;  // of the fit
  HeldOutError held_out;         // rows 0: not known
};

// What an output has to name.
struct Provenance {
  std::string tool_version;
  std::string calibration;                   // "uncalibrated", or the overlay
  std::vector<StrategyConstants> constants;  // under an overlay: of each strategy but auto
  std::string device, device_title, device_file, device_hash;
  std::vector<std::string> overrides;
  double clock_hz = 0;
  std::string model, model_file, weights, activations;
  std::vector<std::string> model_overrides;
  std::vector<std::string> without;  // effects left out
  std::string scope, launch, routing;
  std::int64_t samples = 0;
  std::uint64_t seed = 0;
  std::int64_t tp = 1, ep = 1;
  std::int64_t moe_layers = 1;  // simulated, whatever the model has
  struct Step {
    std::int64_t context = 0;                      // 0: of each sequence its own
    std::string cache;                             // its format
    std::int64_t layers = 0, layers_of_model = 0;  // decoder layers simulated, and all
  };
  std::optional<Step> step;  // of scope step
};

// 0 of no time at all, which a run takes where all its kernels are left out.
inline double share_of_time(Duration part, Duration whole) {
  return whole == Duration(0) ? 0 : part.as_double() / whole.as_double();
}

struct StrategyFigures {
  Duration time_median, time_p95, time_sum;    // over the samples
  double bound_fraction_median = 0;            // bound / time
  double memory_read_mean = 0;                 // bytes
  double memory_reread_mean = 0;               // of these, bytes that memory had delivered before
  double achieved_rate = 0;                    // bytes a second from memory: all samples' bytes / all samples' time
  Attribution attribution;                     // summed over the samples: its sum is time_sum
  PartTimes parts{};                           // of a step, likewise
  std::map<std::string, std::int64_t> picked;  // of auto: samples in which it took this strategy
  std::vector<KernelSummary> kernels;          // of the first sample, where explained

  [[nodiscard]] double part_share(StepPart part) const {
    return share_of_time(parts[static_cast<std::size_t>(part)], time_sum);
  }
  [[nodiscard]] double moe_share() const { return share_of_time(moe_time(parts), time_sum); }
  [[nodiscard]] double share(Blame blame) const {  // of the time
    return share_of_time(attribution[static_cast<std::size_t>(blame)], time_sum);
  }
};

// p5 to p95 of a strategy's median time, and how likely it is the fastest (uncertainty.h).
struct TimeInterval {
  ErrorInterval error;
  Duration low, high;
  std::optional<double> fastest;  // probability; nullopt: of auto, which is one of the others
};

struct StrategyRow {
  std::string strategy;  // as asked for, with its parameters
  std::variant<StrategyFigures, Infeasible> result;
  bool winner = false;         // smallest median of its concurrency, of kernels that exist where any is feasible
  bool what_if = false;        // of no kernel that exists
  std::string implementation;  // whose fitted constants were used, of auto perhaps several; "": nobody's
  bool in_range = false;       // fitted, to as many tokens at least, in all samples
  std::optional<TimeInterval> interval;  // where asked for and known

  [[nodiscard]] const StrategyFigures* figures() const { return std::get_if<StrategyFigures>(&result); }
};

// Means over the samples (and layers); of the simulated device where the model is sharded.
struct ConcurrencyPoint {
  std::int64_t concurrency = 0;
  double distinct_experts = 0;
  double duplicate_share = 0;  // picks whose expert another pick of the step loads anyway
  double rows_per_expert = 0;  // picks / distinct experts
  // Over all samples (and layers): experts with so many rows, from 1 on.
  std::map<std::int64_t, std::int64_t> experts_by_rows;
  Duration bound_median;      // of runs with all effects
  bool matrix_bound = false;  // the bound is of matrix work, not of bytes, in most samples
  std::vector<StrategyRow> rows;
};

// Neighbouring concurrencies with the same winner.
struct Verdict {
  std::int64_t from = 0, to = 0;
  std::string winner;                  // "": no strategy is feasible
  double lead_min = 1, lead_max = 1;   // median of the next best / median of the winner
  std::vector<std::string> next_best;  // in order of concurrency, each once; empty: nothing to compare with
};

// What stands behind a study's intervals.
struct UncertaintyRecord {
  std::string residuals_of;         // the overlay, or the device whose residuals stand in
  bool device_spread = false;       // the device's own constants widen them
  double strategy_correlation = 0;  // of the errors of two strategies
  std::int64_t draws = 0;           // behind the probabilities
};

struct ConcurrencyStudy {
  Provenance provenance;
  bool explained = false;
  std::vector<ConcurrencyPoint> points;
  std::vector<Verdict> verdicts;
  std::optional<LadderOrInfeasible> ladder;      // at the first concurrency, where asked for
  std::optional<UncertaintyRecord> uncertainty;  // where asked for

  [[nodiscard]] bool feasible() const;  // any strategy at any concurrency
};

Provenance provenance_of(const ConcurrencyRequest& request);

// Between which strategies a ladder is climbed at a point: what was asked for, or of an explained study the two fastest.
std::optional<std::pair<StrategyChoice, StrategyChoice>> ladder_ends(const ConcurrencyRequest& request,
                                                                     const ConcurrencyPoint& point);

// All strategies see the same routings, so that their differences are not of the draw. Throws InputError (flags --tp,
// --ep).
ConcurrencyStudy run_concurrency_study(const ConcurrencyRequest& request);

// The first routing of the first concurrency under one strategy, once more, heard by a listener.
PredictionOrInfeasible predict_first(const ConcurrencyRequest& request, const StrategyChoice& choice,
                                     TimelineListener* listener);

}  // namespace moesim
