// What a study varies, and the values that it takes.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace moesim {

// A value is text as `run` takes it, so that each point of a study can be run alone.
enum class AxisKind {
  kFlag,               // a flag of `run`: "device", "concurrency", "routing", "weights", "tp", "launch", ...
  kModelField,         // --model-override: "experts"
  kDeviceNumber,       // --set: "hbm.bandwidth"
  kStrategyParameter,  // "grouped_gemm.block_m": of that strategy, wherever it is simulated
};

struct AxisValue {
  std::string text;              // "256", "4.8 TB/s", "zipf:0.6"
  std::optional<double> number;  // of a number, in the base unit of its dimension

  bool operator==(const AxisValue&) const = default;
};

struct Axis {
  AxisKind kind = AxisKind::kFlag;
  std::string name;               // "experts", "hbm.bandwidth", "concurrency"
  std::vector<AxisValue> values;  // in the order given, each once; not empty
};

// "NAME=PIECE,PIECE,...". A piece is a value; of numbers also LO..HI:N for N evenly spaced ones, LO..HI:N:geometric, or of
// whole numbers A-B for each of them. A unit at HI alone holds for LO too; whole numbers are rounded to, each stays once.
// Of strategies a piece that is only NAME=VALUE is a further parameter of the one before it. Names, units and ranges are
// checked here: throws InputError (of `flag`, with the nearest name).
Axis parse_axis(const std::string& text, const std::string& flag = "--vary");
// The same of pieces that are already apart: what a JSON file lists.
Axis axis_of(const std::string& name, const std::vector<std::string>& pieces, const std::string& flag = "--vary");

// Numbers have an order between whose values a study may search; whole ones nothing between neighbours.
enum class AxisScale { kNames, kWholeNumbers, kNumbers };
AxisScale scale_of(const Axis& axis);
// The value that the axis has there: rounded to a whole one, or to six digits. Throws InputError (of `flag`) out of range.
AxisValue value_at(const Axis& axis, double number, const std::string& flag = "--vary");

// All names, flags first. Of strategies' parameters: "STRATEGY.PARAMETER".
std::vector<std::string> axis_names();
std::vector<std::string> flag_axis_names();

}  // namespace moesim
