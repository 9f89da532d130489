#include "workloads/strategies/stream_items.h"

#include <cmath>

#include "sim/units/integer.h"

namespace moesim {
namespace {

// Instructions of a warp before, in (beside products and conversions) and after the K loop: means of the Triton kernels
// compiled for sm_90a, 88 to 172, 70 to 190, 70 to 209.
constexpr double kCodeBefore = 140, kStepCode = 100, kCodeAfter = 140;

}  // namespace

ItemClass gemv_item(const Device& device, WeightFormat format, const GemvShape& shape, std::int64_t rows,
                    std::int64_t k, std::int64_t picks, double bytes_of_pick, double written) {
  ItemClass item;
  item.steps = picks * divide_up(k, shape.block_k);
  item.stages = static_cast<double>(shape.stages);
  item.read = Bytes(std::llround(bytes_of_pick * static_cast<double>(picks)));
  item.write = Bytes(std::llround(written));
  item.issued_flops = 2 * static_cast<double>(rows * k * picks);
  const auto steps = static_cast<double>(item.steps);
  const double weights = static_cast<double>(rows * shape.block_k);  // of a step; masked lanes compute too
  const DequantWork dequant = dequant_to_float(format);
  const double multiply_adds = weights * (1 + dequant.multiply_adds);
  const double conversions = weights * dequant.conversions;
  item.pipe_seconds[static_cast<std::size_t>(PipeKind::kVector)] = device.vector_seconds(multiply_adds, conversions);
  item.pipe_seconds[static_cast<std::size_t>(PipeKind::kLoadPort)] =
      device.load_port_seconds(item.read.as_double() / steps);
  // The warps of one CTA issue at most one instruction a clock each; then the partial sums' on-chip exchange.
  const double lanes = static_cast<double>(shape.launch.threads);
  item.step_latency = device.duration((multiply_adds + conversions) / lanes + device.constant(Hw::kSharedLatency)) +
                      device.code(kStepCode);
  item.first_prologue = duration_from_seconds(device.constant(Hw::kLaunchPrologue));
  item.prologue_after = device.cache_round_trips(1) + device.code(kCodeBefore);  // the pick's expert
  item.epilogue = device.cache_round_trips(1) + device.code(kCodeAfter);         // a tree over the lanes, results out
  return item;
}

}  // namespace moesim
