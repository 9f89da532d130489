// The page of a serving study.
#include <ostream>

#include "traces/views/serving_views.h"

namespace moesim {

void write_serving_report(const ServingStudy&, std::ostream&) {}

}  // namespace moesim
