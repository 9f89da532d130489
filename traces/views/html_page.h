// A page as one HTML file that needs no network: frame, style, D3, scripts and data in one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace moesim {

struct HtmlPage {
  std::string_view title;
  const char* kind;                      // what it calls itself: "report"
  const char* body;                      // file of views/report: the sections of the page
  std::span<const char* const> scripts;  // files of views/report, in the order in which they run
  std::string_view data;                 // JSON
};

// Whatever title and data hold, they stay text.
std::string html_page(const HtmlPage& page);

}  // namespace moesim
