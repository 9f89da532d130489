#include "sim/units/parse_quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <span>
#include <system_error>
#include <vector>

#include "sim/io/input_error.h"
#include "sim/units/check.h"

namespace moesim {
namespace {

// scale / divisor base units in one of it; one of the two is 1, so that a conversion rounds once.
struct Unit {
  std::string_view name;
  double scale = 1;
  double divisor = 1;
  enum class Use { kReadAndWrite, kReadOnly } use = Use::kReadAndWrite;

  [[nodiscard]] constexpr double to_base(double count) const { return count * scale / divisor; }
  [[nodiscard]] constexpr double from_base(double value) const { return value * divisor / scale; }
};

struct DimensionInfo {
  const char* noun;             // "a time", for messages
  std::span<const Unit> units;  // ascending among those written
};

constexpr auto kReadOnly = Unit::Use::kReadOnly;

constexpr Unit kTimeUnits[] = {{"ps", 1, 1e12}, {"ns", 1, 1e9}, {"us", 1, 1e6}, {"ms", 1, 1e3}, {"s"}};
constexpr Unit kByteUnits[] = {{"B"},
                               {"KB", 1e3},
                               {"MB", 1e6},
                               {"GB", 1e9},
                               {"TB", 1e12},
                               {"KiB", 0x1p10, 1, kReadOnly},
                               {"MiB", 0x1p20, 1, kReadOnly},
                               {"GiB", 0x1p30, 1, kReadOnly},
                               {"TiB", 0x1p40, 1, kReadOnly}};
constexpr Unit kBandwidthUnits[] = {{"B/s"}, {"KB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}};
constexpr Unit kBytesPerCycleUnits[] = {{"B/clk"}};
constexpr Unit kCycleUnits[] = {{"clk"}};
constexpr Unit kFrequencyUnits[] = {{"Hz"}, {"kHz", 1e3}, {"MHz", 1e6}, {"GHz", 1e9}};
constexpr Unit kFlopRateUnits[] = {
    {"FLOP/s"}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}, {"TOP/s", 1e12, 1, kReadOnly}};
constexpr Unit kFlopsPerCycleUnits[] = {{"FLOP/clk"}};
constexpr Unit kPowerUnits[] = {{"W"}};

constexpr Dimension kAllDimensions[] = {Dimension::kDimensionless, Dimension::kTime,          Dimension::kBytes,
                                        Dimension::kBandwidth,     Dimension::kBytesPerCycle, Dimension::kCycles,
                                        Dimension::kFrequency,     Dimension::kFlopRate,      Dimension::kFlopsPerCycle,
                                        Dimension::kPower};

DimensionInfo info(Dimension dimension) {
  switch (dimension) {
    case Dimension::kDimensionless:
      return {"a plain number", {}};
    case Dimension::kTime:
      return {"a time", kTimeUnits};
    case Dimension::kBytes:
      return {"a number of bytes", kByteUnits};
    case Dimension::kBandwidth:
      return {"a bandwidth", kBandwidthUnits};
    case Dimension::kBytesPerCycle:
      return {"bytes per cycle", kBytesPerCycleUnits};
    case Dimension::kCycles:
      return {"a number of cycles", kCycleUnits};
    case Dimension::kFrequency:
      return {"a frequency", kFrequencyUnits};
    case Dimension::kFlopRate:
      return {"an operation rate", kFlopRateUnits};
    case Dimension::kFlopsPerCycle:
      return {"operations per cycle", kFlopsPerCycleUnits};
    case Dimension::kPower:
      return {"a power", kPowerUnits};
  }
  check_failed("dimension is one of the enum", __FILE__, __LINE__);
}

const Unit* find_unit(std::string_view name, Dimension dimension) {
  const std::span<const Unit> units = info(dimension).units;
  const auto unit = std::ranges::find(units, name, &Unit::name);
  return unit == units.end() ? nullptr : &*unit;
}

// " (a frequency)" when `unit` belongs to another dimension; "" when it belongs to none.
std::string other_dimension(std::string_view unit) {
  for (const Dimension dimension : kAllDimensions) {
    if (find_unit(unit, dimension) != nullptr) return fmt::format(" ({})", info(dimension).noun);
  }
  return "";
}

// A wrong case is the commonest slip, and "gb/s" is as many edits from "B/s" as from "GB/s".
std::string nearest_unit(std::string_view found, Dimension dimension) {
  const auto same_letter = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  std::vector<std::string> names;
  for (const Unit& unit : info(dimension).units) {
    if (std::ranges::equal(found, unit.name, same_letter)) return std::string(unit.name);
    names.emplace_back(unit.name);
  }
  constexpr std::size_t kShort = 2;  // every unit is within two edits of these
  return found.size() <= kShort ? "" : nearest_name(found, names);
}

// Six significant digits, no trailing zeros.
std::string digits(double value) { return fmt::format("{:.6g}", value); }

double rounded_to_six_digits(double value) {
  const std::string text = fmt::format("{:.5e}", value);
  std::from_chars(text.data(), text.data() + text.size(), value);  // unchanged where rounding up would overflow
  return value;
}

// "64 KiB" for 65,536: whole numbers of a binary unit, "" for all others.
std::string in_binary_unit(double bytes) {
  constexpr double kNextUnit = 1024;
  std::string text;
  for (const Unit& unit : kByteUnits) {
    if (unit.use != kReadOnly) continue;
    const double count = unit.from_base(bytes);
    const bool whole = count >= 1 && count < kNextUnit && std::trunc(count) == count;
    if (whole) text = fmt::format("{} {}", digits(count), unit.name);
  }
  return text;
}

}  // namespace

double parse_quantity(std::string_view text, Dimension dimension, const std::string& file, const std::string& where) {
  const bool needs_unit = dimension != Dimension::kDimensionless;
  const std::string expected =
      needs_unit ? fmt::format("a number with a unit, one of {}", unit_names(dimension)) : "a number without a unit";
  const auto fail = [&](const std::string& remark, const std::string& what, const std::string& nearest = "") {
    constexpr std::size_t kMaxShown = 60;
    const std::string_view shown = text.substr(0, kMaxShown);
    throw InputError({file, where, fmt::format("'{}{}'{}", shown, shown == text ? "" : "...", remark), what, nearest});
  };

  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc::result_out_of_range) fail(" (beyond the range of a double)", expected);
  if (error != std::errc()) fail("", expected);
  if (text.front() == '-') fail("", "a number of at least 0");
  if (!std::isfinite(number)) fail("", "a finite number");

  std::string_view unit_name(rest, static_cast<std::size_t>(end - rest));
  if (!needs_unit) {
    if (!unit_name.empty()) fail("", expected);
    return number;
  }
  if (unit_name.starts_with(' ')) unit_name.remove_prefix(1);
  const Unit* const unit = find_unit(unit_name, dimension);
  if (unit == nullptr) fail(other_dimension(unit_name), expected, nearest_unit(unit_name, dimension));
  const double value = unit->to_base(number);
  if (!std::isfinite(value)) fail(" (beyond the range of a double)", expected);
  return value;
}

std::string format_quantity(double base_value, Dimension dimension) {
  const std::span<const Unit> units = info(dimension).units;
  if (units.empty()) return digits(base_value);

  // Rounded before the unit is chosen: 999.9999999 GB/s is "1 TB/s", not "1000 GB/s".
  const double size = std::abs(rounded_to_six_digits(base_value));
  const Unit* chosen = nullptr;
  for (const Unit& unit : units) {
    if (unit.use == kReadOnly) continue;
    // Nothing reads best in the base unit; what is smaller than the smallest unit, in that.
    const bool fits = size == 0 ? unit.to_base(1) == 1 : chosen == nullptr || unit.from_base(size) >= 1;
    if (fits) chosen = &unit;
  }
  MOESIM_CHECK(chosen != nullptr);
  std::string text = fmt::format("{} {}", digits(chosen->from_base(base_value)), chosen->name);
  if (dimension == Dimension::kBytes) {
    const std::string binary = in_binary_unit(base_value);
    if (!binary.empty() && binary.size() < text.size()) return binary;
  }
  return text;
}

std::string unit_names(Dimension dimension) {
  std::string names;
  for (const Unit& unit : info(dimension).units) {
    if (!names.empty()) names += ", ";
    names += unit.name;
  }
  return names;
}

}  // namespace moesim
