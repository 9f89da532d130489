#include "traces/arrival_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "sim/io/input_error.h"
#include "sim/io/strict_json.h"
#include "traces/importers/csv_table.h"
#include "traces/routing_formats/json_lines.h"

namespace moesim {
namespace {

constexpr double kMostSeconds = 1e6;  // 11 days
constexpr const char* kArrival = "arrival_s";
constexpr const char* kPrompt = "prompt_tokens";
constexpr const char* kOutput = "output_tokens";
constexpr const char* kSession = "session";

class Sessions {
 public:
  void add(double seconds, std::int64_t prompt, std::int64_t output, const std::string& name) {
    const auto [place, fresh] = name.empty() ? std::pair(places_.end(), true) : places_.emplace(name, all_.size());
    if (fresh) all_.emplace_back();
    Session& session = fresh ? all_.back() : all_[place->second];
    session.turns.push_back({TimePoint() + duration_from_seconds(seconds), prompt, output});
  }

  std::vector<Session> sorted() && {
    for (Session& session : all_) {
      std::stable_sort(session.turns.begin(), session.turns.end(),
                       [](const Turn& a, const Turn& b) { return a.arrival < b.arrival; });
    }
    std::stable_sort(all_.begin(), all_.end(), [](const Session& a, const Session& b) {
      return a.turns.front().arrival < b.turns.front().arrival;
    });
    return std::move(all_);
  }

 private:
  std::vector<Session> all_;
  std::map<std::string, std::size_t> places_;
};

void read_json_lines(const std::string& path, Sessions& sessions) {
  JsonLines lines(path);
  while (const std::optional<JsonDocument> line = lines.next()) {
    const JsonView row = line->root();
    if (!row.is_object()) row.fail("an object with " + std::string(kArrival));
    row.only_keys({kArrival, kPrompt, kOutput, kSession});
    sessions.add(row.at(kArrival).as_double(0, kMostSeconds), row.at(kPrompt).as_int(1, kMostLength),
                 row.at(kOutput).as_int(0, kMostLength), row.has(kSession) ? row.at(kSession).as_string() : "");
  }
}

void read_csv(const std::string& path, Sessions& sessions) {
  const std::vector<std::string> known = {kArrival, kPrompt, kOutput, kSession};
  const CsvTable table(path, {kArrival, kPrompt, kOutput});
  for (const std::string& column : table.columns()) {
    if (std::find(known.begin(), known.end(), column) != known.end()) continue;
    throw InputError({path, "header", fmt::format("column '{}'", column), fmt::format("{}", fmt::join(known, ", ")),
                      nearest_name(column, known)});
  }
  for (const CsvRow& row : table.rows()) {
    sessions.add(row.number(kArrival, 0, kMostSeconds), row.whole(kPrompt, 1, kMostLength),
                 row.whole(kOutput, 0, kMostLength), table.has(kSession) ? row.text(kSession) : "");
  }
}

}  // namespace

std::vector<Session> read_arrivals(const std::string& path) {
  const std::optional<std::string> first = JsonLines(path).next_text();
  Sessions sessions;
  if (first && (*first)[first->find_first_not_of(" \t\r")] == '{') {
    read_json_lines(path, sessions);
  } else {
    read_csv(path, sessions);
  }
  std::vector<Session> sorted = std::move(sessions).sorted();
  if (sorted.empty()) throw InputError({path, "", "no arrivals", "a line for each turn", ""});
  return sorted;
}

}  // namespace moesim
