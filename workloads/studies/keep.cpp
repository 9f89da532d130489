#include "workloads/studies/keep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/io/input_error.h"
#include "sim/units/check.h"

namespace moesim {
namespace {

constexpr Keep kAllKeeps[] = {Keep::kActive, Keep::kTotal, Keep::kBoth};
constexpr std::int64_t kWidthGranule = 128;
constexpr double kMostDeviation = 0.05;

bool keeps_active(Keep keep) { return keep == Keep::kActive || keep == Keep::kBoth; }
bool keeps_total(Keep keep) { return keep == Keep::kTotal || keep == Keep::kBoth; }

// a x b / c to the nearest multiple of the granule, at least one.
std::int64_t scaled(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t granule) {
  const double exact = static_cast<double>(a) * static_cast<double>(b) / static_cast<double>(c);
  return granule * std::max<std::int64_t>(1, std::llround(exact / static_cast<double>(granule)));
}

// Why `now` is too far from `before`; "" when it is not.
std::string deviation(const char* what, double before, double now) {
  const double by = now / before - 1;
  if (std::abs(by) <= kMostDeviation) return "";
  return fmt::format("{} parameters would change by {:+.1f} %", what, 100 * by);
}

}  // namespace

Keep parse_keep(const std::string& text, const std::string& flag) {
  std::vector<std::string> names;
  for (const Keep keep : kAllKeeps) {
    names.emplace_back(keep_name(keep));
    if (text == names.back()) return keep;
  }
  throw InputError({flag, "", fmt::format("'{}'", text), fmt::format("one of {}", fmt::join(names, ", ")),
                    nearest_name(text, names)});
}

const char* keep_name(Keep keep) {
  switch (keep) {
    case Keep::kNothing:
      return "nothing";
    case Keep::kActive:
      return "active";
    case Keep::kTotal:
      return "total";
    case Keep::kBoth:
      return "both";
  }
  check_failed("keep is one of the enum", __FILE__, __LINE__);
}

std::optional<std::string> cannot_keep(bool experts, bool topk, bool intermediate, Keep keep) {
  if (keep == Keep::kNothing) return std::nullopt;
  const int varied = (experts ? 1 : 0) + (topk ? 1 : 0) + (intermediate ? 1 : 0);
  if (varied == 0) return "none of experts, topk and intermediate is varied";
  if (keep == Keep::kBoth && varied > 1) return "more than one of experts, topk and intermediate is varied";
  if (keep == Keep::kActive && topk && intermediate) return "both topk and intermediate are varied";
  if (keep == Keep::kTotal && experts && intermediate) return "both experts and intermediate are varied";
  return std::nullopt;
}

std::variant<ExpertShape, std::string> rescale(const ExpertShape& base, const VariedShape& varied, Keep keep) {
  MOESIM_CHECK(
      !cannot_keep(varied.experts.has_value(), varied.topk.has_value(), varied.intermediate.has_value(), keep));
  ExpertShape shape{varied.experts.value_or(base.experts), varied.topk.value_or(base.topk),
                    varied.intermediate.value_or(base.intermediate)};
  if (keep == Keep::kNothing) return shape;
  if (varied.intermediate) {
    if (keeps_active(keep)) shape.topk = scaled(base.topk, base.intermediate, shape.intermediate, 1);
    if (keeps_total(keep)) shape.experts = scaled(base.experts, base.intermediate, shape.intermediate, 1);
  } else if (varied.topk && keeps_active(keep)) {
    shape.intermediate = scaled(base.intermediate, base.topk, shape.topk, kWidthGranule);
    if (keeps_total(keep)) shape.experts = scaled(base.experts, shape.topk, base.topk, 1);
  } else if (varied.experts && keeps_total(keep)) {
    shape.intermediate = scaled(base.intermediate, base.experts, shape.experts, kWidthGranule);
    if (keeps_active(keep)) shape.topk = scaled(base.topk, shape.experts, base.experts, 1);
  }

  const auto product = [](std::int64_t count, std::int64_t width) {
    return static_cast<double>(count) * static_cast<double>(width);
  };
  std::string why;
  if (keeps_active(keep)) {
    why = deviation("active", product(base.topk, base.intermediate), product(shape.topk, shape.intermediate));
  }
  if (why.empty() && keeps_total(keep)) {
    why = deviation("total", product(base.experts, base.intermediate), product(shape.experts, shape.intermediate));
  }
  if (!why.empty()) {
    return fmt::format("no model of {} experts, top-k {} and width {} keeps {}: {}", shape.experts, shape.topk,
                       shape.intermediate, keep_name(keep), why);
  }
  return shape;
}

}  // namespace moesim
