#include "hwmodels/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>

#include "hwmodels/device_files.h"
#include "hwmodels/schema.h"
#include "sim/io/content_hash.h"
#include "sim/io/strict_json.h"
#include "sim/units/check.h"

namespace moesim {
namespace {

constexpr std::string_view kSchema = "moesim.device/1";
constexpr std::string_view kExtension = ".json";
constexpr std::int64_t kMaxFileBytes = 1 << 20;
constexpr const char* kOverrideFlag = "--set";
constexpr double kMostUncertainty = 0.9;  // of a constant, as a share: beyond, its lower end would be nothing

// What a device file may call its sources; kFitted and kOverride come from elsewhere.
constexpr SourceKind kFileKinds[] = {SourceKind::kDatasheet, SourceKind::kPublished, SourceKind::kMicrobenchmark,
                                     SourceKind::kAssumed};

// "hbm.bandwidth" -> {"hbm", "bandwidth"}.
std::pair<std::string, std::string> split_path(const HwEntry& entry) {
  const std::string path = entry.path;
  const std::size_t dot = path.find('.');
  return {path.substr(0, dot), path.substr(dot + 1)};
}

// The places where constants of such a device stand, in the order of the schema.
std::vector<std::string> group_names(Grid grid) {
  std::vector<std::string> groups;
  for (const HwEntry& entry : hw_schema()) {
    if (entry.presence(grid) == Presence::kUnknown) continue;
    const std::string group = split_path(entry).first;
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  }
  return groups;
}

// A group without a required constant may be left out.
bool is_required(const std::string& group, Grid grid) {
  const auto in_group = [&](const HwEntry& entry) {
    return entry.presence(grid) == Presence::kRequired && split_path(entry).first == group;
  };
  return std::any_of(hw_schema().begin(), hw_schema().end(), in_group);
}

std::vector<std::string> leaf_names(const std::string& group, Grid grid) {
  std::vector<std::string> leaves;
  for (const HwEntry& entry : hw_schema()) {
    const auto [entry_group, leaf] = split_path(entry);
    if (entry_group == group && entry.presence(grid) != Presence::kUnknown) leaves.push_back(leaf);
  }
  return leaves;
}

double parse_value(const JsonView& view, const HwEntry& entry) {
  if (entry.dimension == Dimension::kDimensionless) return view.as_double(entry.min, entry.max);
  if (!view.is_string()) {
    view.fail(fmt::format("a string with number and unit ({})", unit_names(entry.dimension)));
  }
  return parse_quantity(view.as_string(), entry.dimension, view.file(), view.pointer());
}

SourceKind parse_kind(const JsonView& view) {
  const std::string text = view.as_string();
  std::vector<std::string> names;
  for (const SourceKind kind : kFileKinds) {
    names.emplace_back(source_kind_name(kind));
    if (text == names.back()) return kind;
  }
  view.fail(fmt::format("one of {}", fmt::join(names, ", ")), nearest_name(text, names));
}

std::string parse_text(const JsonView& view) {
  std::string text = view.as_string();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) view.fail("a text that is not empty");
  return text;
}

// What --device accepts: no path (a '/' or ".json" would be read as one) and nothing to quote.
std::string parse_name(const JsonView& view) {
  std::string name = parse_text(view);
  const bool is_path = name.find('/') != std::string::npos || name.ends_with(kExtension);
  if (is_path || name.find(',') != std::string::npos) view.fail("a name without '/', ',' and .json");
  return name;
}

// Files of devices with a parallel grid need not say so.
Grid parse_grid(const JsonView& root) {
  if (!root.has("grid")) return Grid::kParallel;
  const JsonView view = root.at("grid");
  const std::string text = view.as_string();
  std::vector<std::string> names;
  for (const Grid grid : {Grid::kParallel, Grid::kSequential}) {
    names.emplace_back(grid_name(grid));
    if (text == names.back()) return grid;
  }
  view.fail(fmt::format("one of {}", fmt::join(names, ", ")), nearest_name(text, names));
}

Constant parse_constant(const JsonView& view, const HwEntry& entry) {
  view.only_keys({"value", "kind", "source", "uncertainty"});
  Constant constant;
  const JsonView value = view.at("value");
  constant.value = parse_value(value, entry);
  require_valid(entry, constant.value, value.file(), value.pointer());
  constant.kind = parse_kind(view.at("kind"));
  constant.source = parse_text(view.at("source"));
  if (view.has("uncertainty")) constant.uncertainty = view.at("uncertainty").as_double(0, kMostUncertainty);
  return constant;
}

// Pairs of which the first may not exceed the second.
void require_consistent(const HardwareModel& hardware) {
  constexpr std::pair<Hw, Hw> kAtMost[] = {
      {Hw::kClockSustained, Hw::kClockBoost},    {Hw::kClockMatrix, Hw::kClockBoost},
      {Hw::kSharedMaxPerItem, Hw::kSharedBytes}, {Hw::kWarpSize, Hw::kMaxThreads},
      {Hw::kRegisterGranule, Hw::kRegisters},    {Hw::kTileRows16, Hw::kTileRows8},
      {Hw::kSmemCapacity, Hw::kVmemCapacity},    {Hw::kPortUnits, Hw::kUnitCount},
      {Hw::kPortUnitsOnShort, Hw::kUnitCount},   {Hw::kGroupCount, Hw::kUnitCount},
      {Hw::kGroupFirst, Hw::kGroupMost},         {Hw::kGroupMost, Hw::kUnitCount},
  };
  for (const auto& [smaller, larger] : kAtMost) {
    if (!hardware.has(smaller) || !hardware.has(larger)) continue;
    if (hardware[smaller] <= hardware[larger]) continue;
    const HwEntry& entry = hw_entry(smaller);
    const auto [group, leaf] = split_path(entry);
    throw InputError(
        {hardware.file, fmt::format("/{}/{}/value", group, leaf), format_quantity(hardware[smaller], entry.dimension),
         fmt::format("at most {} ({})", hw_entry(larger).path, format_quantity(hardware[larger], entry.dimension)),
         ""});
  }
}

std::string stem(const EmbeddedFile& file) {
  MOESIM_CHECK(file.name.ends_with(kExtension));
  return std::string(file.name.substr(0, file.name.size() - kExtension.size()));
}

HardwareModel parse_embedded(const EmbeddedFile& file) {
  HardwareModel hardware = parse_hardware(std::string(file.text), std::string(file.name));
  MOESIM_CHECK(hardware.name == stem(file));
  return hardware;
}

}  // namespace

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : device_files()) names.push_back(stem(file));
  std::sort(names.begin(), names.end());
  return names;
}

HardwareModel parse_hardware(const std::string& text, const std::string& file_name) {
  const JsonDocument document = JsonDocument::parse(text, file_name);
  const JsonView root = document.root();
  const Grid grid = parse_grid(root);
  const std::vector<std::string> groups = group_names(grid);

  std::vector<std::string> root_keys = {"schema",    "name",    "title", "vendor", "architecture",
                                        "unit_name", "aliases", "notes", "grid"};
  root_keys.insert(root_keys.end(), groups.begin(), groups.end());
  root.only_keys(root_keys);
  if (const JsonView schema = root.at("schema"); schema.as_string() != kSchema) {
    schema.fail(fmt::format("'{}'", kSchema));
  }
  for (const std::string& group : groups) {
    if (root.has(group) || is_required(group, grid)) root.at(group).only_keys(leaf_names(group, grid));
  }

  HardwareModel hardware;
  hardware.name = parse_name(root.at("name"));
  hardware.title = parse_text(root.at("title"));
  hardware.vendor = parse_text(root.at("vendor"));
  hardware.architecture = parse_text(root.at("architecture"));
  hardware.unit_name = parse_text(root.at("unit_name"));
  hardware.grid = grid;
  hardware.notes = root.at("notes").as_string();
  hardware.file = file_name;
  hardware.hash = content_hash(text);

  const JsonView aliases = root.at("aliases");
  for (std::size_t i = 0; i < aliases.size(); ++i) {
    std::string alias = parse_name(aliases.at(i));
    const auto& known = hardware.aliases;
    if (alias == hardware.name || std::find(known.begin(), known.end(), alias) != known.end()) {
      aliases.at(i).fail("a name that does not stand here yet");
    }
    hardware.aliases.push_back(std::move(alias));
  }

  for (const HwEntry& entry : hw_schema()) {
    const auto [group, leaf] = split_path(entry);
    const Presence presence = entry.presence(grid);
    if (presence == Presence::kUnknown) continue;
    if (presence == Presence::kOptional && !(root.has(group) && root.at(group).has(leaf))) continue;
    if (presence == Presence::kWithGroup && !root.has(group)) continue;
    const JsonView view = root.at(group);
    hardware.constants[static_cast<std::size_t>(entry.id)] = parse_constant(view.at(leaf), entry);
  }
  require_consistent(hardware);
  return hardware;
}

HardwareModel load_hardware(const std::string& name_or_path) {
  if (name_or_path.find('/') != std::string::npos || name_or_path.ends_with(kExtension)) {
    return parse_hardware(read_text_file(name_or_path, kMaxFileBytes), name_or_path);
  }
  for (const EmbeddedFile& file : device_files()) {
    if (stem(file) == name_or_path) return parse_embedded(file);
  }
  std::vector<std::string> known = device_names();
  for (const EmbeddedFile& file : device_files()) {
    HardwareModel hardware = parse_embedded(file);
    for (const std::string& alias : hardware.aliases) {
      if (alias == name_or_path) return hardware;
      known.push_back(alias);
    }
  }
  throw InputError({"device", "", fmt::format("'{}'", name_or_path),
                    "a name from `moesim devices` or a path to a device file (*.json)",
                    nearest_name(name_or_path, known)});
}

void apply_override(HardwareModel& hardware, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos) {
    throw InputError({kOverrideFlag, "", fmt::format("'{}'", assignment), "PATH=VALUE, as in hbm.bandwidth=6TB/s", ""});
  }
  const std::string path = assignment.substr(0, equals);
  std::vector<std::string> paths;
  for (const HwEntry& entry : hw_schema()) {
    if (entry.presence(hardware.grid) == Presence::kUnknown) continue;
    paths.emplace_back(entry.path);
    if (path != entry.path) continue;
    const double value =
        parse_quantity(std::string_view(assignment).substr(equals + 1), entry.dimension, kOverrideFlag, path);
    require_valid(entry, value, kOverrideFlag, path);
    hardware.constants[static_cast<std::size_t>(entry.id)] = Constant{value, SourceKind::kOverride, kOverrideFlag};
    return;
  }
  throw InputError({kOverrideFlag, "", fmt::format("'{}'", path), "the path of a constant, as in hbm.bandwidth",
                    nearest_name(path, paths)});
}

}  // namespace moesim
