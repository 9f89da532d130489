#include "traces/measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string_view>
#include <utility>

#include "sim/io/input_error.h"
#include "sim/io/strict_json.h"

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

  if (row.has("p90_us")) m.p90_us = positive(row.at("p90_us"), kMaxMicroseconds);
  if (row.has("sm_mhz")) m.sm_mhz = positive(row.at("sm_mhz"), kMaxMegahertz);
  if (row.has("power_capped")) m.power_capped = row.at("power_capped").as_bool();
  if (row.has("kernels")) {
    const JsonView kernels = row.at("kernels");
    for (std::size_t i = 0; i < kernels.size(); ++i) m.kernels.push_back(parse_kernel(kernels.at(i)));
  }
  return m;
}

}  // namespace

std::vector<MoeMeasurement> read_measurements(const std::string& path) {
  const std::string text = read_text_file(path, kMaxFileBytes);
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  if (last == std::string::npos) {
    throw InputError({path, "", "an empty file", fmt::format("one {} object a line", kSchema), ""});
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::vector<MoeMeasurement> rows;
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin <= last;) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;

    const JsonDocument document = JsonDocument::parse(line, fmt::format("{}:{}", path, number));
    const JsonView row = document.root();
    one_of(row.at("schema"), {std::string(kSchema)});
    if (one_of(row.at("kind"), {"moe", "micro"}) == "micro") {
      text_of(row.at("benchmark"));
      continue;
    }
    rows.push_back(parse_moe(row, folder));
    rows.back().file = path;
    rows.back().line = number;
  }
  return rows;
}

}  // namespace moesim
