// Views of a sensitivity study: each writes the whole of it in one format.
#pragma once

#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "workloads/studies/sensitivity.h"

namespace moesim {

void write_sensitivity_table(const SensitivityStudy& study, std::ostream& out);
void write_sensitivity_json(const SensitivityStudy& study, std::ostream& out);
void write_sensitivity_csv(const SensitivityStudy& study, std::ostream& out);  // a line per constant
void write_sensitivity_svg(const SensitivityStudy& study, std::ostream& out);  // the tornado

struct SensitivityView {
  const char* name;  // as --format takes it
  void (*write)(const SensitivityStudy& study, std::ostream& out);
};
std::span<const SensitivityView> sensitivity_views();
// Throws InputError (flag --format) with the nearest right name.
const SensitivityView& find_sensitivity_view(const std::string& name);

// The effects and error bars of a study, without what it was made of.
nlohmann::ordered_json sensitivity_json(const SensitivityStudy& study);
// "lead of grouped_gemm ..: 1.135, error bar 1.021 to 1.302".
std::string sensitivity_headline(const SensitivityStudy& study);
// What may change the winner, a sentence each, and what was left out.
std::vector<std::string> sensitivity_notes(const SensitivityStudy& study);
// "123.4 us" of a time, "1.135" of a ratio.
std::string result_text(const SensitivityResult& result, double value);

}  // namespace moesim
