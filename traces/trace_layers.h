// A profiler trace as MoE layers: sections (annotated ranges of the host), in each the repeated layers, in each the stage
// of every kernel.
//
// What it takes a layer for: kernels of one stream between two of attention, norm, rope, collectives or sampling, from the
// router's product to the last kernel that is surely MoE's. A kernel is surely MoE's by its name, by the operator that
// launched it (vllm::moe_forward), or by a range "stage:NAME". Names that may be several things (a dense product, a
// copy, fused_moe_kernel) become stages by their order in the layer. Where the order starts again a new layer begins.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "traces/kernel_classes.h"
#include "traces/moe_stage.h"
#include "traces/profiler_trace.h"

namespace moesim {

struct ClassifiedEvent {
  std::size_t event = 0;  // index into ProfilerTrace::events
  const KernelRule* rule = nullptr;
  KernelClass kernel_class = KernelClass::kUnknown;
  StageSet stages;        // of a layer's kernel; empty: none was found
  bool in_layer = false;  // a MoE layer's, whatever its class
};

struct LayerInstance {
  std::vector<std::size_t> kernels;  // indices into TraceSection::events, by start
  std::string signature;             // "router topk gemm1+act gemm2 combine": its stages, each run once
  bool regular = false;              // the section's most frequent signature
};

struct TraceSection {
  std::string name;                      // of the annotation; "": outside of all, or a trace without
  std::int64_t repeats = 1;              // annotated ranges taken together: same strategy, or steps of as many tokens
  std::optional<std::int64_t> tokens;    // as operators or the annotation say
  std::int64_t hidden = 0, experts = 0;  // as the MoE operators' inputs say (hidden padded); 0: they do not
  std::vector<ClassifiedEvent> events;   // by start
  std::vector<LayerInstance> layers;     // those with a product of the experts, where any has one
  std::vector<LayerInstance> apart;      // MoE kernels of others: dispatch and collect on a stream of their own
  std::optional<std::int64_t> period;    // kernels from one layer's begin to the next one's, most frequently
  std::string strategy;                  // what the rules of most MoE time say; "": nothing

  [[nodiscard]] std::size_t regular_layers() const;
};

struct TraceLayers {
  std::vector<TraceSection> sections;                // in order of time; those without device events are left out
  Duration device_time;                              // summed over all device events
  std::map<std::string, Duration> by_class;          // "moe" with a stage of a layer or a MoE name, and the others
  Duration named_time;                               // of a class other than unknown
  std::int64_t moe_kernels = 0, staged_kernels = 0;  // of layers; of these, with a stage

  [[nodiscard]] bool has_layers() const;
};

TraceLayers find_layers(const ProfilerTrace& trace, const KernelClassifier& classifier);

// Tokens of a step as engines annotate it: "execute_context_1(888_788544)_generation_0(0)",
// "execute_32_context_0(...)_generation_32(...)", "step[DECODE bs=32]".
std::optional<std::int64_t> annotated_tokens(const std::string& name);

// Time that at least one of the spans covers.
Duration covered_time(std::vector<std::pair<TimePoint, TimePoint>> spans);
// Time in which at least one of the kernels ran.
Duration busy_time(const ProfilerTrace& trace, const TraceSection& section, const std::vector<std::size_t>& kernels);

}  // namespace moesim
