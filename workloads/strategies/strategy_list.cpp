#include "workloads/strategies/strategy_list.h"

#include "sim/io/flag_text.h"

namespace moesim {

std::vector<std::string> split_strategies(const std::string& flag, const std::string& text) {
  std::vector<std::string> strategies;
  for (const std::string& piece : split_list(flag, text)) {
    const std::size_t equals = piece.find('=');
    if (!strategies.empty() && equals != std::string::npos && piece.find(':') > equals) {
      strategies.back() += (strategies.back().find(':') == std::string::npos ? ":" : ",") + piece;
    } else {
      strategies.push_back(piece);
    }
  }
  return strategies;
}

}  // namespace moesim
