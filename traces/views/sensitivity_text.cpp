#include <fmt/format.h>

#include "sim/io/input_error.h"
#include "traces/views/sensitivity_views.h"

namespace moesim {
namespace {

constexpr SensitivityView kViews[] = {
    {"table", write_sensitivity_table},
    {"json", write_sensitivity_json},
    {"csv", write_sensitivity_csv},
    {"svg", write_sensitivity_svg},
};

std::string flip_sentence(const FactorEffect& effect, const FactorEffect::Flip& flip, bool low) {
  const Factor& factor = effect.factor;
  const std::string at = factor.text(flip.at);
  return fmt::format("{} of {} and {}: {} wins (it is {}, up to {})", factor.name, at, low ? "less" : "more",
                     flip.winner.empty() ? "nothing is feasible, so nothing" : flip.winner, factor.text(factor.value),
                     factor.text(low ? factor.low : factor.high));
}

}  // namespace

std::span<const SensitivityView> sensitivity_views() { return kViews; }

const SensitivityView& find_sensitivity_view(const std::string& name) {
  std::vector<std::string> names;
  for (const SensitivityView& view : kViews) {
    if (name == view.name) return view;
    names.emplace_back(view.name);
  }
  throw InputError({"--format", "", fmt::format("'{}'", name), fmt::format("one of {}", fmt::join(names, ", ")),
                    nearest_name(name, names)});
}

std::string result_text(const SensitivityResult& result, double value) {
  return result.denominator ? fmt::format("{:.3f}", value) : fmt::format("{:.2f} µs", value);
}

std::string sensitivity_headline(const SensitivityStudy& study) {
  const SensitivityResult& result = study.result;
  return fmt::format("{} at {} token{}: {}, p5 to p95 {} to {} by the constants below; {} is fastest", result.name,
                     study.concurrency, study.concurrency == 1 ? "" : "s", result_text(result, result.base),
                     result_text(result, result.base * (1 - result.all.down)),
                     result_text(result, result.base * (1 + result.all.up)), study.winner);
}

std::vector<std::string> sensitivity_notes(const SensitivityStudy& study) {
  std::vector<std::string> notes;
  for (const FactorEffect& effect : study.effects) {
    if (effect.low_flip) notes.push_back(flip_sentence(effect, *effect.low_flip, true));
    if (effect.high_flip) notes.push_back(flip_sentence(effect, *effect.high_flip, false));
  }
  if (notes.empty())
    notes.push_back(fmt::format("none of the constants alone: {} wins at both ends of each", study.winner));
  return notes;
}

}  // namespace moesim
