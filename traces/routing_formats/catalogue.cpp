#include "traces/routing_formats/catalogue.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace moesim {
namespace {

constexpr RoutingFormat kFormats[] = {
    {"npy", "array [steps, layers, tokens, k], [repeats, tokens, k] or [tokens, k]", is_npy, read_npy_trace, false},
    {"npz", "such an array in an archive (STeP's has one called 'data')", is_npz, read_npz_trace, false},
    {"jsonl", "moesim.routing/1: a line of ids per step and layer", is_json_lines_trace, read_json_lines_trace, false},
    {"vllm", "vLLM's response with routed_experts", is_vllm, read_vllm, true},
    {"sglang", "SGLang's response with meta_info.routed_experts", is_sglang, read_sglang, true},
    {"megatron", "Megatron-Core's --moe-routing-trace-path", is_megatron, read_megatron, true},
    {"moe_cap", "MoE-CAP's forward passes: counts, or distinct experts", is_moe_cap, read_moe_cap, false},
    {"moe_routes", "loggers of vLLM's router: a line per token and layer", is_moe_routes, read_moe_routes, true},
    {"mixtral_problems", "Mixtral on HumanEval and GSM8K: a line per token and layer", is_mixtral_problems,
     read_mixtral_problems, true},
    {"device_rows", "batches of a device-row simulator", is_device_rows, read_device_rows, true},
    {"atlas", "moe-routing-atlas", is_atlas, read_atlas, true},
    {"vference", "vference.route-trace.v1", is_vference, read_vference, true},
    {"activation_map", "hits per expert by layer", is_activation_map, read_activation_map, false},
    {"eplb", "loads per expert, [layers, experts] or [steps, layers, experts]", is_eplb, read_eplb, false},
};

}  // namespace

std::span<const RoutingFormat> routing_formats() { return kFormats; }

const RoutingFormat* find_routing_format(std::string_view name) {
  for (const RoutingFormat& format : kFormats) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

const RoutingFormat& format_of(const RoutingFile& file) {
  std::vector<std::string_view> names;
  for (const RoutingFormat& format : kFormats) {
    if (format.matches(file)) return format;
    names.emplace_back(format.name);
  }
  file.fail("", "a routing of no known format",
            fmt::format("one of {} (FORMAT=FILE says which)", fmt::join(names, ", ")));
}

}  // namespace moesim
