// What a study's times may hang on: the device's constants, fitted ones, and the workload, each with a range from p5 to p95.
//
// The workload's ranges, where none is stated:
//   tokens      one more or less, from 10 on 10 %: a batch is rarely just as large as planned
//   skew        the law's parameter 25 % lower and higher; uniform routing up to zipf:0.65, the mean that a public set of
//               OLMoE-like traces reports
//   duplicates  up to 10 % more of a token's picks are those of the token before it in the batch
// Not of traces and patterns, which are what they are.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/units/parse_quantity.h"
#include "workloads/studies/concurrency.h"

namespace moesim {

enum class FactorGroup { kDevice, kFitted, kWorkload };
const char* factor_group_name(FactorGroup group);  // "device", ...

enum class WorkloadFactor { kTokens, kSkew, kDuplicates };
struct FittedFactor {
  std::string implementation, weights, constant;
};

using FactorTarget = std::variant<Hw, FittedFactor, WorkloadFactor>;

// Something that may be otherwise.
struct Factor {
  std::string name;  // "hbm.latency", "triton-grouped.gemm.start_us", "tokens"
  FactorTarget target;
  std::string kind;   // "microbenchmark", "fitted", "workload"
  std::string basis;  // where its range comes from
  double value = 0, low = 0, high = 0;
  Dimension dimension = Dimension::kDimensionless;
  bool whole = false;  // no fraction

  [[nodiscard]] FactorGroup group() const;
  [[nodiscard]] std::string text(double of) const;  // with its unit
};

// "hbm.latency=20%": p5 and p95 so much lower and higher than the value, in place of what is stated or usual;
// "hbm.latency=200ns..1us": just these.
struct FactorRange {
  std::string name, range;
};
// At the first '='. Throws InputError (flag --range).
FactorRange parse_factor_range(const std::string& text);

// Those of the request's device, of the implementations that its strategies take, and of its workload at its first
// concurrency; exact ones are left out. Throws InputError (flag --range) for a name that is none of them and for a wrong range.
std::vector<Factor> factors_of(const ConcurrencyRequest& request, const std::vector<FactorRange>& ranges);
// Those of the device alone, by its file's ranges.
std::vector<Factor> device_factors(const HardwareModel& hardware);

// The request with one factor at another value.
ConcurrencyRequest with_factor(const ConcurrencyRequest& request, const FactorTarget& factor, double value);

}  // namespace moesim
