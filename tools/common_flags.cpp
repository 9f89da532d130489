#include "tools/common_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "hwmodels/loader.h"
#include "hwmodels/schema.h"
#include "sim/io/input_error.h"
#include "tools/command_line.h"
#include "workloads/model_config.h"
#include "workloads/strategies/strategy_list.h"
#include "workloads/studies/request_limits.h"

namespace moesim {
namespace {

constexpr std::size_t kMostConcurrencies = 1024;

}  // namespace

void HardwareFlags::add(FlagSet& flags) {
  flags.repeated("--set", "PATH=VALUE", overrides, "Replace a number of the device, as in hbm.bandwidth=6TB/s");
}

HardwareModel HardwareFlags::load(const std::string& device) const {
  HardwareModel hardware = load_hardware(device);
  for (const std::string& assignment : overrides) apply_override(hardware, assignment);
  return hardware;
}

void ModelFlags::add(FlagSet& flags) {
  flags.repeated("--model-override", "NAME=VALUE", overrides,
                 "Replace a value of the model, or supply what its config lacks, as in hidden=4096 or weights=mxfp4");
}

MoeModel ModelFlags::load(const std::string& model) const { return load_model(model, ModelOverrides(overrides)); }

void CalibrationFlags::add(FlagSet& flags) {
  flags.value(
      "--calibration", "FILE", file,
      "Constants fitted to kernels, from `moesim calibrate` [default: those that come with the device, if any]");
  flags.on("--uncalibrated", uncalibrated, "Only constants of the device file");
}

std::optional<Calibration> CalibrationFlags::load(const HardwareModel& hardware) const {
  if (file && uncalibrated) throw InputError({"--uncalibrated", "", "--calibration too", "one of the two", ""});
  if (uncalibrated) return std::nullopt;
  if (!file) return calibration_of_device(hardware.name);
  Calibration calibration = load_calibration(*file);
  if (calibration.device != hardware.name) {
    throw InputError({*file, "/device", fmt::format("'{}'", calibration.device),
                      fmt::format("'{}', the device that is simulated", hardware.name), ""});
  }
  return calibration;
}

void FormatFlag::add(FlagSet& flags) { flags.value("--format", "table|json|csv", text, "How to print"); }

OutputFormat FormatFlag::parse() const {
  if (text == "table") return OutputFormat::kTable;
  if (text == "json") return OutputFormat::kJson;
  if (text == "csv") return OutputFormat::kCsv;
  throw InputError({"--format", "", fmt::format("'{}'", text), "one of table, json, csv",
                    nearest_name(text, {"table", "json", "csv"})});
}

std::vector<std::int64_t> parse_concurrencies(const std::string& text, const std::string& flag) {
  std::set<std::int64_t> values;
  for (const std::string& piece : split_list(flag, text)) {
    const std::size_t dash = piece.find('-', 1);
    const std::int64_t from = parse_whole(flag, piece.substr(0, dash), 1, kMostTokens);
    const std::int64_t to =
        dash == std::string::npos ? from : parse_whole(flag, piece.substr(dash + 1), 1, kMostTokens);
    if (to < from) {
      throw InputError({flag, "", fmt::format("'{}'", piece), "a range that ascends, as in 1-8", ""});
    }
    for (std::int64_t value = from; value <= to && values.size() <= kMostConcurrencies; ++value) values.insert(value);
    if (values.size() > kMostConcurrencies) {
      throw InputError({flag, "", fmt::format("more than {} numbers", kMostConcurrencies),
                        fmt::format("at most {}", kMostConcurrencies), ""});
    }
  }
  return {values.begin(), values.end()};
}

double parse_clock(const std::string& text, const HardwareModel& hardware) {
  if (text == "boost") return hardware[Hw::kClockBoost];
  if (text == "sustained") return hardware[Hw::kClockSustained];
  const HwEntry& entry = hw_entry(Hw::kClockBoost);
  if (!text.empty() && std::isalpha(static_cast<unsigned char>(text.front())) != 0) {
    throw InputError({"--clock", "", fmt::format("'{}'", text), "boost, sustained or a frequency as in 1.7GHz",
                      nearest_name(text, {"boost", "sustained"})});
  }
  const double hertz = parse_quantity(text, Dimension::kFrequency, "--clock", "");
  if (hertz < entry.min || hertz > entry.max) {
    throw InputError({"--clock", "", fmt::format("'{}'", text),
                      fmt::format("{} to {}", format_quantity(entry.min, entry.dimension),
                                  format_quantity(entry.max, entry.dimension)),
                      ""});
  }
  return hertz;
}

std::vector<StrategyChoice> parse_strategies(const std::vector<std::string>& texts, Grid grid,
                                             const std::string& flag) {
  std::vector<std::string> names;
  for (const std::string& text : texts) {
    for (const std::string& piece : split_strategies(flag, text)) {
      if (piece == "all") {
        for (const Strategy& strategy : strategy_catalogue()) {
          if (strategy.grid == grid && strategy.what_if_of == nullptr) names.emplace_back(strategy.name);
        }
      } else {
        names.push_back(piece);
      }
    }
  }
  std::vector<StrategyChoice> choices;
  for (const std::string& name : names) {
    const auto same = [&](const StrategyChoice& choice) { return choice.text == name; };
    if (std::none_of(choices.begin(), choices.end(), same)) choices.push_back(parse_strategy(name, flag));
  }
  return choices;
}

}  // namespace moesim
