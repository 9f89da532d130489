#include <fmt/format.h>

#include <ostream>

#include "traces/views/concurrency_text.h"
#include "traces/views/provenance_views.h"
#include "traces/views/text_table.h"
#include "traces/views/tune_views.h"

namespace moesim {
namespace {

using Align = TextTable::Align;

std::string micros(const std::optional<TuneChoice>& choice) {
  return choice ? fmt::format("{:.2f}", to_microseconds(choice->time)) : "-";
}

std::string gain(const TunePoint& point) {
  if (!point.best || !point.by_default) return "-";
  return fmt::format("{:.1f}", gain_over(point.by_default->time, point.best->time) * 100);
}

// What is chosen, with a mark where that does not rest on a fit although an overlay is in use.
std::string chosen(const TuneStudy& study, const TunePoint& point) {
  if (!point.chosen) return "infeasible";
  std::string text = point.deviates() || !point.by_default ? "best" : "default";
  if (!study.provenance.constants.empty() && !point.in_range) {
    text += study.provenance.constants.front().implementation.empty() ? kNotFitted : kBeyondFit;
  }
  return text;
}

void write_space(const TuneStudy& study, std::ostream& out) {
  std::vector<std::string> names, ranges;
  for (const ParameterRange& range : study.space) {
    names.push_back(range.name);
    ranges.push_back(fmt::format("{} {}", range.name, fmt::join(range.values, ",")));
  }
  out << fmt::format("tuned    {} against {}, to deviate from a gain of {:g} % on\n", study.strategy,
                     study.stack.empty() ? "its own default" : "the default of " + study.stack, study.min_gain * 100);
  out << fmt::format("space    {} configurations: {}\n", size_of(study.space), fmt::join(ranges, "; "));
  out << fmt::format("written  as {}\n\n", fmt::join(names, "/"));
}

void write_counts(const TuneStudy& study, std::ostream& out) {
  TextTable table({{"tokens", Align::kRight},
                   {"simulated", Align::kRight},
                   {"stopped", Align::kRight},
                   {"alike", Align::kRight},
                   {"too large", Align::kRight},
                   {"registers", Align::kRight}});
  for (const TunePoint& point : study.points) {
    table.add_row({fmt::format("{}", point.tokens), fmt::format("{}", point.simulated),
                   fmt::format("{}", point.stopped), fmt::format("{}", point.alike), fmt::format("{}", point.too_large),
                   fmt::format("{}", point.spilling)});
  }
  out << fmt::format(
      "\nconfigurations: simulated to the end; stopped, since more than {:g} % from the best; the same plan as "
      "another; not "
      "fit for a unit, or their accumulators not for its registers\n",
      kNear * 100);
  table.write(out);
}

}  // namespace

std::string tile_text(const Parameters& tile, const std::vector<ParameterRange>& space) {
  std::string text;
  for (const ParameterRange& range : space) {
    const auto it = tile.find(range.name);
    text += fmt::format("{}{}", text.empty() ? "" : "/", it == tile.end() ? "-" : fmt::format("{}", it->second));
  }
  return text;
}

void write_tune_table(const TuneStudy& study, std::ostream& out) {
  write_provenance(study.provenance, out);
  write_space(study, out);
  TextTable table({{"tokens", Align::kRight},
                   {"best", Align::kLeft},
                   {"time µs", Align::kRight},
                   {"default", Align::kLeft},
                   {"time µs", Align::kRight},
                   {"gain %", Align::kRight},
                   {fmt::format("within {:g} %", kNear * 100), Align::kRight},
                   {"bound µs", Align::kRight},
                   {"chosen", Align::kLeft}});
  for (const TunePoint& point : study.points) {
    const auto tile = [&](const std::optional<TuneChoice>& choice) {
      return choice ? tile_text(choice->tile, study.space) : "-";
    };
    table.add_row({fmt::format("{}", point.tokens), tile(point.best), micros(point.best), tile(point.by_default),
                   micros(point.by_default), gain(point), fmt::format("{}", point.near_best),
                   fmt::format("{:.2f}", to_microseconds(point.bound)), chosen(study, point)});
  }
  table.write(out);
  if (!study.provenance.constants.empty()) {
    const StrategyConstants& constants = study.provenance.constants.front();
    if (constants.implementation.empty()) {
      out << fmt::format("\n  {} not fitted, the device's constants alone: no {} kernel in the overlay\n", kNotFitted,
                         study.provenance.weights);
    } else if (study.points.back().tokens > constants.most_tokens) {
      out << fmt::format("\n  {} outside the calibrated range: fitted was {} to {} tokens\n", kBeyondFit,
                         constants.implementation, constants.most_tokens);
    }
  }
  write_counts(study, out);
}

}  // namespace moesim
