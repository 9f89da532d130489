// alibaba/InferSim: DeepGEMM's masked grouped GEMM in fp8, one projection a time.
//
// Traps: the benchmark gives each local expert floor(m x u) rows, u uniform in [0.7, 1.3], so that at one row an expert
// about half of them have none; a line stands for the local experts alone.
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "traces/importers/csv_table.h"
#include "traces/importers/importer.h"

namespace moesim {
namespace {

constexpr std::int64_t kMaxRows = 1'000'000;
constexpr double kLowest = 0.7, kSpread = 0.6;

// Every row is a token with one pick.
RoutedBatch masked_rows(std::int64_t experts, std::int64_t mean, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  RoutedBatch batch{.tokens = 0, .topk = 1, .experts = experts, .ids = {}};
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    const double unit = static_cast<double>(engine() >> 11U) * 0x1p-53;
    const auto rows = static_cast<std::int64_t>(static_cast<double>(mean) * (kLowest + kSpread * unit));
    batch.ids.insert(batch.ids.end(), static_cast<std::size_t>(rows), static_cast<std::int32_t>(expert));
  }
  batch.tokens = static_cast<std::int64_t>(batch.ids.size());
  return batch;
}

}  // namespace

ImportedRows import_infersim(const ImportSource& source) {
  const CsvTable table(source.path, {"num_local_experts", "hidden_size", "intermediate_size", "tokens_per_expert",
                                     "up_proj_us", "down_proj_us"});
  ImportBuilder builder(source);
  for (const CsvRow& csv : table.rows()) {
    MoeMeasurement row;
    row.hidden = csv.whole("hidden_size", 1, kMaxWidth);
    row.intermediate = csv.whole("intermediate_size", 1, kMaxWidth);
    row.experts = csv.whole("num_local_experts", 1, kMaxExperts);
    row.topk = 1;
    row.weights = row.activations = "fp8_block128";
    row.implementation = "deepgemm-masked";
    row.scope = "expert_ffn";
    const std::int64_t mean = csv.whole("tokens_per_expert", 1, kMaxRows);
    const RoutedBatch batch = masked_rows(row.experts, mean, row.experts + mean);
    if (batch.tokens == 0) {
      builder.skip("no expert with rows");
      continue;
    }
    row.tokens = batch.tokens;
    row.routing = fmt::format("masked:{}", mean);
    row.routed_trace = builder.trace(fmt::format("masked_{}-{}", mean, row.experts), {batch});
    for (const auto& [stage, column] : {std::pair("gemm1", "up_proj_us"), std::pair("gemm2", "down_proj_us")}) {
      row.stage = stage;
      row.us = csv.number(column, 1e-3, kMaxMicroseconds);
      builder.add(row, fmt::format("line {}, {}", csv.line(), column));
    }
  }
  return builder.take();
}

}  // namespace moesim
