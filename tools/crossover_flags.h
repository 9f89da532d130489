// `moesim sweep --crossover`: flags, and the study that they ask for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/command_line.h"
#include "tools/grid_request.h"
#include "tools/run_request.h"

namespace moesim {

struct CrossoverFlags {
  std::optional<std::string> crossover;  // "AXIS" or "AXIS=LO..HI"
  std::vector<std::string> dispatch;     // files
  std::optional<std::string> by, reference, error, html;

  void add(FlagSet& set);
  // Of the flags that only a crossover has, the first that is given; nullptr: none.
  [[nodiscard]] const char* given() const;
};

// Lines are the points of `grid`. Throws InputError.
CommandResult run_crossover(const CrossoverFlags& flags, const RequestFlags& base, const AxisGrid& grid,
                            const std::string& format, std::size_t threads);

}  // namespace moesim
