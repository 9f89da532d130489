#include "validation/calibrate_micro.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unsupported/Eigen/NonLinearOptimization>

#include "sim/io/input_error.h"
#include "sim/units/parse_quantity.h"

namespace moesim {
namespace {

constexpr double kMostRelativeError = 0.25;  // of a constant: beyond, the file's value is kept
constexpr double kFlat = 1e-6;               // squared length of a Jacobian column that says nothing
constexpr double kStep = 0.02;               // of a logarithm, for the Jacobian
constexpr int kMostEvaluations = 20;         // of the residuals in one fit
constexpr double kHuber = 0.10;              // residuals beyond this count linearly

// What microbenchmarks can say of a device; capacities, occupancy and datasheet peaks are not fitted.
constexpr std::array kCandidates = {
    Hw::kUnitLoadPort,       Hw::kHbmReadFraction,    Hw::kHbmLatency,      Hw::kHbmKnee,       Hw::kHbmWriteWeight,
    Hw::kLlcUsefulFraction,  Hw::kLlcBandwidth,       Hw::kLlcLatency,      Hw::kLlcKnee,       Hw::kLlcFillWeight,
    Hw::kVectorConvert,      Hw::kMatrixSyncFraction, Hw::kMatrixLatency,   Hw::kSharedLatency, Hw::kBarrier,
    Hw::kAsyncCopyPerWarp,   Hw::kAsyncCopyLatency,   Hw::kLaunchStream,    Hw::kLaunchGraph,   Hw::kLaunchSpread,
    Hw::kLaunchProgrammatic, Hw::kLaunchPrologue,     Hw::kDispatchInterval};

// Distance on the chip, many units at the same lines and what a unit's own loads keep in the cache decide these
// benchmarks and are not modelled: to fit them would bend the constants.
bool is_fitted(const MicroResult& result) {
  const std::string& benchmark = result.row->benchmark;
  return result.left_out.empty() && benchmark != "same_read" && benchmark != "one_sm_read";
}

HardwareModel with(const HardwareModel& hardware, const std::vector<Hw>& ids, const Eigen::VectorXd& x) {
  HardwareModel moved = hardware;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const HwEntry& entry = hw_entry(ids[i]);
    const double value = std::exp(x[static_cast<Eigen::Index>(i)]);
    moved.constants[static_cast<std::size_t>(ids[i])]->value =
        std::clamp(entry.whole ? std::round(value) : value, entry.min, entry.max);
  }
  return moved;
}

Eigen::VectorXd logarithms(const HardwareModel& hardware, const std::vector<Hw>& ids) {
  Eigen::VectorXd x(static_cast<Eigen::Index>(ids.size()));
  for (std::size_t i = 0; i < ids.size(); ++i) x[static_cast<Eigen::Index>(i)] = std::log(hardware[ids[i]]);
  return x;
}

double residual(const MicroResult& row) {
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

  const std::vector<MicroMeasurement>& rows;
  const HardwareModel& hardware;
  const std::vector<Hw>& ids;
  const std::function<void()>& step;

  [[nodiscard]] int inputs() const { return static_cast<int>(ids.size()); }
  [[nodiscard]] int values() const { return static_cast<int>(rows.size()); }

  int operator()(const Eigen::VectorXd& x, Eigen::VectorXd& residuals) const {
    const MicroEvaluation evaluation = evaluate_micro(rows, "", with(hardware, ids, x));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      residuals[static_cast<Eigen::Index>(i)] = residual(evaluation.rows[i]);
    }
    step();
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

}  // namespace

DeviceCalibration calibrate_micro(const std::vector<MicroMeasurement>& rows, const std::string& file,
                                  const HardwareModel& hardware, const std::function<void(std::size_t)>& progress) {
  DeviceCalibration result;
  result.before = evaluate_micro(rows, file, hardware);
  std::vector<MicroMeasurement> usable;
  for (const MicroResult& r : result.before.rows) {
    if (is_fitted(r)) usable.push_back(*r.row);
  }
  result.rows = static_cast<std::int64_t>(usable.size());

  std::size_t evaluations = 0;
  const std::function<void()> step = [&] { progress(++evaluations); };
  std::vector<Hw> ids;
  for (const Hw id : kCandidates) {
    if (hardware.has(id) && hardware[id] > 0) ids.push_back(id);
  }
  const auto leave_out = [&](std::size_t i, const std::string& reason) {
    result.constants.push_back({ids[i], hardware[ids[i]], hardware[ids[i]], 0, reason});
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i));
  };
  if (usable.size() <= ids.size()) {
    throw InputError({file, "", fmt::format("{} rows that can be simulated", usable.size()),
                      fmt::format("more than the {} constants of a device", ids.size()), ""});
  }

  // What no row depends on goes before the fit.
  {
    const Functor functor{usable, hardware, ids, step};
    Eigen::MatrixXd jacobian(functor.values(), functor.inputs());
    functor.df(logarithms(hardware, ids), jacobian);
    for (std::size_t i = ids.size(); i-- > 0;) {
      const auto column = static_cast<Eigen::Index>(i);
      if (jacobian.col(column).squaredNorm() < kFlat) leave_out(i, "no row depends on it");
    }
  }
  Eigen::VectorXd x = logarithms(hardware, ids);
  while (!ids.empty()) {
    Functor functor{usable, hardware, ids, step};
    Eigen::LevenbergMarquardt<Functor> solver(functor);
    solver.parameters.maxfev = kMostEvaluations;
    solver.parameters.ftol = solver.parameters.xtol = 1e-4;
    solver.minimize(x);

    Eigen::VectorXd residuals(functor.values());
    Eigen::MatrixXd jacobian(functor.values(), functor.inputs());
    functor(x, residuals);
    functor.df(x, jacobian);
    const Eigen::JacobiSVD<Eigen::MatrixXd> svd(jacobian);
    const auto& singular = svd.singularValues();
    result.condition = singular[0] / std::max(singular[singular.size() - 1], 1e-300);
    const double variance = residuals.squaredNorm() / std::max(1, functor.values() - functor.inputs());
    const Eigen::MatrixXd normal = jacobian.transpose() * jacobian;
    const Eigen::MatrixXd covariance = variance * normal.completeOrthogonalDecomposition().pseudoInverse();
    std::vector<double> errors;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto at = static_cast<Eigen::Index>(i);
      const bool flat = normal(at, at) < kFlat;
      errors.push_back(flat ? 1e3 : std::sqrt(std::max(0.0, covariance(at, at))));
    }
    const auto worst = std::max_element(errors.begin(), errors.end());
    if (*worst <= kMostRelativeError) {
      const HardwareModel fitted = with(hardware, ids, x);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        result.constants.push_back({ids[i], hardware[ids[i]], fitted[ids[i]], errors[i], ""});
      }
      result.after = evaluate_micro(rows, file, fitted);
      break;
    }
    // The least determined constant goes, one at a time; the next fit starts where this one ended.
    const auto at = static_cast<std::size_t>(worst - errors.begin());
    const Eigen::VectorXd before = x;
    leave_out(at, fmt::format("uncertain by a factor {:.3g}", std::exp(std::min(*worst, 10.0))));
    x.resize(static_cast<Eigen::Index>(ids.size()));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      x[static_cast<Eigen::Index>(i)] = before[static_cast<Eigen::Index>(i < at ? i : i + 1)];
    }
  }
  std::sort(result.constants.begin(), result.constants.end(),
            [](const DeviceConstantFit& a, const DeviceConstantFit& b) { return a.id < b.id; });
  return result;
}

std::string device_sections_text(const DeviceCalibration& calibration, const std::string& data) {
  nlohmann::ordered_json sections = nlohmann::ordered_json::object();
  for (const DeviceConstantFit& fit : calibration.constants) {
    if (!fit.left_out.empty()) continue;
    const HwEntry& entry = hw_entry(fit.id);
    const std::string path = entry.path;
    const std::size_t dot = path.find('.');
    nlohmann::ordered_json& constant = sections[path.substr(0, dot)][path.substr(dot + 1)];
    if (entry.dimension == Dimension::kDimensionless) {
      constant["value"] = std::stod(fmt::format("{:.4g}", fit.fitted));
    } else {
      constant["value"] = format_quantity(fit.fitted, entry.dimension);
    }
    constant["kind"] = source_kind_name(SourceKind::kMicrobenchmark);
    constant["source"] = fmt::format("moesim calibrate --kind micro: {}, ± {:.2g} %", data, fit.relative_error * 100);
  }
  constexpr int kIndent = 2;
  return sections.dump(kIndent) + "\n";
}

}  // namespace moesim
