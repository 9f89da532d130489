#include "hwmodels/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "hwmodels/calibration_files.h"
#include "sim/io/content_hash.h"
#include "sim/io/strict_json.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "moesim.calibration/1";
constexpr double kMost = 1e6;  // of any constant or error, in its unit
constexpr std::int64_t kMostRows = 1'000'000'000;

const std::vector<std::string> kKernels = {"up", "down", "gemm", "gather", "helper"};
const std::vector<std::string> kQuantities = {"start_us",  "item_us",   "step_ns",
                                              "inputs_ns", "in_flight", "byte_weight"};

void check_names(const JsonView& constants) {
  std::vector<std::string> known;
  for (const std::string& kernel : kKernels) {
    for (const std::string& quantity : kQuantities) known.push_back(kernel + "." + quantity);
  }
  constants.only_keys(known);
}

const std::vector<std::string> kErrorKeys = {"rows", "median_abs_pct", "p95_abs_pct", "bias_pct"};

constexpr std::array<const char*, kResidualShares.size()> kQuantileKeys = {"p5", "p25", "p50", "p75", "p95"};

double least_value(const std::string& constant) { return constant.ends_with(".byte_weight") ? 1 : 0; }

ResidualCell read_cell(const JsonView& view, bool whole) {
  std::vector<std::string> keys = {"strategy", "weights", "tokens", "rows", "constants_pct"};
  keys.insert(keys.end(), kQuantileKeys.begin(), kQuantileKeys.end());
  view.only_keys(keys);
  ResidualCell cell;
  cell.of.whole = whole;
  if (view.has("strategy")) cell.of.strategy = view.at("strategy").as_string();
  if (view.has("weights")) cell.of.weights = view.at("weights").as_string();
  if (view.has("tokens")) cell.of.band = view.at("tokens").as_string();
  if (!cell.of.band.empty() && cell.of.band != kShortBand &&
      std::find(kTokenBands.begin(), kTokenBands.end(), cell.of.band) == kTokenBands.end()) {
    view.at("tokens").fail(fmt::format("one of {}, {}", fmt::join(kTokenBands, ", "), kShortBand));
  }
  if (cell.of.strategy.empty() && !cell.of.weights.empty()) view.at("weights").fail("a strategy beside it");
  if (cell.of.weights.empty() && !cell.of.band.empty()) view.at("tokens").fail("weights beside it");
  cell.rows = view.at("rows").as_int(1, kMostRows);
  double least = 1 / kMost;
  for (std::size_t q = 0; q < kQuantileKeys.size(); ++q) {
    least = view.at(kQuantileKeys[q]).as_double(least, kMost);  // they ascend
    cell.quantiles[q] = std::log(least);
  }
  const double constants = view.at("constants_pct").as_double(0, kMost) / 100;
  cell.parameter_variance = constants * constants;
  return cell;
}

std::vector<ResidualCell> read_cells(const JsonView& view) {
  view.only_keys({"layers", "stages"});
  std::vector<ResidualCell> cells;
  for (const bool whole : {false, true}) {
    const JsonView list = view.at(whole ? "layers" : "stages");
    for (std::size_t i = 0; i < list.size(); ++i) cells.push_back(read_cell(list.at(i), whole));
  }
  return cells;
}

ResidualRecord read_residuals(const JsonView& view) {
  view.only_keys({"held_out", "device_alone", "strategy_correlation"});
  return {.held_out = read_cells(view.at("held_out")),
          .device_alone = read_cells(view.at("device_alone")),
          .strategy_correlation = view.at("strategy_correlation").as_double(0, 1)};
}

// As many as pairs of constants.
std::vector<double> read_correlation(const JsonView& view, std::size_t constants) {
  std::vector<double> correlation;
  for (std::size_t i = 0; i < view.size(); ++i) correlation.push_back(view.at(i).as_double(-1, 1));
  const std::size_t pairs = constants * (constants - std::min<std::size_t>(constants, 1)) / 2;
  if (correlation.size() != pairs) view.fail(fmt::format("{} numbers, one a pair of constants", pairs));
  return correlation;
}

HeldOutError read_error(const JsonView& view) {
  return {view.at("rows").as_int(0, kMostRows), view.at("median_abs_pct").as_double(0, kMost),
          view.at("p95_abs_pct").as_double(0, kMost), view.at("bias_pct").as_double(-kMost, kMost)};
}

void read_held_out(const JsonView& view, Implementation& implementation) {
  std::vector<std::string> keys = kErrorKeys;
  keys.emplace_back("by_band");
  view.only_keys(keys);
  implementation.held_out = read_error(view);
  if (!view.has("by_band")) return;  // an overlay of before there were bands
  const JsonView by_band = view.at("by_band");
  by_band.only_keys({kTokenBands.begin(), kTokenBands.end()});
  for (std::size_t b = 0; b < kTokenBands.size(); ++b) {
    const std::string band(kTokenBands[b]);
    if (!by_band.has(band)) continue;
    by_band.at(band).only_keys(kErrorKeys);
    implementation.held_out_by_band[b] = read_error(by_band.at(band));
  }
}

Implementation read_implementation(const JsonView& view) {
  view.only_keys({"name", "strategy", "variant", "weights", "rows", "most_tokens", "constants", "correlation", "no_fit",
                  "held_out"});
  Implementation implementation;
  implementation.name = view.at("name").as_string();
  implementation.strategy = view.at("strategy").as_string();
  implementation.variant = view.at("variant").as_string();
  implementation.weights = view.at("weights").as_string();
  implementation.rows = view.at("rows").as_int(0, kMostRows);
  implementation.most_tokens = view.at("most_tokens").as_int(0, kMostRows);
  implementation.no_fit = view.at("no_fit").as_string();
  const JsonView constants = view.at("constants");
  check_names(constants);
  for (const std::string& key : constants.keys()) {
    const JsonView constant = constants.at(key);
    constant.only_keys({"value", "relative_error"});
    implementation.constants[key] = {constant.at("value").as_double(least_value(key), kMost),
                                     constant.at("relative_error").as_double(0, kMost)};
  }
  if (view.has("correlation")) {
    implementation.correlation = read_correlation(view.at("correlation"), implementation.constants.size());
  }
  read_held_out(view.at("held_out"), implementation);
  return implementation;
}

std::vector<std::string> strings(const JsonView& array) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < array.size(); ++i) texts.push_back(array.at(i).as_string());
  return texts;
}

// What the file keeps of a number: more digits than its error leaves.
double rounded(double value) { return std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr); }

Json error_json(const HeldOutError& error) {
  return {{"rows", error.rows},
          {"median_abs_pct", rounded(error.median)},
          {"p95_abs_pct", rounded(error.p95)},
          {"bias_pct", rounded(error.bias)}};
}

Json cells_json(const std::vector<ResidualCell>& cells) {
  Json json = {{"layers", Json::array()}, {"stages", Json::array()}};
  for (const ResidualCell& cell : cells) {
    Json one = Json::object();
    if (!cell.of.strategy.empty()) one["strategy"] = cell.of.strategy;
    if (!cell.of.weights.empty()) one["weights"] = cell.of.weights;
    if (!cell.of.band.empty()) one["tokens"] = cell.of.band;
    one["rows"] = cell.rows;
    for (std::size_t q = 0; q < kQuantileKeys.size(); ++q) {
      one[kQuantileKeys[q]] = rounded(std::exp(cell.quantiles[q]));
    }
    one["constants_pct"] = rounded(std::sqrt(cell.parameter_variance) * 100);
    json[cell.of.whole ? "layers" : "stages"].push_back(std::move(one));
  }
  return json;
}

}  // namespace

ImplementationConstants Implementation::values() const {
  ImplementationConstants result;
  for (const auto& [key, constant] : constants) result[key] = constant.value;
  return result;
}

Implementation Implementation::with(const std::string& constant, double value) const {
  Implementation changed = *this;
  changed.constants.at(constant).value = std::max(value, least_value(constant));
  return changed;
}

const Implementation* Calibration::find(const std::string& name, const std::string& weights) const {
  for (const Implementation& implementation : implementations) {
    if (implementation.name == name && implementation.weights == weights) return &implementation;
  }
  return nullptr;
}

const Implementation* Calibration::of_strategy(const std::string& strategy, const std::string& variant,
                                               const std::string& weights) const {
  for (const Implementation& implementation : implementations) {
    if (implementation.strategy == strategy && implementation.variant == variant && implementation.weights == weights) {
      return &implementation;
    }
  }
  return nullptr;
}

Calibration parse_calibration(const std::string& text, const std::string& file_name) {
  const JsonDocument document = JsonDocument::parse(text, file_name);
  const JsonView root = document.root();
  root.only_keys({"schema", "device", "device_hash", "fitted", "implementations", "residuals"});
  if (root.at("schema").as_string() != kSchema) root.at("schema").fail(kSchema);
  Calibration calibration;
  calibration.device = root.at("device").as_string();
  calibration.device_hash = root.at("device_hash").as_string();
  const JsonView fitted = root.at("fitted");
  fitted.only_keys({"date", "data", "filters", "models"});
  calibration.date = fitted.at("date").as_string();
  const JsonView data = fitted.at("data");
  for (std::size_t i = 0; i < data.size(); ++i) {
    data.at(i).only_keys({"file", "hash"});
    calibration.data.push_back({data.at(i).at("file").as_string(), data.at(i).at("hash").as_string()});
  }
  calibration.filters = strings(fitted.at("filters"));
  calibration.models = strings(fitted.at("models"));
  for (std::size_t i = 0; i < root.at("implementations").size(); ++i) {
    calibration.implementations.push_back(read_implementation(root.at("implementations").at(i)));
  }
  if (root.has("residuals")) calibration.residuals = read_residuals(root.at("residuals"));
  calibration.file = file_name;
  calibration.hash = content_hash(text);
  return calibration;
}

Calibration load_calibration(const std::string& path) {
  constexpr std::int64_t kMostBytes = 1 << 20;
  return parse_calibration(read_text_file(path, kMostBytes), path);
}

std::optional<Calibration> calibration_of_device(const std::string& device) {
  for (const EmbeddedFile& file : calibration_files()) {
    if (file.name == device + ".json") return parse_calibration(std::string(file.text), std::string(file.name));
  }
  return std::nullopt;
}

std::optional<ReferenceResiduals> reference_residuals() {
  for (const EmbeddedFile& file : calibration_files()) {
    Calibration calibration = parse_calibration(std::string(file.text), std::string(file.name));
    if (calibration.residuals.device_alone.empty()) continue;
    return ReferenceResiduals{calibration.device, std::move(calibration.residuals)};
  }
  return std::nullopt;
}

std::string calibration_name(const Calibration& calibration, const HardwareModel& hardware) {
  return fmt::format("calibrated by {} ({}{}{})", calibration.file, calibration.hash,
                     calibration.date.empty() ? "" : "; fitted " + calibration.date,
                     calibration.device_hash == hardware.hash ? "" : "; with another version of the device file");
}

std::string calibration_text(const Calibration& calibration) {
  Json data = Json::array();
  for (const FittedData& source : calibration.data) data.push_back({{"file", source.file}, {"hash", source.hash}});
  Json json = {
      {"schema", kSchema},
      {"device", calibration.device},
      {"device_hash", calibration.device_hash},
      {"fitted",
       {{"date", calibration.date}, {"data", data}, {"filters", calibration.filters}, {"models", calibration.models}}},
      {"implementations", Json::array()}};
  for (const Implementation& implementation : calibration.implementations) {
    Json constants = Json::object();
    for (const auto& [name, constant] : implementation.constants) {
      constants[name] = {{"value", rounded(constant.value)}, {"relative_error", rounded(constant.relative_error)}};
    }
    Json correlation = Json::array();
    for (const double of_pair : implementation.correlation) correlation.push_back(rounded(of_pair));
    Json held_out = error_json(implementation.held_out);
    held_out["by_band"] = Json::object();
    for (std::size_t b = 0; b < kTokenBands.size(); ++b) {
      const HeldOutError& error = implementation.held_out_by_band[b];
      if (error.rows > 0) held_out["by_band"][std::string(kTokenBands[b])] = error_json(error);
    }
    json["implementations"].push_back({{"name", implementation.name},
                                       {"strategy", implementation.strategy},
                                       {"variant", implementation.variant},
                                       {"weights", implementation.weights},
                                       {"rows", implementation.rows},
                                       {"most_tokens", implementation.most_tokens},
                                       {"constants", constants},
                                       {"correlation", correlation},
                                       {"no_fit", implementation.no_fit},
                                       {"held_out", held_out}});
  }
  json["residuals"] = {{"held_out", cells_json(calibration.residuals.held_out)},
                       {"device_alone", cells_json(calibration.residuals.device_alone)},
                       {"strategy_correlation", rounded(calibration.residuals.strategy_correlation)}};
  return json.dump(2) + "\n";
}

}  // namespace moesim
