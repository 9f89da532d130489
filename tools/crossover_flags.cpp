#include "tools/crossover_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <sstream>
#include <utility>

#include "sim/io/input_error.h"
#include "tools/interrupt.h"
#include "tools/match_memo.h"
#include "tools/output_file.h"
#include "tools/progress.h"
#include "traces/dispatch_file.h"
#include "traces/views/crossover_html.h"
#include "traces/views/crossover_views.h"

namespace moesim {
namespace {

constexpr const char* kFlag = "--crossover";
constexpr const char* kConcurrency = "concurrency";
constexpr const char* kDefaultRange = "concurrency=1..256";
constexpr std::int64_t kSteps = 960;      // places of an axis of real numbers
constexpr std::int64_t kCoarseStep = 60;  // of them, from one coarse place to the next
constexpr std::size_t kMostLines = 1000;
constexpr double kMostError = 1000;  // %

// The axis between its least and its greatest value.
struct SearchAxis {
  Axis axis;
  double from = 0, to = 0;
  bool whole = true;

  // To as few digits as tell neighbours apart.
  [[nodiscard]] double rounded(double number) const {
    if (number == 0) return number;
    const double step = from > 0 ? number * (std::pow(to / from, 1.0 / static_cast<double>(kSteps)) - 1)
                                 : (to - from) / static_cast<double>(kSteps);
    const double unit = std::pow(10, std::floor(std::log10(step / 2)));
    return std::round(number / unit) * unit;
  }
  [[nodiscard]] std::vector<std::int64_t> coarse() const {
    if (whole) return geometric_places(std::llround(from), std::llround(to));
    std::vector<std::int64_t> places;
    for (std::int64_t at = 0; at <= kSteps; at += kCoarseStep) places.push_back(at);
    return places;
  }
  [[nodiscard]] AxisValue value(std::int64_t at) const {
    if (whole) return value_at(axis, static_cast<double>(at), kFlag);
    const double share = static_cast<double>(at) / static_cast<double>(kSteps);
    const double number = from > 0 ? from * std::pow(to / from, share) : from + share * (to - from);
    return value_at(axis, at == 0 || at == kSteps ? number : rounded(number), kFlag);
  }
};

SearchAxis parse_search_axis(std::string text) {
  if (text.find('=') == std::string::npos) {
    if (text != kConcurrency) {
      throw InputError({kFlag, "", fmt::format("'{}'", text), "AXIS=LO..HI, as in hbm.bandwidth=3..8TB/s", ""});
    }
    text = kDefaultRange;
  }
  if (text.find("..") != std::string::npos && text.find(':') == std::string::npos) text += ":2";
  SearchAxis search;
  search.axis = parse_axis(text, kFlag);
  const AxisScale scale = moesim::scale_of(search.axis);
  if (scale == AxisScale::kNames) {
    throw InputError({kFlag, "", fmt::format("'{}'", search.axis.name), "an axis of numbers (names: --vary)", ""});
  }
  search.whole = scale == AxisScale::kWholeNumbers;
  search.from = search.to = *search.axis.values.front().number;
  for (const AxisValue& value : search.axis.values) {
    search.from = std::min(search.from, *value.number);
    search.to = std::max(search.to, *value.number);
  }
  if (search.from == search.to) {
    throw InputError({kFlag, search.axis.name, fmt::format("'{}' alone", search.axis.values.front().text),
                      "a range, as in LO..HI", ""});
  }
  if (search.whole && search.from < 1) {
    throw InputError({kFlag, search.axis.name, fmt::format("{:g}", search.from), "a range from 1 or more", ""});
  }
  return search;
}

std::optional<double> parse_error(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  std::string number = *text;
  if (number.ends_with('%')) number.pop_back();
  return parse_number("--error", number, 0, kMostError) / 100;
}

std::size_t parse_reference(const std::optional<std::string>& text, const std::vector<std::string>& strategies) {
  if (!text) return usual_reference(strategies);
  const auto it = std::find(strategies.begin(), strategies.end(), *text);
  if (it != strategies.end()) return static_cast<std::size_t>(it - strategies.begin());
  throw InputError({"--reference", "", fmt::format("'{}'", *text),
                    fmt::format("one of {}", fmt::join(strategies, ", ")), nearest_name(*text, strategies)});
}

// Files are opened before hours of work and written after.
struct Outputs {
  std::vector<std::pair<std::string, OutputFile>> dispatch;
  std::optional<OutputFile> html;
};

Outputs open_outputs(const CrossoverFlags& flags) {
  Outputs outputs;
  for (const std::string& path : flags.dispatch) {
    if (!path.ends_with(".json") && !path.ends_with(".h")) {
      throw InputError({"--dispatch", "", fmt::format("'{}'", path), "a file NAME.json or NAME.h", ""});
    }
    if (std::count(flags.dispatch.begin(), flags.dispatch.end(), path) > 1) {
      throw InputError({"--dispatch", "", fmt::format("'{}' twice", path), "each file once", ""});
    }
    outputs.dispatch.emplace_back(path, OutputFile(path, "--dispatch"));
  }
  if (flags.html) outputs.html.emplace(*flags.html, "--html");
  return outputs;
}

void write_dispatch(const CrossoverStudy& study, const DispatchTable& table, Outputs& outputs) {
  for (auto& [path, file] : outputs.dispatch) {
    std::ostringstream text;
    if (path.ends_with(".h")) {
      write_dispatch_header(study, table, dispatch_prefix(path), text);
    } else {
      write_dispatch_json(study, table, text);
    }
    file.write(text.str());
  }
}

CommandResult nothing_feasible(const CrossoverStudy& study) {
  const std::vector<std::string>& reasons = study.lines.front().reasons;
  std::string text;
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    text += fmt::format("{}{}: {}", i == 0 ? "" : "; ", study.strategies[i], reasons[i]);
  }
  return {
      .output = "", .complaint = fmt::format("no strategy is feasible: {}", text), .exit_code = ExitCode::kInfeasible};
}

}  // namespace

void CrossoverFlags::add(FlagSet& set) {
  set.value("--crossover", "AXIS[=LO..HI]", crossover,
            "Find by bisection where the winner changes along an axis of numbers (concurrency: 1..256; along "
            "another at one --concurrency [default: 1]); of further axes (--vary) a map");
  set.value("--error", "PERCENT", error,
            "Crossover: standard error of a predicted time where the overlay knows none [default: not known]");
  set.repeated("--dispatch", "FILE.json|FILE.h", dispatch,
               "Crossover along concurrency: also a table of thresholds for an engine, as JSON or as a C header");
  set.value("--by", "tokens|distinct_experts", by, "What the thresholds of --dispatch are of [default: tokens]");
  set.value("--reference", "STRATEGY", reference,
            "What gains of --dispatch are told against [default: grouped_gemm, else the first]");
  set.value("--html", "FILE", html, "Crossover: also as a page with charts that opens offline");
}

const char* CrossoverFlags::given() const {
  if (!dispatch.empty()) return "--dispatch";
  if (by) return "--by";
  if (reference) return "--reference";
  if (error) return "--error";
  return html ? "--html" : nullptr;
}

CommandResult run_crossover(const CrossoverFlags& flags, const RequestFlags& base, const AxisGrid& grid,
                            const std::string& format, std::size_t threads) {
  const CrossoverView& view = find_crossover_view(format);
  const SearchAxis search = parse_search_axis(flags.crossover.value_or(kConcurrency));
  const bool by_tokens = search.axis.name == kConcurrency;
  const DispatchBy by = parse_dispatch_by(flags.by.value_or("tokens"));
  for (const Axis& axis : grid.axes) {
    if (axis.name != search.axis.name) continue;
    throw InputError({"--vary", "", fmt::format("'{}' too", axis.name), "other axes than that of --crossover", ""});
  }
  if (base.concurrency && by_tokens) {
    throw InputError(
        {"--concurrency", "", "--crossover concurrency too", fmt::format("{} concurrency=LO..HI", kFlag), ""});
  }
  if (!flags.dispatch.empty() && (!by_tokens || grid.points() != 1)) {
    throw InputError({"--dispatch", "", by_tokens ? "--vary too" : fmt::format("{} {}", kFlag, search.axis.name),
                      "--crossover concurrency alone", ""});
  }
  if (flags.dispatch.empty() && (flags.by || flags.reference)) {
    throw InputError({flags.by ? "--by" : "--reference", "", "no --dispatch", "--dispatch FILE", ""});
  }
  if (grid.points() > kMostLines) {
    throw InputError({"--vary", "", fmt::format("{} lines", grid.points()), fmt::format("at most {}", kMostLines), ""});
  }
  Outputs outputs = open_outputs(flags);

  RequestFlags start = base;
  start.routing.quiet = true;
  start.routing.memo = std::make_shared<MatchMemo>();
  std::vector<Axis> axes = grid.axes;
  axes.push_back(search.axis);
  const auto request_of_place = [&](const AxisPlace& place) {
    std::vector<AxisValue> values = grid.values(place.line);
    values.push_back(search.value(place.at));
    RequestFlags at = flags_at(start, axes, values, grid.keep);
    if (!at.concurrency) at.concurrency = "1";
    ConcurrencyRequest request = request_of(at);
    if (by_tokens && request.routing.kind == RoutingKind::kTrace) {
      throw InputError(
          {"--routing", "", routing_name(request.routing), "a law: the tokens of a trace do not vary", ""});
    }
    if (request.concurrencies.size() == 1) return request;
    throw InputError({"--concurrency", "", fmt::format("{} numbers", request.concurrencies.size()),
                      "one, beside an axis that is not concurrency", ""});
  };

  CrossoverRequest request;
  request.axis = search.axis.name;
  request.threads = threads;
  request.coarse = search.coarse();
  request.value_at = [&](std::int64_t at) {
    const AxisValue value = search.value(at);
    return AxisPoint{*value.number, value.text};
  };
  request.assumed_error = parse_error(flags.error);
  if (grid.points() > 1 || !grid.axes.empty()) {
    for (const Axis& axis : grid.axes) request.line_axes.push_back(axis.name);
    request.lines.clear();
    for (std::size_t line = 0; line < grid.points(); ++line) {
      std::vector<std::string>& names = request.lines.emplace_back();
      for (const AxisValue& value : grid.values(line)) names.push_back(value.text);
    }
  }
  // Along concurrency the files are read once a line; wrong ones are told before anything is simulated.
  std::vector<ConcurrencyRequest> of_lines;
  for (std::size_t line = 0; line < request.lines.size(); ++line) {
    of_lines.push_back(request_of_place({line, request.coarse.front()}));
  }
  request.request_at = [&](const AxisPlace& place) {
    check_for_interrupt();
    if (!by_tokens) return request_of_place(place);
    ConcurrencyRequest at = of_lines[place.line];
    at.concurrencies = {place.at};
    return at;
  };
  std::vector<std::string> strategies;
  for (const StrategyChoice& choice : of_lines.front().strategies) strategies.push_back(choice.text);
  const std::size_t reference = parse_reference(flags.reference, strategies);
  Progress progress;
  request.progress = [&](std::size_t done, std::size_t all) { progress.show(done, all); };
  const CrossoverStudy study = run_crossover_study(request);
  if (!study.feasible()) return nothing_feasible(study);

  if (!outputs.dispatch.empty()) {
    const auto table = dispatch_table(study, by, reference);
    if (const auto* infeasible = std::get_if<Infeasible>(&table)) {
      return {.output = "", .complaint = infeasible->reason, .exit_code = ExitCode::kInfeasible};
    }
    write_dispatch(study, std::get<DispatchTable>(table), outputs);
  }
  if (outputs.html) {
    std::ostringstream page;
    write_crossover_html(study, page);
    outputs.html->write(page.str());
  }
  std::ostringstream out;
  view.write(study, out);
  return {.output = out.str(), .complaint = ""};
}

}  // namespace moesim
