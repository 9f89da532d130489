#include "workloads/strategies/tpu_grid.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/units/integer.h"

namespace moesim {
namespace {

constexpr double kDenseTileBytes = 2 << 20;  // of weights in a step of a dense product, about
constexpr std::int64_t kDenseRing = 2;
constexpr double kSortStageClocks = 20;  // a compare and exchange across lanes, assumed
constexpr double kMaximumClocks = 30;    // the highest of a register tile's rows and where it stands, assumed
constexpr std::int64_t kTokensOfTile = 8;

bool eight_bits(Dtype dtype) { return dtype == Dtype::kFp8 || dtype == Dtype::kInt8; }

double array_rate(const Device& device, Dtype operands) {  // FLOP a clock of all arrays
  switch (operands) {
    case Dtype::kFp8:
      return device.constant(Hw::kMatrixFp8);
    case Dtype::kInt8:
      return device.constant(Hw::kMatrixInt8);
    case Dtype::kFp32:
    case Dtype::kBf16:
    case Dtype::kFp16:
    case Dtype::kFp8Block128:
    case Dtype::kInt4:
    case Dtype::kMxfp4:
    case Dtype::kNvfp4:
      return device.constant(Hw::kMatrixBf16);
  }
  return device.constant(Hw::kMatrixBf16);
}

double row_bytes(std::int64_t width) { return static_cast<double>(width) * kBytes16; }

}  // namespace

Dtype array_operands(const Device& device, WeightFormat activations) {
  const bool fp8 = activations.dtype == Dtype::kFp8 || activations.dtype == Dtype::kFp8Block128;
  if (fp8 && device.hardware().has(Hw::kMatrixFp8)) return Dtype::kFp8;
  if (activations.dtype == Dtype::kInt8 && device.hardware().has(Hw::kMatrixInt8)) return Dtype::kInt8;
  return Dtype::kBf16;
}

std::int64_t row_quantum(const Device& device, Dtype operands) {
  return std::llround(device.constant(eight_bits(operands) ? Hw::kTileRows8 : Hw::kTileRows16));
}

ArrayWork array_work(const Device& device, Dtype operands, std::int64_t rows, std::int64_t issued, std::int64_t n,
                     std::int64_t k) {
  const std::int64_t arrays = std::llround(device.constant(Hw::kMxuCount));
  const std::int64_t size = std::llround(device.constant(Hw::kMxuSize));
  const double rate = array_rate(device, operands);
  Pipe pipe;
  pipe.flops_per_cycle = rate / static_cast<double>(arrays);
  pipe.row_quantum = row_quantum(device, operands);
  pipe.column_quantum = size;
  pipe.depth_quantum = std::min(size, k);
  pipe.stationary_rows_per_cycle =
      device.constant(Hw::kMxuWeightRows) * rate / device.constant(Hw::kMatrixBf16);  // narrower operands: as products
  const double tile = pipe.cycles(issued, size, pipe.depth_quantum).value();
  const auto waves = static_cast<double>(divide_up(divide_up(n, size) * divide_up(k, size), arrays));
  const double of_a_row = 2 * static_cast<double>(size * pipe.depth_quantum) / pipe.flops_per_cycle;  // clocks
  const double rows_clocks = of_a_row * static_cast<double>(pipe.issued_rows(issued));
  const double load_clocks = static_cast<double>(pipe.depth_quantum) / pipe.stationary_rows_per_cycle;
  ArrayWork work;
  work.seconds = device.seconds(waves * tile);
  if (load_clocks > rows_clocks) {
    work.stationary_share = 1 - of_a_row * static_cast<double>(rows) / load_clocks;
  } else {
    work.useful_share = static_cast<double>(rows) / static_cast<double>(pipe.issued_rows(issued));
  }
  const double stored = static_cast<double>(pipe.issued_rows(issued)) * static_cast<double>(n);
  work.in_order =
      device.seconds(load_clocks + device.constant(Hw::kMxuFill) + stored / device.constant(Hw::kVectorStore));
  return work;
}

double conversion_seconds(const Device& device, WeightFormat format, Dtype operands, double weights) {
  if (payload_bits(format) >= 16) return 0;
  const bool scaled = format.dtype == Dtype::kFp8Block128;
  const bool as_it_is = format.dtype == operands || (scaled && operands == Dtype::kFp8);
  const double each = as_it_is ? 0 : 1;
  return device.seconds(weights * each / device.constant(Hw::kVectorConvert));
}

void set_ring(ItemClass& item, std::int64_t ring, std::int64_t all) {
  item.ring_spans_items = true;
  item.stages = static_cast<double>(std::clamp<std::int64_t>(ring - 1, 1, std::max<std::int64_t>(1, all)));
  if (ring > 1) return;
  const auto& pipes = item.pipe_seconds;
  item.load_latency = item.step_sequence + duration_from_seconds(*std::max_element(pipes.begin(), pipes.end()));
}

Duration first_step(const Device& device, const ItemClass& item) {
  const auto& pipes = item.pipe_seconds;
  const Duration work = item.step_sequence + duration_from_seconds(*std::max_element(pipes.begin(), pipes.end()));
  const double bytes = (item.read + item.resident_read).as_double() / static_cast<double>(item.steps);
  return std::min(work, duration_from_seconds(bytes / highest_read_rate(device.hardware())));
}

Kernel sequential_kernel(std::string name, std::string stage) {
  Kernel kernel;
  kernel.name = std::move(name);
  kernel.stage = std::move(stage);
  kernel.schedule = {Schedule::Kind::kPersistent, 1, 1};
  return kernel;
}

void set_call(Kernel& kernel, Duration call) {
  for (ItemClass& item : kernel.classes) item.first_prologue += call;
}

void add_operation(Chain& chain, const Device& device, std::string name, std::string stage, double read, double write,
                   double clocks) {
  Kernel kernel = sequential_kernel(std::move(name), std::move(stage));
  kernel.helper = true;
  ItemClass item;
  item.resident_read = Bytes(std::llround(read));
  item.write = Bytes(std::llround(write));
  item.step_latency = device.duration(clocks);
  kernel.classes = {item};
  ItemGroup group;
  group.count = 1;
  kernel.groups = {group};
  chain.add_sequential(std::move(kernel), Bytes(0));
}

void add_dense_operation(Chain& chain, const LowerRequest& request, std::string name, std::string stage, std::int64_t n,
                         std::int64_t k, WeightFormat weights, bool helper) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  const Dtype operands = array_operands(device, default_activations(weights));
  const Bytes bytes = matrix_bytes(weights, n, k);
  const std::int64_t lanes = std::llround(device.constant(Hw::kTileLanes));
  const auto wanted = static_cast<std::int64_t>(std::ceil(bytes.as_double() / kDenseTileBytes));
  const std::int64_t steps = std::clamp<std::int64_t>(wanted, 1, divide_up(n, lanes));
  const std::int64_t columns = divide_up(n, steps);
  const ArrayWork work =
      array_work(device, operands, layer.tokens, round_up(layer.tokens, row_quantum(device, operands)), columns, k);
  ItemClass item;
  item.steps = steps;
  item.read = bytes;
  item.resident_read = Bytes(std::llround(row_bytes(k) * static_cast<double>(layer.tokens)));
  item.write = Bytes(std::llround(row_bytes(n) * static_cast<double>(layer.tokens)));
  item.pipe_seconds[static_cast<std::size_t>(PipeKind::kMatrix)] = work.seconds;
  item.pipe_seconds[static_cast<std::size_t>(PipeKind::kVector)] =
      conversion_seconds(device, weights, operands, static_cast<double>(columns) * static_cast<double>(k));
  item.useful_share = work.useful_share;
  item.stationary_share = work.stationary_share;
  item.step_sequence = duration_from_seconds(device.constant(Hw::kSequenceStep) + work.in_order);
  set_ring(item, kDenseRing, steps);
  item.first_prologue = first_step(device, item);
  Kernel kernel = sequential_kernel(name, std::move(stage));
  kernel.helper = helper;
  kernel.classes = {item};
  ItemGroup group;
  group.count = 1;
  group.region = chain.region(std::move(name), bytes);
  kernel.groups = {group};
  const Bytes tiles = matrix_bytes(weights, columns, k) * kDenseRing;
  chain.add_sequential(std::move(kernel), std::min(tiles, useful_on_chip_bytes(request.hardware)));
}

void add_sequential_routing(Chain& chain, const LowerRequest& request) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  if (parameter(request, "router", 1) != 0) {
    add_dense_operation(chain, request, "router", "router", layer.router_experts, layer.hidden, {Dtype::kBf16, 0},
                        true);
  }
  const auto tokens = static_cast<double>(layer.tokens), experts = static_cast<double>(layer.router_experts);
  const auto slots = layer.tokens * layer.topk;
  const std::int64_t lanes = std::llround(device.constant(Hw::kTileLanes));
  const double tiles = static_cast<double>(divide_up(layer.tokens, kTokensOfTile)) *
                       static_cast<double>(divide_up(layer.router_experts, lanes));
  add_operation(chain, device, "topk", "topk", tokens * experts * 4, static_cast<double>(slots) * 8,
                static_cast<double>(layer.topk) * tiles * kMaximumClocks);
  // A bitonic network over the picks, a register tile at a time.
  const double width = std::max(1.0, std::ceil(std::log2(static_cast<double>(std::max<std::int64_t>(2, slots)))));
  const double registers = static_cast<double>(divide_up(slots, kTokensOfTile * lanes));
  add_operation(chain, device, "sort", "align", static_cast<double>(slots) * 4, static_cast<double>(slots) * 8,
                width * (width + 1) / 2 * kSortStageClocks * registers);
  add_operation(chain, device, "groups", "align", static_cast<double>(slots) * 4, experts * 4,
                width * kSortStageClocks * registers);
}

void add_sequential_to_latent(Chain& chain, const LowerRequest& request) {
  const MoeLayer& layer = request.layer;
  if (layer.latent == 0) return;
  add_dense_operation(chain, request, "to_latent", "latent", layer.latent, layer.hidden, layer.other_weights, false);
}

void add_sequential_rest(Chain& chain, const LowerRequest& request) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  if (layer.latent > 0) {
    add_dense_operation(chain, request, "from_latent", "latent", layer.hidden, layer.latent, layer.other_weights,
                        false);
  }
  if (layer.shared_intermediate > 0) {
    const std::int64_t width = layer.shared_intermediate;
    add_dense_operation(chain, request, "shared_up", "shared", layer.gated ? 2 * width : width, layer.hidden,
                        layer.other_weights, false);
    add_dense_operation(chain, request, "shared_down", "shared", layer.hidden, width, layer.other_weights, false);
  }
  const HardwareModel& hw = request.hardware;
  if (layer.devices == 1 || !hw.has(Hw::kLinkReduceLatency)) return;
  const double others = static_cast<double>(layer.devices - 1) / static_cast<double>(layer.devices);
  const double bytes = 2 * others * row_bytes(layer.hidden) * static_cast<double>(layer.tokens);
  Kernel kernel = sequential_kernel("all_reduce", "collect");
  kernel.helper = true;
  ItemClass item;
  item.prologue_after = duration_from_seconds(hw[Hw::kLinkReduceLatency] +
                                              bytes / (hw[Hw::kLinkBandwidth] * hw[Hw::kLinkReduceFraction]));
  kernel.classes = {item};
  ItemGroup group;
  group.count = 1;
  kernel.groups = {group};
  chain.add_sequential(std::move(kernel), Bytes(0));
}

}  // namespace moesim
