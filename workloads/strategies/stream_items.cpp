#include "workloads/strategies/stream_items.h"

#include <algorithm>
#include <cmath>

#include "sim/units/integer.h"

namespace moesim {
namespace {

constexpr double kExchange = 2;  // a store and a load

}  // namespace

ItemClass gemv_item(const Device& device, WeightFormat format, const GemvShape& shape, std::int64_t rows,
                    std::int64_t k, std::int64_t picks, double bytes_of_pick, double from_memory, double written) {
  ItemClass item;
  item.steps = picks * divide_up(k, shape.block_k);
  item.stages = 1;  // loads straight to registers: the next step's wait for this one
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
  item.step_latency = device.duration((multiply_adds + conversions) / lanes +
                                      (1 + kExchange * shape.code.exchanges) * device.constant(Hw::kSharedLatency)) +
                      device.code(shape.code.step);
  // A pick's expert is looked up before its weights are asked for; those that streamed by in between have left nothing of it
  // in the unit's own cache.
  if (shape.code.pick > 0) {
    const double each = static_cast<double>(picks) / steps;
    item.step_latency += device.code(each * shape.code.pick) + device.cache_round_trips(each);
  }
  const double row_bytes =
      std::min(static_cast<double>(shape.block_k), static_cast<double>(k)) * payload_bits(format) / 8;
  item.load_latency = duration_from_seconds(
      from_memory * to_seconds(Device::latency_spread(static_cast<double>(rows) * row_bytes / kLineBytes /
                                                      static_cast<double>(shape.warps))));
  item.first_prologue = duration_from_seconds(device.constant(Hw::kLaunchPrologue));
  item.prologue_after = device.cache_round_trips(1) + device.code(shape.code.before);  // the pick's expert
  item.epilogue = device.code(shape.code.after);  // a tree over the lanes; nobody waits for what is stored
  return item;
}

}  // namespace moesim
