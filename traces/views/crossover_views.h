// Views of a crossover study: where the winner changes along an axis, or the map of it.
#pragma once

#include <iosfwd>
#include <span>
#include <string>

#include "workloads/studies/crossover.h"

namespace moesim {

void write_crossover_table(const CrossoverStudy& study, std::ostream& out);  // for people
void write_crossover_json(const CrossoverStudy& study, std::ostream& out);   // everything
void write_crossover_csv(const CrossoverStudy& study, std::ostream& out);    // a line per place
void write_crossover_svg(const CrossoverStudy& study, std::ostream& out);    // a chart of times, or a map

struct CrossoverView {
  const char* name;  // as --format takes it
  void (*write)(const CrossoverStudy& study, std::ostream& out);
};
std::span<const CrossoverView> crossover_views();
// Throws InputError (flag --format) with the nearest right name.
const CrossoverView& find_crossover_view(const std::string& name);

// "stream_gemv is fastest up to concurrency 5, grouped_gemm from 6 on. From 4 to 9 the lead is under the predicted error."
std::string crossover_sentence(const CrossoverStudy& study, const CrossoverLine& line);
// "device h200, experts 256", of a map's line; "" without a second axis.
std::string line_name(const CrossoverStudy& study, const CrossoverLine& line);

}  // namespace moesim
