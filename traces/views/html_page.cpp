#include "traces/views/html_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "sim/units/check.h"
#include "traces/views/markup.h"
#include "traces/views/report_files.h"

namespace moesim {
namespace {

std::string_view file(std::string_view name) {
  const std::span<const EmbeddedFile> files = report_files();
  const auto it = std::find_if(files.begin(), files.end(), [&](const EmbeddedFile& f) { return f.name == name; });
  MOESIM_CHECK(it != files.end());
  return it->text;
}

// Inside a script element no text may look like a tag; "\u003c" is '<' in a JSON string, where alone '<' can stand.
std::string without_tags(std::string_view json) {
  std::string out;
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string html_page(const HtmlPage& page_of) {
  std::string scripts;
  for (const char* name : page_of.scripts) scripts += file(name);
  const std::string licence = fmt::format("/*\nD3 (https://d3js.org)\n{}*/\n", file("d3-licence.txt"));
  const std::pair<std::string_view, std::string> parts[] = {{"title", escaped_markup(page_of.title)},
                                                            {"kind", std::string(page_of.kind)},
                                                            {"style", std::string(file("report.css"))},
                                                            {"body", std::string(file(page_of.body))},
                                                            {"library", licence + std::string(file("d3.min.js"))},
                                                            {"data", without_tags(page_of.data)},
                                                            {"scripts", scripts}};
  std::string page;
  std::string_view rest = file("page.html");
  while (true) {  // one pass: what was put in is not looked at again
    const std::size_t begin = rest.find("{{");
    page += rest.substr(0, begin);
    if (begin == std::string_view::npos) return page;
    const std::size_t end = rest.find("}}", begin);
    MOESIM_CHECK(end != std::string_view::npos);
    const std::string_view name = rest.substr(begin + 2, end - begin - 2);
    const auto* part = std::find_if(std::begin(parts), std::end(parts), [&](const auto& p) { return p.first == name; });
    MOESIM_CHECK(part != std::end(parts));
    page += part->second;
    rest.remove_prefix(end + 2);
  }
}

}  // namespace moesim
