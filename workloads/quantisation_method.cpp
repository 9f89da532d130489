#include "workloads/quantisation_method.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "workloads/config_errors.h"
#include "workloads/model_limits.h"

namespace moesim {
namespace {

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

// 8-bit integers keep a scale per group, int8 one per output row: at a group of 128 its bytes come out 1.5 % low.
WeightFormat read_bits(const JsonView& quantisation) {
  const JsonView bits = quantisation.at("bits");
  if (bits.as_int(1, 16) == 4) return int4_format(quantisation.at("group_size"));
  if (bits.as_int(1, 16) == 8) return {Dtype::kInt8};
  bits.fail("4 or 8: other widths are not modelled");
}

WeightFormat read_awq(const JsonView& quantisation) {
  if (quantisation.at("bits").as_int(1, 16) != 4) quantisation.at("bits").fail("4: other widths are not modelled");
  return int4_format(quantisation.at("group_size"));
}

// bitsandbytes: blocks of 64 weights in 4 bits (QLoRA, arXiv 2305.14314), or rows in 8.
WeightFormat read_bitsandbytes(const JsonView& quantisation) {
  constexpr std::int64_t kBlock = 64;
  const auto states = [&](const char* key) { return quantisation.has(key) && quantisation.at(key).as_bool(); };
  if (states("load_in_4bit")) return {Dtype::kInt4, kBlock};
  if (states("load_in_8bit")) return {Dtype::kInt8};
  refuse(quantisation, "neither load_in_4bit nor load_in_8bit", "one of the two");
}

WeightFormat read_compressed_group(const JsonView& format, const JsonView& weights) {
  const std::string name = format.as_string();
  if (name == "mxfp4-pack-quantized") return {Dtype::kMxfp4};
  if (name == "nvfp4-pack-quantized") return {Dtype::kNvfp4};
  const std::int64_t bits = weights.at("num_bits").as_int(1, 16);
  const std::string strategy = weights.at("strategy").as_string();
  if (name == "pack-quantized" && bits == 4) return int4_format(weights.at("group_size"));
  const bool integer = name == "pack-quantized" || name == "int-quantized";
  if (integer && bits == 8 && (strategy == "channel" || strategy == "group")) return {Dtype::kInt8};
  // A scale a row of 8-bit floats is 4 bytes in thousands: fp8 has it once a matrix.
  const bool plain = strategy == "tensor" || strategy == "channel";
  if (name == "float-quantized" && bits == 8 && plain) return {Dtype::kFp8};
  if (name == "float-quantized" && bits == 8 && strategy == "block") return block_format(weights.at("block_structure"));
  refuse(format, fmt::format("compressed-tensors '{}' of {} bits, one scale per {}", name, bits, strategy),
         "pack-quantized of 4 bits (per group) or 8, int-quantized of 8, float-quantized of 8 (per tensor, channel or "
         "block), mxfp4-pack-quantized or nvfp4-pack-quantized");
}

// Names or patterns of modules that a group is of; the class "Linear" is none.
std::vector<ModuleFormat> read_targets(const JsonView& group, WeightFormat format) {
  std::vector<ModuleFormat> modules;
  if (!group.has("targets")) return modules;
  const JsonView targets = group.at("targets");
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::string target = targets.at(i).as_string();
    if (target.find('.') != std::string::npos) modules.push_back({target, format});
  }
  return modules;
}

QuantisationMethod read_compressed_tensors(const JsonView& quantisation, WeightFormat unquantised) {
  const JsonView groups = quantisation.at("config_groups");
  QuantisationMethod mixed{.format = unquantised, .modules = {}};
  std::optional<WeightFormat> first;
  std::optional<std::pair<JsonView, WeightFormat>> different;
  bool named = true;
  for (const std::string& key : groups.keys()) {
    const JsonView group = groups.at(key);
    const WeightFormat format =
        read_compressed_group((group.has("format") ? group : quantisation).at("format"), group.at("weights"));
    if (!first) first = format;
    if (!different && format != *first) different = {group, format};
    const std::vector<ModuleFormat> targets = read_targets(group, format);
    named = named && !targets.empty();
    mixed.modules.insert(mixed.modules.end(), targets.begin(), targets.end());
  }
  if (!first) refuse(groups, "no group", "at least one group of quantised layers");
  if (!different) return {.format = *first, .modules = {}};
  if (named) return mixed;
  refuse(different->first, fmt::format("{} beside {}", format_name(different->second), format_name(*first)),
         "one weight format, or targets that name the modules of each group");
}

// A method that has one format.
template <WeightFormat (*read)(const JsonView&)>
QuantisationMethod whole(const JsonView& quantisation, WeightFormat /*unquantised*/) {
  return {.format = read(quantisation), .modules = {}};
}

QuantisationMethod read_mxfp4(const JsonView& /*quantisation*/, WeightFormat /*unquantised*/) {
  return {.format = {Dtype::kMxfp4}, .experts_only = true, .modules = {}};
}

struct Method {
  const char* name;
  QuantisationMethod (*read)(const JsonView&, WeightFormat unquantised);
};
constexpr Method kMethods[] = {
    {"fp8", whole<read_fp8>},
    {"mxfp4", read_mxfp4},
    {"modelopt", whole<read_modelopt_algorithm>},
    {"compressed-tensors", read_compressed_tensors},
    {"gptq", whole<read_bits>},
    {"awq", whole<read_awq>},
    {"auto-round", whole<read_bits>},
    {"bitsandbytes", whole<read_bitsandbytes>},
    {"fbgemm_fp8", whole<read_fp8>},
    {"modelopt_fp4", whole<read_modelopt_algorithm>},
};

QuantisationMethod read_named_method(const JsonView& quantisation, WeightFormat unquantised) {
  const JsonView method = quantisation.at("quant_method");
  std::vector<std::string> names;
  for (const Method& known : kMethods) {
    if (method.as_string() == known.name) return known.read(quantisation, unquantised);
    names.emplace_back(known.name);
  }
  method.fail(fmt::format("a quantisation that is modelled: {}", fmt::join(names, ", ")),
              nearest_name(method.as_string(), names));
}

}  // namespace

WeightFormat read_modelopt_algorithm(const JsonView& quantisation) {
  struct Algorithm {
    const char* name;
    WeightFormat format;
  };
  constexpr std::int64_t kAwqGroup = 128;
  constexpr Algorithm kAlgorithms[] = {
      {"NVFP4", {Dtype::kNvfp4}},
      {"W4A16_NVFP4", {Dtype::kNvfp4}},
      {"W4A8_NVFP4_FP8", {Dtype::kNvfp4}},
      {"NVFP4_AWQ", {Dtype::kNvfp4}},
      {"FP8", {Dtype::kFp8}},
      {"FP8_PER_CHANNEL_PER_TOKEN", {Dtype::kFp8}},
      {"FP8_PB_WO", {Dtype::kFp8Block128}},
      {"FP8_PB_REAL", {Dtype::kFp8Block128}},
      {"MXFP4", {Dtype::kMxfp4}},
      {"W4A8_MXFP4_FP8", {Dtype::kMxfp4}},
      {"W4A16_AWQ", {Dtype::kInt4, kAwqGroup}},
      {"INT4_AWQ", {Dtype::kInt4, kAwqGroup}},
      {"W4A8_AWQ", {Dtype::kInt4, kAwqGroup}},
  };
  const JsonView algorithm = quantisation.at("quant_algo");
  std::vector<std::string> names;
  for (const Algorithm& known : kAlgorithms) {
    if (algorithm.as_string() == known.name) return known.format;
    names.emplace_back(known.name);
  }
  algorithm.fail(fmt::format("one of {}: other ModelOpt formats are not modelled", fmt::join(names, ", ")),
                 nearest_name(algorithm.as_string(), names));
}

QuantisationMethod read_quantisation_method(const JsonView& quantisation, WeightFormat unquantised) {
  if (quantisation.has("quant_algo") && quantisation.at("quant_algo").as_string() == "MIXED_PRECISION") {
    if (!quantisation.has("quantized_layers")) {
      quantisation.at("quant_algo").fail("quantized_layers beside it: which module has which format");
    }
    const bool blocks = quantisation.has("weight_block_size");
    QuantisationMethod method{.format = blocks ? read_fp8(quantisation) : unquantised, .modules = {}};
    const JsonView modules = quantisation.at("quantized_layers");
    for (const std::string& key : modules.keys()) {
      method.modules.push_back({key, read_modelopt_algorithm(modules.at(key))});
    }
    return method;
  }
  if (quantisation.has("quant_method")) return read_named_method(quantisation, unquantised);
  // Early ModelOpt exports name the algorithm only; MLX has bits and a group size.
  if (quantisation.has("quant_algo")) return whole<read_modelopt_algorithm>(quantisation, unquantised);
  if (quantisation.has("bits") && quantisation.has("group_size")) return whole<read_bits>(quantisation, unquantised);
  return read_named_method(quantisation, unquantised);
}

}  // namespace moesim
