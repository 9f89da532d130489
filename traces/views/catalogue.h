// Views of a concurrency study: each writes the whole of it in one format.
#pragma once

#include <iosfwd>
#include <span>
#include <string>

#include "workloads/studies/concurrency.h"

namespace moesim {

void write_concurrency_table(const ConcurrencyStudy& study, std::ostream& out);  // for people
void write_concurrency_json(const ConcurrencyStudy& study, std::ostream& out);   // everything
void write_concurrency_csv(const ConcurrencyStudy& study, std::ostream& out);    // a line per concurrency and strategy
void write_concurrency_svg(const ConcurrencyStudy& study, std::ostream& out);    // a chart

struct ConcurrencyView {
  const char* name;  // as --format takes it
  void (*write)(const ConcurrencyStudy& study, std::ostream& out);
  bool shows_kernels;  // of an explained study
};

std::span<const ConcurrencyView> concurrency_views();
// Throws InputError (flag --format) with the nearest right name.
const ConcurrencyView& find_concurrency_view(const std::string& name);

}  // namespace moesim
