// Flags that several subcommands share, and how their values are read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hwmodels/calibration.h"
#include "hwmodels/hardware_model.h"
#include "sim/io/flag_text.h"
#include "workloads/moe_model.h"
#include "workloads/strategies/strategy.h"

namespace moesim {

class FlagSet;

// --set.
struct HardwareFlags {
  std::vector<std::string> overrides;

  void add(FlagSet& flags);
  // The device with all overrides.
  [[nodiscard]] HardwareModel load(const std::string& device) const;
};

// --model-override.
struct ModelFlags {
  std::vector<std::string> overrides;

  void add(FlagSet& flags);
  // The model, by name or path, with all overrides.
  [[nodiscard]] MoeModel load(const std::string& model) const;
};

// --calibration, --uncalibrated.
struct CalibrationFlags {
  std::optional<std::string> file;
  bool uncalibrated = false;

  void add(FlagSet& flags);
  // nullopt: uncalibrated, also where the device comes without an overlay. A file must be of this device.
  [[nodiscard]] std::optional<Calibration> load(const HardwareModel& hardware) const;
};

enum class OutputFormat { kTable, kJson, kCsv };

// --format.
struct FormatFlag {
  std::string text = "table";

  void add(FlagSet& flags);
  [[nodiscard]] OutputFormat parse() const;
};

// All throw InputError that names the flag.
// Tokens of a step where a command has no others.
inline constexpr const char* kDefaultConcurrency = "1,2,3,4,8,16,32,64";
// "1,2,8-16": ascending, each once.
std::vector<std::int64_t> parse_concurrencies(const std::string& text, const std::string& flag = "--concurrency");
// "boost", "sustained", or "1.98GHz" within the clocks that a device file may state.
double parse_clock(const std::string& text, const HardwareModel& hardware);
// Names, "all" (of those for this kind of grid, but for what-ifs) or "auto", separated by commas; a piece that is only NAME=VALUE is a further parameter of the strategy
// before it ("grouped_gemm:block_m=32,num_warps=8,stream_gemv"). Each once, in the order given.
std::vector<StrategyChoice> parse_strategies(const std::vector<std::string>& texts, Grid grid,
                                             const std::string& flag = "--strategy");

}  // namespace moesim
