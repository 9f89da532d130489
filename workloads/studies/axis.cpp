#include "workloads/studies/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>

#include "hwmodels/loader.h"
#include "hwmodels/schema.h"
#include "sim/io/flag_text.h"
#include "sim/io/input_error.h"
#include "sim/units/check.h"
#include "workloads/model_config.h"
#include "workloads/predict.h"
#include "workloads/routing/match.h"
#include "workloads/strategies/strategy_list.h"
#include "workloads/studies/request_limits.h"

namespace moesim {
namespace {

constexpr std::int64_t kMostValues = 10'000;  // of an axis
constexpr const char* kFlagPrefix = "--";
constexpr const char* kNumberCharacters = "0123456789.eE+-";

// A path is read when a point needs it: a config.json may lack what another axis states.
void check_model(const std::string& text) {
  const std::vector<std::string> names = model_names();
  const bool path = text.find('/') != std::string::npos || text.ends_with(".json");
  if (path || std::find(names.begin(), names.end(), text) != names.end()) return;
  throw InputError({"", "", fmt::format("'{}'", text), "a name from `moesim models` or a path to a config.json",
                    nearest_name(text, names)});
}
void check_device(const std::string& text) { load_hardware(text); }
void check_strategy(const std::string& text) { parse_strategy(text); }
// A law alone is for --match, which finds its number.
void check_routing(const std::string& text) {
  constexpr const char* kMatched[] = {"zipf", "lognormal", "dirichlet", "power_law"};
  const auto is = [&](const char* law) { return text == law; };
  if (std::none_of(std::begin(kMatched), std::end(kMatched), is)) parse_routing(text);
}
void check_match(const std::string& text) { parse_match(text); }
void check_format(const std::string& text) { parse_format(text, ""); }
void check_launch(const std::string& text) { parse_launch(text); }
void check_cache_format(const std::string& text) { parse_cache_format(text, ""); }
void check_clock(const std::string& text) {
  if (text == "boost" || text == "sustained") return;
  require_valid(hw_entry(Hw::kClockBoost), parse_quantity(text, Dimension::kFrequency, "", ""), "", "");
}

// A flag of `run`: text with its check, or a whole number with its range.
struct FlagAxis {
  const char* name;
  void (*check)(const std::string&) = nullptr;
  std::int64_t min = 0, max = 0;
};

constexpr FlagAxis kFlagAxes[] = {
    {"model", check_model},
    {"device", check_device},
    {"concurrency", nullptr, 1, kMostTokens},
    {"strategy", check_strategy},
    {"routing", check_routing},
    {"match", check_match},
    {"tokens_per_request", nullptr, 1, kMostTokens},
    {"domains", nullptr, 1, kMostTokens},
    {"weights", check_format},
    {"other_weights", check_format},
    {"activations", check_format},
    {"tp", nullptr, 1, kMostDevices},
    {"ep", nullptr, 1, kMostDevices},
    {"launch", check_launch},
    {"clock", check_clock},
    {"context", nullptr, 1, kMostContext},
    {"kv_dtype", check_cache_format},
    {"samples", nullptr, 1, kMostSamples},
    {"seed", nullptr, 0, std::numeric_limits<std::int32_t>::max()},
};

const FlagAxis* find_flag_axis(const std::string& name) {
  const auto* const found =
      std::find_if(std::begin(kFlagAxes), std::end(kFlagAxes), [&](const FlagAxis& axis) { return name == axis.name; });
  return found == std::end(kFlagAxes) ? nullptr : found;
}

const HwEntry* find_hw_entry(const std::string& path) {
  const auto found =
      std::find_if(hw_schema().begin(), hw_schema().end(), [&](const HwEntry& entry) { return path == entry.path; });
  return found == hw_schema().end() ? nullptr : &*found;
}

const ParameterInfo* find_parameter(const std::string& name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string::npos) return nullptr;
  for (const Strategy& strategy : strategy_catalogue()) {
    if (name.substr(0, dot) != strategy.name) continue;
    for (const ParameterInfo& parameter : strategy.parameters) {
      if (name.substr(dot + 1) == parameter.name) return &parameter;
    }
  }
  return nullptr;
}

AxisKind kind_of(const std::string& name, const std::string& flag) {
  if (find_flag_axis(name) != nullptr) return AxisKind::kFlag;
  const std::vector<std::string> fields = ModelOverrides::fields();
  if (std::find(fields.begin(), fields.end(), name) != fields.end()) return AxisKind::kModelField;
  if (find_hw_entry(name) != nullptr) return AxisKind::kDeviceNumber;
  if (find_parameter(name) != nullptr) return AxisKind::kStrategyParameter;
  throw InputError({flag, "", fmt::format("'{}'", name),
                    fmt::format("one of {}; a field of --model-override, as in experts; a path of --set, as in "
                                "hbm.bandwidth; or STRATEGY.PARAMETER, as in grouped_gemm.block_m",
                                fmt::join(flag_axis_names(), ", ")),
                    nearest_name(name, axis_names())});
}

// What numbers of the axis are; nullopt: its values are names.
struct NumberForm {
  bool whole = false;
  Dimension dimension = Dimension::kDimensionless;
};

std::optional<NumberForm> form_of(AxisKind kind, const std::string& name) {
  switch (kind) {
    case AxisKind::kFlag:
      if (name == "clock") return NumberForm{.whole = false, .dimension = Dimension::kFrequency};
      return find_flag_axis(name)->check == nullptr ? std::optional(NumberForm{.whole = true}) : std::nullopt;
    case AxisKind::kModelField:
      switch (ModelOverrides::field_kind(name)) {
        case ModelOverrides::FieldKind::kWhole:
          return NumberForm{.whole = true};
        case ModelOverrides::FieldKind::kNumber:
          return NumberForm{};
        case ModelOverrides::FieldKind::kText:
          return std::nullopt;
      }
      break;
    case AxisKind::kDeviceNumber: {
      const HwEntry* entry = find_hw_entry(name);
      return NumberForm{.whole = entry->whole, .dimension = entry->dimension};
    }
    case AxisKind::kStrategyParameter:
      return NumberForm{.whole = true};
  }
  check_failed("kind is one of the enum", __FILE__, __LINE__);
}

// Reads the values of one axis; what others call wrong is wrong at this axis.
class ValueReader {
 public:
  ValueReader(AxisKind kind, const std::string& name, const std::string& flag)
      : kind_(kind), name_(name), flag_(flag), form_(form_of(kind, name)) {}

  void read(const std::string& piece, std::vector<AxisValue>& values) {
    const std::size_t dots = piece.find("..");
    const std::size_t dash = piece.find('-', 1);
    if (form_ && dots != std::string::npos) {
      read_range(piece, dots, values);
    } else if (form_ && is_plain_whole() && dash != std::string::npos) {
      read_run(piece, dash, values);
    } else {
      add(value(piece), values);
    }
  }

  [[nodiscard]] AxisValue of_number(double number) const { return value(text_of(number)); }

 private:
  [[nodiscard]] bool is_plain_whole() const { return form_->whole && form_->dimension == Dimension::kDimensionless; }

  [[nodiscard]] std::string text_of(double number) const {
    return is_plain_whole() ? fmt::format("{:.0f}", number)
                            : format_quantity(form_->whole ? std::round(number) : number, form_->dimension);
  }

  [[noreturn]] void fail(const std::string& found, const std::string& expected) const {
    throw InputError({flag_, name_, found, expected, ""});
  }

  template <class Function>
  void named(const Function& function) const {
    try {
      function();
    } catch (const InputError& error) {
      InputProblem problem = error.problem();
      if (!problem.file.empty() && !problem.file.starts_with(kFlagPrefix) && problem.file != flag_) throw;  // of a file
      problem.file = flag_;
      problem.where = name_;
      throw InputError(problem);
    }
  }

  [[nodiscard]] AxisValue value(const std::string& text) const {
    const auto control = [](unsigned char c) { return std::iscntrl(c) != 0; };
    if (text.empty() || std::any_of(text.begin(), text.end(), control)) {
      fail(text.empty() ? "an empty value" : "a control character", "a value");
    }
    named([&] { check(text); });
    const bool by_name = std::isalpha(static_cast<unsigned char>(text.front())) != 0;  // of a clock
    if (!form_ || by_name) return {text, std::nullopt};
    const double number = parse_quantity(text, form_->dimension, flag_, name_);
    const std::string short_text = text_of(number);
    return {parse_quantity(short_text, form_->dimension, flag_, name_) == number ? short_text : text, number};
  }

  void check(const std::string& text) const {
    switch (kind_) {
      case AxisKind::kFlag: {
        const FlagAxis& axis = *find_flag_axis(name_);
        if (axis.check != nullptr) {
          axis.check(text);
        } else {
          parse_whole(flag_, text, axis.min, axis.max);
        }
        return;
      }
      case AxisKind::kModelField:
        ModelOverrides({fmt::format("{}={}", name_, text)});
        return;
      case AxisKind::kDeviceNumber:
        require_valid(*find_hw_entry(name_), parse_quantity(text, form_->dimension, flag_, name_), flag_, name_);
        return;
      case AxisKind::kStrategyParameter: {
        const ParameterInfo& parameter = *find_parameter(name_);
        parse_whole(flag_, text, parameter.min, parameter.max);
        return;
      }
    }
  }

  void add(AxisValue value, std::vector<AxisValue>& values) {
    if (!seen_.insert(value.text).second) return;
    if (values.size() >= static_cast<std::size_t>(kMostValues)) {
      fail(fmt::format("more than {} values", kMostValues), "fewer");
    }
    values.push_back(std::move(value));
  }

  // "LO..HI:N" or "LO..HI:N:geometric".
  void read_range(const std::string& piece, std::size_t dots, std::vector<AxisValue>& values) {
    constexpr const char* kForm = "LO..HI:N or LO..HI:N:geometric, as in 3..8TB/s:6";
    const std::size_t colon = piece.find(':', dots);
    if (colon == std::string::npos) fail(fmt::format("'{}'", piece), kForm);
    const std::string high = piece.substr(dots + 2, colon - dots - 2);
    std::string low = piece.substr(0, dots), count = piece.substr(colon + 1);
    const std::size_t second = count.find(':');
    const bool geometric = second != std::string::npos;
    if (geometric && count.substr(second + 1) != "geometric") {
      throw InputError(
          {flag_, name_, fmt::format("'{}'", piece), kForm, nearest_name(count.substr(second + 1), {"geometric"})});
    }
    count = count.substr(0, second);
    if (low.find_first_not_of(kNumberCharacters) == std::string::npos) {
      low += high.substr(std::min(high.find_first_not_of(kNumberCharacters), high.size()));
    }
    const double from = parse_quantity(low, form_->dimension, flag_, name_);
    const double to = parse_quantity(high, form_->dimension, flag_, name_);
    if (to <= from) fail(fmt::format("'{}'", piece), "a range that ascends");
    if (geometric && from <= 0) fail(fmt::format("'{}'", piece), "a geometric range from above 0");
    std::int64_t steps = 0;
    named([&] { steps = parse_whole(flag_, count, 2, kMostValues); });
    for (std::int64_t i = 0; i < steps; ++i) {
      const double share = static_cast<double>(i) / static_cast<double>(steps - 1);
      const double number = i == steps - 1 ? to
                            : geometric    ? from * std::pow(to / from, share)
                                           : from + (to - from) * share;
      add(of_number(number), values);
    }
  }

  // "A-B".
  void read_run(const std::string& piece, std::size_t dash, std::vector<AxisValue>& values) {
    std::int64_t from = 0, to = 0;
    named([&] {
      constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
      from = parse_whole(flag_, piece.substr(0, dash), 0, kMost);
      to = parse_whole(flag_, piece.substr(dash + 1), 0, kMost);
    });
    if (to < from) fail(fmt::format("'{}'", piece), "a range that ascends, as in 1-8");
    if (to - from >= kMostValues) fail(fmt::format("'{}'", piece), fmt::format("at most {} values", kMostValues));
    for (std::int64_t number = from; number <= to; ++number) add(value(fmt::format("{}", number)), values);
  }

  AxisKind kind_;
  const std::string& name_;
  const std::string& flag_;
  std::optional<NumberForm> form_;
  std::set<std::string> seen_;
};

}  // namespace

Axis parse_axis(const std::string& text, const std::string& flag) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw InputError({flag, "", fmt::format("'{}'", text), "NAME=LIST, as in experts=64,128,256", ""});
  }
  const std::string name = text.substr(0, equals);
  kind_of(name, flag);
  const std::string list = text.substr(equals + 1);
  return axis_of(name, name == "strategy" ? split_strategies(flag, list) : split_list(flag, list), flag);
}

Axis axis_of(const std::string& name, const std::vector<std::string>& pieces, const std::string& flag) {
  Axis axis{.kind = kind_of(name, flag), .name = name, .values = {}};
  if (pieces.empty()) throw InputError({flag, name, "no value", "at least one", ""});
  ValueReader reader(axis.kind, name, flag);
  for (const std::string& piece : pieces) reader.read(piece, axis.values);
  return axis;
}

AxisScale scale_of(const Axis& axis) {
  const std::optional<NumberForm> form = form_of(axis.kind, axis.name);
  if (!form) return AxisScale::kNames;
  return form->whole ? AxisScale::kWholeNumbers : AxisScale::kNumbers;
}

AxisValue value_at(const Axis& axis, double number, const std::string& flag) {
  MOESIM_CHECK(scale_of(axis) != AxisScale::kNames && std::isfinite(number));
  return ValueReader(axis.kind, axis.name, flag).of_number(number);
}

std::vector<std::string> flag_axis_names() {
  std::vector<std::string> names;
  for (const FlagAxis& axis : kFlagAxes) names.emplace_back(axis.name);
  return names;
}

std::vector<std::string> axis_names() {
  std::vector<std::string> names = flag_axis_names();
  for (const std::string& field : ModelOverrides::fields()) {
    if (find_flag_axis(field) == nullptr) names.push_back(field);
  }
  for (const HwEntry& entry : hw_schema()) names.emplace_back(entry.path);
  for (const Strategy& strategy : strategy_catalogue()) {
    for (const ParameterInfo& parameter : strategy.parameters) {
      names.push_back(fmt::format("{}.{}", strategy.name, parameter.name));
    }
  }
  return names;
}

}  // namespace moesim
