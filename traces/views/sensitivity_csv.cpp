// The study as one line per constant, the largest effect first; each line also says what it was made of.
#include <fmt/format.h>

#include <ostream>

#include "traces/views/csv.h"
#include "traces/views/numbers.h"
#include "traces/views/sensitivity_views.h"

namespace moesim {

void write_sensitivity_csv(const SensitivityStudy& study, std::ostream& out) {
  const auto number = [](double value) { return fmt::format("{}", six_digits(value)); };
  const auto maybe = [&](std::optional<double> value) { return value ? number(*value) : std::string(); };
  const auto flip = [&](const std::optional<FactorEffect::Flip>& of) { return of ? number(of->at) : std::string(); };
  write_csv_line({"constant", "group",        "kind",        "range_by",     "value",       "low",        "high",
                  "result",   "result_value", "result_low",  "result_high",  "winner",      "winner_low", "winner_high",
                  "flip_low", "flip_high",    "concurrency", "tool_version", "calibration", "device",     "device_hash",
                  "model",    "weights",      "routing",     "samples",      "seed"},
                 out);
  const Provenance& p = study.provenance;
  const SensitivityResult& result = study.result;
  for (const FactorEffect& effect : study.effects) {
    const Factor& factor = effect.factor;
    write_csv_line({factor.name,
                    factor_group_name(factor.group()),
                    factor.kind,
                    factor.basis,
                    number(factor.value),
                    number(factor.low),
                    number(factor.high),
                    result.name,
                    number(result.base),
                    maybe(result.at(effect.low)),
                    maybe(result.at(effect.high)),
                    study.winner,
                    effect.low_winner,
                    effect.high_winner,
                    flip(effect.low_flip),
                    flip(effect.high_flip),
                    fmt::format("{}", study.concurrency),
                    p.tool_version,
                    p.calibration,
                    p.device,
                    p.device_hash,
                    p.model,
                    p.weights,
                    p.routing,
                    fmt::format("{}", p.samples),
                    fmt::format("{}", p.seed)},
                   out);
  }
}

}  // namespace moesim
