#include "workloads/strategies/tiles.h"

#include <algorithm>
#include <cmath>

#include "sim/units/integer.h"

namespace moesim {
namespace {

constexpr std::int64_t kSwapGranule = 8;    // columns of the smallest mma/wgmma N
constexpr double kBytesPerMatrixStep = 32;  // K bytes of one mma instruction, whatever the type
constexpr std::int64_t kScaleBlock = 128;
constexpr double kScaleBytes = 4;
// Of what a CTA may hold on the chip; results take the rest. The largest rings of cuBLAS and CUTLASS on an H200 take 214,016 of
// 232,448 bytes.
constexpr double kRingShare = 0.93;
constexpr double kResultBytes = 2;  // results leave in 16 bits
constexpr std::int64_t kWarpLevelRows = 16;
// Instructions of a warp before the first copy and after the K loop (addresses and masks; results out): means of the
// Triton and CUDA tile kernels compiled for sm_90a, 137 to 333 and 30 to 265. As many between the first copy and the loop
// pass while the copy is on its way.
constexpr double kCodeBefore = 250, kCodeAfter = 100;
// The same of the CUDA tile kernel of 16 rows, and what lies between its first copies and its loop.
constexpr double kCudaCodeBefore = 166, kCudaCodeAfter = 57;
// Registers a thread of Triton 3.6's grouped kernels for sm_90a: least squares over 154 tiles (row tiles 16 to 128, 4 and
// 8 warps) as ptxas reports them; 5 off on average, 20 at most. Of weights with scales the product of a step stands beside
// the sum.
struct RegisterUse {
  double base, of_accumulator, of_copy;
};
constexpr RegisterUse kWarpLevel = {22, 1.84, 2.5}, kAsync = {7, 1.27, 2.86};
constexpr RegisterUse kWarpLevelFp8 = {34, 3.19, 2.81}, kAsyncFp8 = {18, 2.6, 1.77};
// Results as products leave them in registers, 16 bytes of a row at a time. CTAs of 64 x 128, 128 x 128 and 128 x 256 whose
// rows are all asked for took 0.2 to 0.3, 0.3 to 0.7 and 1.1 us longer than those of one row, whatever their K (H200).
constexpr double kStoredBytesPerClock = 32;
// What a byte of weights costs the memory where Triton's asynchronous copies read so many bytes of a row in a K-step, beside one of
// a long stream: 1 + (43 / bytes)^2.5. An H200's grouped kernels took 39 and 5 % longer over 64 and 128 bytes than over 256,
// and 2 % less over 512, whatever else their tiles were (validation/measured/h200-2026-11-30-tune).
constexpr double kShortPiece = 43, kShortPieceExponent = 2.5, kShortestPiece = 64;  // below, nothing is known
constexpr double kFp8PerConversion = 2;                                             // fp8 values are converted in pairs
constexpr double kBytesOfCopy = 16;
// Instructions of a step for each copy of a thread (addresses, masks, fragments): 77 for 5 and 142 for 10 in Triton kernels
// compiled for sm_90a; measured there with hot weights, such a step takes 333 and 877 clocks of an SM.
constexpr double kCodeOfCopy = 14;
// The same beside asynchronous products that are scaled in blocks: 117 for 12 and 105 for 8, one after another.
constexpr double kCodeOfBlockCopy = 11;

double element_bytes(WeightFormat format) { return payload_bits(format) / 8; }

// FLOP a clock and unit with inputs of these formats; falls back to 16-bit products where the type is missing.
double matrix_rate(const Device& device, WeightFormat weights, WeightFormat activations) {
  const HardwareModel& hw = device.hardware();
  const double wide = hw[Hw::kMatrixBf16];
  const auto or_wide = [&](Hw id) { return hw.has(id) ? hw[id] : wide; };
  switch (activations.dtype) {
    case Dtype::kFp8:
    case Dtype::kFp8Block128:
      return or_wide(Hw::kMatrixFp8);
    case Dtype::kInt8:
      return or_wide(Hw::kMatrixInt8);
    case Dtype::kNvfp4:
      return weights.dtype == Dtype::kNvfp4 ? or_wide(Hw::kMatrixFp4) : or_wide(Hw::kMatrixFp8);
    case Dtype::kFp32:
    case Dtype::kBf16:
    case Dtype::kFp16:
    case Dtype::kInt4:
    case Dtype::kMxfp4:
      return wide;
  }
  return wide;
}

bool is_fp8(WeightFormat format) { return format.dtype == Dtype::kFp8 || format.dtype == Dtype::kFp8Block128; }

// Asynchronous instructions work on whole blocks of rows; smaller tiles take the synchronous path beside it, if any.
bool beside_async(const Device& device, const TileShape& tile) {
  const auto async_rows = static_cast<std::int64_t>(device.constant(Hw::kMatrixAsyncRows));
  return !tile.swap_ab && (tile.block_m < async_rows || (tile.warp_level && async_rows > kWarpLevelRows));
}
bool warp_level(const Device& device, const TileShape& tile) {
  const auto async_rows = static_cast<std::int64_t>(device.constant(Hw::kMatrixAsyncRows));
  return async_rows <= kWarpLevelRows || beside_async(device, tile);
}
// How Triton lays out the warps of warp-level products, along rows and columns: twice as many along the longer side, as
// long as each has a product of 16 x 8 of its own.
std::pair<std::int64_t, std::int64_t> warps_of_tile(const TileShape& tile) {
  constexpr std::int64_t kProductRows = 16, kProductColumns = 8;
  const std::int64_t rows = std::max<std::int64_t>(1, tile.block_m / kProductRows);
  const std::int64_t columns = std::max<std::int64_t>(1, tile.block_n / (2 * kProductColumns));
  std::int64_t m = 1, n = 1;
  while (m * n < tile.warps) {
    if (rows / m >= columns / n && m < rows) {
      m *= 2;
    } else {
      n *= 2;
    }
  }
  return {m, n};
}
// Bytes of a step that asynchronous instructions read from on-chip memory: for each of their blocks of rows these and all
// columns.
double async_operand_bytes(const Device& device, const Product& product, const TileShape& tile, std::int64_t issued) {
  const auto block = static_cast<std::int64_t>(device.constant(Hw::kMatrixAsyncRows));
  const double weights = element_bytes(product.weights), inputs = element_bytes(product.activations);
  const double of_rows = static_cast<double>(block) * (tile.swap_ab ? weights : inputs);
  const double of_columns =
      tile.swap_ab ? static_cast<double>(issued) * inputs : static_cast<double>(tile.block_n) * weights;
  const std::int64_t blocks = divide_up(tile.swap_ab ? tile.block_n : issued, block);
  return static_cast<double>(blocks * tile.block_k) * (of_rows + of_columns);
}
// Units with asynchronous instructions multiply fp8 only there: mma.sync on e4m3 compiles to F2FP.F16.E4M3.UNPACK of both
// operands and HMMA.16816 on sm_90a and sm_100a, but to QMMA on sm_89 and sm_120a (CUDA 13.0).
bool converts_fp8(const Device& device, const Product& product, const TileShape& tile) {
  return is_fp8(product.activations) && (beside_async(device, tile) || !device.hardware().has(Hw::kMatrixFp8));
}

}  // namespace

std::int64_t tile_shared_bytes(const TileShape& tile, WeightFormat weights, WeightFormat activations) {
  const double step =
      static_cast<double>(tile.block_k) * (static_cast<double>(tile.block_n) * element_bytes(weights) +
                                           static_cast<double>(tile.block_m) * element_bytes(activations));
  return std::llround(static_cast<double>(tile.buffers + tile.held) * step);
}

std::int64_t tile_registers(const TileShape& tile, std::int64_t warp_size) {
  return std::min<std::int64_t>(kMostRegisters,
                                48 + 2 * divide_up(tile.block_m * tile.block_n, tile.warps * warp_size));
}

bool multiplies_async(const Device& device, const TileShape& tile) { return !warp_level(device, tile); }

std::int64_t triton_registers(const Device& device, const Product& product, const TileShape& tile) {
  const bool async = multiplies_async(device, tile);
  const RegisterUse& use =
      is_fp8(product.weights) ? (async ? kAsyncFp8 : kWarpLevelFp8) : (async ? kAsync : kWarpLevel);
  const double threads = static_cast<double>(tile.warps) * device.constant(Hw::kWarpSize);
  const double accumulators = static_cast<double>(tile.block_m * tile.block_n) / threads;
  const double copied =
      static_cast<double>(tile.block_k) * (static_cast<double>(tile.block_n) * element_bytes(product.weights) +
                                           static_cast<double>(tile.block_m) * element_bytes(product.activations));
  return std::llround(use.base + use.of_accumulator * accumulators + use.of_copy * copied / (kBytesOfCopy * threads));
}

std::int64_t ring_buffers(const Device& device, const Product& product, const TileShape& tile, std::int64_t most) {
  TileShape one = tile;
  one.buffers = 1;
  const double step = static_cast<double>(tile_shared_bytes(one, product.weights, product.activations));
  const auto fit = static_cast<std::int64_t>(kRingShare * device.constant(Hw::kSharedMaxPerItem) / step);
  return std::clamp<std::int64_t>(fit, 1, most);
}

void fit_buffers(const Device& device, const Product& product, TileShape& tile) {
  const auto room = static_cast<std::int64_t>(device.constant(Hw::kSharedMaxPerItem));
  while (tile.buffers > 1 && tile_shared_bytes(tile, product.weights, product.activations) > room) --tile.buffers;
}

LaunchShape tile_launch(const LowerRequest& request, const Product& product, const TileShape& tile,
                        const std::string& prefix) {
  const auto warp = static_cast<std::int64_t>(request.hardware[Hw::kWarpSize]);
  return {tile.warps * warp, parameter(request, prefix + ".registers", tile_registers(tile, warp)),
          parameter(request, prefix + ".shared_bytes", tile_shared_bytes(tile, product.weights, product.activations))};
}

LaunchShape triton_launch(const LowerRequest& request, const Product& product, const TileShape& tile,
                          const std::string& prefix) {
  const Device device(request.hardware, request.clock_hz);
  LaunchShape launch = tile_launch(request, product, tile, prefix);
  const std::int64_t rule = std::min(kMostRegisters, triton_registers(device, product, tile));
  launch.registers = parameter(request, prefix + ".registers", rule);
  return launch;
}

Pipe matrix_pipe(const Device& device, const Product& product, const TileShape& tile) {
  const auto async_rows = static_cast<std::int64_t>(device.constant(Hw::kMatrixAsyncRows));
  const bool synchronous = beside_async(device, tile);
  Pipe pipe;
  pipe.flops_per_cycle =
      (converts_fp8(device, product, tile) ? device.constant(Hw::kMatrixBf16)
                                           : matrix_rate(device, product.weights, product.activations)) *
      (synchronous ? device.constant(Hw::kMatrixSyncFraction) : 1.0);
  pipe.row_quantum = tile.swap_ab ? kSwapGranule : synchronous ? tile.block_m : async_rows;
  return pipe;
}

std::int64_t issued_rows(const Device& device, const Product& product, const TileShape& tile, std::int64_t rows) {
  return matrix_pipe(device, product, tile).issued_rows(tile.swap_ab ? rows : tile.block_m);
}

ItemClass tile_item(const Device& at_clock, const Product& product, const TileShape& tile, std::int64_t issued,
                    double useful) {
  const Device device = at_clock.multiplying();
  const std::int64_t n_blocks = divide_up(product.n, tile.block_n);
  const double weight_bytes =
      matrix_bytes(product.weights, product.n, product.k).as_double() / static_cast<double>(n_blocks);
  const double activation_element = element_bytes(product.activations);
  const auto block_n = static_cast<double>(tile.block_n);
  const auto block_k = static_cast<double>(tile.block_k);

  ItemClass item;
  item.steps = divide_up(product.k, tile.block_k);
  item.stages = static_cast<double>(tile.buffers);
  item.read = Bytes(std::llround(weight_bytes / static_cast<double>(tile.cluster)));
  if (tile.triton) {
    const double piece = std::max(kShortestPiece, block_k * element_bytes(product.weights));
    item.read_weight = 1 + std::pow(kShortPiece / piece, kShortPieceExponent);
  }
  item.resident_read = Bytes(std::llround(useful * static_cast<double>(product.k) * activation_element));
  item.write =
      Bytes(std::llround(useful * static_cast<double>(product.n) / static_cast<double>(n_blocks) * kResultBytes));

  const auto issued_d = static_cast<double>(issued);
  item.pipe_seconds[static_cast<std::size_t>(PipeKind::kMatrix)] =
      device.seconds(matrix_pipe(device, product, tile).cycles(issued, tile.block_n, tile.block_k).value());
  item.useful_share = useful / issued_d;
  item.useful_flops = 2 * useful * static_cast<double>(product.n * product.k) / static_cast<double>(n_blocks);
  item.issued_flops = 2 * issued_d * block_n * static_cast<double>(product.k);

  const DequantWork dequant = dequant_to_matrix(product.weights, product.activations);
  const bool blocked = product.weights.dtype == Dtype::kFp8Block128;
  double multiply_adds = dequant.multiply_adds * block_n * block_k;
  if (blocked) multiply_adds += issued_d * block_n * block_k / static_cast<double>(kScaleBlock);  // scaled partial sums
  const bool converted = converts_fp8(device, product, tile);
  item.pipe_seconds[static_cast<std::size_t>(PipeKind::kVector)] =
      device.vector_seconds(multiply_adds, dequant.conversions * block_n * block_k);
  // Seconds of converting fp8 operands for warp-level products, and of a step's other instructions: on an H200 all add up.
  double operands = 0;
  const auto rows = static_cast<double>(tile.block_m);
  const double copies =
      (block_n + rows) * block_k /
      (kBytesOfCopy * static_cast<double>(tile.warps) * device.constant(Hw::kWarpSize));  // of a thread, 8-bit values
  if (converted) {  // each warp has columns of its own, and all rows
    const double values = (block_n + static_cast<double>(tile.warps) * rows) * block_k;
    operands = device.vector_seconds(0, values / kFp8PerConversion) + device.seconds(copies * kCodeOfCopy);
  }

  const double copied =
      block_k * (block_n * element_bytes(product.weights) + static_cast<double>(tile.block_m) * activation_element);
  const double port_seconds =
      device.load_port_seconds((weight_bytes + item.resident_read.as_double()) / static_cast<double>(item.steps));
  // A step's tiles are copied into on-chip memory; instructions, or each warp the rows and columns that it multiplies, read
  // them back.
  const bool async = multiplies_async(device, tile);
  // Triton's kernels fill all buffers before the first step, those beyond the last one with zeros.
  const double filled =
      tile.triton ? copied * static_cast<double>(std::max(tile.buffers, item.steps)) / static_cast<double>(item.steps)
                  : copied;
  double on_chip = 0, read_back = 0;  // seconds
  if (async) {
    on_chip = device.seconds((filled + async_operand_bytes(device, product, tile, issued)) /
                             (kSharedBytesPerClock * kAsyncProductShare));
  } else if (!tile.bulk_copies) {
    const auto [m_warps, n_warps] = warps_of_tile(tile);
    const double read = static_cast<double>(m_warps) * block_n * element_bytes(product.weights) +
                        static_cast<double>(n_warps) * static_cast<double>(tile.block_m) * activation_element;
    read_back = device.seconds(block_k * read / kSharedBytesPerClock);
    on_chip = device.seconds(filled / kSharedBytesPerClock) + read_back;
  }
  item.pipe_seconds[static_cast<std::size_t>(PipeKind::kLoadPort)] = std::max(port_seconds, on_chip);
  item.load_latency = duration_from_seconds(device.constant(Hw::kAsyncCopyLatency));
  const double chain = block_k * (converted ? 2.0 : std::max(activation_element, 1.0)) / kBytesPerMatrixStep;
  double serial = device.constant(Hw::kSharedLatency) + device.constant(Hw::kBarrier);
  if (blocked) serial += device.constant(Hw::kSharedLatency);  // scales
  item.step_latency = device.duration(serial);
  Duration products = device.duration(chain * device.constant(Hw::kMatrixLatency));
  if (async && tile.triton && !blocked) products = device.duration(kAsyncProductLatency);
  // Warps that convert, multiply and scale one after another wait for each; warps of other items go on meanwhile.
  if (!tile.bulk_copies && (blocked || !async)) {
    const auto own = [&](PipeKind pipe) {
      return duration_from_seconds(item.pipe_seconds[static_cast<std::size_t>(pipe)]);
    };
    products = std::max({products, own(PipeKind::kMatrix), duration_from_seconds(read_back)}) + own(PipeKind::kVector) +
               duration_from_seconds(operands);
    // The first operands are read before the first product; Triton has read them in the step before.
    if (!async && !tile.triton) {
      products +=
          duration_from_seconds(read_back * kBytesPerMatrixStep / (block_k * std::max(activation_element, 1.0)));
    }
    // The next step's copies are sent for after the products of asynchronous instructions have come and been scaled.
    if (blocked && !converted) products += device.code(copies * kCodeOfBlockCopy);
  }
  item.step_latency += products;
  if (!tile.bulk_copies) {
    // A CTA of 8 warps copies no faster than one of 4.
    const std::int64_t issuers = tile.triton ? std::min(tile.warps, kSchedulers) : tile.warps;
    item.step_issue = device.duration(copied / (static_cast<double>(issuers) * device.constant(Hw::kAsyncCopyPerWarp)));
    const double of_thread = copied / (kBytesOfCopy * static_cast<double>(tile.warps) * device.constant(Hw::kWarpSize));
    if (tile.warp_level) item.step_issue = std::max(item.step_issue, device.code(of_thread * kCodeOfCopy));
  }
  if (!tile.bulk_copies && (tile.triton || !async)) {
    // The same warps copy and multiply, but asynchronous products run while the next step's copies are sent for.
    const double running = std::max(on_chip, item.pipe_seconds[static_cast<std::size_t>(PipeKind::kMatrix)]);
    item.step_latency += async && !blocked ? duration_from_seconds(running) : item.step_issue;
    item.step_issue = Duration();
  }
  if (tile.triton) item.load_latency += duration_from_seconds(port_seconds);
  if (converted && blocked) operands += item.pipe_seconds[static_cast<std::size_t>(PipeKind::kVector)];
  item.pipe_seconds[static_cast<std::size_t>(PipeKind::kMatrix)] += operands;

  item.first_prologue = duration_from_seconds(device.constant(Hw::kLaunchPrologue));
  // The block's expert, then its row numbers.
  item.prologue_after += device.cache_round_trips(product.rows_in_order ? 1 : 2);
  item.first_prologue += device.cache_round_trips(1);  // the last results leave; no slot's next item waits for them
  if (!tile.bulk_copies) {                             // else one warp copies at once, and results leave in bulk
    item.prologue_after += device.code(tile.warp_level ? kCudaCodeBefore : kCodeBefore);
    item.epilogue += device.code(tile.warp_level ? kCudaCodeAfter : kCodeAfter) +
                     device.duration(item.write.as_double() / kStoredBytesPerClock);
  }
  if (tile.triton && item.steps > tile.buffers) {
    // Of n steps with s in flight the last round is whole: (n + s - 1) / s rounds of latency, where n / s are counted. Once
    // a slot: the end of one item passes while others stream.
    const double drained = 1 - 1 / item.stages;
    item.first_prologue += duration_from_seconds(drained * to_seconds(item.step_latency + item.load_latency));
  }
  if (blocked && !tile.bulk_copies) {
    // Scales are loaded in the step that needs them: a step that begins a new line of theirs waits for memory.
    const double scale_bytes = static_cast<double>(product.k) / static_cast<double>(kScaleBlock) * kScaleBytes;
    item.prologue_after +=
        duration_from_seconds(std::ceil(scale_bytes / kLineBytes) * device.constant(Hw::kHbmLatency));
  }
  return item;
}

std::int64_t split_k(const Device& device, std::int64_t tiles, std::int64_t steps, std::int64_t most) {
  std::int64_t split = 1;
  while (2 * split <= most && tiles * split * 2 <= device.units() && steps >= 8 * split) split *= 2;
  return split;
}

void share_k(ItemClass& item, std::int64_t split) {
  item.steps = divide_up(item.steps, split);
  item.read = Bytes(item.read.value() / split);
  item.resident_read = Bytes(item.resident_read.value() / split);
  item.write = Bytes(item.write.value() / split);
  item.useful_flops /= static_cast<double>(split);
  item.issued_flops /= static_cast<double>(split);
}

void split_item(ItemClass& item, const Device& device, std::int64_t split) {
  if (split == 1) return;
  share_k(item, split);
  item.epilogue += device.cache_round_trips(3);  // partial sums out, a flag, partial sums in
}

void add_row_blocks(Kernel& kernel, Chain& chain, const Device& device,
                    const std::vector<std::int64_t>& rows_of_experts, const Product& product, const TileShape& tile) {
  struct Bucket {
    std::int64_t issued = 0, turns = 1, rows = 0, blocks = 0;
  };
  std::vector<Bucket> buckets;
  std::int64_t place = 0;  // of a row block in the grid
  const std::int64_t n_blocks = divide_up(product.n, tile.block_n);
  const Bytes matrix = matrix_bytes(product.weights, product.n, product.k);
  for (std::size_t e = 0; e < rows_of_experts.size(); ++e) {
    if (rows_of_experts[e] == 0) continue;
    std::vector<RegionId> regions;  // each CTA of a cluster loads a part of its own
    for (std::int64_t cta = 0; cta < tile.cluster; ++cta) {
      regions.push_back(chain.region(product.stage, Bytes(matrix.value() / tile.cluster)));
    }
    const std::int64_t blocks = divide_up(rows_of_experts[e], tile.block_m * tile.cluster) * tile.cluster;
    for (std::int64_t block = 0, turns = 0; block < blocks; block += turns, place += turns) {
      turns = std::min(blocks - block, tile.group_m - place % tile.group_m);
      const std::int64_t useful =
          std::clamp<std::int64_t>(rows_of_experts[e] - block * tile.block_m, 0, turns * tile.block_m);
      const std::int64_t issued = issued_rows(device, product, tile, std::min(useful, tile.block_m));
      auto bucket = std::find_if(buckets.begin(), buckets.end(), [&](const Bucket& b) {
        return b.issued == issued && b.turns == turns && (b.rows == 0) == (useful == 0);
      });
      if (bucket == buckets.end()) bucket = buckets.insert(buckets.end(), Bucket{issued, turns});
      bucket->rows += useful;
      bucket->blocks += turns;
      ItemGroup group;
      group.item_class = static_cast<std::uint32_t>(bucket - buckets.begin());
      group.count = n_blocks * turns;
      group.region = regions[static_cast<std::size_t>(block % tile.cluster)];
      group.label = static_cast<std::int32_t>(e);
      group.rows = static_cast<std::int32_t>(useful);
      kernel.groups.push_back(group);
    }
  }
  for (const Bucket& b : buckets) {
    kernel.classes.push_back(
        tile_item(device, product, tile, b.issued, static_cast<double>(b.rows) / static_cast<double>(b.blocks)));
    ItemClass& item = kernel.classes.back();
    item.first_share = 1 / static_cast<double>(b.turns);
    if (tile.bulk_copies) item.resident_port_weight = 1 / device.sharers(n_blocks, b.turns * tile.cluster);
  }
}

}  // namespace moesim
