// Profiler traces for tests: fixtures, and small ones written event by event.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moesim::testkit {

// Of tests/data/profiler.
std::string profiler_data(const std::string& name);

// `bytes` packed by gzip.
std::string gzipped(const std::string& bytes);

// An object with these events, each a JSON object; `fields` stand before "traceEvents", with their commas.
std::string trace_text(const std::vector<std::string>& events, const std::string& fields = "");

// A kernel of stream 7; times in microseconds as they shall stand there.
std::string kernel_event(const std::string& name, const std::string& ts, const std::string& dur);
// Kernels of these names one after the other, each 10 us long with 1 us between.
std::vector<std::string> kernel_events(const std::vector<std::string>& names);

}  // namespace moesim::testkit
