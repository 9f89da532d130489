// moesim import --format routing: a recorded routing of any known format as an array with a sidecar, or JSON Lines.
#pragma once

#include <optional>
#include <string>

#include "tools/command_line.h"

namespace moesim {

struct RoutingImportFlags {
  std::optional<std::string> model, experts, topk, layers, layer, tokens;
  void add(FlagSet& set);
};

CommandResult import_routing(const std::string& in, const std::string& out, const RoutingImportFlags& flags);

}  // namespace moesim
