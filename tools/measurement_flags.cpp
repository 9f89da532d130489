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
template <class Row>
std::string only_device(const std::vector<Row>& rows, const std::string& file, const std::string& kind) {
  std::set<std::string> names;
  for (const Row& row : rows) names.insert(row.device);
  if (names.size() == 1) return *names.begin();
  throw InputError(
      {file, "",
       names.empty() ? fmt::format("no row of kind '{}'", kind) : fmt::format("rows of {}", fmt::join(names, ", ")),
       names.empty() ? fmt::format("measurements of kind {}", kind) : "one device, or --device that says which", ""});
}

template <class Row>
std::int64_t remove_rows_of_others(std::vector<Row>& rows, const HardwareModel& hardware) {
  return static_cast<std::int64_t>(std::erase_if(rows, [&](const Row& row) {
    const auto& aliases = hardware.aliases;
    return row.device != hardware.name && std::find(aliases.begin(), aliases.end(), row.device) == aliases.end();
  }));
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
  flags.value("--kind", "KIND", kind, "Rows of this kind: moe (layers) or micro (microbenchmarks)");
  flags.value("--device", "NAME|PATH", device, "Only rows of this device [default: the one that all rows name]");
  flags.value("--models", "LIST", models, "Only rows of these models");
  flags.value("--strategy", "LIST", strategies, "Only rows of these strategies");
  flags.value("--weights", "LIST", weights, "Only rows of these weight formats");
  flags.value("--max-tokens", "N", max_tokens, "Only rows of at most so many tokens");
  flags.value("--min-cache-multiple", "X", min_cache_multiple,
              "Only rows whose active weights are at least X times the last-level cache (2: certainly cold)");
}

bool MeasurementFlags::micro() const {
  const std::vector<std::string> kinds = {"moe", "micro"};
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    throw InputError({"--kind", "", fmt::format("'{}'", kind), "moe or micro", nearest_name(kind, kinds)});
  }
  return kind == "micro";
}

MicroRows MeasurementFlags::load_micro(const HardwareFlags& hardware_flags) const {
  const std::pair<const char*, const std::optional<std::string>&> of_layers[] = {
      {"--models", models}, {"--weights", weights}, {"--strategy", strategies}, {"--max-tokens", max_tokens}};
  for (const auto& [flag, value] : of_layers) {
    if (value) throw InputError({flag, "", "--kind micro", "--kind moe, whose rows have such a field", ""});
  }
  if (measurements.size() != 1) {
    throw InputError({"--measurements", "", fmt::format("{} files", measurements.size()),
                      "one file of measurements (JSON Lines)", ""});
  }
  MicroRows result;
  result.file = measurements.front();
  result.rows = read_micro_measurements(result.file);
  result.hardware = hardware_flags.load(device ? *device : only_device(result.rows, result.file, kind));
  result.rows_of_other_devices = remove_rows_of_others(result.rows, result.hardware);
  return result;
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
  result.hardware = hardware_flags.load(device ? *device : only_device(rows, result.file(), kind));
  result.rows_of_other_devices = remove_rows_of_others(rows, result.hardware);

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
  if (min_cache_multiple) {
    constexpr double kMost = 1e6;
    const double least = parse_number("--min-cache-multiple", *min_cache_multiple, 0, kMost);
    const double cache = result.hardware[Hw::kLlcCapacity];
    result.rows_filtered +=
        remove_rows(rows, [&](const MoeMeasurement& row) { return active_weight_bytes(row) < least * cache; });
    result.filters.push_back(fmt::format("--min-cache-multiple {}", least));
  }
  return result;
}

}  // namespace moesim
