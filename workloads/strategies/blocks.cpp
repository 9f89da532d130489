#include "workloads/strategies/blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/units/integer.h"
#include "workloads/strategies/tiles.h"

namespace moesim {
namespace {

constexpr std::int64_t kMostSplit = 8;  // of K over CTAs, for products with few tiles
constexpr double kClocksPerInstruction = 4;
// The slowest of n lines takes longer than one by this much with each factor e of n / 2 (CUDA harness on an H200,
// cold_read_inflight, one CTA of 1 to 16 warps, 1 to 6 loads of 16 bytes a thread: 38 ns with each doubling of a warp's
// lines).
constexpr double kLatencySpread = 45e-9;

}  // namespace

Device Device::multiplying() const {
  const double clock = clock_.frequency().value();
  return {hardware_, hardware_.has(Hw::kClockMatrix) ? std::min(clock, hardware_[Hw::kClockMatrix]) : clock};
}

std::int64_t Device::units() const { return std::llround(hardware_[Hw::kUnitCount]); }

double Device::sharers(std::int64_t count, std::int64_t stride) const {
  const double behind_port = hardware_.has(Hw::kPortUnits) ? hardware_[Hw::kPortUnits] : 1;
  return std::max(1.0, std::min(static_cast<double>(count), behind_port / static_cast<double>(stride)));
}

Duration Device::cache_round_trips(double count) const {
  return duration_from_seconds(count * hardware_[Hw::kLlcLatency]);
}

double Device::vector_seconds(double multiply_adds, double conversions) const {
  return seconds(multiply_adds / hardware_[Hw::kVectorFma] + conversions / hardware_[Hw::kVectorConvert]);
}

Duration Device::code(double instructions) const { return duration(instructions * kClocksPerInstruction); }

Duration Device::latency_spread(double lines) {
  return duration_from_seconds(kLatencySpread * std::log(std::max(1.0, lines / 2)));
}

double Device::load_port_seconds(double bytes) const { return seconds(bytes / hardware_[Hw::kUnitLoadPort]); }

DequantWork dequant_to_float(WeightFormat format) {
  switch (format.dtype) {
    case Dtype::kFp32:
      return {0, 0};
    case Dtype::kBf16:
    case Dtype::kFp16:
      return {1, 0};
    case Dtype::kInt8:
      return {1, 0};
    case Dtype::kFp8:
    case Dtype::kFp8Block128:
      return {1.5, 0};  // to half in pairs, then to float; one scale per row and step is not per weight
    case Dtype::kInt4:
    case Dtype::kMxfp4:
    case Dtype::kNvfp4:
      return {2, 0};  // unpack to half, then to float
  }
  return {};
}

DequantWork dequant_to_matrix(WeightFormat weights, WeightFormat activations) {
  if (weights == activations) return {};
  switch (weights.dtype) {
    case Dtype::kFp32:
    case Dtype::kBf16:
    case Dtype::kFp16:
      return {};
    case Dtype::kInt8:
    case Dtype::kFp8:
    case Dtype::kFp8Block128:
      return {1, 0.5};  // to 16 bits, pairs scaled
    case Dtype::kInt4:
    case Dtype::kMxfp4:
    case Dtype::kNvfp4:
      return {0.5, 0.5};  // bit tricks on pairs, pairs scaled
  }
  return {};
}

Kernel elementwise(const Device& device, std::string name, std::string stage, std::int64_t ctas, double read,
                   double write, std::int64_t rounds) {
  Kernel kernel;
  kernel.name = std::move(name);
  kernel.stage = std::move(stage);
  kernel.helper = true;
  ItemClass item;
  item.steps = rounds;
  item.stages = 1;
  item.resident_read = Bytes(std::llround(read));
  item.write = Bytes(std::llround(write));
  item.first_prologue = duration_from_seconds(device.constant(Hw::kLaunchPrologue));
  item.prologue_after = device.cache_round_trips(1);  // its row's place
  item.epilogue = device.cache_round_trips(1);
  kernel.classes = {item};
  ItemGroup group;
  group.count = ctas;
  kernel.groups = {group};
  return kernel;
}

void label_experts(Kernel& kernel, const MoeLayer& layer, LabelOrder order) {
  kernel.label_order = order;
  kernel.labels.reserve(static_cast<std::size_t>(layer.active));
  for (std::size_t e = 0; e < layer.rows.size(); ++e) {
    if (layer.rows[e] == 0) continue;
    kernel.labels.push_back({static_cast<std::int32_t>(e), static_cast<std::int32_t>(layer.rows[e])});
  }
}

std::int64_t parameter(const LowerRequest& request, const std::string& name, std::int64_t fallback) {
  const auto it = request.parameters.find(name);
  const std::int64_t value = it == request.parameters.end() ? fallback : it->second;
  if (request.used != nullptr) {
    const auto [known, fresh] = request.used->try_emplace(name, value);
    if (!fresh && known->second != value) known->second.reset();
  }
  return value;
}

void apply_constants(ItemClass& item, const ImplementationConstants& constants, const std::string& prefix) {
  const bool projection = prefix == "up." || prefix == "down.";  // one kernel may do both
  const auto value = [&](const std::string& quantity, double neutral) {
    auto it = constants.find(prefix + quantity);
    if (it == constants.end() && projection) it = constants.find("gemm." + quantity);
    return it == constants.end() ? neutral : it->second;
  };
  item.first_prologue += duration_from_seconds(value("start_us", 0) * 1e-6);
  const Duration each = duration_from_seconds(value("item_us", 0) * 1e-6);
  item.prologue_after += each;
  item.tile_prologue += each;
  item.step_latency += duration_from_seconds(value("step_ns", 0) * 1e-9);
  item.stages = std::max(1.0, item.stages * value("in_flight", 1));
  item.read_weight *= value("byte_weight", 1);
}

namespace {

// Constants fitted to an implementation, by the kernel that they belong to.
void apply_constants(Kernel& kernel, const ImplementationConstants& constants) {
  if (constants.empty()) return;
  const std::string prefix = kernel.helper                        ? "helper."
                             : kernel.stage == "gemm1"            ? "up."
                             : kernel.stage == "gemm2"            ? "down."
                             : kernel.stage.starts_with("gather") ? "gather."
                                                                  : "";
  if (prefix.empty()) return;
  for (ItemClass& item : kernel.classes) apply_constants(item, constants, prefix);
}

}  // namespace

void Chain::add(Kernel kernel, const LaunchShape& shape) {
  if (!wants(kernel.stage) || !infeasible_.empty()) return;
  const std::int64_t fit = occupancy(request_.hardware, shape);
  if (fit == 0) {
    infeasible_ = fmt::format(
        "{}: {} threads, {} registers a thread and {} bytes of on-chip memory do not fit a {} of {}", kernel.name,
        shape.threads, shape.registers, shape.shared_bytes, request_.hardware.unit_name, request_.hardware.name);
    return;
  }
  kernel.footprint = footprint(request_.hardware, shape);
  append_kernel(std::move(kernel));
}

void Chain::add_sequential(Kernel kernel, Bytes on_chip) {
  if (!wants(kernel.stage) || !infeasible_.empty()) return;
  const Bytes room = useful_on_chip_bytes(request_.hardware);
  if (on_chip > room) {
    infeasible_ = fmt::format("{}: buffers of {} bytes do not fit the {} on-chip bytes of a {} of {}", kernel.name,
                              on_chip.value(), room.value(), request_.hardware.unit_name, request_.hardware.name);
    return;
  }
  kernel.footprint = footprint_on_chip(on_chip);
  append_kernel(std::move(kernel));
}

void Chain::append_kernel(Kernel kernel) {
  apply_constants(kernel, request_.constants);
  const KernelId id = builder_.add_kernel(std::move(kernel));
  if (last_) builder_.add_dependence(*last_, id);
  last_ = id;
}

Lowered Chain::seal() {
  if (!infeasible_.empty()) return Infeasible{infeasible_};
  if (!last_) return Infeasible{fmt::format("no kernel of stage '{}'", request_.stage)};
  return builder_.seal();
}

namespace {

// A kernel of `ctas` CTAs that do nothing but a dependent chain.
Kernel chain_kernel(const Device& device, std::string name, std::string stage, std::int64_t ctas, double cycles,
                    double round_trips) {
  Kernel kernel = elementwise(device, std::move(name), std::move(stage), ctas, 0, 0, 1);
  ItemClass& item = kernel.classes[0];
  item.prologue_after = device.duration(cycles) + device.cache_round_trips(round_trips);
  return kernel;
}

// A 16-bit product of all tokens with [experts, hidden], split over K so that every unit streams.
void add_router(Chain& chain, const LowerRequest& request) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  Product router{"router", "router", layer.router_experts, layer.hidden, {Dtype::kBf16, 0}, {Dtype::kBf16, 0}};
  TileShape tile;
  tile.block_m = 16;
  tile.block_n = 16;
  tile.block_k = 256;
  const std::int64_t n_blocks = divide_up(router.n, tile.block_n);
  const std::int64_t row_blocks = divide_up(layer.tokens, tile.block_m);
  Kernel kernel;
  kernel.name = kernel.stage = "router";
  kernel.helper = true;
  const double rows_of_block = static_cast<double>(layer.tokens) / static_cast<double>(row_blocks);
  kernel.classes = {tile_item(device, router, tile, tile.block_m, rows_of_block)};
  const std::int64_t split = split_k(device, n_blocks * row_blocks, kernel.classes[0].steps, kMostSplit);
  split_item(kernel.classes[0], device, split);
  const RegionId weights = chain.region("router", matrix_bytes(router.weights, router.n, router.k));
  for (std::int64_t b = 0; b < row_blocks; ++b) {
    ItemGroup group;
    group.count = n_blocks * split;
    group.region = weights;
    kernel.groups.push_back(group);
  }
  chain.add(std::move(kernel), tile_launch(request, router, tile, "router"));
}

void add_routing(Chain& chain, const LowerRequest& request, bool grouped, std::int64_t row_tile) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);

  if (parameter(request, "router", 1) != 0) add_router(chain, request);

  // Top-k: a warp a token; each of k rounds is a warp-wide maximum (5 shuffles and compares, about 8 dependent
  // instructions of matrix.barrier-like latency), before it scores of experts / warp size values a lane.
  const double warp = device.constant(Hw::kWarpSize);
  const double step = device.constant(Hw::kSharedLatency);
  const double score = static_cast<double>(layer.router_experts) / warp * step / 4;
  const double rounds = static_cast<double>(layer.topk) * 5 * step;
  chain.add(chain_kernel(device, "topk", "topk", divide_up(layer.tokens, 4), score + rounds, 1),
            {kHelperThreads, 32, 0});
  if (!grouped) return;

  // Grouping: one CTA counts rows per expert in on-chip memory, sums prefixes (two passes over experts / threads values
  // and a tree), then all CTAs scatter row numbers. Round trips: ids in, counts out, offsets in, numbers out.
  const auto threads = 1024.0;
  const auto picks = static_cast<double>(layer.topk * layer.tokens);
  const double count = std::ceil(picks / threads) * step * 2;
  const double prefix =
      (std::ceil(static_cast<double>(layer.router_experts) / threads) + 10) * (step + device.constant(Hw::kBarrier));
  chain.add(chain_kernel(device, "group_rows", "align", 1, count + prefix, 3), {1024, 32, 4 * layer.router_experts});
  chain.add(chain_kernel(device, "scatter_rows", "align", divide_up(layer.topk * layer.tokens, 256),
                         static_cast<double>(row_tile), 2),
            {256, 32, 0});
}

}  // namespace

void add_extra_launches(Chain& chain, const LowerRequest& request) {
  const Device device(request.hardware, request.clock_hz);
  for (std::int64_t i = 0; i < parameter(request, "extra_launches", 0); ++i) {
    chain.add(chain_kernel(device, "extra", "extra", 1, 0, 1), {kHelperThreads, 32, 0});
  }
}

void add_quantise(Chain& chain, const LowerRequest& request, const std::string& stage, std::int64_t rows,
                  std::int64_t width) {
  const Device device(request.hardware, request.clock_hz);
  const double elements = static_cast<double>(rows) * static_cast<double>(width);
  const std::int64_t ctas = std::max<std::int64_t>(1, divide_up(rows * width, kElementsPerCta));
  const double each = elements / static_cast<double>(ctas);
  chain.add(elementwise(device, "quantise", stage, ctas, each * kBytes16, each, 1), {kHelperThreads, 32, 0});
}

void add_permute(Chain& chain, const LowerRequest& request) {
  const Device device(request.hardware, request.clock_hz);
  const double row = static_cast<double>(request.layer.expert_hidden()) * payload_bits(request.layer.activations) / 8;
  chain.add(elementwise(device, "permute_rows", "permute", std::max<std::int64_t>(1, request.layer.picks), row, row, 1),
            {256, 32, 0});
}

void add_activation(Chain& chain, const LowerRequest& request) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  const std::int64_t ctas = std::max<std::int64_t>(1, layer.picks * divide_up(layer.intermediate, kElementsPerCta));
  const auto each = static_cast<double>(std::min(layer.intermediate, kElementsPerCta));
  const double in = layer.gated ? 2 : 1;
  chain.add(elementwise(device, "activation", "act", ctas, in * each * kBytes16, each * kBytes16, 1),
            {kHelperThreads, 32, 0});
}

void add_combine(Chain& chain, const LowerRequest& request) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  const std::int64_t ctas = layer.tokens * divide_up(layer.expert_hidden(), kElementsPerCta);
  const auto each = static_cast<double>(std::min(layer.expert_hidden(), kElementsPerCta));
  const double picks = static_cast<double>(layer.picks) / static_cast<double>(layer.tokens);
  // Rows of four picks are loaded together; each round also reads where its rows are.
  constexpr double kPicksPerRound = 4;
  const auto rounds = static_cast<std::int64_t>(std::max(1.0, std::ceil(picks / kPicksPerRound)));
  Kernel kernel = elementwise(device, "combine", "combine", ctas, picks * each * kBytes16, each * kBytes16, rounds);
  kernel.classes[0].prologue_after = device.cache_round_trips(static_cast<double>(rounds));
  chain.add(std::move(kernel), {kHelperThreads, 32, 0});
}

namespace {

// A product of all tokens with a dense matrix of the layer, few tiles split over K.
void add_dense(Chain& chain, const LowerRequest& request, const char* name, const char* stage, std::int64_t n,
               std::int64_t k) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  Product product{name, stage, n, k, layer.other_weights, default_activations(layer.other_weights)};
  TileShape tile;
  tile.block_m = layer.tokens <= 16 ? 16 : layer.tokens <= 32 ? 32 : layer.tokens <= 64 ? 64 : 128;
  tile.block_k = tile.block_m <= 16 ? 128 : 64;
  fit_buffers(device, product, tile);
  Kernel kernel;
  kernel.name = name;
  kernel.stage = stage;
  const RegionId weights = chain.region(name, matrix_bytes(product.weights, n, k));
  const std::int64_t blocks = divide_up(layer.tokens, tile.block_m);
  kernel.classes = {tile_item(device, product, tile, issued_rows(device, product, tile, tile.block_m),
                              static_cast<double>(layer.tokens) / static_cast<double>(blocks))};
  const std::int64_t tiles = blocks * divide_up(n, tile.block_n);
  const std::int64_t split = split_k(device, tiles, kernel.classes[0].steps, kMostSplit);
  split_item(kernel.classes[0], device, split);
  for (std::int64_t b = 0; b < blocks; ++b) {
    ItemGroup group;
    group.count = divide_up(n, tile.block_n) * split;
    group.region = weights;
    kernel.groups.push_back(group);
  }
  chain.add(std::move(kernel), tile_launch(request, product, tile, name));
}

void add_shared_experts(Chain& chain, const LowerRequest& request) {
  const MoeLayer& layer = request.layer;
  if (layer.shared_intermediate == 0) return;
  const Device device(request.hardware, request.clock_hz);
  const std::int64_t width = layer.shared_intermediate;
  add_dense(chain, request, "shared_up", "shared", layer.gated ? 2 * width : width, layer.hidden);
  const std::int64_t ctas = layer.tokens * divide_up(width, kElementsPerCta);
  const auto each = static_cast<double>(std::min(width, kElementsPerCta));
  chain.add(elementwise(device, "shared_activation", "shared", ctas, 2 * each * kBytes16, each * kBytes16, 1),
            {kHelperThreads, 32, 0});
  add_dense(chain, request, "shared_down", "shared", layer.hidden, width);
}

}  // namespace

void add_before_experts(Chain& chain, const LowerRequest& request, bool grouped, std::int64_t row_tile) {
  if (request.scope != Scope::kMoeLayer) return;
  const MoeLayer& layer = request.layer;
  add_routing(chain, request, grouped, row_tile);
  if (layer.latent > 0) add_dense(chain, request, "to_latent", "latent", layer.latent, layer.hidden);
}

void add_after_experts(Chain& chain, const LowerRequest& request) {
  if (request.scope != Scope::kMoeLayer) return;
  const MoeLayer& layer = request.layer;
  if (layer.latent > 0) add_dense(chain, request, "from_latent", "latent", layer.hidden, layer.latent);
  add_shared_experts(chain, request);
}

}  // namespace moesim
