#include "hwmodels/calibration.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

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
  view.only_keys({"name", "strategy", "variant", "weights", "rows", "most_tokens", "constants", "no_fit", "held_out"});
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
    const double least = key.ends_with(".byte_weight") ? 1 : 0;
    implementation.constants[key] = {constant.at("value").as_double(least, kMost),
                                     constant.at("relative_error").as_double(0, kMost)};
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

}  // namespace

std::size_t token_band(std::int64_t tokens) { return tokens <= 8 ? 0 : tokens <= 64 ? 1 : tokens <= 1024 ? 2 : 3; }

ImplementationConstants Implementation::values() const {
  ImplementationConstants result;
  for (const auto& [key, constant] : constants) result[key] = constant.value;
  return result;
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
  root.only_keys({"schema", "device", "device_hash", "fitted", "implementations"});
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
                                       {"no_fit", implementation.no_fit},
                                       {"held_out", held_out}});
  }
  return json.dump(2) + "\n";
}

}  // namespace moesim
