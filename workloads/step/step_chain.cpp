#include "workloads/step/step_chain.h"

#include <cmath>

#include "sim/units/check.h"
#include "workloads/step/dense_product.h"

namespace moesim {
namespace {

constexpr std::int64_t kNormThreads = 1024;
constexpr double kNormExchanges = 2;  // sums over a warp's lanes, then over the warps

StepPart part_of_stage(const std::string& stage) {
  if (stage == "router" || stage == "topk" || stage == "align") return StepPart::kRouting;
  return stage == "shared" ? StepPart::kSharedExperts : StepPart::kExperts;
}

}  // namespace

StepChain::StepChain(const DecodeStep& step, const HardwareModel& hardware, const PredictOptions& options)
    : step_(step),
      request_{no_layer_,
               hardware,
               options.clock_hz.value_or(hardware[Hw::kClockBoost]),
               Scope::kMoeLayer,
               options.launch,
               no_parameters_,
               no_constants_,
               ""},
      device_(hardware, request_.clock_hz),
      chain_(request_) {}

void StepChain::add(StepPart part, Kernel kernel, const LaunchShape& shape) {
  kernel.stage = step_part_key(part);
  chain_.add(std::move(kernel), shape);
  parts_.push_back(part);
}

void StepChain::append(ExecutionPlan plan) {
  for (const Kernel& kernel : plan.kernels()) parts_.push_back(part_of_stage(kernel.stage));
  chain_.append(std::move(plan));
}

WeightFormat StepChain::activations_for(WeightFormat weights) const {
  return weights == step_.model.expert_weights ? step_.activations : default_activations(weights);
}

void StepChain::product(StepPart part, const WeightMatrix& matrix, std::int64_t rows) {
  const Product product{
      matrix.name, "", matrix.n * matrix.count, matrix.k, matrix.format, activations_for(matrix.format)};
  DenseKernel dense = dense_kernel(device_, product, rows, region(matrix.name, bytes_of(matrix)));
  add(part, std::move(dense.kernel), dense.shape);
}

void StepChain::elementwise(const std::string& name, std::int64_t read, std::int64_t written, std::int64_t rows) {
  const std::int64_t ctas = rows * divide_up(std::max(read, written), kElementsPerCta);
  const auto bytes = [&](std::int64_t values) {
    return kBytes16 * static_cast<double>(values * rows) / static_cast<double>(ctas);
  };
  add(StepPart::kOther, moesim::elementwise(device_, name, "", ctas, bytes(read), bytes(written), 1),
      {kHelperThreads, 32, 0});
}

void StepChain::norm(const std::string& name, std::int64_t read, std::int64_t written, std::int64_t rows) {
  Kernel kernel = moesim::elementwise(device_, name, "", rows, kBytes16 * static_cast<double>(read),
                                      kBytes16 * static_cast<double>(written), 1);
  const double exchange = device_.constant(Hw::kSharedLatency) + device_.constant(Hw::kBarrier);
  kernel.classes[0].epilogue += device_.duration(kNormExchanges * exchange);
  add(StepPart::kOther, std::move(kernel), {kNormThreads, 32, 0});
}

StepPlanOrInfeasible StepChain::seal() {
  Lowered lowered = chain_.seal();
  if (auto* reason = std::get_if<Infeasible>(&lowered)) return std::move(*reason);
  StepPlan plan{std::get<ExecutionPlan>(std::move(lowered)), std::move(parts_)};
  MOESIM_CHECK(plan.plan.kernels().size() == plan.parts.size());
  return plan;
}

}  // namespace moesim
