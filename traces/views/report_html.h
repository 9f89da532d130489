// The report as one HTML file that needs no network: template, style, D3, scripts and data in one.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "traces/views/report_data.h"

namespace moesim {

void write_report_html(const Report& report, std::ostream& out);

// The page of a title and a data block. Whatever the texts hold, they stay text.
std::string report_page(std::string_view title, std::string_view data);

}  // namespace moesim
