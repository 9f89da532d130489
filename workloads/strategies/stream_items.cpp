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
  item.prologue_after = device.cache_round_trips(1) + device.duration(shape.code.before);  // the pick's expert
  item.epilogue = device.duration(shape.code.after);  // a tree over the lanes; nobody waits for what is stored
  return item;
}

double first_share_of_walks(const Device& device, const MoeLayer& layer, const GemvShape& shape, double bytes_of_pick) {
  const std::int64_t places = *std::max_element(layer.token_picks.begin(), layer.token_picks.end());
  const auto k = static_cast<double>(places);
  const auto loads = [&](double kept) {  // of all rows, in experts' worth of them
    double sum = 0;
    for (const std::int64_t rows : layer.rows) {
      const auto r = static_cast<double>(rows);
      for (std::int64_t place = 0; place < places; ++place) {
        const double m = std::min(kept, static_cast<double>(place));
        sum += std::pow(1 - m / k, r) - std::pow(std::max(0.0, 1 - (m + 1) / k), r);
      }
    }
    return sum;
  };
  const auto picks = static_cast<double>(layer.picks), active = static_cast<double>(layer.active);
  const double blocks = layer.down_bytes().as_double() / bytes_of_pick;
  const double resident = std::min(static_cast<double>(device.occupancy(shape.launch) * device.units()),
                                   static_cast<double>(layer.tokens) * blocks);
  const double of_place = resident * bytes_of_pick * loads(0) / picks;  // bytes that all read from memory meanwhile
  return std::clamp(loads(std::floor(device.useful_cache_bytes() / of_place)), active, picks) / picks;
}

}  // namespace moesim
