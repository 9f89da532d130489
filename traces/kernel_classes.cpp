#include "traces/kernel_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "sim/io/strict_json.h"
#include "traces/kernel_class_files.h"
#include "workloads/strategies/strategy.h"

namespace moesim {
namespace {

constexpr std::string_view kSchema = "moesim.kernel_classes/1";
constexpr std::int64_t kMaxFileBytes = 1 << 20;

constexpr std::array<std::string_view, kKernelClassCount> kClassNames = {
    "moe",         "moe_gemm",     "moe_setup", "gemm",      "gemm_part",  "activation", "select",
    "indexing",    "quantisation", "reduce",    "attention", "collective", "norm",       "rope_cache",
    "elementwise", "copy",         "fill",      "sampling",  "unknown"};

// What a rule may say beside stages.
std::vector<std::string> rule_class_names() {
  std::vector<std::string> names;
  for (const std::string_view name : kClassNames) {
    if (name != class_name(KernelClass::kMoe) && name != class_name(KernelClass::kUnknown)) names.emplace_back(name);
  }
  return names;
}

std::string text_of(const JsonView& view) {
  std::string text = view.as_string();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) view.fail("a text that is not empty");
  return text;
}

void read_class(const JsonView& view, KernelRule& rule) {
  const std::string text = view.as_string();
  if (const std::optional<StageSet> stages = parse_stages(text)) {
    rule.kernel_class = KernelClass::kMoe;
    rule.stages = *stages;
    return;
  }
  std::vector<std::string> names = rule_class_names();
  const auto known = std::find(names.begin(), names.end(), text);
  if (known == names.end()) {
    for (std::size_t s = 0; s < kMoeStageCount; ++s) names.emplace_back(stage_name(static_cast<MoeStage>(s)));
    view.fail(fmt::format("stages joined by '+', or a class: {}", fmt::join(names, ", ")), nearest_name(text, names));
  }
  const auto index = std::find(kClassNames.begin(), kClassNames.end(), text) - kClassNames.begin();
  rule.kernel_class = static_cast<KernelClass>(index);
}

void check_strategy(const JsonView& view) {
  try {
    parse_strategy(view.as_string());
  } catch (const InputError& error) {
    view.fail(error.problem().expected, error.problem().nearest);
  }
}

KernelRule parse_rule(const JsonView& view) {
  view.only_keys({"match", "class", "stack", "strategy"});
  KernelRule rule;
  rule.match = text_of(view.at("match"));
  if (rule.match.find_first_not_of("^*$") == std::string::npos)
    view.at("match").fail("a pattern with a piece of a name");
  read_class(view.at("class"), rule);
  if (view.has("stack")) rule.stack = text_of(view.at("stack"));
  if (view.has("strategy")) {
    check_strategy(view.at("strategy"));
    rule.strategy = view.at("strategy").as_string();
  }
  return rule;
}

void append(std::vector<KernelRule>& rules, std::vector<KernelRule> more) {
  rules.insert(rules.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

std::string_view class_name(KernelClass kernel_class) { return kClassNames.at(static_cast<std::size_t>(kernel_class)); }

// Each piece at its first place after the one before: if any places fit, these do. The last piece of an anchored end
// must stand at the end.
bool pattern_matches(std::string_view pattern, std::string_view name) {
  const bool from_start = pattern.starts_with('^');
  const bool to_end = pattern.ends_with('$');
  if (from_start) pattern.remove_prefix(1);
  if (to_end && !pattern.empty()) pattern.remove_suffix(1);
  bool first = true;
  for (std::size_t begin = 0; begin <= pattern.size(); first = false) {
    const std::size_t end = std::min(pattern.find('*', begin), pattern.size());
    const std::string_view piece = pattern.substr(begin, end - begin);
    const bool last = end == pattern.size();
    if (first && from_start) {
      if (!name.starts_with(piece)) return false;
      if (last && to_end) return name.size() == piece.size();
      name.remove_prefix(piece.size());
    } else if (last && to_end) {
      return name.ends_with(piece);
    } else {
      const std::size_t place = name.find(piece);
      if (place == std::string_view::npos) return false;
      name.remove_prefix(place + piece.size());
    }
    begin = end + 1;
  }
  return true;
}

KernelClassifier::KernelClassifier() {
  for (const EmbeddedFile& file : kernel_class_files()) {
    append(rules_, parse_kernel_rules(std::string(file.text), std::string(file.name)));
  }
}

KernelClassifier::KernelClassifier(const std::string& file) {
  rules_ = parse_kernel_rules(read_text_file(file, kMaxFileBytes), file);
  append(rules_, KernelClassifier().rules_);
}

const KernelRule* KernelClassifier::find(std::string_view name) const {
  const auto rule =
      std::find_if(rules_.begin(), rules_.end(), [&](const KernelRule& r) { return pattern_matches(r.match, name); });
  return rule == rules_.end() ? nullptr : &*rule;
}

std::vector<KernelRule> parse_kernel_rules(const std::string& text, const std::string& file_name) {
  const JsonDocument document = JsonDocument::parse(text, file_name);
  const JsonView root = document.root();
  root.only_keys({"schema", "rules"});
  const JsonView schema = root.at("schema");
  if (schema.as_string() != kSchema) schema.fail(fmt::format("'{}'", kSchema));
  const JsonView list = root.at("rules");
  std::vector<KernelRule> rules;
  for (std::size_t i = 0; i < list.size(); ++i) rules.push_back(parse_rule(list.at(i)));
  return rules;
}

}  // namespace moesim
