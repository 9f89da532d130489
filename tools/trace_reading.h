// Routed traces for subcommands: one layer of them, the steps of so many tokens, and what their reader had to say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "traces/routed_trace.h"
#include "workloads/moe_model.h"

namespace moesim {

// `layer` is the id that `flag` asked for; all layers without. Throws InputError that names the flag and the layers there
// are.
RoutedTrace load_layers(const std::string& file, const TraceHints& hints, const std::optional<std::int64_t>& layer,
                        const std::string& flag);

// Batches of one number of tokens. Where steps have various: of `tokens` where given (InputError, --concurrency, where no
// step has so many), else of the most frequent.
std::vector<RoutedBatch> batches_of(RoutedTrace trace, const std::optional<std::int64_t>& tokens);

// What a model says of a trace of it.
TraceHints hints_of(const MoeModel& model);

// A line on standard error for each of the reader's notes.
void print_notes(const std::string& file, const RoutedTrace& trace);

}  // namespace moesim
