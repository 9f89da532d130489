// Decode steps with uniform routing, a draw for each MoE layer.
#pragma once

#include <vector>

#include "workloads/predict.h"
#include "workloads/step/decode_step.h"

namespace moesim::testkit {

struct StepShape {
  std::int64_t sequences = 1, tp = 1, ep = 1;
  StepOptions options = {};
  std::vector<StepSequences> mixed = {};  // in place of so many that decode
};

// The model must outlive it.
DecodeStep step_of(const MoeModel& model, const StepShape& shape = {});

// Both throw std::logic_error with the reason where the step is infeasible.
Prediction predicted(const DecodeStep& step, const HardwareModel& hardware,
                     const std::string& strategy = "grouped_gemm", const PredictOptions& options = {});
std::string refusal(const DecodeStep& step, const HardwareModel& hardware);  // or, for this one, where it is feasible

Duration part_of(const Prediction& prediction, StepPart part);

}  // namespace moesim::testkit
