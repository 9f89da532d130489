// "3.35 TB/s" <-> a number in the base unit of its dimension. Units are required.
#pragma once

#include <string>
#include <string_view>

namespace moesim {

enum class Dimension {
  kDimensionless,  // no unit allowed
  kTime,           // s; ps ns us ms s
  kBytes,          // B; B KB MB GB TB, KiB MiB GiB TiB
  kBandwidth,      // B/s; B/s KB/s ... TB/s
  kBytesPerCycle,  // B/clk
  kCycles,         // clk
  kFrequency,      // Hz; Hz kHz MHz GHz
  kFlopRate,       // FLOP/s; GFLOP/s TFLOP/s PFLOP/s (an operation is a multiply or an add), also TOP/s
  kFlopsPerCycle,  // FLOP/clk
  kPower,          // W
};

// The value in the base unit named above. `where` names file and place for the error.
// Throws InputError: no number, unit missing, unit of another dimension, negative, not finite, trailing text.
double parse_quantity(std::string_view text, Dimension dimension, const std::string& file, const std::string& where);

// Shortest text with a unit that reads well ("4.8 TB/s"); six significant digits.
std::string format_quantity(double base_value, Dimension dimension);

// The units that `dimension` accepts, for messages: "B/s, KB/s, ... TB/s".
std::string unit_names(Dimension dimension);

}  // namespace moesim
