// casys-kaist/LLMServingSim: Qwen3-30B-A3B's MoE layer in bf16, for so many tokens on exactly so many distinct experts.
#include <fmt/format.h>

#include "traces/importers/csv_table.h"
#include "traces/importers/importer.h"

namespace moesim {
namespace {

constexpr std::int64_t kHidden = 2048, kIntermediate = 768, kExperts = 128, kTopk = 8;

// Each token takes the next k of the active experts.
RoutedBatch round_robin(std::int64_t tokens, std::int64_t active) {
  RoutedBatch batch{.tokens = tokens, .topk = kTopk, .experts = kExperts, .ids = {}};
  for (std::int64_t pick = 0; pick < batch.picks(); ++pick) {
    batch.ids.push_back(static_cast<std::int32_t>(pick % active));
  }
  return batch;
}

}  // namespace

ImportedRows import_llmservingsim(const ImportSource& source) {
  const CsvTable table(source.path, {"tokens", "activated_experts", "time_us"});
  ImportBuilder builder(source);
  for (const CsvRow& csv : table.rows()) {
    MoeMeasurement row;
    row.hidden = kHidden;
    row.intermediate = kIntermediate;
    row.experts = kExperts;
    row.topk = kTopk;
    row.weights = row.activations = "bf16";
    row.implementation = "vllm-triton";
    row.scope = "moe_layer";
    row.warm = true;  // one set of weights, again and again
    row.parameters["router"] = "0";
    row.stage = "total";
    row.tokens = csv.whole("tokens", 1, kMaxTokens);
    row.us = csv.number("time_us", 1e-3, kMaxMicroseconds);
    const std::int64_t active = csv.whole("activated_experts", kTopk, kExperts);
    if (active > row.tokens * kTopk) csv.fail("activated_experts", "at most tokens x 8");
    row.routing = fmt::format("distinct:{}", active);
    row.routed_trace =
        builder.trace(fmt::format("distinct_{}-T{}", active, row.tokens), {round_robin(row.tokens, active)});
    builder.add(std::move(row), fmt::format("line {}", csv.line()));
  }
  return builder.take();
}

}  // namespace moesim
