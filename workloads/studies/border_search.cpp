#include "workloads/studies/border_search.h"

#include <iterator>
#include <set>

#include "sim/units/check.h"

namespace moesim {

std::vector<KnownLabels> find_borders(std::size_t lines, const std::vector<std::int64_t>& coarse,
                                      const LabelsOf& labels_of) {
  MOESIM_CHECK(!coarse.empty());
  std::vector<KnownLabels> known(lines);
  std::vector<AxisPlace> wave;
  for (std::size_t line = 0; line < lines; ++line) {
    for (const std::int64_t at : coarse) wave.push_back({line, at});
  }
  while (!wave.empty()) {
    const std::vector<int> labels = labels_of(wave);
    MOESIM_CHECK(labels.size() == wave.size());
    for (std::size_t i = 0; i < wave.size(); ++i) known[wave[i].line].emplace(wave[i].at, labels[i]);
    wave.clear();
    for (std::size_t line = 0; line < lines; ++line) {
      for (auto left = known[line].begin(), right = std::next(left); right != known[line].end(); left = right++) {
        if (left->second == right->second || right->first - left->first == 1) continue;
        wave.push_back({line, left->first + (right->first - left->first) / 2});
      }
    }
  }
  return known;
}

std::vector<Stretch> stretches_of(const KnownLabels& known) {
  std::vector<Stretch> stretches;
  for (const auto& [at, label] : known) {
    if (stretches.empty() || stretches.back().label != label) stretches.push_back({at, at, label});
    stretches.back().to = at;
  }
  return stretches;
}

std::vector<std::int64_t> geometric_places(std::int64_t from, std::int64_t to) {
  MOESIM_CHECK(from > 0 && from <= to);
  std::set<std::int64_t> places = {from, to};
  for (std::int64_t power = 1; power<to; power = power> to / 2 ? to : 2 * power) {
    for (const std::int64_t at : {power, power / 2 * 3}) {
      if (at > from && at < to) places.insert(at);
    }
  }
  return {places.begin(), places.end()};
}

}  // namespace moesim
