// tpu_stream: one call that streams the picked experts through a ring in on-chip memory, one row at a time.
//
// Models: the low-concurrency kernel of vllm-project/tpu-inference pull request 3204 (cn_moe_kernels.py). Slots (token,
// pick) are sorted by expert, so that duplicates follow each other: the expert is loaded once and used again from on-chip
// memory, which saves traffic but no work. A ring of whole experts (4) is loaded ahead; each change of expert frees one place
// and issues one load, of two matrices. A slot is [1, K] x [K, 2I], activation, [1, I] x [I, H], added with its weight to the
// token's float32 sum; its row is padded to the register tile inside the arrays alone. 8-bit weights are converted to 16
// bits on the vector unit (fp8_activations=1: the row is quantised instead and weights go in as they are). There is no
// permutation, no group table, no second launch, no intermediate in memory. Slots of other devices are skipped. An expert
// larger than its place is cut along I; then each slot of the expert takes part in each cut.
// Equations: tpu_grid.h; of an expert with r slots two steps, each sequence.step + r x (a product with its first weights
// and fill); bytes once.
// gemv=1 (a what-if): products on the vector unit, which multiplies and adds vector.fma weights a clock after conversion.
// Leaves out: skipped slots (a scalar test each), scales loaded on their own, accuracy of fp8 activations.
// Compared: growth of whole steps with concurrency (validation/published/README.md); no kernel time is public.
#include <algorithm>
#include <cmath>
#include <map>

#include "sim/units/integer.h"
#include "workloads/strategies/catalogue.h"
#include "workloads/strategies/tpu_grid.h"

namespace moesim {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"ring", "4", "experts (or cuts of them) on the chip", 1, 64},
    {"cuts", "as few as let the ring fit", "pieces along the intermediate width that an expert is cut into", 1,
     1 << 16},
    {"fp8_activations", "0", "1: rows are quantised to fp8 and fp8 weights are not converted", 0, 1},
    {"gemv", "0", "1: products on the vector unit instead of the matrix arrays", 0, 1},
    {"router", "1", "0: the layer is given its router's scores: no router product", 0, 1},
};

constexpr std::int64_t kStepsOfExpert = 2;  // up, down

struct Slot {
  ArrayWork up, down;   // of one row of a cut
  double vector = 0;    // seconds, both
  double in_order = 0;  // seconds, both
  std::int64_t issued_rows = 1;
};

Slot slot_of(const Device& device, const LowerRequest& request, std::int64_t cut) {
  const MoeLayer& layer = request.layer;
  const bool fp8 = parameter(request, "fp8_activations", 0) != 0;
  const bool gemv = parameter(request, "gemv", 0) != 0;
  const Dtype operands = fp8 ? array_operands(device, layer.weights) : Dtype::kBf16;
  const std::int64_t hidden = layer.expert_hidden(), up = layer.gated ? 2 * cut : cut;
  const std::int64_t rows = row_quantum(device, operands);
  const double weights = static_cast<double>(up + cut) * static_cast<double>(hidden);
  Slot slot;
  slot.vector = conversion_seconds(device, layer.weights, operands, weights);
  if (gemv) {
    slot.vector += device.seconds(weights / device.constant(Hw::kVectorFma));
  } else {
    slot.issued_rows = rows;
    slot.up = array_work(device, operands, 1, rows, up, hidden);
    slot.down = array_work(device, operands, 1, rows, hidden, cut);
  }
  slot.in_order = slot.up.in_order + slot.down.in_order +
                  device.seconds(static_cast<double>(hidden) / device.constant(Hw::kVectorStore));  // into the sum
  return slot;
}

struct Plan {
  std::int64_t ring = 1, cuts = 1;
  Bytes on_chip;
};

// The fewest cuts with which the ring fits beside the rows and their sums.
Plan plan_of(const LowerRequest& request) {
  const MoeLayer& layer = request.layer;
  const std::int64_t lanes = std::llround(request.hardware[Hw::kTileLanes]);
  Plan plan;
  plan.ring = parameter(request, "ring", 4);
  const double rows = static_cast<double>(layer.tokens * layer.expert_hidden()) * (kBytes16 + sizeof(float));
  const double expert = (layer.up_bytes() + layer.down_bytes()).as_double();
  const double room = useful_on_chip_bytes(request.hardware).as_double();
  const auto on_chip = [&](std::int64_t cuts) {
    return rows + static_cast<double>(plan.ring) * expert / static_cast<double>(cuts);
  };
  const std::int64_t most = std::max<std::int64_t>(1, divide_up(layer.intermediate, lanes));
  while (plan.cuts < most && on_chip(plan.cuts) > room) ++plan.cuts;
  plan.cuts = std::min(layer.intermediate, parameter(request, "cuts", plan.cuts));
  plan.on_chip = Bytes(std::llround(on_chip(plan.cuts)));
  return plan;
}

void add_stream(Chain& chain, const LowerRequest& request) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  const Plan plan = plan_of(request);
  const Slot slot = slot_of(device, request, divide_up(layer.intermediate, plan.cuts));
  const Bytes expert = layer.up_bytes() + layer.down_bytes();
  const double outputs = static_cast<double>(layer.tokens * layer.expert_hidden()) * kBytes16;
  const double matrix = slot.up.seconds + slot.down.seconds;
  Kernel kernel = sequential_kernel("stream", "gemm1+gemm2");
  std::map<std::int64_t, std::uint32_t> class_of;  // by rows
  for (std::size_t e = 0; e < layer.rows.size(); ++e) {
    const std::int64_t rows = layer.rows[e];
    if (rows == 0) continue;
    const auto [it, fresh] = class_of.try_emplace(rows, static_cast<std::uint32_t>(kernel.classes.size()));
    if (fresh) {
      const auto slots = static_cast<double>(rows);
      const double half = slots / kStepsOfExpert;  // of a step
      ItemClass item;
      item.steps = kStepsOfExpert * plan.cuts;
      item.read = expert;
      item.resident_read = Bytes(std::llround(outputs / static_cast<double>(layer.active)));  // rows in
      item.write = item.resident_read;                                                        // sums out
      item.pipe_seconds[static_cast<std::size_t>(PipeKind::kMatrix)] = half * matrix;
      item.pipe_seconds[static_cast<std::size_t>(PipeKind::kVector)] = half * slot.vector;
      if (matrix > 0) {
        item.stationary_share =
            (slot.up.stationary_share * slot.up.seconds + slot.down.stationary_share * slot.down.seconds) / matrix;
        item.useful_share =
            (slot.up.useful_share * slot.up.seconds + slot.down.useful_share * slot.down.seconds) / matrix;
      }
      item.useful_flops =
          2 * slots * static_cast<double>((layer.up_width() + layer.intermediate) * layer.expert_hidden());
      item.issued_flops = item.useful_flops * static_cast<double>(slot.issued_rows);
      item.step_sequence = duration_from_seconds(device.constant(Hw::kSequenceStep) + half * slot.in_order);
      set_ring(item, kStepsOfExpert * plan.ring - (plan.ring > 1 ? 1 : 0), kStepsOfExpert * plan.cuts * layer.active);
      kernel.classes.push_back(item);
    }
    ItemGroup group;
    group.item_class = it->second;
    group.count = 1;
    group.region = chain.region("expert", expert);
    group.label = static_cast<std::int32_t>(e);
    group.rows = static_cast<std::int32_t>(rows);
    kernel.groups.push_back(group);
  }
  const ItemClass& first = kernel.classes[kernel.groups.front().item_class];
  set_call(kernel, duration_from_seconds(device.constant(Hw::kSequenceCall)) + first_step(device, first));
  chain.add_sequential(std::move(kernel), plan.on_chip);
}

Lowered lower(const LowerRequest& request) {
  const MoeLayer& layer = request.layer;
  const double slots = static_cast<double>(layer.tokens * layer.topk);
  constexpr double kTables = 4, kEntryBytes = 4;  // expert, token, weight and look-ahead of a slot
  if (request.hardware[Hw::kSmemCapacity] < slots * kTables * kEntryBytes) {
    return Infeasible{"the slots' tables do not fit the scalar memory (smem.capacity)"};
  }
  Chain chain(request);
  if (request.scope == Scope::kMoeLayer) {
    add_sequential_routing(chain, request);
    add_sequential_to_latent(chain, request);
  }
  if (layer.active > 0) add_stream(chain, request);
  if (request.scope == Scope::kMoeLayer) add_sequential_rest(chain, request);
  if (layer.active == 0) {
    const Device device(request.hardware, request.clock_hz);
    const double sums = static_cast<double>(layer.tokens * layer.expert_hidden()) * kBytes16;
    add_operation(chain, device, "zeros", "combine", 0, sums, 0);
  }
  return chain.seal();
}

}  // namespace

constinit const Strategy kTpuStream = {"tpu_stream",
                                       "one call: picked experts pass through an on-chip ring, one row a slot",
                                       "the low-concurrency MoE kernel of vLLM on TPU",
                                       kParameters,
                                       Grid::kSequential,
                                       lower};

}  // namespace moesim
