// moesim validate: simulates measured rows and says how far off the simulation is.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/common_flags.h"
#include "tools/evaluation_views.h"
#include "tools/progress.h"
#include "validation/sensitivity.h"

namespace moesim {
namespace {

struct ValidateFlags {
  std::optional<std::string> measurements, device, max_tokens, models, weights, strategies;
  HardwareFlags hardware;
  FormatFlag format;
  bool vary_assumed = false;
};

// The device that all rows name.
std::string only_device(const std::vector<MoeMeasurement>& rows, const std::string& file) {
  std::set<std::string> names;
  for (const MoeMeasurement& row : rows) names.insert(row.device);
  if (names.size() == 1) return *names.begin();
  throw InputError({file, "",
                    names.empty() ? "no row of kind 'moe'" : fmt::format("rows of {}", fmt::join(names, ", ")),
                    names.empty() ? "measurements of MoE layers" : "one device, or --device that says which", ""});
}

// Removes the rows that `drop` is true for; how many.
std::int64_t remove_rows(std::vector<MoeMeasurement>& rows, const std::function<bool(const MoeMeasurement&)>& drop) {
  return static_cast<std::int64_t>(std::erase_if(rows, drop));
}

// Leaves the rows whose `field` is in the comma-separated `list`. A value that no row has is an error.
std::int64_t keep_listed(std::vector<MoeMeasurement>& rows, const std::string& flag, const std::string& list,
                         std::string MoeMeasurement::*field) {
  std::set<std::string> known;
  for (const MoeMeasurement& row : rows) known.insert(row.*field);
  const std::vector<std::string> known_names(known.begin(), known.end());
  const std::vector<std::string> wanted = split_list(flag, list);
  for (const std::string& name : wanted) {
    if (known.contains(name)) continue;
    throw InputError({flag, "", fmt::format("'{}'", name),
                      fmt::format("one of {}, as the measurements have", fmt::join(known_names, ", ")),
                      nearest_name(name, known_names)});
  }
  return remove_rows(rows, [&](const MoeMeasurement& row) {
    return std::find(wanted.begin(), wanted.end(), row.*field) == wanted.end();
  });
}

CommandResult validate(const ValidateFlags& flags) {
  const OutputFormat format = flags.format.parse();
  if (!flags.measurements) {
    throw InputError({"--measurements", "", "nothing", "a file of measurements (JSON Lines)", ""});
  }
  const std::string& file = *flags.measurements;
  std::vector<MoeMeasurement> rows = read_measurements(file);

  EvaluationReport report;
  report.tool_version = kVersion;
  report.calibration = "uncalibrated";
  report.overrides = flags.hardware.overrides;
  report.rows_in_file = static_cast<std::int64_t>(rows.size());
  const HardwareModel hardware = flags.hardware.load(flags.device ? *flags.device : only_device(rows, file));
  report.rows_of_other_devices = remove_rows(rows, [&](const MoeMeasurement& row) {
    const auto& aliases = hardware.aliases;
    return row.device != hardware.name && std::find(aliases.begin(), aliases.end(), row.device) == aliases.end();
  });

  const std::tuple<const char*, const std::optional<std::string>&, std::string MoeMeasurement::*> filters[] = {
      {"--models", flags.models, &MoeMeasurement::model_name},
      {"--weights", flags.weights, &MoeMeasurement::weights},
      {"--strategy", flags.strategies, &MoeMeasurement::strategy}};
  for (const auto& [flag, list, field] : filters) {
    if (!list) continue;
    report.rows_filtered += keep_listed(rows, flag, *list, field);
    report.filters.push_back(fmt::format("{} {}", flag, *list));
  }
  if (flags.max_tokens) {
    const std::int64_t most =
        parse_whole("--max-tokens", *flags.max_tokens, 1, std::numeric_limits<std::int64_t>::max());
    report.rows_filtered += remove_rows(rows, [&](const MoeMeasurement& row) { return row.tokens > most; });
    report.filters.push_back(fmt::format("--max-tokens {}", most));
  }

  if (flags.vary_assumed && format != OutputFormat::kTable) {
    throw InputError({"--vary-assumed", "", fmt::format("--format {}", flags.format.text), "--format table", ""});
  }
  Progress progress;
  EvaluateOptions options;
  options.progress = [&](std::size_t done, std::size_t all) { progress.show(done, all); };
  report.evaluation = evaluate(rows, file, hardware, options);
  std::ostringstream out;
  write_evaluation(report, format, out);
  if (flags.vary_assumed) {
    out << '\n';
    write_assumed_effects(vary_assumed(rows, file, hardware, options), out);
  }
  return {.output = out.str(), .complaint = ""};
}

std::function<CommandResult()> define(FlagSet& set) {
  auto flags = std::make_shared<ValidateFlags>();
  set.value("--measurements", "FILE", flags->measurements, "Measurements, JSON Lines of schema moesim.measurement/2");
  set.value("--device", "NAME|PATH", flags->device, "Only rows of this device [default: the one that all rows name]");
  set.value("--models", "LIST", flags->models, "Only rows of these models");
  set.value("--strategy", "LIST", flags->strategies, "Only rows of these strategies");
  set.value("--weights", "LIST", flags->weights, "Only rows of these weight formats");
  set.value("--max-tokens", "N", flags->max_tokens, "Only rows of at most so many tokens");
  set.on("--vary-assumed", flags->vary_assumed, "Also the errors with each assumed constant 30 % lower and higher");
  flags->hardware.add(set);
  flags->format.add(set);
  return [flags] { return validate(*flags); };
}

}  // namespace

constinit const Command kValidateCommand = {
    "validate", "Simulate measured layers and say how far off the simulation is",
    "  moesim validate --measurements measurements.jsonl --max-tokens 64 --weights bf16", define};

}  // namespace moesim
