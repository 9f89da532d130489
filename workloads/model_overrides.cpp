#include "workloads/model_overrides.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "sim/io/input_error.h"
#include "sim/units/check.h"
#include "workloads/dtype.h"
#include "workloads/model_limits.h"

namespace moesim {
namespace {

enum class ValueKind { kWhole, kFlag, kNumber, kFormat, kScoring, kFamily };

struct Concept {
  const char* name;
  ValueKind kind = ValueKind::kWhole;
  std::int64_t min = 0, max = 0;  // of kWhole
};

constexpr std::array kConcepts = {
    Concept{"hidden", ValueKind::kWhole, 1, kMaxWidth},
    Concept{"intermediate", ValueKind::kWhole, 1, kMaxWidth},
    Concept{"experts", ValueKind::kWhole, 1, kMaxExperts},
    Concept{"topk", ValueKind::kWhole, 1, kMaxExperts},
    Concept{"layers", ValueKind::kWhole, 1, kMaxLayers},
    Concept{"moe_layers", ValueKind::kWhole, 1, kMaxLayers},
    Concept{"shared_experts", ValueKind::kWhole, 0, kMaxExperts},
    Concept{"shared_intermediate", ValueKind::kWhole, 0, kMaxWidth},
    Concept{"dense_intermediate", ValueKind::kWhole, 0, kMaxWidth},
    Concept{"latent", ValueKind::kWhole, 0, kMaxWidth},
    Concept{"zero_experts", ValueKind::kWhole, 0, kMaxExperts},
    Concept{"groups", ValueKind::kWhole, 1, kMaxExperts},
    Concept{"topk_groups", ValueKind::kWhole, 1, kMaxExperts},
    Concept{"vocabulary", ValueKind::kWhole, 0, kMaxVocabulary},
    Concept{"gated", ValueKind::kFlag},
    Concept{"shared_gate", ValueKind::kFlag},
    Concept{"norm_topk", ValueKind::kFlag},
    Concept{"tied_embeddings", ValueKind::kFlag},
    Concept{"routed_scale", ValueKind::kNumber},
    Concept{"scoring", ValueKind::kScoring},
    Concept{"weights", ValueKind::kFormat},
    Concept{"shared_weights", ValueKind::kFormat},
    Concept{"dense_weights", ValueKind::kFormat},
    Concept{"attention_weights", ValueKind::kFormat},
    Concept{"head_weights", ValueKind::kFormat},
    Concept{"family", ValueKind::kFamily},
};

template <class Number>
bool reads_as(const std::string& text, Number& value) {
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return !text.empty() && error == std::errc() && rest == end;
}

[[noreturn]] void refuse_value(const std::string& assignment, std::string expected, std::string nearest = "") {
  throw InputError({"--model-override", "", fmt::format("'{}'", assignment), std::move(expected), std::move(nearest)});
}

void check_value(const Concept& known, const std::string& value, const std::string& assignment) {
  switch (known.kind) {
    case ValueKind::kWhole: {
      std::int64_t whole = 0;
      if (reads_as(value, whole) && whole >= known.min && whole <= known.max) return;
      refuse_value(assignment, fmt::format("a whole number from {} to {}", known.min, known.max));
    }
    case ValueKind::kFlag:
      if (value == "true" || value == "false") return;
      refuse_value(assignment, "true or false", nearest_name(value, {"true", "false"}));
    case ValueKind::kNumber: {
      double number = 0;
      if (reads_as(value, number) && number >= 0 && number <= kMaxRoutedScale) return;
      refuse_value(assignment, fmt::format("a number from 0 to {}", kMaxRoutedScale));
    }
    case ValueKind::kFormat:
      parse_format(value, fmt::format("--model-override {}", known.name));
      return;
    case ValueKind::kScoring:
      if (value == "softmax" || value == "sigmoid" || value == "sqrtsoftplus") return;
      refuse_value(assignment, "softmax, sigmoid or sqrtsoftplus",
                   nearest_name(value, {"softmax", "sigmoid", "sqrtsoftplus"}));
    case ValueKind::kFamily:
      return;  // the reader knows the families
  }
}

}  // namespace

ModelOverrides::ModelOverrides(const std::vector<std::string>& assignments) {
  for (const std::string& assignment : assignments) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) refuse_value(assignment, "NAME=VALUE, as in hidden=4096");
    const std::string name = assignment.substr(0, equals);
    const std::string value = assignment.substr(equals + 1);
    const auto* const known =
        std::find_if(kConcepts.begin(), kConcepts.end(), [&](const Concept& c) { return name == c.name; });
    if (known == kConcepts.end()) {
      refuse_value(assignment, fmt::format("one of {}", names()), nearest_name(name, fields()));
    }
    check_value(*known, value, assignment);
    if (!values_.emplace(name, value).second) refuse_value(assignment, fmt::format("{} once", name));
  }
}

std::optional<std::string> ModelOverrides::text(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::int64_t> ModelOverrides::whole(const std::string& name) const {
  const std::optional<std::string> stated = text(name);
  if (!stated) return std::nullopt;
  std::int64_t value = 0;
  MOESIM_CHECK(reads_as(*stated, value));
  return value;
}

std::optional<bool> ModelOverrides::flag(const std::string& name) const {
  const std::optional<std::string> stated = text(name);
  return stated ? std::optional(*stated == "true") : std::nullopt;
}

std::optional<double> ModelOverrides::number(const std::string& name) const {
  const std::optional<std::string> stated = text(name);
  if (!stated) return std::nullopt;
  double value = 0;
  MOESIM_CHECK(reads_as(*stated, value));
  return value;
}

void ModelOverrides::set(std::vector<std::string>& assignments, const std::string& name, const std::string& value) {
  std::erase_if(assignments, [&](const std::string& stated) { return stated.starts_with(name + "="); });
  assignments.push_back(fmt::format("{}={}", name, value));
}

std::string ModelOverrides::names() { return fmt::format("{}", fmt::join(fields(), ", ")); }

std::vector<std::string> ModelOverrides::fields() {
  std::vector<std::string> names;
  for (const Concept& known : kConcepts) names.emplace_back(known.name);
  return names;
}

ModelOverrides::FieldKind ModelOverrides::field_kind(const std::string& name) {
  const auto* const known =
      std::find_if(kConcepts.begin(), kConcepts.end(), [&](const Concept& c) { return name == c.name; });
  MOESIM_CHECK(known != kConcepts.end());
  return known->kind == ValueKind::kWhole    ? FieldKind::kWhole
         : known->kind == ValueKind::kNumber ? FieldKind::kNumber
                                             : FieldKind::kText;
}

}  // namespace moesim
