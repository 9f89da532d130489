// What is said of a crossover study in words.
#include <fmt/format.h>

#include <vector>

#include "sim/io/input_error.h"
#include "traces/views/crossover_views.h"

namespace moesim {
namespace {

constexpr CrossoverView kViews[] = {{"table", write_crossover_table},
                                    {"json", write_crossover_json},
                                    {"csv", write_crossover_csv},
                                    {"svg", write_crossover_svg}};

std::string winner_name(const CrossoverStudy& study, const std::optional<std::size_t>& winner) {
  return winner ? study.strategies[*winner] : "nothing feasible";
}

}  // namespace

std::span<const CrossoverView> crossover_views() { return kViews; }

const CrossoverView& find_crossover_view(const std::string& name) {
  std::vector<std::string> names;
  for (const CrossoverView& view : kViews) {
    if (name == view.name) return view;
    names.emplace_back(view.name);
  }
  throw InputError({"--format", "", fmt::format("'{}'", name), fmt::format("one of {}", fmt::join(names, ", ")),
                    nearest_name(name, names)});
}

std::string line_name(const CrossoverStudy& study, const CrossoverLine& line) {
  std::string name;
  for (std::size_t i = 0; i < line.coordinates.size(); ++i) {
    name += fmt::format("{}{} {}", i == 0 ? "" : ", ", study.line_axes[i], line.coordinates[i]);
  }
  return name;
}

std::string crossover_sentence(const CrossoverStudy& study, const CrossoverLine& line) {
  const auto at = [&](std::int64_t place) { return line.standing(place).value.text; };
  const Standing& first = line.standings.front();
  const Standing& last = line.standings.back();
  const std::vector<Crossing> crossings = crossings_of(line);
  std::string text;
  if (crossings.empty()) {
    text = fmt::format("{} is fastest from {} {} to {}", winner_name(study, first.winner), study.axis, first.value.text,
                       last.value.text);
  } else {
    text = fmt::format("{} is fastest up to {} {}", winner_name(study, crossings.front().before), study.axis,
                       at(crossings.front().last_before));
  }
  for (std::size_t i = 0; i < crossings.size(); ++i) {
    const bool is_last = i + 1 == crossings.size();
    text += fmt::format(", {} from {} {}", winner_name(study, crossings[i].after), at(crossings[i].first_after),
                        is_last ? "on" : "to " + at(crossings[i + 1].last_before));
  }
  text += ".";
  std::vector<std::string> zones;
  const std::vector<WinnerSpan> spans = spans_of(line);
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (!spans[i].contested) continue;
    std::size_t end = i;
    while (end + 1 < spans.size() && spans[end + 1].contested) ++end;
    zones.push_back(spans[i].from == spans[end].to
                        ? "at " + at(spans[i].from)
                        : fmt::format("from {} to {}", at(spans[i].from), at(spans[end].to)));
    i = end;
  }
  if (!zones.empty()) {
    std::string list = zones.front();
    for (std::size_t i = 1; i < zones.size(); ++i) list += (i + 1 == zones.size() ? " and " : ", ") + zones[i];
    list[0] = list[0] == 'a' ? 'A' : 'F';
    text += fmt::format(" {} the lead is under the predicted error.", list);
  }
  return text;
}

}  // namespace moesim
