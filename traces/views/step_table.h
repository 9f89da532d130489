// What the table says of a decode step in place of a layer's rows: rates of output, the share of the MoE layers, and where
// the time of a step goes by part.
#pragma once

#include <iosfwd>
#include <string>

#include "workloads/studies/concurrency.h"

namespace moesim {

std::string step_title(const Provenance& provenance);
void write_step_provenance(const Provenance::Step& step, std::ostream& out);
void write_step_rows(const ConcurrencyStudy& study, std::ostream& out);
void write_step_parts(const ConcurrencyStudy& study, std::ostream& out);

// Tokens a second of one sequence, at the median time; all sequences together make `concurrency` times as many.
double tokens_per_second(const StrategyFigures& figures);

}  // namespace moesim
