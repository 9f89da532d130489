// (decode step, hardware, strategy) -> Prediction, on the same engine as one layer.
#pragma once

#include "workloads/predict.h"
#include "workloads/step/decode_step.h"

namespace moesim {

// The strategy serves all MoE layers; nullptr (auto): the one whose step is fastest. The prediction's parts sum to its
// time; its options' scope and stage are not looked at.
PredictionOrInfeasible predict_step(const DecodeStep& step, const HardwareModel& hardware, const StrategyChoice& choice,
                                    const PredictOptions& options = {});

// Of a step as of a layer: distinct bytes / highest read rate, or the products' work / highest matrix rate.
Duration step_bound(const DecodeStep& step, const HardwareModel& hardware, const PredictOptions& options,
                    bool* matrix_bound);

// Throws InputError (file of the model) where decoder layers, attention or vocabulary are not known.
void check_step_model(const MoeModel& model);

}  // namespace moesim
