// The formats of routings that moesim reads, one reader each.
#pragma once

#include <span>
#include <string_view>

#include "traces/routing_formats/routing_file.h"
#include "workloads/routed_trace.h"

namespace moesim {

struct RoutingFormat {
  const char* name;
  const char* summary;
  // By the file's beginning and its keys.
  bool (*matches)(const RoutingFile& file);
  // Throws InputError.
  RoutedTrace (*read)(const RoutingFile& file);
  bool recorded;  // by an engine: may begin with warm-up
};

// The first that matches has it.
std::span<const RoutingFormat> routing_formats();
// nullptr: none of that name.
const RoutingFormat* find_routing_format(std::string_view name);
// Throws InputError that names what is known.
const RoutingFormat& format_of(const RoutingFile& file);

bool is_npy(const RoutingFile& file);
RoutedTrace read_npy_trace(const RoutingFile& file);
bool is_npz(const RoutingFile& file);
RoutedTrace read_npz_trace(const RoutingFile& file);
bool is_json_lines_trace(const RoutingFile& file);
RoutedTrace read_json_lines_trace(const RoutingFile& file);
bool is_vllm(const RoutingFile& file);
RoutedTrace read_vllm(const RoutingFile& file);
bool is_sglang(const RoutingFile& file);
RoutedTrace read_sglang(const RoutingFile& file);
bool is_megatron(const RoutingFile& file);
RoutedTrace read_megatron(const RoutingFile& file);
bool is_moe_cap(const RoutingFile& file);
RoutedTrace read_moe_cap(const RoutingFile& file);
bool is_moe_routes(const RoutingFile& file);
RoutedTrace read_moe_routes(const RoutingFile& file);
bool is_mixtral_problems(const RoutingFile& file);
RoutedTrace read_mixtral_problems(const RoutingFile& file);
bool is_device_rows(const RoutingFile& file);
RoutedTrace read_device_rows(const RoutingFile& file);
bool is_atlas(const RoutingFile& file);
RoutedTrace read_atlas(const RoutingFile& file);
bool is_vference(const RoutingFile& file);
RoutedTrace read_vference(const RoutingFile& file);
bool is_activation_map(const RoutingFile& file);
RoutedTrace read_activation_map(const RoutingFile& file);
bool is_eplb(const RoutingFile& file);
RoutedTrace read_eplb(const RoutingFile& file);

}  // namespace moesim
