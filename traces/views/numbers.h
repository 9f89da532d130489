// How many digits a figure is written with.
#pragma once

namespace moesim {

// To six significant digits: what is simulated is not known more exactly, and the last digits of a double differ
// between compilers.
double six_digits(double value);

}  // namespace moesim
