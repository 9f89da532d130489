#include "sim/engine/effects.h"

#include <fmt/format.h>

#include <vector>

#include "sim/io/input_error.h"

namespace moesim {
namespace {

struct Names {
  std::string_view name, title;
};
constexpr std::array<Names, kEffectCount> kNames = {{
    {"helpers", "helper kernels"},
    {"fill", "prologues, first bytes and epilogues"},
    {"launch", "launches and dispatch"},
    {"padding", "rows that nobody asked for"},
    {"weight_load", "weights on their way into matrix arrays"},
    {"matrix", "matrix products"},
    {"vector", "vector work"},
    {"serial_step", "dependent chains of K-steps"},
    {"rereads", "bytes read again from memory"},
    {"copies", "copies read back from memory"},
    {"cache_bandwidth", "caches and load ports"},
    {"tail", "imbalance and tail"},
    {"in_flight", "too few bytes in flight"},
    {"byte_weight", "bytes dearer than a plain stream's"},
    {"writes", "bytes written"},
}};

const Names& names_of(Effect effect) { return kNames[static_cast<std::size_t>(effect)]; }

}  // namespace

std::string_view effect_name(Effect effect) { return names_of(effect).name; }
std::string_view effect_title(Effect effect) { return names_of(effect).title; }

Effect parse_effect(const std::string& flag, const std::string& name) {
  std::vector<std::string> names;
  for (const Effect effect : all_effects()) {
    if (name == effect_name(effect)) return effect;
    names.emplace_back(effect_name(effect));
  }
  throw InputError({flag, "", fmt::format("'{}'", name), fmt::format("one of {}", fmt::join(names, ", ")),
                    nearest_name(name, names)});
}

}  // namespace moesim
