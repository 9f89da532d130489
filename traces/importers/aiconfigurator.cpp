// ai-dynamo/aiconfigurator: times of whole MoE layers, from the router's scores to the combined output, replayed as CUDA
// graphs. One line a kernel, shape, shard and routing; times either in columns us_t<TOKENS> (us) or one a line in
// num_tokens and latency (ms), as the project's own tables have them.
//
// Traps: "balanced" and "power_law_ALPHA" are the project's own patterns (workloads/router draws them); layers with
// group-limited routing cannot honour them; vLLM's tables have "balanced" in bfloat16; inter_size is the whole model's width; the same weights are replayed, so
// that small sets stay in the cache (rows are marked warm).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <optional>

#include "sim/io/input_error.h"
#include "sim/units/integer.h"
#include "traces/importers/csv_table.h"
#include "traces/importers/importer.h"

namespace moesim {
namespace {

constexpr const char* kTimeColumn = "us_t";
constexpr const char* kSglangCopies = "3";  // small kernels that the timed call of that collector makes besides

struct KernelSource {
  const char* pattern;  // part of kernel_source
  const char* stack;
};
// The first that matches.
constexpr KernelSource kSources[] = {
    {"oaitriton", "triton-kernels"},          {"fused_moe_triton", "sglang-triton"},
    {"triton_tritonexperts", "vllm-triton"},  {"trtllm", "trtllm-gen"},
    {"deepgemm", "deepgemm-masked"},          {"moe_torch_flow_cutlass", "trtllm-cutlass"},
    {"flashinfer_cutlass", "trtllm-cutlass"}, {"moe_torch_flow", "trtllm-cutlass"},
};

struct Formats {
  const char* name;  // moe_dtype
  const char* weights;
  const char* activations;
};
constexpr Formats kFormats[] = {
    {"bfloat16", "bf16", "bf16"},
    {"float16", "fp16", "fp16"},
    {"fp8", "fp8", "fp8"},
    {"fp8_block", "fp8_block128", "fp8_block128"},
    {"nvfp4", "nvfp4", "nvfp4"},
    {"w4a16_mxfp4", "mxfp4", "bf16"},
    {"w4a8_mxfp4_mxfp8", "mxfp4", "fp8"},
    {"int4_wo", "int4:128", "bf16"},
};

// Layers of Nemotron models: two matrices, not three.
constexpr std::array<std::pair<std::int64_t, std::int64_t>, 5> kNotGated = {
    {{2688, 1856}, {1024, 2688}, {2048, 5120}, {4096, 2688}, {8192, 5120}}};

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

struct Layer {
  std::string source;  // kernel_source
  std::string dtype;
  MoeMeasurement row;
};

bool has_shape(const MoeMeasurement& row, std::int64_t hidden, std::int64_t intermediate, std::int64_t topk,
               std::int64_t experts) {
  return row.hidden == hidden && row.intermediate == intermediate && row.topk == topk && row.experts == experts;
}

// Why its times are not of the layer that the line states; "" when they are.
std::string trap(const Layer& layer, const HardwareModel& hardware) {
  const MoeMeasurement& row = layer.row;
  const bool trt = layer.source.starts_with("moe_torch_flow");
  const bool hopper = contains(hardware.architecture, "sm90");
  if (contains(layer.source, "min_latency")) return "group-limited routing (TensorRT-LLM min_latency, any shape)";
  if (!trt && has_shape(row, 7168, 2048, 8, 256)) return "group-limited routing (DeepSeek-V3 in vLLM and SGLang)";
  if (hopper && contains(layer.source, "modeloptfp8moe_flashinfer_cutlass")) {
    return "FlashInfer CUTLASS fp8 on Hopper: 4 to 6 times as slow as other paths";
  }
  if (row.implementation == "sglang-triton" && row.ep > 1) {
    return "SGLang Triton with EP: picks of other devices' experts are computed as local ones";
  }
  if (contains(layer.source, "situ_as_silu") || contains(layer.dtype, "situ_as_silu")) {
    return "activation approximated (situ_as_silu)";
  }
  if (trt && hopper && layer.dtype == "bfloat16" && row.tp == 1 && row.ep > 1 && has_shape(row, 4096, 1024, 10, 512)) {
    return "wild times (TensorRT-LLM bf16 with EP, 512 experts)";
  }
  return "";
}

std::optional<Routing> routing_of(const std::string& distribution) {
  constexpr std::string_view kPowerLaw = "power_law_";
  std::string text = distribution;
  if (text.starts_with(kPowerLaw)) text = "power_law:" + text.substr(kPowerLaw.size());
  if (text != "balanced" && text != "uniform" && !text.starts_with("power_law:")) return std::nullopt;
  return parse_routing(text);
}

// A line's layer; nullopt and the reason when no stack profile or format stands for it.
std::optional<Layer> layer_of(const CsvRow& csv, std::string& reason) {
  Layer layer;
  layer.source = csv.text("kernel_source");
  layer.dtype = csv.text("moe_dtype");
  MoeMeasurement& row = layer.row;
  row.hidden = csv.whole("hidden_size", 1, kMaxWidth);
  row.intermediate = csv.whole("inter_size", 1, kMaxWidth);
  row.experts = csv.whole("num_experts", 1, kMaxExperts);
  row.topk = csv.whole("topk", 1, row.experts);
  row.tp = csv.whole("moe_tp_size", 1, row.intermediate);
  row.ep = csv.whole("moe_ep_size", 1, row.experts);
  row.gated = std::find(kNotGated.begin(), kNotGated.end(), std::pair(row.hidden, row.intermediate)) == kNotGated.end();
  row.scope = "moe_layer";
  row.warm = true;  // one set of weights, again and again
  row.parameters["router"] = "0";
  row.stage = "total";

  const auto* const source = std::find_if(std::begin(kSources), std::end(kSources),
                                          [&](const KernelSource& s) { return contains(layer.source, s.pattern); });
  const auto* const formats =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](const Formats& f) { return layer.dtype == f.name; });
  if (source == std::end(kSources)) reason = fmt::format("no stack profile for kernel source '{}'", layer.source);
  if (formats == std::end(kFormats)) reason = fmt::format("no number format for '{}'", layer.dtype);
  if (!reason.empty()) return std::nullopt;
  row.implementation = source->stack;
  row.weights = formats->weights;
  row.activations = formats->activations;
  if (layer.source.starts_with("sglang")) row.parameters["extra_launches"] = kSglangCopies;
  // SGLang's Triton path widens mxfp4 weights when it loads them: its times are those of 16-bit weights.
  if (row.implementation == "sglang-triton" && row.weights == "mxfp4") row.weights = "bf16";
  return layer;
}

// Nearest bfloat16: 8 bits of mantissa, ties to even.
double to_bf16(double value) {
  auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  bits += 0x7fffU + ((bits >> 16U) & 1U);
  return std::bit_cast<float>(bits & 0xffff0000U);
}

// The balanced pattern with fewer tokens than the stride as vLLM's tables have it: computed in bfloat16, as that
// collector's default type is, so that above 256 only even experts are picked.
RoutedBatch bf16_balanced(std::int64_t experts, std::int64_t topk, std::int64_t tokens, std::int64_t stride) {
  RoutedBatch batch{.tokens = tokens, .topk = topk, .experts = experts, .ids = {}};
  for (std::int64_t token = 0; token < tokens; ++token) {
    const double first = to_bf16(static_cast<double>(token * stride) / static_cast<double>(tokens));
    for (std::int64_t slot = 0; slot < topk; ++slot) {
      auto expert = static_cast<std::int32_t>(
          static_cast<std::int64_t>(to_bf16(first + static_cast<double>(slot * stride))) % experts);
      while (std::find(batch.ids.end() - slot, batch.ids.end(), expert) != batch.ids.end()) {
        expert = static_cast<std::int32_t>((expert + 1) % experts);
      }
      batch.ids.push_back(expert);
    }
  }
  return batch;
}

std::string trace_of(const Layer& layer, const Routing& routing, std::int64_t tokens, ImportBuilder& builder) {
  const MoeMeasurement& row = layer.row;
  const std::int64_t stride = divide_up(row.experts, row.topk);
  if (!layer.source.starts_with("vllm") || routing.kind != RoutingKind::kBalanced || tokens >= stride) {
    return builder.drawn_trace(routing, row.experts, row.topk, tokens);
  }
  return builder.trace(fmt::format("balanced_bf16-{}of{}-T{}", row.topk, row.experts, tokens),
                       {bf16_balanced(row.experts, row.topk, tokens, stride)});
}

// Tokens and microseconds of a line.
struct Time {
  std::int64_t tokens;
  double us;
  std::string column;
};

std::vector<Time> times_of(const CsvRow& csv, const CsvTable& table) {
  if (table.has("latency")) {
    constexpr double kMicrosecondsPerMillisecond = 1e3;
    return {{csv.whole("num_tokens", 1, kMaxTokens),
             csv.number("latency", 0, kMaxMicroseconds) * kMicrosecondsPerMillisecond, "latency"}};
  }
  std::vector<Time> times;
  for (const std::string& column : table.columns()) {
    if (!column.starts_with(kTimeColumn) || csv.empty(column)) continue;
    std::int64_t tokens = 0;
    const char* const begin = column.data() + std::string_view(kTimeColumn).size();
    const auto [stop, error] = std::from_chars(begin, column.data() + column.size(), tokens);
    if (error != std::errc() || stop != column.data() + column.size() || tokens < 1 || tokens > kMaxTokens) continue;
    times.push_back({tokens, csv.number(column, 0, kMaxMicroseconds), column});
  }
  return times;
}

}  // namespace

ImportedRows import_aiconfigurator(const ImportSource& source) {
  const CsvTable table(source.path, {"kernel_source", "moe_dtype", "hidden_size", "inter_size", "topk", "num_experts",
                                     "moe_tp_size", "moe_ep_size", "distribution"});
  const bool wide = std::any_of(table.columns().begin(), table.columns().end(),
                                [](const std::string& column) { return column.starts_with(kTimeColumn); });
  if (!wide && !(table.has("num_tokens") && table.has("latency"))) {
    throw InputError({source.path, "header", "no times", "columns us_t<TOKENS>, or num_tokens and latency", ""});
  }
  ImportBuilder builder(source);
  for (const CsvRow& csv : table.rows()) {
    const std::vector<Time> times = times_of(csv, table);
    const auto all = static_cast<std::int64_t>(times.size());
    std::string reason;
    const std::optional<Layer> layer = layer_of(csv, reason);
    const std::optional<Routing> routing = routing_of(csv.text("distribution"));
    if (layer) reason = trap(*layer, source.hardware);
    if (!routing) reason = fmt::format("no routing for distribution '{}'", csv.text("distribution"));
    if (!reason.empty()) {
      builder.skip(reason, all);
      continue;
    }
    for (const Time& time : times) {
      if (time.us == 0) {
        builder.skip("a time of 0");
        continue;
      }
      MoeMeasurement row = layer->row;
      row.tokens = time.tokens;
      row.us = time.us;
      row.routing = routing_name(*routing);
      row.routed_trace = trace_of(*layer, *routing, row.tokens, builder);
      builder.add(std::move(row), fmt::format("line {}, {}", csv.line(), time.column));
    }
  }
  return builder.take();
}

}  // namespace moesim
