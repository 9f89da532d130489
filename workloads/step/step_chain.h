// The kernels of a decode step in their order, each with the part of the step that it is for.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "workloads/predict.h"
#include "workloads/step/decode_step.h"
#include "workloads/step/step_part.h"
#include "workloads/strategies/blocks.h"

namespace moesim {

struct StepPlan {
  ExecutionPlan plan;
  std::vector<StepPart> parts;  // of the plan's kernels
};
using StepPlanOrInfeasible = std::variant<StepPlan, Infeasible>;

class StepChain {
 public:
  StepChain(const DecodeStep& step, const HardwareModel& hardware, const PredictOptions& options);
  StepChain(const StepChain&) = delete;  // its parts refer to each other
  StepChain& operator=(const StepChain&) = delete;

  [[nodiscard]] const DecodeStep& step() const { return step_; }
  [[nodiscard]] const Device& device() const { return device_; }
  RegionId region(std::string name, Bytes bytes) { return chain_.region(std::move(name), bytes); }
  void begin_layer(std::int32_t layer) { chain_.begin_layer(layer); }  // -1: what is of none
  void add(StepPart part, Kernel kernel, const LaunchShape& shape);
  // A MoE layer as a strategy lowered it.
  void append(ExecutionPlan plan);
  // A product of this device's tokens, or of so many rows, with a matrix of its own.
  void product(StepPart part, const WeightMatrix& matrix) { product(part, matrix, step_.tokens()); }
  void product(StepPart part, const WeightMatrix& matrix, std::int64_t rows);
  // A kernel that reads and writes this many values of each token (or row), of which a CTA has 1024 of the larger; they
  // are in the cache.
  void elementwise(const std::string& name, std::int64_t read, std::int64_t written) {
    elementwise(name, read, written, step_.tokens());
  }
  void elementwise(const std::string& name, std::int64_t read, std::int64_t written, std::int64_t rows);
  // One that reduces over the row: a CTA a row.
  void norm(const std::string& name, std::int64_t read, std::int64_t written) {
    norm(name, read, written, step_.tokens());
  }
  void norm(const std::string& name, std::int64_t read, std::int64_t written, std::int64_t rows);

  [[nodiscard]] WeightFormat activations_for(WeightFormat weights) const;
  StepPlanOrInfeasible seal();

 private:
  const DecodeStep& step_;
  MoeLayer no_layer_;
  Parameters no_parameters_;
  ImplementationConstants no_constants_;
  LowerRequest request_;
  Device device_;
  Chain chain_;
  std::vector<StepPart> parts_;
};

}  // namespace moesim
