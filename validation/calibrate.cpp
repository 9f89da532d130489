#include "validation/calibrate.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <unsupported/Eigen/NonLinearOptimization>
#include <utility>

#include "sim/io/input_error.h"
#include "validation/coverage.h"
#include "validation/prepared_rows.h"

namespace moesim {
namespace {

constexpr std::size_t kLeastRows = 12;      // of an implementation, for a fit
constexpr double kMostRelativeError = 1.0;  // of a constant: beyond a factor e nothing is known of it
constexpr double kHardlyKnown = 5;          // a standard error that says no more than this
constexpr double kRidge = 1e-9;             // of the mean squares, for a Jacobian that is singular
constexpr double kAtEnd = 0.01;             // of a range, in logarithms: a constant that ends so near its end
constexpr double kFlat = 1e-12;             // squared length of a Jacobian column that says nothing
constexpr double kStep = 0.05;           // of a logarithm, for the Jacobian: wide enough for steps of waves and tiles
constexpr int kMostEvaluations = 25;     // of the residuals in one fit
constexpr double kFirstStep = 0.5;       // at most, beside the size of the start: a long one ends where nothing changes
constexpr double kTolerance = 1e-4;      // of squares and logarithms: no constant is known so well
constexpr double kSmallRowWeight = 0.5;  // rows under 10 us tell what a helper kernel costs, with more noise
constexpr std::size_t kAllRoutings = SIZE_MAX;
constexpr std::size_t kJacobianRoutings = 1;  // a derivative hardly depends on the draw
constexpr double kHuber = 0.10;               // residuals beyond this count linearly: library kernels change by shape

struct Candidate {
  const char* name;
  double start;  // first guess
  double low, high;
};

// What can belong to an implementation of a strategy. Ranges keep a fit physical.
std::vector<Candidate> candidates(const std::string& strategy) {
  const Candidate start_up = {"up.start_us", 1.0, 0.01, 20}, start_down = {"down.start_us", 1.0, 0.01, 20};
  const Candidate start = {"gemm.start_us", 1.0, 0.01, 20}, step = {"gemm.step_ns", 50, 0.5, 5000};
  std::vector<Candidate> list = {{"helper.start_us", 0.2, 0.001, 5}};
  if (strategy == "grouped_gemm") {  // one kernel does both projections
    list.insert(list.end(), {start, step});
    list.push_back({"gemm.in_flight", 0.6, 0.1, 2});
    list.push_back({"gemm.item_us", 0.5, 0.01, 20});
    list.push_back({"up.byte_weight", 1.02, 1.0, 1.5});
    list.push_back({"down.byte_weight", 1.02, 1.0, 1.5});
  } else if (strategy == "stream_gemv") {
    list.insert(list.end(), {start_up, start_down});
    list.push_back({"up.step_ns", 100, 0.5, 5000});
    list.push_back({"down.step_ns", 100, 0.5, 5000});
    list.push_back({"up.inputs_ns", 30, 0.5, 2000});
    list.push_back({"down.inputs_ns", 30, 0.5, 2000});
    list.push_back({"up.byte_weight", 1.02, 1.0, 1.5});
    list.push_back({"down.byte_weight", 1.02, 1.0, 1.5});
  } else if (strategy == "grouped_gemm_persistent") {
    // No item_us: beside in_flight it is known to a factor of 1.6 at best, and models left out fare worse with it.
    list.push_back({"gemm.start_us", 5.0, 0.01, 20});  // a set-up kernel too
    list.push_back({"gemm.step_ns", 5, 0.5, 5000});
    list.push_back({"gemm.in_flight", 0.5, 0.1, 2});
  } else if (strategy == "gather_gemv") {
    list.insert(list.end(), {start_up, start_down});
    list.push_back({"gather.step_ns", 50, 0.5, 5000});
    list.push_back({"gather.start_us", 1.0, 0.01, 50});
  } else {
    list.push_back(start);
  }
  return list;
}

// The candidates that `wanted` names; all when it names none.
std::vector<Candidate> wanted_candidates(const std::string& strategy, const std::vector<std::string>& wanted) {
  std::vector<Candidate> list = candidates(strategy);
  if (wanted.empty()) return list;
  std::vector<std::string> names;
  for (const Candidate& c : list) names.emplace_back(c.name);
  for (const std::string& name : wanted) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    throw InputError({"--constants", "", fmt::format("'{}'", name),
                      fmt::format("one of {}, which {} has", fmt::join(names, ", "), strategy),
                      nearest_name(name, names)});
  }
  std::erase_if(list,
                [&](const Candidate& c) { return std::find(wanted.begin(), wanted.end(), c.name) == wanted.end(); });
  return list;
}

using RowIds = std::vector<std::size_t>;  // of PreparedRows

// The rows of one implementation and weights.
class Group {
 public:
  Group(const PreparedRows& prepared, RowIds rows) : prepared_(prepared), rows_(std::move(rows)) {}

  [[nodiscard]] const RowIds& rows() const { return rows_; }
  [[nodiscard]] const MoeMeasurement& row(std::size_t id) const { return prepared_.row(id); }
  [[nodiscard]] const MoeMeasurement& first() const { return row(rows_.front()); }

  [[nodiscard]] Implementation implementation(const ImplementationConstants& constants) const {
    Implementation result;
    result.name = first().implementation;
    result.strategy = first().strategy;
    result.variant = prepared_.variant(rows_.front());
    result.weights = first().weights;
    for (const auto& [name, value] : constants) result.constants[name].value = value;
    return result;
  }

  // nullptr: with the device's constants alone. `spread`: also what the constants' uncertainty makes of each time.
  [[nodiscard]] std::vector<RowResult> results(const RowIds& ids, const Implementation* implementation,
                                               bool spread = false) const {
    std::vector<RowResult> results(ids.size());
    tbb::parallel_for(std::size_t{0}, ids.size(), [&](std::size_t i) {
      results[i] = prepared_.simulate(ids[i], implementation);
      if (!spread || implementation == nullptr || !results[i].skipped.empty()) return;
      results[i].parameter_variance = prepared_.parameter_variance(ids[i], *implementation);
    });
    return results;
  }

  // Simulated over measured time of rows that can be simulated.
  [[nodiscard]] std::vector<double> ratios(const RowIds& ids, const ImplementationConstants& constants,
                                           std::size_t routings) const {
    const Implementation fitted = implementation(constants);
    std::vector<double> ratios(ids.size());
    tbb::parallel_for(std::size_t{0}, ids.size(), [&](std::size_t i) {
      ratios[i] = prepared_.simulate(ids[i], &fitted, routings).simulated_us / row(ids[i]).us;
    });
    return ratios;
  }

 private:
  const PreparedRows& prepared_;
  RowIds rows_;
};

// A smooth map of the whole line onto [low, high]: logarithms need no bounds inside the solver.
double share_of_range(double x) { return 1 / (1 + std::exp(-x)); }
double bounded(double x, const Candidate& c) { return c.low * std::pow(c.high / c.low, share_of_range(x)); }
double unbounded(double value, const Candidate& c) {
  const double share = std::clamp(std::log(value / c.low) / std::log(c.high / c.low), 0.02, 0.98);
  return std::log(share / (1 - share));
}

double residual(double ratio, double measured_us) {
  const double error = std::log(ratio);
  const double size = std::abs(error);
  const double huber = size <= kHuber ? error : std::copysign(std::sqrt(kHuber * (2 * size - kHuber)), error);
  return measured_us < kSmallRowUs ? kSmallRowWeight * huber : huber;
}

struct Functor {
  using Scalar = double;
  enum { InputsAtCompileTime = Eigen::Dynamic, ValuesAtCompileTime = Eigen::Dynamic };
  using InputType = Eigen::VectorXd;
  using ValueType = Eigen::VectorXd;
  using JacobianType = Eigen::MatrixXd;

  const Group& group;
  const RowIds& rows;
  const std::vector<Candidate>& parameters;

  [[nodiscard]] int inputs() const { return static_cast<int>(parameters.size()); }
  [[nodiscard]] int values() const { return static_cast<int>(rows.size()); }

  [[nodiscard]] ImplementationConstants constants(const Eigen::VectorXd& x) const {
    ImplementationConstants result;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      result[parameters[i].name] = bounded(x[static_cast<Eigen::Index>(i)], parameters[i]);
    }
    return result;
  }

  [[nodiscard]] Eigen::VectorXd residuals_of(const Eigen::VectorXd& x, const RowIds& ids, std::size_t routings) const {
    const std::vector<double> ratios = group.ratios(ids, constants(x), routings);
    Eigen::VectorXd residuals(static_cast<Eigen::Index>(ids.size()));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      residuals[static_cast<Eigen::Index>(i)] = residual(ratios[i], group.row(ids[i]).us);
    }
    return residuals;
  }

  int operator()(const Eigen::VectorXd& x, Eigen::VectorXd& residuals) const {
    residuals = residuals_of(x, rows, kAllRoutings);
    return 0;
  }

  int df(const Eigen::VectorXd& x, Eigen::MatrixXd& jacobian) const {
    jacobian.setZero();
    for (Eigen::Index p = 0; p < x.size(); ++p) {
      std::vector<Eigen::Index> places;
      RowIds affected;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (!may_depend(group.row(rows[i]).stage, parameters[static_cast<std::size_t>(p)].name)) continue;
        places.push_back(static_cast<Eigen::Index>(i));
        affected.push_back(rows[i]);
      }
      Eigen::VectorXd moved = x;
      moved[p] = x[p] + kStep;
      const Eigen::VectorXd plus = residuals_of(moved, affected, kJacobianRoutings);
      moved[p] = x[p] - kStep;
      const Eigen::VectorXd minus = residuals_of(moved, affected, kJacobianRoutings);
      jacobian(places, p) = (plus - minus) / (2 * kStep);
    }
    return 0;
  }

  // The time of one projection does not depend on a constant of the other.
  static bool may_depend(const std::string& stage, const std::string& constant) {
    return !(stage == "gemm1" && constant.starts_with("down.")) && !(stage == "gemm2" && constant.starts_with("up."));
  }
};

struct Fit {
  std::map<std::string, FittedConstant> constants;
  std::vector<double> correlation;  // as Implementation has it
  double condition = 0;
  std::vector<std::string> left_out;
};

// Constants that make the rows' times, from the candidates' starts.
Eigen::VectorXd minimise(const Functor& functor) {
  Eigen::VectorXd x(functor.inputs());
  for (int i = 0; i < functor.inputs(); ++i) {
    const Candidate& c = functor.parameters[static_cast<std::size_t>(i)];
    x[i] = unbounded(c.start, c);
  }
  Functor copy = functor;
  Eigen::LevenbergMarquardt<Functor> solver(copy);
  solver.parameters.maxfev = kMostEvaluations;
  solver.parameters.factor = kFirstStep;
  solver.parameters.ftol = solver.parameters.xtol = kTolerance;
  solver.minimize(x);
  return x;
}

// The constants of `whole`, a fit to all rows, fitted to some of them, from where that one ended.
std::map<std::string, FittedConstant> fit_again(const Group& group, const RowIds& rows, const Implementation& whole) {
  std::vector<Candidate> parameters = candidates(group.first().strategy);
  std::erase_if(parameters, [&](const Candidate& c) { return !whole.constants.contains(c.name); });
  if (parameters.empty()) return {};
  for (Candidate& c : parameters) c.start = whole.constants.at(c.name).value;
  const Functor functor{group, rows, parameters};
  std::map<std::string, FittedConstant> fitted = whole.constants;
  for (const auto& [name, value] : functor.constants(minimise(functor))) fitted[name].value = value;
  return fitted;
}

// Of a constant's range, where nothing changes any more.
bool at_end(double x) {
  const double share = share_of_range(x);
  return share < kAtEnd || share > 1 - kAtEnd;
}

// Of the parameters by name, since constants are kept so: the lower triangle without the diagonal.
std::vector<double> correlation_of(const Eigen::MatrixXd& covariance, const std::vector<Candidate>& parameters) {
  std::map<std::string, Eigen::Index> by_name;
  for (std::size_t i = 0; i < parameters.size(); ++i) by_name[parameters[i].name] = static_cast<Eigen::Index>(i);
  std::vector<double> correlation;
  for (auto row = by_name.begin(); row != by_name.end(); ++row) {
    for (auto column = by_name.begin(); column != row; ++column) {
      const auto [i, j] = std::pair(row->second, column->second);
      const double scale = std::sqrt(covariance(i, i) * covariance(j, j));
      correlation.push_back(scale > 0 ? std::clamp(covariance(i, j) / scale, -1.0, 1.0) : 0);
    }
  }
  return correlation;
}

Fit fit(const Group& group, const RowIds& rows, const std::vector<std::string>& wanted) {
  std::vector<Candidate> parameters = wanted_candidates(group.first().strategy, wanted);
  Fit result;
  for (;;) {
    const Functor functor{group, rows, parameters};
    const Eigen::VectorXd x = minimise(functor);
    Eigen::VectorXd residuals(functor.values());
    Eigen::MatrixXd jacobian(functor.values(), functor.inputs());
    functor(x, residuals);
    functor.df(x, jacobian);
    // The Jacobian by the logarithm of each constant: d log(constant) / dx is its range times share (1 - share).
    for (int i = 0; i < functor.inputs(); ++i) {
      const Candidate& c = parameters[static_cast<std::size_t>(i)];
      const double share = share_of_range(x[i]);
      jacobian.col(i) /= std::log(c.high / c.low) * share * (1 - share);
    }
    const Eigen::JacobiSVD<Eigen::MatrixXd> svd(jacobian);
    const auto& singular = svd.singularValues();
    result.condition = singular[singular.size() - 1] > 0 ? singular[0] / singular[singular.size() - 1] : 1e300;
    const double variance = residuals.squaredNorm() / std::max(1, functor.values() - functor.inputs());
    const Eigen::MatrixXd normal = jacobian.transpose() * jacobian;
    // Constants of which only a sum is known are each unknown: the ridge gives their difference a large variance.
    const Eigen::MatrixXd ridge = kRidge * normal.trace() * Eigen::MatrixXd::Identity(normal.rows(), normal.cols());
    const Eigen::MatrixXd covariance = variance * (normal + ridge).inverse();

    // The least determined constant goes first, one at a time: what it took with it may determine the others.
    int worst = -1;
    double worst_error = kMostRelativeError;
    for (int i = 0; i < functor.inputs(); ++i) {
      const bool flat = normal(i, i) < kFlat || at_end(x[i]);
      const double error = flat ? 1e300 : std::sqrt(std::max(0.0, covariance(i, i)));
      if (error > worst_error) {
        worst = i;
        worst_error = error;
      }
    }
    if (worst < 0) {
      const ImplementationConstants constants = functor.constants(x);
      for (int i = 0; i < functor.inputs(); ++i) {
        const std::string name = parameters[static_cast<std::size_t>(i)].name;
        result.constants[name] = {constants.at(name), std::sqrt(std::max(0.0, covariance(i, i)))};
      }
      result.correlation = correlation_of(covariance, parameters);
      return result;
    }
    const char* const name = parameters[static_cast<std::size_t>(worst)].name;
    result.left_out.push_back(worst_error > kHardlyKnown
                                  ? fmt::format("{}: the rows hardly depend on it", name)
                                  : fmt::format("{}: uncertain by a factor {:.1f}", name, std::exp(worst_error)));
    for (int i = 0; i < functor.inputs(); ++i) {  // the next fit starts where this one ended, but for ends of ranges
      Candidate& c = parameters[static_cast<std::size_t>(i)];
      if (!at_end(x[i])) c.start = bounded(x[i], c);
    }
    parameters.erase(parameters.begin() + worst);
    if (parameters.empty()) return result;
  }
}

bool is_shard(const MoeMeasurement& row) { return row.tp > 1 || row.ep > 1; }

std::set<std::string> models_of(const Group& group, const RowIds& rows) {
  std::set<std::string> models;
  for (const std::size_t id : rows) models.insert(group.row(id).model_name);
  return models;
}

// Rows by implementation and weights, in order of first appearance.
std::vector<Group> groups_of(const PreparedRows& prepared) {
  std::vector<RowIds> groups;
  for (std::size_t id = 0; id < prepared.size(); ++id) {
    const MoeMeasurement& row = prepared.row(id);
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const RowIds& known) {
      const MoeMeasurement& first = prepared.row(known.front());
      return first.implementation == row.implementation && first.weights == row.weights;
    });
    if (group == groups.end()) {
      groups.push_back({id});
      continue;
    }
    const MoeMeasurement& first = prepared.row(group->front());
    if (first.strategy != row.strategy) {
      throw InputError(
          {fmt::format("{}:{}", row.file, row.line), "/strategy", fmt::format("'{}'", row.strategy),
           fmt::format("'{}', the strategy of {} in {}:{}", first.strategy, row.implementation, first.file, first.line),
           ""});
    }
    group->push_back(id);
  }
  std::vector<Group> result;
  for (RowIds& rows : groups) result.emplace_back(prepared, std::move(rows));
  return result;
}

// Of rows that are more than launch noise.
ErrorSummary errors_of(const std::vector<RowResult>& results) {
  std::vector<double> errors;
  for (const RowResult& result : results) {
    if (result.row->us >= kSmallRowUs) errors.push_back(result.error_pct());
  }
  return summarise(std::move(errors));
}

struct FitOutcome {
  std::optional<Implementation> implementation;  // nullopt: too few rows; without constants: refused
  FitReport report;
};

std::int64_t most_tokens(const Group& group, const RowIds& rows) {
  std::int64_t most = 0;
  for (const std::size_t id : rows) most = std::max(most, group.row(id).tokens);
  return most;
}

// `rows` can all be simulated.
FitOutcome fit_implementation(const Group& group, const RowIds& rows, const std::vector<std::string>& wanted) {
  FitOutcome outcome;
  FitReport& report = outcome.report;
  report.implementation = group.first().implementation;
  report.strategy = group.first().strategy;
  report.weights = group.first().weights;
  report.rows = static_cast<std::int64_t>(rows.size());
  report.before = errors_of(group.results(rows, nullptr));
  if (rows.size() < kLeastRows) {
    report.refused = fmt::format("{} rows, and a fit needs {}", rows.size(), kLeastRows);
    return outcome;
  }
  const Fit fitted = fit(group, rows, wanted);
  report.condition = fitted.condition;
  report.left_out = fitted.left_out;
  Implementation implementation = group.implementation({});
  implementation.constants = fitted.constants;
  implementation.correlation = fitted.correlation;
  implementation.rows = report.rows;
  implementation.most_tokens = most_tokens(group, rows);
  report.after = errors_of(group.results(rows, &implementation));
  if (fitted.constants.empty()) report.refused = "the rows determine no constant";
  if (report.after.mean_abs_pct > report.before.mean_abs_pct) {
    report.refused = fmt::format("none of its constants explains the rows: {:.1f} % before, {:.1f} % after on average",
                                 report.before.mean_abs_pct, report.after.mean_abs_pct);
  }
  implementation.no_fit = report.refused;
  if (!report.refused.empty()) {
    implementation.constants.clear();
    implementation.correlation.clear();
  }
  outcome.implementation = std::move(implementation);
  return outcome;
}

struct Fold {
  RowIds fit_to, left_out;
};

std::vector<Fold> folds_of(const Group& group, const RowIds& rows, LeaveOut what) {
  std::vector<Fold> folds;
  const auto add = [&](const std::function<bool(const MoeMeasurement&)>& left_out) {
    Fold& fold = folds.emplace_back();
    for (const std::size_t id : rows) (left_out(group.row(id)) ? fold.left_out : fold.fit_to).push_back(id);
  };
  switch (what) {
    case LeaveOut::kModel:
      for (const std::string& model : models_of(group, rows)) {
        add([&](const MoeMeasurement& row) { return row.model_name == model; });
      }
      break;
    case LeaveOut::kShard:
      add(is_shard);
      break;
  }
  return folds;
}

void append(std::vector<RowResult>& results, std::vector<RowResult> more) {
  results.insert(results.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
}

// Rows of each fold under a fit to its others; which constants there are was decided on all rows. `step` is called after
// each fold.
std::vector<RowResult> left_out_results(const Group& group, const std::vector<Fold>& folds,
                                        const std::optional<Implementation>& whole, const std::function<void()>& step) {
  std::vector<RowResult> results;
  for (const Fold& fold : folds) {
    std::optional<Implementation> fitted;
    if (whole && fold.fit_to.size() >= kLeastRows && !fold.left_out.empty()) {
      fitted = *whole;
      fitted->constants = fit_again(group, fold.fit_to, *whole);
      fitted->most_tokens = most_tokens(group, fold.fit_to);
    }
    append(results, group.results(fold.left_out, fitted ? &*fitted : nullptr, true));
    step();
  }
  return results;
}

// Splits the group's rows into those that can be simulated, whose results with the device's constants go to `alone`, and
// the results of those that cannot.
RowIds usable_rows(const Group& group, std::vector<RowResult>& skipped, std::vector<RowResult>& alone) {
  RowIds usable;
  std::vector<RowResult> results = group.results(group.rows(), nullptr);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].skipped.empty()) {
      usable.push_back(group.rows()[i]);
      alone.push_back(std::move(results[i]));
    } else {
      skipped.push_back(std::move(results[i]));
    }
  }
  return usable;
}

Evaluation in_row_order(std::vector<RowResult> results, const std::string& file, const HardwareModel& hardware) {
  std::sort(results.begin(), results.end(), [](const RowResult& a, const RowResult& b) { return a.row < b.row; });
  return summarise_rows(std::move(results), file, hardware);
}

HeldOutError held_out_error(const std::vector<RowResult>& fitted) {
  const ErrorSummary errors = errors_of(fitted);
  return {errors.count, errors.median_abs_pct, errors.p95_abs_pct, errors.bias_pct};
}

void set_held_out(Implementation& implementation, const std::vector<RowResult>& left_out) {
  std::vector<RowResult> fitted;
  std::array<std::vector<RowResult>, kTokenBands.size()> by_band;
  for (const RowResult& result : left_out) {
    if (!result.fitted) continue;
    fitted.push_back(result);
    by_band[token_band(result.row->tokens)].push_back(result);
  }
  implementation.held_out = held_out_error(fitted);
  for (std::size_t b = 0; b < by_band.size(); ++b) implementation.held_out_by_band[b] = held_out_error(by_band[b]);
}

void check_something_is_left_out(const std::vector<MoeMeasurement>& rows, LeaveOut what) {
  std::set<std::string> models;
  std::size_t shards = 0;
  for (const MoeMeasurement& row : rows) {
    models.insert(row.model_name);
    shards += is_shard(row) ? 1 : 0;
  }
  if (what == LeaveOut::kModel && models.size() < 2) {
    throw InputError({"--leave-one-out", "", "rows of one model", "rows of several, to fit to the others", ""});
  }
  if (what == LeaveOut::kShard && (shards == 0 || shards == rows.size())) {
    throw InputError({"--leave-out", "shard", shards == 0 ? "no row of a shard" : "rows of shards alone",
                      "rows with tp or ep above 1, and rows without", ""});
  }
}

}  // namespace

CalibrationResult calibrate(const std::vector<MoeMeasurement>& rows, const FitRecord& record,
                            const HardwareModel& hardware, const CalibrateOptions& options) {
  CalibrationResult result;
  result.calibration.device = hardware.name;
  result.calibration.device_hash = hardware.hash;
  result.calibration.data = record.data;
  result.calibration.filters = record.filters;
  result.calibration.date = record.date;
  std::set<std::string> models;
  for (const MoeMeasurement& row : rows) models.insert(row.model_name);
  result.calibration.models.assign(models.begin(), models.end());

  const PreparedRows prepared(rows, hardware);
  const std::vector<Group> groups = groups_of(prepared);
  std::size_t all = groups.size(), done = 0;
  if (options.leave_one_out) {
    for (const Group& group : groups) all += models_of(group, group.rows()).size();
  }
  const auto step = [&] {
    ++done;
    if (options.progress) options.progress(done, all);
  };
  std::vector<RowResult> left_out, alone;
  for (const Group& group : groups) {
    std::vector<RowResult> skipped;
    const RowIds usable = usable_rows(group, skipped, alone);
    FitOutcome outcome = fit_implementation(group, usable, options.constants);
    step();
    for (const RowResult& row : skipped) {
      outcome.report.skipped.push_back(fmt::format("{}:{}: {}", row.row->file, row.row->line, row.skipped));
    }
    result.reports.push_back(std::move(outcome.report));
    if (options.leave_one_out) {
      const std::vector<Fold> folds = folds_of(group, usable, LeaveOut::kModel);
      std::vector<RowResult> results = left_out_results(group, folds, outcome.implementation, step);
      if (outcome.implementation) set_held_out(*outcome.implementation, results);
      append(left_out, std::move(skipped));
      append(left_out, std::move(results));
    }
    if (outcome.implementation) result.calibration.implementations.push_back(std::move(*outcome.implementation));
  }
  result.calibration.residuals = residual_record(left_out, alone);
  if (options.leave_one_out) {
    Coverage coverage = coverage_by_other_models(left_out, alone);
    result.left_out = in_row_order(std::move(left_out), options.file, hardware);
    result.left_out->coverage = std::move(coverage);
  }
  return result;
}

Evaluation evaluate_left_out(const std::vector<MoeMeasurement>& rows, const std::string& file,
                             const HardwareModel& hardware, const LeftOutOptions& options) {
  check_something_is_left_out(rows, options.what);
  const PreparedRows prepared(rows, hardware);
  const std::vector<Group> groups = groups_of(prepared);
  // Intervals of shards come from whole models, each left out of a fit to the others.
  const bool whole_models = options.what == LeaveOut::kShard && options.coverage;
  const auto without_shards = [](const Group& group, RowIds ids) {
    std::erase_if(ids, [&](std::size_t id) { return is_shard(group.row(id)); });
    return ids;
  };
  std::size_t all = 0, done = 0;
  for (const Group& group : groups) {
    all += folds_of(group, group.rows(), options.what).size();
    if (whole_models) all += models_of(group, without_shards(group, group.rows())).size();
  }
  const auto step = [&] {
    ++done;
    if (options.progress) options.progress(done, all);
  };
  std::vector<RowResult> results, skipped, alone, of_whole_models;
  for (const Group& group : groups) {
    const RowIds usable = usable_rows(group, skipped, alone);
    const std::vector<Fold> folds = folds_of(group, usable, options.what);
    const bool any = std::any_of(folds.begin(), folds.end(), [](const Fold& fold) { return !fold.left_out.empty(); });
    const FitOutcome whole = any || whole_models ? fit_implementation(group, usable, {}) : FitOutcome();
    append(results, left_out_results(group, folds, whole.implementation, step));
    if (whole_models) {
      const std::vector<Fold> models = folds_of(group, without_shards(group, usable), LeaveOut::kModel);
      append(of_whole_models, left_out_results(group, models, whole.implementation, step));
    }
  }
  std::optional<Coverage> coverage;
  switch (options.what) {
    case LeaveOut::kModel:
      coverage = coverage_by_other_models(results, alone);
      break;
    case LeaveOut::kShard:
      if (!options.coverage) break;
      std::erase_if(alone, [](const RowResult& row) { return is_shard(*row.row); });
      coverage = coverage_by_record(results, residual_record(of_whole_models, alone),
                                    "whole models' rows, each model by constants fitted to the others");
      break;
  }
  append(results, std::move(skipped));
  Evaluation evaluation = in_row_order(std::move(results), file, hardware);
  evaluation.coverage = std::move(coverage);
  return evaluation;
}

}  // namespace moesim
