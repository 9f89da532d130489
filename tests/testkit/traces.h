// Files of routed traces for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/routed_trace.h"

namespace moesim::testkit {

// Of tests/data/routing.
std::string routing_data(const std::string& name);

// Writes `bytes` into a file of this test's own, whose name ends in `name`; its path. An array
// has no sidecar yet, whatever an earlier run left.
std::string trace_file(const std::string& name, const std::string& bytes);

// "0.3: 1 2, 4 5": a line per step and layer, its rows.
std::string text_of(const RoutedTrace& trace);

// Bytes of a .npy file of little-endian words.
std::string npy_text(const std::string& shape, const std::vector<std::int64_t>& values, std::size_t word = 2);

std::string base64(const std::string& bytes);
std::string words(const std::vector<std::int64_t>& values, std::size_t word);

}  // namespace moesim::testkit
