#include "sim/io/input_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace moesim {
namespace {

std::string one_line(const InputProblem& p) {
  std::string text = p.file;
  if (!p.where.empty()) text += (text.empty() ? "" : ": ") + p.where;
  if (!text.empty()) text += ": ";
  text += fmt::format("found {}, expected {}", p.found, p.expected);
  if (!p.nearest.empty()) text += fmt::format("; did you mean '{}'?", p.nearest);
  // Input may hold control characters; the message stays on one line of a terminal.
  for (char& c : text) {
    if (std::iscntrl(static_cast<unsigned char>(c)) != 0) c = ' ';
  }
  return text;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<std::size_t> previous2(columns), previous(columns), current(columns);
  for (std::size_t j = 0; j < columns; ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j < columns; ++j) {
      const std::size_t replace = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], previous2[j - 2] + 1);
      }
    }
    std::swap(previous2, previous);
    std::swap(previous, current);
  }
  return previous.back();
}

}  // namespace

InputError::InputError(InputProblem problem) : std::runtime_error(one_line(problem)), problem_(std::move(problem)) {}

std::string nearest_name(std::string_view found, const std::vector<std::string>& candidates) {
  if (found.size() > 200) return "";  // a paragraph is nobody's misspelling
  std::string best;
  std::size_t best_distance = static_cast<std::size_t>(-1);
  for (const std::string& candidate : candidates) {
    const std::size_t limit = std::max<std::size_t>(2, std::max(found.size(), candidate.size()) / 3);
    const std::size_t distance = edit_distance(found, candidate);
    if (distance <= limit && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace moesim
