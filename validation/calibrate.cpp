#include "validation/calibrate.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <unsupported/Eigen/NonLinearOptimization>

#include "sim/io/input_error.h"

namespace moesim {
namespace {

constexpr std::size_t kLeastRows = 12;      // of an implementation, for a fit
constexpr double kMostRelativeError = 1.0;  // of a constant: beyond a factor e nothing is known of it
constexpr double kHardlyKnown = 5;          // a standard error that says no more than this
constexpr double kFlat = 1e-12;             // squared length of a Jacobian column that says nothing
constexpr double kStep = 0.05;           // of a logarithm, for the Jacobian: wide enough for steps of waves and tiles
constexpr int kMostEvaluations = 25;     // of the residuals in one fit
constexpr double kSmallRowWeight = 0.5;  // rows under 10 us tell what a helper kernel costs, with more noise
constexpr double kHuber = 0.10;          // residuals beyond this count linearly: library kernels change by shape

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
    list.insert(list.end(), {start, step});
    list.push_back({"gemm.item_us", 0.5, 0.01, 20});
    list.push_back({"gemm.byte_weight", 1.02, 1.0, 1.5});
  } else if (strategy == "gather_gemv") {
    list.insert(list.end(), {start_up, start_down});
    list.push_back({"gather.step_ns", 50, 0.5, 5000});
    list.push_back({"gather.start_us", 1.0, 0.01, 50});
  } else {
    list.push_back(start);
    list.push_back(step);
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

// One implementation's rows under given constants.
class Problem {
 public:
  Problem(std::vector<MoeMeasurement> rows, const std::string& file, const HardwareModel& hardware)
      : rows_(std::move(rows)), file_(file), hardware_(hardware) {}

  [[nodiscard]] const std::vector<MoeMeasurement>& rows() const { return rows_; }

  [[nodiscard]] Evaluation run(const ImplementationConstants& constants) const {
    Calibration calibration;
    Implementation implementation;
    implementation.name = rows_.front().implementation;
    implementation.strategy = rows_.front().strategy;
    implementation.weights = rows_.front().weights;
    for (const auto& [name, value] : constants) implementation.constants[name].value = value;
    calibration.implementations = {implementation};
    EvaluateOptions options;
    options.calibration = &calibration;
    return evaluate(rows_, file_, hardware_, options);
  }

 private:
  std::vector<MoeMeasurement> rows_;
  const std::string& file_;
  const HardwareModel& hardware_;
};

// A smooth map of the whole line onto [low, high]: logarithms need no bounds inside the solver.
double bounded(double x, const Candidate& c) {
  const double share = 1 / (1 + std::exp(-x));
  return c.low * std::pow(c.high / c.low, share);
}
double unbounded(double value, const Candidate& c) {
  const double share = std::clamp(std::log(value / c.low) / std::log(c.high / c.low), 0.02, 0.98);
  return std::log(share / (1 - share));
}

double residual(const RowResult& row) {
  const double error = std::log(row.simulated_us / row.row->us);
  const double size = std::abs(error);
  return size <= kHuber ? error : std::copysign(std::sqrt(kHuber * (2 * size - kHuber)), error);
}

struct Functor {
  using Scalar = double;
  enum { InputsAtCompileTime = Eigen::Dynamic, ValuesAtCompileTime = Eigen::Dynamic };
  using InputType = Eigen::VectorXd;
  using ValueType = Eigen::VectorXd;
  using JacobianType = Eigen::MatrixXd;

  const Problem& problem;
  const std::vector<Candidate>& parameters;

  [[nodiscard]] int inputs() const { return static_cast<int>(parameters.size()); }
  [[nodiscard]] int values() const { return static_cast<int>(problem.rows().size()); }

  [[nodiscard]] ImplementationConstants constants(const Eigen::VectorXd& x) const {
    ImplementationConstants result;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      result[parameters[i].name] = bounded(x[static_cast<Eigen::Index>(i)], parameters[i]);
    }
    return result;
  }

  int operator()(const Eigen::VectorXd& x, Eigen::VectorXd& residuals) const {
    const Evaluation evaluation = problem.run(constants(x));
    Eigen::Index i = 0;
    for (const RowResult& row : evaluation.rows) residuals[i++] = residual(row);
    for (const RowResult& row : evaluation.small_rows) residuals[i++] = kSmallRowWeight * residual(row);
    return 0;
  }

  int df(const Eigen::VectorXd& x, Eigen::MatrixXd& jacobian) const {
    Eigen::VectorXd plus(values()), minus(values());
    for (Eigen::Index i = 0; i < x.size(); ++i) {
      Eigen::VectorXd moved = x;
      moved[i] = x[i] + kStep;
      (*this)(moved, plus);
      moved[i] = x[i] - kStep;
      (*this)(moved, minus);
      jacobian.col(i) = (plus - minus) / (2 * kStep);
    }
    return 0;
  }
};

struct Fit {
  std::map<std::string, FittedConstant> constants;
  double condition = 0;
  std::vector<std::string> left_out;
};

Fit fit(const Problem& problem, std::vector<Candidate> parameters) {
  Fit result;
  for (;;) {
    Functor functor{problem, parameters};
    Eigen::VectorXd x(functor.inputs());
    for (int i = 0; i < functor.inputs(); ++i) {
      const Candidate& c = parameters[static_cast<std::size_t>(i)];
      x[i] = unbounded(c.start, c);
    }
    Eigen::LevenbergMarquardt<Functor> solver(functor);
    solver.parameters.maxfev = kMostEvaluations;
    solver.parameters.ftol = solver.parameters.xtol = 1e-4;
    solver.minimize(x);

    Eigen::VectorXd residuals(functor.values());
    Eigen::MatrixXd jacobian(functor.values(), functor.inputs());
    functor(x, residuals);
    functor.df(x, jacobian);
    // The Jacobian by the logarithm of each constant: d log(constant) / dx is its range times share (1 - share).
    for (int i = 0; i < functor.inputs(); ++i) {
      const Candidate& c = parameters[static_cast<std::size_t>(i)];
      const double share = 1 / (1 + std::exp(-x[i]));
      jacobian.col(i) /= std::log(c.high / c.low) * share * (1 - share);
    }
    const Eigen::JacobiSVD<Eigen::MatrixXd> svd(jacobian);
    const auto& singular = svd.singularValues();
    result.condition = singular[singular.size() - 1] > 0 ? singular[0] / singular[singular.size() - 1] : 1e300;
    const double variance = residuals.squaredNorm() / std::max(1, functor.values() - functor.inputs());
    const Eigen::MatrixXd normal = jacobian.transpose() * jacobian;
    const Eigen::MatrixXd covariance = variance * normal.completeOrthogonalDecomposition().pseudoInverse();

    // The least determined constant goes first, one at a time: what it took with it may determine the others.
    int worst = -1;
    double worst_error = kMostRelativeError;
    for (int i = 0; i < functor.inputs(); ++i) {
      const bool flat = normal(i, i) < kFlat;
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
      return result;
    }
    const char* const name = parameters[static_cast<std::size_t>(worst)].name;
    result.left_out.push_back(worst_error > kHardlyKnown
                                  ? fmt::format("{}: the rows hardly depend on it", name)
                                  : fmt::format("{}: uncertain by a factor {:.1f}", name, std::exp(worst_error)));
    for (int i = 0; i < functor.inputs(); ++i) {  // the next fit starts where this one ended
      Candidate& c = parameters[static_cast<std::size_t>(i)];
      c.start = bounded(x[i], c);
    }
    parameters.erase(parameters.begin() + worst);
    if (parameters.empty()) return result;
  }
}

ImplementationConstants values(const Fit& f) {
  ImplementationConstants result;
  for (const auto& [name, constant] : f.constants) result[name] = constant.value;
  return result;
}

using Rows = std::vector<MoeMeasurement>;

std::set<std::string> models_of(const Rows& rows) {
  std::set<std::string> models;
  for (const MoeMeasurement& row : rows) models.insert(row.model_name);
  return models;
}

// Rows by implementation and weights, in order of first appearance.
std::vector<Rows> groups_of(const Rows& rows, const std::string& file) {
  std::vector<Rows> groups;
  for (const MoeMeasurement& row : rows) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const Rows& known) {
      return known.front().implementation == row.implementation && known.front().weights == row.weights;
    });
    if (group == groups.end()) {
      groups.push_back({row});
      continue;
    }
    if (group->front().strategy != row.strategy) {
      throw InputError({fmt::format("{}:{}", file, row.line), "/strategy", fmt::format("'{}'", row.strategy),
                        fmt::format("'{}', the strategy of {} in line {}", group->front().strategy, row.implementation,
                                    group->front().line),
                        ""});
    }
    group->push_back(row);
  }
  return groups;
}

// Errors of each model under a fit to the others.
HeldOutError leave_one_out(const Rows& rows, const std::string& file, const HardwareModel& hardware,
                           const std::vector<Candidate>& parameters, const std::function<void()>& step) {
  std::vector<double> errors;
  for (const std::string& model : models_of(rows)) {
    Rows train, test;
    for (const MoeMeasurement& row : rows) (row.model_name == model ? test : train).push_back(row);
    if (train.size() >= kLeastRows) {
      const Problem left_out(test, file, hardware);
      const Evaluation evaluation = left_out.run(values(fit(Problem(train, file, hardware), parameters)));
      for (const RowResult& row : evaluation.rows) errors.push_back(row.error_pct());
    }
    step();
  }
  const ErrorSummary summary = summarise(errors);
  return {summary.count, summary.median_abs_pct, summary.p95_abs_pct, summary.bias_pct};
}

}  // namespace

CalibrationResult calibrate(const std::vector<MoeMeasurement>& rows, const std::string& file, const std::string& data,
                            const HardwareModel& hardware, const CalibrateOptions& options) {
  CalibrationResult result;
  result.calibration.device = hardware.name;
  result.calibration.device_hash = hardware.hash;
  result.calibration.data = data;
  const std::set<std::string> models = models_of(rows);
  result.calibration.models.assign(models.begin(), models.end());

  const std::vector<Rows> groups = groups_of(rows, file);
  std::size_t all = groups.size(), done = 0;
  if (options.leave_one_out) {
    for (const Rows& group : groups) all += models_of(group).size();
  }
  const auto step = [&] {
    ++done;
    if (options.progress) options.progress(done, all);
  };
  for (const Rows& group : groups) {
    FitReport& report = result.reports.emplace_back();
    report.implementation = group.front().implementation;
    report.strategy = group.front().strategy;
    report.weights = group.front().weights;

    const Problem whole(group, file, hardware);
    const Evaluation before = whole.run({});
    report.skipped = before.skipped;
    report.before = before.overall;
    std::set<std::int64_t> simulated;
    for (const RowResult& row : before.rows) simulated.insert(row.row->line);
    for (const RowResult& row : before.small_rows) simulated.insert(row.row->line);
    Rows usable = group;
    std::erase_if(usable, [&](const MoeMeasurement& row) { return !simulated.contains(row.line); });
    report.rows = static_cast<std::int64_t>(usable.size());
    if (usable.size() < kLeastRows) {
      report.refused = fmt::format("{} rows, and a fit needs {}", usable.size(), kLeastRows);
      step();
      continue;
    }
    const std::vector<Candidate> parameters = wanted_candidates(report.strategy, options.constants);
    const Problem problem(usable, file, hardware);
    const Fit fitted = fit(problem, parameters);
    report.condition = fitted.condition;
    report.left_out = fitted.left_out;
    report.after = problem.run(values(fitted)).overall;
    step();
    if (fitted.constants.empty()) report.refused = "the rows determine no constant";
    if (report.after.median_abs_pct > report.before.median_abs_pct) {
      report.refused = fmt::format("none of its constants explains the rows: {:.1f} % before, {:.1f} % after",
                                   report.before.median_abs_pct, report.after.median_abs_pct);
    }
    if (!report.refused.empty()) continue;

    Implementation implementation;
    implementation.name = report.implementation;
    implementation.strategy = report.strategy;
    implementation.weights = report.weights;
    implementation.rows = report.rows;
    implementation.constants = fitted.constants;
    for (const MoeMeasurement& row : usable) {
      implementation.most_tokens = std::max(implementation.most_tokens, row.tokens);
    }
    if (options.leave_one_out) implementation.held_out = leave_one_out(usable, file, hardware, parameters, step);
    result.calibration.implementations.push_back(std::move(implementation));
  }
  return result;
}

}  // namespace moesim
