// --timeline of `run`: the first routing of the first concurrency, simulated once more under each strategy, as a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tools/timeline_file.h"
#include "workloads/studies/concurrency.h"

namespace moesim {

class FlagSet;

struct TimelineFlags {
  std::optional<std::string> file, units;

  void add(FlagSet& flags);
};

class TimelineOutput {
 public:
  // Checks the flags, and that the file can be written; throws InputError. Nothing is asked for: does nothing.
  explicit TimelineOutput(const TimelineFlags& flags);

  // Writes the file and returns what to say of it; "": nothing was asked for. `study` is the request's.
  std::string write(const ConcurrencyRequest& request, const ConcurrencyStudy& study);

 private:
  std::optional<std::int64_t> units_;  // nullopt: all
  std::optional<TimelineFile> file_;
};

}  // namespace moesim
