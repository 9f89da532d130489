// The tornado as aligned text: the constants by the size of their effect, what could change the winner, the error bars.
#include <fmt/format.h>

#include <ostream>

#include "traces/views/concurrency_text.h"
#include "traces/views/provenance_views.h"
#include "traces/views/sensitivity_views.h"
#include "traces/views/text_table.h"

namespace moesim {
namespace {

using Align = TextTable::Align;

std::string plain(const SensitivityResult& result, std::optional<double> value) {
  if (!value) return "-";
  return fmt::format("{:.{}f}", *value, result.denominator ? 3 : 2);
}

std::string change(const SensitivityResult& result, std::optional<double> value) {
  return value ? fmt::format("{:+.1f}", (*value / result.base - 1) * 100) : "-";
}

std::string bar(const ErrorBar& error) { return fmt::format("-{:.1f} +{:.1f}", error.down * 100, error.up * 100); }

}  // namespace

void write_sensitivity_table(const SensitivityStudy& study, std::ostream& out) {
  write_provenance(study.provenance, out);
  const SensitivityResult& result = study.result;
  out << sensitivity_headline(study) << "\n\n";
  TextTable table({{"constant", Align::kLeft},
                   {"kind", Align::kLeft},
                   {"value", Align::kRight},
                   {"p5", Align::kRight},
                   {"p95", Align::kRight},
                   {result.denominator ? "ratio at p5" : "µs at p5", Align::kRight},
                   {"at p95", Align::kRight},
                   {"% at p5", Align::kRight},
                   {"at p95", Align::kRight},
                   {"range by", Align::kLeft}});
  for (const FactorEffect& effect : study.effects) {
    const Factor& factor = effect.factor;
    const std::optional<double> low = result.at(effect.low), high = result.at(effect.high);
    table.add_row({factor.name, factor.kind, factor.text(factor.value), factor.text(factor.low),
                   factor.text(factor.high), plain(result, low), plain(result, high), change(result, low),
                   change(result, high), factor.basis});
  }
  table.write(out);
  if (study.without_effect > 0) out << fmt::format("  {} more constants change nothing here\n", study.without_effect);
  out << "\nwhat could change the winner\n";
  for (const std::string& note : sensitivity_notes(study)) out << "  " << note << '\n';

  out << "\nerror bars in % (root of the sum of squares: p5 and p95 of what the constants alone leave open; the "
         "model's own error: "
         "run --uncertainty)\n";
  TextTable bars({{"result", Align::kLeft},
                  {"value", Align::kRight},
                  {"all", Align::kRight},
                  {"device", Align::kRight},
                  {"fitted", Align::kRight},
                  {"workload", Align::kRight}});
  const auto add = [&](const SensitivityResult& of) {
    bars.add_row({of.name, result_text(of, of.base), bar(of.all), bar(of.device), bar(of.fitted), bar(of.workload)});
  };
  if (result.denominator) add(result);
  for (const SensitivityResult& of : study.every) add(of);
  bars.write(out);
}

}  // namespace moesim
