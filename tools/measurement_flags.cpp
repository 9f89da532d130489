#include "tools/measurement_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <set>
#include <tuple>

#include "sim/io/content_hash.h"
#include "sim/io/input_error.h"
#include "sim/io/strict_json.h"
#include "tools/command_line.h"

namespace moesim {
namespace {

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

}  // namespace

void MeasurementFlags::add(FlagSet& flags) {
  flags.repeated("--measurements", "FILE", measurements,
                 "Measurements, JSON Lines of schema moesim.measurement/2; several times for several files");
  flags.value("--device", "NAME|PATH", device, "Only rows of this device [default: the one that all rows name]");
  flags.value("--models", "LIST", models, "Only rows of these models");
  flags.value("--strategy", "LIST", strategies, "Only rows of these strategies");
  flags.value("--weights", "LIST", weights, "Only rows of these weight formats");
  flags.value("--max-tokens", "N", max_tokens, "Only rows of at most so many tokens");
}

std::string file_hash(const std::string& path) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
  return content_hash(read_text_file(path, kMostBytes));
}

std::string MeasuredRows::file() const { return fmt::format("{}", fmt::join(files, ", ")); }

MeasuredRows MeasurementFlags::load(const HardwareFlags& hardware_flags) const {
  if (measurements.empty()) {
    throw InputError({"--measurements", "", "nothing", "a file of measurements (JSON Lines)", ""});
  }
  MeasuredRows result;
  result.files = measurements;
  std::vector<MoeMeasurement>& rows = result.rows;
  for (const std::string& file : measurements) {
    if (std::count(measurements.begin(), measurements.end(), file) > 1) {
      throw InputError({"--measurements", "", fmt::format("'{}' twice", file), "each file once", ""});
    }
    std::vector<MoeMeasurement> read = read_measurements(file);
    std::move(read.begin(), read.end(), std::back_inserter(rows));
  }
  result.rows_in_file = static_cast<std::int64_t>(rows.size());
  result.hardware = hardware_flags.load(device ? *device : only_device(rows, result.file()));
  result.rows_of_other_devices = remove_rows(rows, [&](const MoeMeasurement& row) {
    const auto& aliases = result.hardware.aliases;
    return row.device != result.hardware.name && std::find(aliases.begin(), aliases.end(), row.device) == aliases.end();
  });

  const std::tuple<const char*, const std::optional<std::string>&, std::string MoeMeasurement::*> lists[] = {
      {"--models", models, &MoeMeasurement::model_name},
      {"--weights", weights, &MoeMeasurement::weights},
      {"--strategy", strategies, &MoeMeasurement::strategy}};
  for (const auto& [flag, list, field] : lists) {
    if (!list) continue;
    result.rows_filtered += keep_listed(rows, flag, *list, field);
    result.filters.push_back(fmt::format("{} {}", flag, *list));
  }
  if (max_tokens) {
    const std::int64_t most = parse_whole("--max-tokens", *max_tokens, 1, std::numeric_limits<std::int64_t>::max());
    result.rows_filtered += remove_rows(rows, [&](const MoeMeasurement& row) { return row.tokens > most; });
    result.filters.push_back(fmt::format("--max-tokens {}", most));
  }
  return result;
}

}  // namespace moesim
