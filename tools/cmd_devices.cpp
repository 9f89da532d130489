// moesim devices: the devices that come with moesim, or one of them (or any device file) in full.
#include <fmt/format.h>

#include <memory>

#include "hwmodels/loader.h"
#include "hwmodels/schema.h"
#include "hwmodels/uncertainty.h"
#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "tools/listing.h"

namespace moesim {
namespace {

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;
constexpr double kMebi = 1 << 20;

struct DevicesFlags {
  std::optional<std::string> name;
  HardwareFlags hardware;
  FormatFlag format;
};

ListingValue constant_in(const HardwareModel& hardware, Hw id, double unit) {
  if (!hardware.has(id)) return std::monostate();
  return hardware[id] / unit;
}

Listing list_devices() {
  Listing listing;
  listing.rows_key = "devices";
  listing.columns = {{"name", "name"},
                     {"title", "title"},
                     {"architecture", "architecture"},
                     {"units", "units"},
                     {"clock_boost_ghz", "clock GHz"},
                     {"hbm_capacity_gb", "memory GB"},
                     {"hbm_bandwidth_tb_per_s", "TB/s"},
                     {"llc_capacity_mib", "cache MiB"},
                     {"matrix_bf16_flop_per_clk", "bf16 FLOP/clk"},
                     {"matrix_fp8_flop_per_clk", "fp8 FLOP/clk"},
                     {"hash", "file hash"}};
  for (const std::string& name : device_names()) {
    const HardwareModel hardware = load_hardware(name);
    const auto cell = [&](Hw id, double unit) { return constant_in(hardware, id, unit); };
    listing.rows.push_back({hardware.name, hardware.title, hardware.architecture, cell(Hw::kUnitCount, 1),
                            cell(Hw::kClockBoost, kGiga), cell(Hw::kHbmCapacity, kGiga), cell(Hw::kHbmBandwidth, kTera),
                            cell(Hw::kLlcCapacity, kMebi), cell(Hw::kMatrixBf16, 1), cell(Hw::kMatrixFp8, 1),
                            hardware.hash});
  }
  return listing;
}

// The overlay that `run` uses by default, and the kernels that it knows.
ListingValue calibration_fact(const HardwareModel& hardware) {
  const std::optional<Calibration> calibration = calibration_of_device(hardware.name);
  if (!calibration) return "uncalibrated";
  std::vector<std::string> known;
  for (const Implementation& implementation : calibration->implementations) {
    known.push_back(fmt::format("{} {}", implementation.name, implementation.weights));
  }
  return fmt::format("{}: {}", calibration_name(*calibration, hardware), fmt::join(known, ", "));
}

Listing show_device(const HardwareModel& hardware) {
  Listing listing;
  listing.facts = {
      {{"device", "device"}, hardware.name},       {{"device_hash", "file hash"}, hardware.hash},
      {{"file", "file"}, hardware.file},           {{"title", "title"}, hardware.title},
      {{"vendor", "vendor"}, hardware.vendor},     {{"architecture", "architecture"}, hardware.architecture},
      {{"unit_name", "unit"}, hardware.unit_name}, {{"aliases", "aliases"}, hardware.aliases},
      {{"notes", "notes"}, hardware.notes},        {{"calibration", "calibration"}, calibration_fact(hardware)}};
  listing.csv_facts = 2;
  listing.rows_key = "constants";
  listing.columns = {{"path", "constant"}, {"value", "value"},     {"kind", "kind"},    {"p5", "p5"},
                     {"p95", "p95"},       {"meaning", "meaning"}, {"source", "source"}};
  for (const HwEntry& entry : hw_schema()) {
    const std::optional<Constant>& constant = hardware.constants[static_cast<std::size_t>(entry.id)];
    if (!constant) continue;
    const ConstantRange range = constant_range(*constant, entry);
    listing.rows.push_back({entry.path, format_quantity(constant->value, entry.dimension),
                            source_kind_name(constant->kind), format_quantity(range.low, entry.dimension),
                            format_quantity(range.high, entry.dimension), entry.meaning, constant->source});
  }
  return listing;
}

std::function<CommandResult()> define(FlagSet& set) {
  auto flags = std::make_shared<DevicesFlags>();
  set.positional("NAME|PATH", flags->name, "Show every constant of this device: a name, or a device file");
  flags->hardware.add(set);
  flags->format.add(set);
  return [flags]() -> CommandResult {
    const OutputFormat format = flags->format.parse();
    if (!flags->name && !flags->hardware.overrides.empty()) {
      throw InputError({"--set", "", "no device", "the name of the device that it belongs to", ""});
    }
    const Listing listing = flags->name ? show_device(flags->hardware.load(*flags->name)) : list_devices();
    return {.output = render(listing, format), .complaint = ""};
  };
}

}  // namespace

constinit const Command kDevicesCommand = {"devices", "List the devices that come with moesim, or show one in full",
                                           "  moesim devices\n  moesim devices h200 --set hbm.bandwidth=6TB/s", define};

}  // namespace moesim
