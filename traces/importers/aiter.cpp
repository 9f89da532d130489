// ROCm/aiter: the tuned fused MoE table of an AMD part: times of the one kernel, or of the two, that hold the projections.
//
// Traps: inter_dim is one device's width; weights are cold and routing is uniform; a line belongs to the part with
// cu_num compute units; a shared expert may be counted among expert and topk.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "traces/importers/csv_table.h"
#include "traces/importers/importer.h"

namespace moesim {
namespace {

constexpr std::int64_t kMaxTile = 4096;

struct Formats {
  const char* type;         // q_dtype_w
  const char* granularity;  // q_type
  const char* format;
};
constexpr Formats kFormats[] = {
    {"bf16", "No", "bf16"},       {"fp8", "per_1x128", "fp8_block128"}, {"fp8", "per_Token", "fp8"},
    {"fp8", "per_Tensor", "fp8"}, {"fp4", "per_1x32", "mxfp4"},
};

std::optional<std::string> format_of(const std::string& type, const std::string& granularity) {
  for (const Formats& known : kFormats) {
    if (type.ends_with(known.type) && granularity.ends_with(known.granularity)) return known.format;
  }
  return std::nullopt;
}

// The tile of a Composable Kernel's name, "..._gemm1_256x32x64x128_...": threads, rows, columns, K.
void take_tile(const std::string& kernel, MoeMeasurement& row) {
  constexpr std::int64_t kWave = 64;
  const std::size_t gemm = kernel.find("_gemm");
  const std::size_t begin = gemm == std::string::npos ? gemm : kernel.find('_', gemm + 1);
  if (begin == std::string::npos) return;
  std::array<std::int64_t, 4> tile{};
  const char* at = kernel.data() + begin + 1;
  const char* const end = kernel.data() + kernel.size();
  for (std::size_t i = 0; i < tile.size(); ++i) {
    const auto [stop, error] = std::from_chars(at, end, tile[i]);
    if (error != std::errc() || stop == end || *stop != (i + 1 < tile.size() ? 'x' : '_')) return;
    at = stop + 1;
  }
  row.parameters["num_warps"] = fmt::format("{}", tile[0] / kWave);
  row.parameters["block_n"] = fmt::format("{}", tile[2]);
  row.parameters["block_k"] = fmt::format("{}", tile[3]);
}

}  // namespace

ImportedRows import_aiter(const ImportSource& source) {
  const CsvTable table(source.path, {"cu_num", "token", "model_dim", "inter_dim", "expert", "topk", "q_dtype_a",
                                     "q_dtype_w", "q_type", "g1u1", "block_m", "us1", "us2", "kernel1", "kernel2"});
  ImportBuilder builder(source);
  for (const CsvRow& csv : table.rows()) {
    const std::int64_t units = csv.whole("cu_num", 1, kMaxExperts);
    if (units != std::llround(source.hardware[Hw::kUnitCount])) {
      builder.skip(fmt::format("of a part with {} compute units", units));
      continue;
    }
    const std::optional<std::string> weights = format_of(csv.text("q_dtype_w"), csv.text("q_type"));
    const std::optional<std::string> activations = format_of(csv.text("q_dtype_a"), csv.text("q_type"));
    if (!weights || !activations) {
      builder.skip(fmt::format("no number format for '{}', '{}'", csv.text("q_dtype_w"), csv.text("q_type")));
      continue;
    }
    MoeMeasurement row;
    row.hidden = csv.whole("model_dim", 1, kMaxWidth);
    row.intermediate = csv.whole("inter_dim", 1, kMaxWidth);
    row.experts = csv.whole("expert", 1, kMaxExperts);
    row.topk = csv.whole("topk", 1, row.experts);
    row.gated = csv.whole("g1u1", 0, 1) == 1;
    row.weights = *weights;
    row.activations = *activations;
    row.tokens = csv.whole("token", 1, kMaxTokens);
    row.implementation = "aiter";
    row.scope = "expert_ffn";
    row.parameters["block_m"] = fmt::format("{}", csv.whole("block_m", 1, kMaxTile));
    const Routing uniform;
    row.routing = routing_name(uniform);
    row.routed_trace = builder.drawn_trace(uniform, row.experts, row.topk, row.tokens);

    const double second = csv.number("us2", 0, kMaxMicroseconds);
    for (const auto& [stage, column, kernel] :
         {std::array{"gemm1", "us1", "kernel1"}, std::array{"gemm2", "us2", "kernel2"}}) {
      const double us = csv.number(column, 0, kMaxMicroseconds);
      if (us == 0) continue;
      MoeMeasurement one = row;
      one.stage = second == 0 ? "total" : stage;  // one kernel holds both projections
      one.us = us;
      take_tile(csv.text(kernel), one);
      builder.add(std::move(one), fmt::format("line {}, {}", csv.line(), column));
    }
  }
  return builder.take();
}

}  // namespace moesim
