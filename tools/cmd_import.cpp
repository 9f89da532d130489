// moesim import: other projects' measurements as rows of our schema, with the routings that they were made with; and
// recorded routings of any known format as our own.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <system_error>

#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/common_flags.h"
#include "tools/import_routing.h"
#include "tools/output_file.h"
#include "traces/importers/importer.h"
#include "traces/routed_trace.h"
#include "traces/views/text_table.h"

namespace moesim {
namespace {

constexpr const char* kRouting = "routing";  // of --format: a routed trace, not measurements

struct ImportFlags {
  std::optional<std::string> format, in, device, out, tile_configs;
  RoutingImportFlags routing;
};

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const Importer& importer : importers()) names.emplace_back(importer.name);
  names.emplace_back(kRouting);
  return names;
}

const std::string& needed(const std::optional<std::string>& value, const char* flag, const std::string& what) {
  if (!value) throw InputError({flag, "", "nothing", what, ""});
  return *value;
}

const Importer& importer_of(const std::string& name) {
  for (const Importer& importer : importers()) {
    if (name == importer.name) return importer;
  }
  const std::vector<std::string> names = format_names();
  throw InputError({"--format", "", fmt::format("'{}'", name), fmt::format("one of {}", fmt::join(names, ", ")),
                    nearest_name(name, names)});
}

// Traces first: measurements that are there refer to what is there.
void write_rows(const ImportedRows& imported, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder / "routes", error);
  if (error) throw InputError({"--out", "", fmt::format("'{}': {}", folder.string(), error.message()), "a folder", ""});
  OutputFile measurements((folder / "measurements.jsonl").string(), "--out");
  for (const auto& [path, batches] : imported.traces) {
    OutputFile((folder / path).string(), "--out").write(routed_trace_bytes(batches));
  }
  std::string text;
  for (const MoeMeasurement& row : imported.rows) text += measurement_text(row) + "\n";
  measurements.write(text);
}

std::string report(const ImportedRows& imported, const Importer& importer, const HardwareModel& hardware,
                   const std::string& in, const std::string& out) {
  std::ostringstream text;
  text << fmt::format("from     {} ({})\ndevice   {}: {}\nto       {}/measurements.jsonl\n", in, importer.name,
                      hardware.name, hardware.title, out);
  text << fmt::format("rows     {}, {} of them with weights that fit the cache (\"warm\"); routed traces {}\n",
                      imported.rows.size(), imported.warm, imported.traces.size());
  if (imported.skipped.empty()) return text.str();
  text << "\nleft out\n";
  TextTable table({{"times", TextTable::Align::kRight}, {"why", TextTable::Align::kLeft}});
  for (const auto& [reason, times] : imported.skipped) table.add_row({fmt::format("{}", times), reason});
  table.write(text);
  return text.str();
}

CommandResult run_import(const ImportFlags& flags) {
  const std::string& format =
      needed(flags.format, "--format", fmt::format("one of {}", fmt::join(format_names(), ", ")));
  if (format == kRouting) {
    const std::string& in = needed(flags.in, "--in", "a routing of any known format");
    if (flags.device) throw InputError({"--device", "", "--format routing", "no device: a routing has none", ""});
    return import_routing(in, needed(flags.out, "--out", "a file .npy, .npz or .jsonl"), flags.routing);
  }
  const Importer& importer = importer_of(format);
  const std::string& in = needed(flags.in, "--in", "a file of other project's measurements");
  const std::string& device = needed(flags.device, "--device", "the device that was measured");
  const std::string& out = needed(flags.out, "--out", "a folder");
  const HardwareModel hardware = HardwareFlags().load(device);
  ImportSource source{.path = in, .hardware = hardware, .tile_configs = {}};
  if (flags.tile_configs) source.tile_configs = TileConfigs(*flags.tile_configs, hardware);
  const ImportedRows imported = importer.read(source);
  std::string text = report(imported, importer, hardware, in, out);
  if (imported.rows.empty()) {
    return {.output = std::move(text), .complaint = "no row could be imported", .exit_code = ExitCode::kInfeasible};
  }
  write_rows(imported, out);
  return {.output = std::move(text), .complaint = ""};
}

std::function<CommandResult()> define(FlagSet& set) {
  auto flags = std::make_shared<ImportFlags>();
  set.value("--format", "NAME", flags->format,
            "What the file is: " + fmt::format("{}", fmt::join(format_names(), ", ")));
  set.value("--in", "FILE", flags->in, "The file, as its project publishes it (a routing also as FORMAT=FILE)");
  set.value("--device", "NAME|PATH", flags->device, "The device that was measured");
  set.value(
      "--tile-configs", "FOLDER", flags->tile_configs,
      "Tuned configurations of vLLM or SGLang (files E=...,N=...,device_name=....json), which they prefer to their "
      "rules");
  flags->routing.add(set);
  set.value("--out", "FOLDER|FILE", flags->out,
            "Where to write measurements.jsonl and the routed traces; of a routing, a file .npy, .npz or .jsonl");
  return [flags] { return run_import(*flags); };
}

}  // namespace

constinit const Command kImportCommand = {
    "import", "Turn other projects' measurements into rows for validate and calibrate",
    "  moesim import --format aiconfigurator --in moe_perf.csv --device h200 --out imported\n"
    "  moesim import --format routing --in response.json --model qwen3-30b-a3b --out routing.npy",
    define};

}  // namespace moesim
