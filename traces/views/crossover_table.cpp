// A crossover study as aligned text: who made it, the spans of each line, of a single line also every place looked at.
#include <fmt/format.h>

#include <ostream>

#include "traces/views/crossover_views.h"
#include "traces/views/provenance_views.h"
#include "traces/views/text_table.h"

namespace moesim {
namespace {

using Align = TextTable::Align;

std::string range_text(double least, double most, int digits) {
  const std::string low = fmt::format("{:.{}f}", least, digits), high = fmt::format("{:.{}f}", most, digits);
  return low == high ? low : low + " to " + high;
}

std::string names(const CrossoverStudy& study, const std::vector<std::size_t>& strategies) {
  std::vector<std::string> list;
  for (const std::size_t s : strategies) list.push_back(study.strategies[s]);
  return list.empty() ? "-" : fmt::format("{}", fmt::join(list, ", "));
}

void write_spans(const CrossoverStudy& study, std::ostream& out) {
  std::vector<TextTable::Column> columns;
  for (const std::string& axis : study.line_axes) columns.push_back({axis, Align::kLeft});
  columns.insert(columns.end(), {{study.axis, Align::kLeft},
                                 {"fastest", Align::kLeft},
                                 {"lead ×", Align::kLeft},
                                 {"over", Align::kLeft},
                                 {"", Align::kLeft}});
  TextTable table(columns);
  for (const CrossoverLine& line : study.lines) {
    if (&line != &study.lines.front()) table.add_gap();
    bool first = true;
    for (const WinnerSpan& span : spans_of(line)) {
      std::vector<std::string> cells = first ? line.coordinates : std::vector<std::string>(study.line_axes.size());
      first = false;
      const std::string from = line.standing(span.from).value.text, to = line.standing(span.to).value.text;
      cells.push_back(from == to ? from : from + " to " + to);
      cells.push_back(span.winner ? study.strategies[*span.winner] : "-");
      cells.push_back(span.next.empty() ? "-" : range_text(span.lead_min, span.lead_max, 2));
      cells.push_back(names(study, span.next));
      cells.push_back(!span.winner ? "nothing is feasible" : span.contested ? "under the predicted error" : "");
      table.add_row(std::move(cells));
    }
  }
  table.write(out);
}

void write_places(const CrossoverStudy& study, const CrossoverLine& line, std::ostream& out) {
  std::vector<TextTable::Column> columns = {{study.axis, Align::kRight}};
  for (const std::string& strategy : study.strategies) columns.push_back({strategy + " µs", Align::kRight});
  columns.insert(columns.end(), {{"lead %", Align::kRight},
                                 {"± %", Align::kRight},
                                 {"confidence %", Align::kRight},
                                 {"distinct", Align::kRight}});
  TextTable table(columns);
  for (const Standing& s : line.standings) {
    std::vector<std::string> cells = {s.value.text};
    for (std::size_t i = 0; i < s.times.size(); ++i) {
      cells.push_back(s.times[i] ? fmt::format("{}{:.2f}", s.winner == i ? "* " : "", to_microseconds(*s.times[i]))
                                 : "infeasible");
    }
    const auto percent = [](const std::optional<double>& share, int digits) {
      return share ? fmt::format("{:.{}f}", *share * 100, digits) : "-";
    };
    cells.push_back(s.next ? fmt::format("{:.1f}", (s.lead() - 1) * 100) : "-");
    cells.push_back(percent(s.lead_error(), 1));
    cells.push_back(percent(s.confidence(), 0));
    cells.push_back(fmt::format("{:.1f}", s.distinct_experts));
    table.add_row(std::move(cells));
  }
  out << "\nat all places looked at (* fastest; ± standard error of the lead)\n";
  table.write(out);
}

}  // namespace

void write_crossover_table(const CrossoverStudy& study, std::ostream& out) {
  write_provenance(study.provenance, out);
  write_spans(study, out);
  if (study.lines.size() == 1) write_places(study, study.lines.front(), out);
  out << "\nverdict\n";
  for (const CrossoverLine& line : study.lines) {
    const std::string name = line_name(study, line);
    out << "  " << name << (name.empty() ? "" : ": ") << crossover_sentence(study, line) << '\n';
    if (line.provenance.routing != study.provenance.routing) out << "    routing " << line.provenance.routing << '\n';
    for (std::size_t i = 0; i < line.reasons.size(); ++i) {
      if (!line.reasons[i].empty())
        out << fmt::format("    {} is infeasible: {}\n", study.strategies[i], line.reasons[i]);
    }
  }
  if (study.assumed_error) {
    out << fmt::format("  ± {:g} % is assumed where no error is known.\n", *study.assumed_error * 100);
  }
}

}  // namespace moesim
