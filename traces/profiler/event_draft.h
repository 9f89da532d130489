// One event of a profiler trace as it stands in the file.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/io/input_error.h"
#include "traces/profiler/decimal_time.h"

namespace moesim {

// Reused for the next one.
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

// For messages; long text cut between two characters of UTF-8.
std::string in_quotes(std::string_view text);

}  // namespace moesim
