// Lists of strategies as flags hold them.
#pragma once

#include <string>
#include <vector>

namespace moesim {

// "grouped_gemm:block_m=32,swap_ab=1,stream_gemv" -> two texts: a piece that is only NAME=VALUE is a further parameter of
// the strategy before it. Throws InputError (of `flag`) for empty pieces.
std::vector<std::string> split_strategies(const std::string& flag, const std::string& text);

}  // namespace moesim
