#include "traces/dispatch_file.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <cctype>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

#include "traces/views/numbers.h"
#include "traces/views/provenance_views.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

Json range_json(const LeastMost& range) {
  return {{"least", six_digits(range.least)}, {"most", six_digits(range.most)}};
}
Json range_json(const std::optional<LeastMost>& range) { return range ? range_json(*range) : Json(nullptr); }

Json entry_json(const CrossoverStudy& study, const DispatchEntry& entry) {
  return {{"from", entry.from},
          {"to", entry.to},
          {"tokens", {entry.tokens_from, entry.tokens_to}},
          {"strategy", study.strategies[entry.strategy]},
          {"parameters", entry.parameters},
          {"gain_over_next", range_json(entry.gain_over_next)},
          {"gain_over_reference", range_json(entry.gain_over_reference)},
          {"confidence", range_json(entry.confidence)}};
}

constexpr const char* kConfidence =
    "chance that the strategy is the fastest of those named, at the places simulated: logarithms of true times are "
    "independent and normal about the predicted ones, each with the standard error max(median / 0.6745, p95 / 1.96) of "
    "its "
    "implementation's held-out |error| in the band of tokens; null where none is known";

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string identifier(const std::string& text) {
  std::string name;
  for (const char c : text) name += std::isalnum(static_cast<unsigned char>(c)) != 0 && (c & '\x80') == 0 ? c : '_';
  return name;
}

// Inside a C comment no text may end it, and none may begin another.
std::string in_comment(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool ends = !out.empty() && ((out.back() == '*' && c == '/') || (out.back() == '/' && c == '*'));
    if (ends) out += ' ';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + '"';
}

std::string number(double value) {
  const std::string text = fmt::format("{}", six_digits(value));
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

}  // namespace

void write_dispatch_json(const CrossoverStudy& study, const DispatchTable& table, std::ostream& out) {
  Json json = {{"schema", "moesim.dispatch/1"}};
  json.update(provenance_json(study.provenance));
  json["strategies"] = study.strategies;
  json["by"] = dispatch_key(table.by);
  json["reference"] = table.reference;
  if (study.assumed_error) json["assumed_error"] = six_digits(*study.assumed_error);
  json["confidence_is"] = kConfidence;
  Json& entries = json["entries"] = Json::array();
  for (const DispatchEntry& entry : table.entries) entries.push_back(entry_json(study, entry));
  if (table.by == DispatchBy::kDistinctExperts) {
    Json& not_told = json["not_told_apart"] = Json::array();
    for (const DispatchEntry& entry : table.not_told) not_told.push_back(entry_json(study, entry));
  }
  constexpr int kIndent = 2;
  out << json.dump(kIndent, ' ', false, Json::error_handler_t::replace) << '\n';
}

void write_dispatch_header(const CrossoverStudy& study, const DispatchTable& table, const std::string& prefix,
                           std::ostream& out) {
  const Provenance& p = study.provenance;
  const std::string constant = upper(prefix);
  std::set<std::string> names;
  for (const DispatchEntry& entry : table.entries) {
    for (const auto& [name, value] : entry.parameters) names.insert(name);
  }
  const std::string what = table.by == DispatchBy::kTokens ? "tokens of a step" : "distinct experts of a layer";

  const std::string made = fmt::format(
      "/* Dispatch table moesim.dispatch/1, by {}; made by moesim {}.\n"
      " * model {} ({}), weights {}, activations {}, tp {}, ep {}\n"
      " * device {} ({}, {}), clock {} Hz, {}\n"
      " * {}, launch {}, routing {}, {} samples, seed {}\n",
      what, p.tool_version, in_comment(p.model), in_comment(p.model_file), p.weights, p.activations, p.tp, p.ep,
      in_comment(p.device), in_comment(p.device_file), p.device_hash, p.clock_hz, in_comment(p.calibration), p.scope,
      p.launch, in_comment(p.routing), p.samples, p.seed);
  out << made;
  for (const auto& [word, list] : {std::pair("override", &p.model_overrides), std::pair("set", &p.overrides)}) {
    for (const std::string& text : *list) fmt::print(out, " * {} {}\n", word, in_comment(text));
  }
  fmt::print(
      out,
      " * Simulated from {0} to {1} tokens; the last entry holds beyond. Gains are the least at the places simulated:\n"
      " * time of the next best, and of {2}, over this time. Confidence: the least chance that the strategy is\n"
      " * the fastest, by the errors of rows left out of the fit (independent, normal); -1: not known. */\n",
      table.entries.front().tokens_from, study.lines.front().standings.back().tokens, in_comment(table.reference));
  fmt::print(out, "#ifndef {0}_DISPATCH_H\n#define {0}_DISPATCH_H\n\n", constant);

  fmt::print(out, "enum {}_strategy {{", prefix);
  std::set<std::string> taken;
  std::vector<std::string> enumerators;
  for (const std::string& strategy : study.strategies) {
    std::string name = constant + "_" + upper(identifier(strategy));
    while (!taken.insert(name).second) name += "_";
    enumerators.push_back(name);
    fmt::print(out, "{}{}", enumerators.size() == 1 ? " " : ", ", name);
  }
  out << " };\n\n";

  fmt::print(out,
             "typedef struct {{\n"
             "  long from;            /* {} from here on, up to the next entry */\n"
             "  enum {}_strategy strategy;\n"
             "  const char *text;     /* the strategy with its parameters */\n"
             "  double gain_over_next, gain_over_reference, confidence; /* -1: not known */\n",
             what, prefix);
  for (const std::string& name : names) {
    fmt::print(out, "  long {}; /* -1: not a parameter of this strategy */\n", identifier(name));
  }
  fmt::print(out, "}} {}_entry;\n\nstatic const {}_entry {}_table[] = {{\n", prefix, prefix, prefix);
  for (const DispatchEntry& entry : table.entries) {
    const auto least = [](const std::optional<LeastMost>& range) { return range ? number(range->least) : "-1.0"; };
    fmt::print(out, "  {{ {}, {}, {}, {}, {}, {}", entry.from, enumerators[entry.strategy],
               quoted(strategy_text(study.strategies[entry.strategy], entry.parameters)),
               number(entry.gain_over_next.least), least(entry.gain_over_reference), least(entry.confidence));
    for (const std::string& name : names) {
      const auto it = entry.parameters.find(name);
      fmt::print(out, ", {}", it == entry.parameters.end() ? -1 : it->second);
    }
    out << " },\n";
  }
  fmt::print(out,
             "}};\n\n"
             "/* The entry for this many {1}; below the first entry the first. */\n"
             "static inline const {0}_entry *{0}_lookup(long count) {{\n"
             "  const {0}_entry *found = {0}_table;\n"
             "  const {0}_entry *const end = {0}_table + sizeof({0}_table) / sizeof({0}_table[0]);\n"
             "  const {0}_entry *next;\n"
             "  for (next = {0}_table + 1; next < end && next->from <= count; ++next) found = next;\n"
             "  return found;\n"
             "}}\n\n#endif\n",
             prefix, what);
}

std::string dispatch_prefix(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  std::string stem = slash == std::string::npos ? path : path.substr(slash + 1);
  stem = stem.substr(0, stem.rfind('.'));
  std::string prefix = identifier(stem);
  if (prefix.empty() || std::isdigit(static_cast<unsigned char>(prefix.front())) != 0 || prefix.front() == '_') {
    prefix = "moesim_" + prefix;
  }
  return prefix;
}

}  // namespace moesim
