#include "traces/measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "sim/io/input_error.h"
#include "sim/io/strict_json.h"
#include "sim/units/integer.h"

namespace moesim {
namespace {

constexpr std::string_view kSchema = "moesim.measurement/2";
constexpr std::int64_t kMaxFileBytes = std::int64_t{256} << 20;

// Bounds of sense, not of any device or model: beyond them a row is a slip of whoever wrote it.
constexpr std::int64_t kMaxWidth = 10'000'000;
constexpr std::int64_t kMaxExperts = 65'536;
constexpr std::int64_t kMaxTokens = 10'000'000;
constexpr std::int64_t kMaxRegisters = 65'536;
constexpr std::int64_t kMaxInt = std::numeric_limits<std::int64_t>::max();
constexpr double kMaxMicroseconds = 1e12;  // 11 days; a Duration holds 106
constexpr double kMaxMegahertz = 1e5;

std::string text_of(const JsonView& value) {
  std::string text = value.as_string();
  if (text.empty()) value.fail("a string that is not empty");
  return text;
}

std::string one_of(const JsonView& value, const std::vector<std::string>& names) {
  std::string text = value.as_string();
  if (std::find(names.begin(), names.end(), text) == names.end()) {
    value.fail(fmt::format("one of {}", fmt::join(names, ", ")), nearest_name(text, names));
  }
  return text;
}

double positive(const JsonView& value, double max) {
  const double number = value.as_double(0, max);
  if (number == 0) value.fail("a number above 0");
  return number;
}

// A grid, block or cluster: one number or an array of up to three, multiplied.
std::int64_t product(const JsonView& value) {
  if (!value.is_array()) return value.as_int(1, kMaxInt);
  constexpr std::size_t kMaxDimensions = 3;
  if (value.size() < 1 || value.size() > kMaxDimensions) value.fail("a number or an array of 1 to 3 numbers");
  std::int64_t result = 1;
  for (std::size_t i = 0; i < value.size(); ++i) result *= value.at(i).as_int(1, kMaxInt / result);
  return result;
}

LaunchedKernel parse_kernel(const JsonView& view) {
  LaunchedKernel kernel;
  kernel.name = text_of(view.at("name"));
  kernel.grid = product(view.at("grid"));
  kernel.block = product(view.at("block"));
  if (view.has("registers")) kernel.registers = view.at("registers").as_int(0, kMaxRegisters);
  if (view.has("shared_bytes")) kernel.shared_bytes = view.at("shared_bytes").as_int(0, kMaxInt);
  if (view.has("cluster")) kernel.cluster = product(view.at("cluster"));
  if (view.has("count")) kernel.count = view.at("count").as_int(1, kMaxInt);
  return kernel;
}

std::vector<LaunchedKernel> parse_kernels(const JsonView& view) {
  std::vector<LaunchedKernel> kernels;
  for (std::size_t i = 0; i < view.size(); ++i) kernels.push_back(parse_kernel(view.at(i)));
  return kernels;
}

std::string scalar_text(const JsonView& value) {
  if (value.is_string()) return value.as_string();
  if (value.is_bool()) return value.as_bool() ? "true" : "false";
  if (value.is_null()) return "null";
  constexpr double kLargest = std::numeric_limits<double>::max();
  return fmt::format("{}", value.as_double(-kLargest, kLargest));
}

// Writes every scalar below `value` under its dotted path: {"up":{"block_n":2}} -> "up.block_n" = "2".
void flatten(const JsonView& value, const std::string& path, std::map<std::string, std::string>& out) {
  if (value.is_object()) {
    for (const std::string& key : value.keys()) flatten(value.at(key), path + "." + key, out);
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) flatten(value.at(i), fmt::format("{}.{}", path, i), out);
  } else if (!out.emplace(path, scalar_text(value)).second) {
    value.fail(fmt::format("one parameter '{}'", path));  // {"a.b": 1, "a": {"b": 2}}
  }
}

MoeMeasurement parse_moe(const JsonView& row, const std::filesystem::path& folder) {
  MoeMeasurement m;
  m.device = text_of(row.at("device"));

  const JsonView model = row.at("model");
  m.model_name = text_of(model.at("name"));
  m.hidden = model.at("hidden").as_int(1, kMaxWidth);
  m.intermediate = model.at("intermediate").as_int(1, kMaxWidth);
  m.experts = model.at("experts").as_int(1, kMaxExperts);
  m.topk = model.at("topk").as_int(1, m.experts);
  m.gated = model.at("gated").as_bool();

  m.tp = row.at("tp").as_int(1, m.intermediate);
  m.ep = row.at("ep").as_int(1, m.experts);
  m.weights = text_of(row.at("weights"));
  m.activations = text_of(row.at("activations"));
  m.tokens = row.at("tokens").as_int(1, kMaxTokens);
  m.routing = text_of(row.at("routing"));
  m.routed_trace = (folder / text_of(row.at("routed_trace"))).lexically_normal().string();
  // A shard may have no active expert at all.
  const std::int64_t most_active = std::min(m.experts, m.tokens * m.topk);
  m.mean_active_experts = row.at("mean_active_experts").as_double(0, static_cast<double>(most_active));

  m.strategy = text_of(row.at("strategy"));
  const JsonView implementation = row.at("implementation");
  m.implementation = text_of(implementation.at("name"));
  for (const std::string& key : implementation.keys()) {
    if (key != "name") flatten(implementation.at(key), key, m.parameters);
  }
  m.launch = one_of(row.at("launch"), {"graph", "stream", "programmatic"});
  m.scope = one_of(row.at("scope"), {"expert_ffn", "moe_layer"});
  m.stage = text_of(row.at("stage"));
  m.us = positive(row.at("us"), kMaxMicroseconds);

  if (row.has("timing") && row.at("timing").is_object() && row.at("timing").has("weights")) {
    m.warm = one_of(row.at("timing").at("weights"), {"cold", "warm"}) == "warm";
  }
  if (row.has("source")) m.source = row.at("source").as_string();
  if (row.has("p90_us")) m.p90_us = positive(row.at("p90_us"), kMaxMicroseconds);
  if (row.has("sm_mhz")) m.sm_mhz = positive(row.at("sm_mhz"), kMaxMegahertz);
  if (row.has("power_capped")) m.power_capped = row.at("power_capped").as_bool();
  if (row.has("kernels")) m.kernels = parse_kernels(row.at("kernels"));
  return m;
}

MicroMeasurement parse_micro(const JsonView& row, std::string place) {
  MicroMeasurement m;
  m.place = std::move(place);
  m.device = text_of(row.at("device"));
  m.benchmark = text_of(row.at("benchmark"));
  m.us = positive(row.at("us"), kMaxMicroseconds);
  if (row.has("sm_mhz")) m.sm_mhz = positive(row.at("sm_mhz"), kMaxMegahertz);
  if (row.has("power_capped")) m.power_capped = row.at("power_capped").as_bool();
  if (row.has("kernels")) m.kernels = parse_kernels(row.at("kernels"));
  for (const std::string& key : row.keys()) {
    const JsonView value = row.at(key);
    constexpr double kLargest = std::numeric_limits<double>::max();
    if (value.is_number()) m.numbers[key] = value.as_double(-kLargest, kLargest);
    if (value.is_string()) m.texts[key] = value.as_string();
  }
  return m;
}

// Calls `visit` with each line's row, its kind and its number.
void for_each_row(const std::string& path,
                  const std::function<void(const JsonView& row, const std::string& kind, std::int64_t line)>& visit) {
  const std::string text = read_text_file(path, kMaxFileBytes);
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  if (last == std::string::npos) {
    throw InputError({path, "", "an empty file", fmt::format("one {} object a line", kSchema), ""});
  }
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin <= last;) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;

    const JsonDocument document = JsonDocument::parse(line, fmt::format("{}:{}", path, number));
    const JsonView row = document.root();
    one_of(row.at("schema"), {std::string(kSchema)});
    const std::string kind = one_of(row.at("kind"), {"moe", "micro"});
    if (kind == "micro") text_of(row.at("benchmark"));
    visit(row, kind, number);
  }
}

}  // namespace

std::int64_t MicroMeasurement::whole(const std::string& name, std::int64_t most) const {
  const auto it = numbers.find(name);
  if (it == numbers.end()) {
    throw InputError(
        {place, "", fmt::format("no number '{}'", name), fmt::format("one, as {} rows have", benchmark), ""});
  }
  const double value = it->second;
  if (value < 1 || value > static_cast<double>(most) || value != std::floor(value)) {
    throw InputError(
        {place, "/" + name, fmt::format("number {}", value), fmt::format("a whole number from 1 to {}", most), ""});
  }
  return static_cast<std::int64_t>(value);
}

const std::string& MicroMeasurement::text(const std::string& name) const {
  const auto it = texts.find(name);
  if (it != texts.end()) return it->second;
  throw InputError({place, "", fmt::format("no text '{}'", name), fmt::format("one, as {} rows have", benchmark), ""});
}

std::vector<MoeMeasurement> read_measurements(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::vector<MoeMeasurement> rows;
  for_each_row(path, [&](const JsonView& row, const std::string& kind, std::int64_t line) {
    if (kind != "moe") return;
    rows.push_back(parse_moe(row, folder));
    rows.back().file = path;
    rows.back().line = line;
  });
  return rows;
}

std::vector<MicroMeasurement> read_micro_measurements(const std::string& path) {
  std::vector<MicroMeasurement> rows;
  for_each_row(path, [&](const JsonView& row, const std::string& kind, std::int64_t line) {
    if (kind != "micro" || row.at("benchmark").as_string() == "device") return;
    rows.push_back(parse_micro(row, fmt::format("{}:{}", path, line)));
  });
  return rows;
}

std::string measurement_text(const MoeMeasurement& row) {
  using Json = nlohmann::ordered_json;
  Json implementation = {{"name", row.implementation}};
  for (const auto& [name, value] : row.parameters) {
    std::int64_t whole = 0;
    const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), whole);
    const bool number = error == std::errc() && stop == value.data() + value.size();
    implementation[name] = number ? Json(whole) : Json(value);
  }
  const Json json = {{"schema", kSchema},
                     {"kind", "moe"},
                     {"device", row.device},
                     {"model",
                      {{"name", row.model_name},
                       {"hidden", row.hidden},
                       {"intermediate", row.intermediate},
                       {"experts", row.experts},
                       {"topk", row.topk},
                       {"gated", row.gated}}},
                     {"tp", row.tp},
                     {"ep", row.ep},
                     {"weights", row.weights},
                     {"activations", row.activations},
                     {"tokens", row.tokens},
                     {"routing", row.routing},
                     {"routed_trace", row.routed_trace},
                     {"mean_active_experts", row.mean_active_experts},
                     {"strategy", row.strategy},
                     {"implementation", implementation},
                     {"launch", row.launch},
                     {"scope", row.scope},
                     {"stage", row.stage},
                     {"us", row.us},
                     {"timing", {{"weights", row.warm ? "warm" : "cold"}}},
                     {"source", row.source}};
  return json.dump();
}

MoeModel model_of(const MoeMeasurement& row) {
  MoeModel model;
  model.name = row.model_name;
  model.hidden = row.hidden;
  model.expert_intermediate = row.intermediate;
  model.experts = row.experts;
  model.topk = row.topk;
  model.gated = row.gated;
  model.expert_weights = parse_format(row.weights, "weights");
  model.other_weights = {Dtype::kBf16, 0};
  return model;
}

double active_weight_bytes(const MoeMeasurement& row) {
  const WeightFormat weights = parse_format(row.weights, "weights");
  const std::int64_t width = divide_up(row.intermediate, row.tp);
  const Bytes expert =
      matrix_bytes(weights, (row.gated ? 2 : 1) * width, row.hidden) + matrix_bytes(weights, row.hidden, width);
  return row.mean_active_experts * expert.as_double();
}

}  // namespace moesim
