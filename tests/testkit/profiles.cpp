#include "tests/testkit/profiles.h"

#include <fmt/format.h>
#include <zlib.h>

#include <stdexcept>

namespace moesim::testkit {

std::string profiler_data(const std::string& name) {
  return std::string(MOESIM_SOURCE_DIR) + "/tests/data/profiler/" + name;
}

std::string gzipped(const std::string& bytes) {
  constexpr int kGzipWindow = 15 + 16;
  constexpr int kMemoryLevel = 8;
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzipWindow, kMemoryLevel, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2 failed");
  }
  std::string input = bytes;
  std::string packed(deflateBound(&stream, input.size()), '\0');
  stream.next_in = reinterpret_cast<unsigned char*>(input.data());
  stream.avail_in = static_cast<unsigned>(input.size());
  stream.next_out = reinterpret_cast<unsigned char*>(packed.data());
  stream.avail_out = static_cast<unsigned>(packed.size());
  const int status = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) throw std::runtime_error("deflate failed");
  return packed;
}

std::string trace_text(const std::vector<std::string>& events, const std::string& fields) {
  return fmt::format("{{{}\"traceEvents\": [{}]}}", fields, fmt::join(events, ",\n"));
}

std::string kernel_event(const std::string& name, const std::string& ts, const std::string& dur) {
  return fmt::format(
      R"({{"ph": "X", "cat": "kernel", "name": "{}", "pid": 0, "tid": 7, "ts": {}, "dur": {}, "args": {{"stream": 7}}}})",
      name, ts, dur);
}

std::vector<std::string> kernel_events(const std::vector<std::string>& names) {
  std::vector<std::string> events;
  for (std::size_t i = 0; i < names.size(); ++i) {
    events.push_back(kernel_event(names[i], fmt::format("{}", 1000 + 11 * i), "10"));
  }
  return events;
}

}  // namespace moesim::testkit
