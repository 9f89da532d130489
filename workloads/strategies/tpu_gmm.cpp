// tpu_gmm: grouped products on a core with a sequential grid, one call for each projection.
//
// Models: megablox gmm and gmm_v2 as vllm-project/tpu-inference calls them. Picks are sorted by expert, their rows gathered
// (a one-hot product for few tokens, sparse cores else), then one call for gate and up with the activation, one for down,
// then rows are gathered back, weighted and summed. A call first makes its group table, a scalar loop over all resident
// groups, active or not, before the first copy (fill_metadata of gmm_v2). Its grid then walks (column tile, row tile of a
// group, K tile). gmm_v2 begins a row tile where a group begins; megablox (aligned_tiles=1) cuts the packed rows, so that a
// tile which two groups share is visited for each: row tiles + groups - 1 steps. Weights are in a ring of 3 tiles, which are
// as large as 0.9 of the on-chip memory allows; with one K tile a group's second row tile finds its weights there, else they
// are read again. Rows of a visit are padded to a bucket (gmm_v2) or to the whole row tile (megablox: row_bucket=128).
// Equations: tpu_grid.h; the call takes sequence.call + resident groups x sequence.scan before its first copy.
// Leaves out: quantising activations in the kernel, masks and zeroed outputs, padding tokens that the stack routes to
// expert 0, copies of scales on their own, that a re-read is one (it counts as memory stream), that the loop over groups of a
// device in an expert-parallel group also passes the groups of those before it (scanned_groups says so).
// Source: jax-ml/jax pallas megablox; tpu-inference fused_moe_gmm.py, gmm_v2.py @469acb3704. Weights in blocks of 128 count
// as the blocks of 512 that the stack makes of them when it loads a model: products take them as they are.
// Compared: five published gmm_v2 times on one TPU7x core (validation/published/README.md).
#include <algorithm>
#include <cmath>

#include "sim/units/integer.h"
#include "workloads/strategies/catalogue.h"
#include "workloads/strategies/tpu_grid.h"

namespace moesim {
namespace {

constexpr ParameterInfo kParameters[] = {
    {"row_tile", "128", "rows of a tile of packed picks", 8, 4096},
    {"aligned_tiles", "0", "1: tiles cut the packed rows, and one that two groups share is visited twice; 0: by group",
     0, 1},
    {"row_bucket", "32", "rows of a visit are padded to a multiple of it (and of the register tile)", 1, 4096},
    {"tile_n", "all columns, halved until the ring fits", "weight columns of a tile", 128, 1 << 20},
    {"tile_k", "all of K, halved until the ring fits", "K of a tile", 128, 1 << 20},
    {"ring", "3", "weight tiles on the chip", 1, 64},
    {"metadata_in_kernel", "1", "1: each call scans the groups; 0: one operation before both does", 0, 1},
    {"scanned_groups", "the resident ones", "groups that a call's table is made from", 1, 1 << 20},
    {"one_hot_tokens", "64", "to so many tokens rows are gathered by a one-hot product, beyond by sparse cores", 0,
     1 << 20},
    {"convert", "0", "1: 8-bit weights are converted to 16 bits before the product, whatever the activations", 0, 1},
    {"router", "1", "0: the layer is given its router's scores: no router product", 0, 1},
};

constexpr std::int64_t kRowBuffers = 2;  // of inputs and of outputs
constexpr double kBucketBits = 32;

struct Tiles {
  std::int64_t n = 0, k = 0;
};

double element_bytes(WeightFormat format) { return payload_bits(format) / 8; }

// Weights' ring, inputs and outputs twice, float32 sums.
Bytes buffers(const MoeLayer& layer, const Tiles& tiles, std::int64_t ring, std::int64_t row_tile) {
  const auto rows = static_cast<double>(row_tile), n = static_cast<double>(tiles.n), k = static_cast<double>(tiles.k);
  const double weights = static_cast<double>(ring) * n * k * element_bytes(layer.weights);
  const double inputs = kRowBuffers * rows * k * element_bytes(layer.activations);
  const double outputs = rows * n * (kRowBuffers * kBytes16 + sizeof(float));
  return Bytes(std::llround(weights + inputs + outputs));
}

Tiles choose_tiles(const LowerRequest& request, std::int64_t n, std::int64_t k, std::int64_t ring,
                   std::int64_t row_tile) {
  const std::int64_t lanes = std::llround(request.hardware[Hw::kTileLanes]);
  Tiles tiles{std::min(n, parameter(request, "tile_n", n)), std::min(k, parameter(request, "tile_k", k))};
  const bool free_n = !request.parameters.contains("tile_n"), free_k = !request.parameters.contains("tile_k");
  const Bytes room = useful_on_chip_bytes(request.hardware);
  while (buffers(request.layer, tiles, ring, row_tile) > room) {
    const bool can_n = free_n && tiles.n > lanes, can_k = free_k && tiles.k > lanes;
    if (!can_n && !can_k) break;
    std::int64_t& longer = can_n && (!can_k || tiles.n >= tiles.k) ? tiles.n : tiles.k;
    longer = round_up(divide_up(longer, 2), lanes);
  }
  return tiles;
}

// Row tiles that a group's rows lie in: the first to its weights, and those after it.
struct Visit {
  std::int64_t expert = 0, rows = 0;
  bool first = true;
};

std::vector<Visit> visits_of(const std::vector<std::int64_t>& rows, std::int64_t row_tile, bool aligned) {
  std::vector<Visit> visits;
  std::int64_t begin = 0;
  for (std::size_t e = 0; e < rows.size(); ++e) {
    const std::int64_t end = begin + rows[e];
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t next = std::min(end, aligned ? (at / row_tile + 1) * row_tile : at + row_tile);
      visits.push_back({static_cast<std::int64_t>(e), next - at, at == begin});
      at = next;
    }
    begin = end;
  }
  return visits;
}

struct Projection {
  std::string stage;
  std::int64_t n = 0, k = 0;
  Bytes matrix;
};

void add_call(Chain& chain, const LowerRequest& request, const Projection& projection) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  const bool convert = parameter(request, "convert", 0) != 0;
  const Dtype operands = convert ? Dtype::kBf16 : array_operands(device, layer.activations);
  const std::int64_t ring = parameter(request, "ring", 3);
  const std::int64_t row_tile = parameter(request, "row_tile", 128);
  const std::int64_t bucket = parameter(request, "row_bucket", 32);
  const Tiles tiles = choose_tiles(request, projection.n, projection.k, ring, row_tile);
  const std::int64_t columns = divide_up(projection.n, tiles.n), depths = divide_up(projection.k, tiles.k);
  const std::int64_t steps = columns * depths;
  const auto steps_d = static_cast<double>(steps);
  const std::vector<Visit> visits = visits_of(layer.rows, row_tile, parameter(request, "aligned_tiles", 0) != 0);

  struct Class {
    std::int64_t issued = 0;
    bool reads = true;
    std::int64_t rows = 0, visits = 0;
  };
  std::vector<Class> classes;
  Kernel kernel = sequential_kernel(projection.stage, projection.stage);
  std::optional<RegionId> region;
  for (const Visit& visit : visits) {
    const std::int64_t issued =
        round_up(std::min(round_up(visit.rows, bucket), round_up(row_tile, bucket)), row_quantum(device, operands));
    const bool reads = visit.first || depths > 1;
    auto it = std::find_if(classes.begin(), classes.end(),
                           [&](const Class& c) { return c.issued == issued && c.reads == reads; });
    if (it == classes.end()) it = classes.insert(classes.end(), Class{issued, reads});
    it->rows += visit.rows;
    ++it->visits;
    if (visit.first) region = chain.region(projection.stage, projection.matrix);
    ItemGroup group;
    group.item_class = static_cast<std::uint32_t>(it - classes.begin());
    group.count = 1;
    if (reads) group.region = region;
    group.label = static_cast<std::int32_t>(visit.expert);
    group.rows = static_cast<std::int32_t>(visit.rows);
    kernel.groups.push_back(group);
  }
  if (kernel.groups.empty()) return;
  for (const Class& c : classes) {
    const double rows = static_cast<double>(c.rows) / static_cast<double>(c.visits);
    const ArrayWork work = array_work(device, operands, std::llround(rows), c.issued, tiles.n, tiles.k);
    ItemClass item;
    item.steps = steps;
    if (c.reads) item.read = projection.matrix;
    const double inputs = static_cast<double>(projection.k) * element_bytes(layer.activations);
    item.resident_read = Bytes(std::llround(rows * inputs * static_cast<double>(columns)));
    item.write = Bytes(std::llround(rows * static_cast<double>(projection.n) * kBytes16));
    item.pipe_seconds[static_cast<std::size_t>(PipeKind::kMatrix)] = work.seconds;
    item.pipe_seconds[static_cast<std::size_t>(PipeKind::kVector)] =
        conversion_seconds(device, layer.weights, operands,
                           static_cast<double>(projection.n) * static_cast<double>(projection.k) / steps_d);
    item.useful_share = work.useful_share;
    item.stationary_share = work.stationary_share;
    item.useful_flops = 2 * rows * static_cast<double>(projection.n * projection.k);
    item.issued_flops = 2 * static_cast<double>(c.issued * columns * tiles.n) * static_cast<double>(depths * tiles.k);
    item.step_sequence = duration_from_seconds(device.constant(Hw::kSequenceStep) + work.in_order);
    set_ring(item, ring, static_cast<std::int64_t>(visits.size()) * steps);
    kernel.classes.push_back(item);
  }
  double call = device.constant(Hw::kSequenceCall);
  if (parameter(request, "metadata_in_kernel", 1) != 0) {
    const auto groups = static_cast<std::int64_t>(layer.rows.size());
    call += device.constant(Hw::kSequenceScan) * static_cast<double>(parameter(request, "scanned_groups", groups));
  }
  const ItemClass& first = kernel.classes[kernel.groups.front().item_class];
  set_call(kernel, duration_from_seconds(call) + first_step(device, first));
  chain.add_sequential(std::move(kernel), buffers(layer, tiles, ring, row_tile));
}

// Rows from token order to expert order, or back with weights and sums.
void add_gather(Chain& chain, const LowerRequest& request, const char* stage, bool back) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  const std::int64_t width = layer.expert_hidden();
  const auto picks = static_cast<double>(layer.picks), tokens = static_cast<double>(layer.tokens);
  const double row = static_cast<double>(width) * kBytes16;
  const double read = (back ? picks : tokens) * row, written = (back ? tokens : picks) * row;
  const bool sparse = layer.tokens > parameter(request, "one_hot_tokens", 64) && device.hardware().has(Hw::kSparseCall);
  if (sparse) {
    const double seconds = device.constant(Hw::kSparseCall) + picks * row / device.constant(Hw::kSparseBandwidth);
    add_operation(chain, device, std::string(stage) + "_sparse", stage, read, written, seconds * request.clock_hz);
    return;
  }
  // One-hot rows times the rows: the rows are what the arrays hold.
  const std::int64_t rows = back ? layer.tokens : std::max<std::int64_t>(1, layer.picks);
  const std::int64_t depth = back ? std::max<std::int64_t>(1, layer.picks) : layer.tokens;
  const ArrayWork work = array_work(device, Dtype::kBf16, rows, rows, width, depth);
  add_operation(chain, device, std::string(stage) + "_one_hot", stage, read, written,
                (work.seconds + work.in_order) * request.clock_hz);
}

Lowered lower(const LowerRequest& request) {
  const MoeLayer& layer = request.layer;
  const Device device(request.hardware, request.clock_hz);
  const double groups = static_cast<double>(layer.rows.size());
  if (request.hardware[Hw::kSmemCapacity] < (groups + static_cast<double>(layer.picks)) * kBucketBits / 8) {
    return Infeasible{"the group table does not fit the scalar memory (smem.capacity)"};
  }
  Chain chain(request);
  if (request.scope == Scope::kMoeLayer) {
    add_sequential_routing(chain, request);
    add_sequential_to_latent(chain, request);
  }
  if (parameter(request, "metadata_in_kernel", 1) == 0) {
    const double tiles = std::ceil(groups / device.constant(Hw::kTileLanes));
    add_operation(chain, device, "metadata", "align", groups * 4, groups * 4, tiles * device.constant(Hw::kTileLanes));
  }
  add_gather(chain, request, "permute", false);
  add_call(chain, request, {"gemm1", layer.up_width(), layer.expert_hidden(), layer.up_bytes()});
  add_call(chain, request, {"gemm2", layer.expert_hidden(), layer.intermediate, layer.down_bytes()});
  add_gather(chain, request, "combine", true);
  if (request.scope == Scope::kMoeLayer) add_sequential_rest(chain, request);
  return chain.seal();
}

}  // namespace

constinit const Strategy kTpuGmm = {"tpu_gmm",
                                    "two calls over a sequential grid of groups, weight tiles in a ring",
                                    "megablox gmm, gmm_v2",
                                    kParameters,
                                    Grid::kSequential,
                                    lower};

}  // namespace moesim
