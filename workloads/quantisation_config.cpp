#include "workloads/quantisation_config.h"

#include <fmt/format.h>

#include "workloads/config_errors.h"

namespace moesim {
namespace {

constexpr std::int64_t kMaxWidth = 1'000'000;
constexpr std::int64_t kMaxLayers = 10'000;

WeightFormat read_dtype(const JsonView& root, const JsonView& config) {
  for (const JsonView& view : {config, root}) {
    for (const char* key : {"dtype", "torch_dtype"}) {
      if (!view.has(key)) continue;
      const std::string name = view.at(key).as_string();
      if (name == "bfloat16") return {Dtype::kBf16};
      if (name == "float16") return {Dtype::kFp16};
      if (name == "float32") return {Dtype::kFp32};
      view.at(key).fail("bfloat16, float16 or float32", nearest_name(name, {"bfloat16", "float16", "float32"}));
    }
  }
  return {Dtype::kBf16};
}

WeightFormat block_format(const JsonView& block) {
  std::vector<std::int64_t> sides;
  for (std::size_t i = 0; i < block.size(); ++i) sides.push_back(block.at(i).as_int(1, kMaxWidth));
  if (sides != std::vector<std::int64_t>{128, 128}) {
    refuse(block, fmt::format("blocks of [{}] weights to a scale", fmt::join(sides, ", ")),
           "[128, 128], the only fp8 block size that is modelled");
  }
  return {Dtype::kFp8Block128};
}

WeightFormat int4_format(const JsonView& group_size) {
  const std::int64_t group = group_size.as_int(-1, kMaxWidth);
  if (group != 32 && group != 64 && group != 128) {
    group_size.fail("32, 64 or 128, the 4-bit group sizes that are modelled");
  }
  return {Dtype::kInt4, group};
}

WeightFormat read_fp8(const JsonView& quantisation) {
  return quantisation.has("weight_block_size") ? block_format(quantisation.at("weight_block_size"))
                                               : WeightFormat{Dtype::kFp8};
}

WeightFormat read_mxfp4(const JsonView&) { return {Dtype::kMxfp4}; }

WeightFormat read_modelopt(const JsonView& quantisation) {
  const JsonView algorithm = quantisation.at("quant_algo");
  if (algorithm.as_string() == "NVFP4") return {Dtype::kNvfp4};
  if (algorithm.as_string() == "FP8") return {Dtype::kFp8};
  algorithm.fail("NVFP4 or FP8: other ModelOpt formats are not modelled");
}

// 8-bit GPTQ keeps a scale per group, int8 one per output row: at a group of 128 its bytes come out 1.5 % low.
WeightFormat read_gptq(const JsonView& quantisation) {
  const JsonView bits = quantisation.at("bits");
  if (bits.as_int(1, 16) == 4) return int4_format(quantisation.at("group_size"));
  if (bits.as_int(1, 16) == 8) return {Dtype::kInt8};
  bits.fail("4 or 8: other widths are not modelled");
}

WeightFormat read_awq(const JsonView& quantisation) {
  if (quantisation.at("bits").as_int(1, 16) != 4) quantisation.at("bits").fail("4: other widths are not modelled");
  return int4_format(quantisation.at("group_size"));
}

WeightFormat read_compressed_group(const JsonView& format, const JsonView& weights) {
  const std::string name = format.as_string();
  if (name == "mxfp4-pack-quantized") return {Dtype::kMxfp4};
  if (name == "nvfp4-pack-quantized") return {Dtype::kNvfp4};
  const std::int64_t bits = weights.at("num_bits").as_int(1, 16);
  const std::string strategy = weights.at("strategy").as_string();
  if (name == "pack-quantized" && bits == 4) return int4_format(weights.at("group_size"));
  const bool integer = name == "pack-quantized" || name == "int-quantized";
  if (integer && bits == 8 && strategy == "channel") return {Dtype::kInt8};
  if (name == "float-quantized" && bits == 8 && strategy == "tensor") return {Dtype::kFp8};
  if (name == "float-quantized" && bits == 8 && strategy == "block") return block_format(weights.at("block_structure"));
  refuse(format, fmt::format("compressed-tensors '{}' of {} bits, one scale per {}", name, bits, strategy),
         "pack-quantized of 4 bits (per group) or 8 (per channel), int-quantized of 8 (per channel), float-quantized "
         "of 8 (per tensor or block), mxfp4-pack-quantized or nvfp4-pack-quantized");
}

WeightFormat read_compressed_tensors(const JsonView& quantisation) {
  const JsonView groups = quantisation.at("config_groups");
  std::optional<WeightFormat> result;
  for (const std::string& key : groups.keys()) {
    const JsonView group = groups.at(key);
    const WeightFormat format =
        read_compressed_group((group.has("format") ? group : quantisation).at("format"), group.at("weights"));
    if (result && *result != format) {
      refuse(group, fmt::format("{} beside {}", format_name(format), format_name(*result)),
             "one weight format: mixed precision is not modelled");
    }
    result = format;
  }
  if (!result) refuse(groups, "no group", "at least one group of quantised layers");
  return *result;
}

struct Method {
  const char* name;
  WeightFormat (*read)(const JsonView&);
};
constexpr Method kMethods[] = {
    {"fp8", read_fp8},           {"mxfp4", read_mxfp4},
    {"modelopt", read_modelopt}, {"compressed-tensors", read_compressed_tensors},
    {"gptq", read_gptq},         {"awq", read_awq},
};

WeightFormat read_method(const JsonView& quantisation) {
  if (quantisation.has("quant_algo") && quantisation.at("quant_algo").as_string() == "MIXED_PRECISION") {
    quantisation.at("quant_algo").fail("one weight format: mixed precision is not modelled");
  }
  // Early ModelOpt exports name the algorithm only.
  if (!quantisation.has("quant_method") && quantisation.has("quant_algo")) return read_modelopt(quantisation);
  const JsonView method = quantisation.at("quant_method");
  std::vector<std::string> names;
  for (const Method& known : kMethods) {
    if (method.as_string() == known.name) return known.read(quantisation);
    names.emplace_back(known.name);
  }
  method.fail(fmt::format("a quantisation that is modelled: {}", fmt::join(names, ", ")),
              nearest_name(method.as_string(), names));
}

struct Exclusion {
  JsonView place;
  std::string module;  // name or pattern
};

std::vector<Exclusion> exclusions(const JsonView& quantisation) {
  std::vector<Exclusion> result;
  for (const char* key : {"modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers"}) {
    if (!quantisation.has(key)) continue;
    const JsonView list = quantisation.at(key);
    for (std::size_t i = 0; i < list.size(); ++i) result.push_back({list.at(i), list.at(i).as_string()});
  }
  if (quantisation.has("dynamic")) {  // GPTQModel: a key that begins with "-:" is a pattern of modules left alone
    const JsonView rules = quantisation.at("dynamic");
    for (const std::string& key : rules.keys()) {
      if (key.starts_with("-:")) result.push_back({rules.at(key), key});
    }
  }
  return result;
}

// "model.layers.78.mlp" -> 78; patterns over all layers have none.
std::optional<std::int64_t> layer_of(const std::string& module) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = module.find(kLayers);
  std::optional<std::int64_t> layer;
  for (std::size_t i = at + kLayers.size(); at != std::string::npos && i < module.size(); ++i) {
    if (module[i] < '0' || module[i] > '9' || layer > kMaxLayers) break;
    layer = layer.value_or(0) * 10 + (module[i] - '0');
  }
  return layer;
}

// "mlp.shared_experts", "*.shared_expert.*"; the one-column shared_expert_gate is no expert.
bool names_shared_experts(const std::string& module) {
  constexpr std::string_view kShared = "shared_expert";
  const std::size_t at = module.find(kShared);
  return at != std::string::npos && module.compare(at + kShared.size(), 5, "_gate") != 0;
}

bool names_routed_experts(const std::string& module) {
  const std::size_t at = module.find("experts");
  return at != std::string::npos && !names_shared_experts(module);
}

}  // namespace

void read_weight_formats(const JsonView& root, const JsonView& config, const std::optional<JsonView>& quantisation,
                         MoeModel& model) {
  model.expert_weights = model.other_weights = read_dtype(root, config);
  if (!quantisation) return;
  model.expert_weights = read_method(*quantisation);
  bool shared_excluded = false;
  for (const auto& [place, module] : exclusions(*quantisation)) {
    if (layer_of(module).value_or(0) >= model.layers) continue;
    if (names_routed_experts(module)) {
      refuse(place, fmt::format("'{}' left out of the quantisation", module),
             "all routed experts quantised alike: mixed precision is not modelled");
    }
    shared_excluded = shared_excluded || names_shared_experts(module);
  }
  if (model.shared_experts > 0 && !shared_excluded) model.other_weights = model.expert_weights;
}

}  // namespace moesim
