#include "workloads/strategies/tile_space.h"

#include <algorithm>
#include <string_view>

#include "workloads/strategies/tiles.h"

namespace moesim {
namespace {

bool is(const Strategy& strategy, std::string_view name) { return strategy.name == name; }

}  // namespace

std::vector<ParameterRange> tile_space(const Strategy& strategy, WeightFormat weights) {
  const bool wide = payload_bits(weights) >= 16;
  if (is(strategy, "grouped_gemm")) {
    const bool blocked = weights.dtype == Dtype::kFp8Block128;
    return {{"block_m", {16, 32, 64, 128, 256}},
            {"block_n", {32, 64, 128, 256}},
            {"block_k", blocked ? std::vector<std::int64_t>{64, 128} : std::vector<std::int64_t>{64, 128, 256}},
            {"group_m", {1, 16, 32, 64}},
            {"num_warps", {4, 8}},
            {"num_stages", {2, 3, 4, 5}}};
  }
  if (is(strategy, "grouped_gemm_persistent")) {
    return {
        {"block_m", {64, 128, 256}}, {"block_n", {64, 128, 256}}, {"block_k", {32, 64, 128}}, {"cluster_m", {1, 2}}};
  }
  if (is(strategy, "stream_gemv") && wide) {
    return {{"down.block_k", {512, 1024}}, {"down.block_n", {2, 4, 8}}, {"down.num_warps", {1, 2, 4}},
            {"up.block_k", {512, 1024}},   {"up.block_n", {1, 2, 4}},   {"up.num_warps", {1, 2, 4}}};
  }
  if (is(strategy, "stream_gemv")) {
    return {{"down.block_k", {128, 256}}, {"down.block_n", {4, 8, 16}}, {"down.num_warps", {1, 2}},
            {"up.block_k", {128, 256}},   {"up.block_n", {4, 8, 16}},   {"up.num_warps", {1, 2}}};
  }
  return {};
}

// vLLM's and SGLang's first rule, by which both went until 2026: small tiles up to as many tokens as experts.
Parameters default_tile(const Strategy& strategy, const MoeLayer& layer) {
  if (!is(strategy, "grouped_gemm")) return {};
  const bool small = layer.tokens <= layer.router_experts;
  const bool blocked = layer.weights.dtype == Dtype::kFp8Block128;
  return {{"block_m", small ? 16 : 64},
          {"block_n", blocked ? 128
                      : small ? 32
                              : 64},
          {"block_k", blocked ? 128
                      : small ? 64
                              : 32},
          {"group_m", 1},
          {"num_warps", 4},
          {"num_stages", blocked ? 3 : 4}};
}

bool spills(const Strategy& strategy, const Parameters& tile, const MoeLayer& layer, const HardwareModel& hardware) {
  if (!is(strategy, "grouped_gemm") || hardware.grid != Grid::kParallel) return false;
  TileShape shape;
  shape.block_m = tile.at("block_m");
  shape.block_n = tile.at("block_n");
  shape.block_k = tile.at("block_k");
  shape.warps = tile.at("num_warps");
  const Product product{"", "", 0, 0, layer.weights, layer.activations};
  return triton_registers(Device(hardware, hardware[Hw::kClockBoost]), product, shape) > kMostRegisters;
}

std::set<std::string> idle_parameters(const Strategy& strategy, const Parameters& tile, const MoeLayer& layer) {
  if (!is(strategy, "grouped_gemm")) return {};
  const auto most = std::max_element(layer.rows.begin(), layer.rows.end());
  if (most == layer.rows.end() || *most > tile.at("block_m")) return {};
  return {"group_m"};  // one row block of an expert has no other to share weights with
}

std::size_t size_of(const std::vector<ParameterRange>& space) {
  std::size_t size = 1;
  for (const ParameterRange& range : space) size *= range.values.size();
  return size;
}

Parameters configuration(const std::vector<ParameterRange>& space, std::size_t number) {
  Parameters parameters;
  for (auto range = space.rbegin(); range != space.rend(); ++range) {
    parameters[range->name] = range->values[number % range->values.size()];
    number /= range->values.size();
  }
  return parameters;
}

}  // namespace moesim
