// The JSON of a profiler trace, event by event: what of it is read, and what may stand there.
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "sim/io/input_error.h"
#include "traces/decimal_time.h"
#include "traces/packed_text.h"
#include "traces/profiler_trace.h"

namespace moesim {

// One event as it stands; reused for the next.
struct EventDraft {
  const std::string* file = nullptr;
  std::int64_t index = 0;
  bool array_form = false;  // the trace is the array alone

  std::string phase, category, name;
  std::optional<DecimalTime> start, length;
  std::optional<std::int64_t> process, thread;  // where they are numbers
  std::optional<std::int64_t> device, stream, correlation;
  std::array<std::int32_t, 3> grid{}, block{};
  std::vector<std::vector<std::int64_t>> inputs;
  // What is wrong with its times or arguments: of no matter where the event is not kept.
  std::optional<InputProblem> problem;

  [[nodiscard]] std::string pointer(const std::string& field = "") const;
  // Phase X with times, and nothing wrong. Throws InputError.
  void require_complete() const;
  [[noreturn]] void fail(const std::string& field, const std::string& found, const std::string& expected) const;
};

class ProfilerSink {
 public:
  virtual ~ProfilerSink() = default;
  virtual void event(const EventDraft& draft) = 0;
  virtual void device(ProfiledDevice device) = 0;
  virtual void world_size(std::int64_t size) = 0;
};

// Throws InputError.
void parse_profiler_json(std::istream& stream, PackedText& text, const std::string& file, ProfilerSink& sink);

}  // namespace moesim
