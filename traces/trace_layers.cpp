#include "traces/trace_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>
#include <utility>

#include "traces/profiler/layer_stages.h"
#include "traces/profiler/nested_ranges.h"

namespace moesim {
namespace {

constexpr std::string_view kStagePrefix = "stage:";
constexpr StageSet kProducts = StageSet(MoeStage::kGemm1) | MoeStage::kGemm2;
constexpr std::int64_t kMostTokens = 100'000'000;

// Ranges that make sections, the most telling kind first; of the kinds in a trace only the first counts.
constexpr std::string_view kSectionPrefixes[] = {"strategy:", "step[", "execute_", "ProfilerStep#"};
// Ranges of libraries, which make none.
constexpr std::string_view kLibraryPrefixes[] = {"stage:", "nccl:", "c10d::", "## ", "Optimizer.", "gloo:"};

// The number at the front of `text`, which is cut off it.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || value > kMostTokens) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return value;
}

// Tokens of one kind: after "context_" or "generation_", "1(888_788544)" or "32(sq32sk55086...)": queries stand first.
std::optional<std::int64_t> tokens_of_kind(std::string_view name, std::string_view kind) {
  const std::size_t place = name.find(kind);
  if (place == std::string_view::npos) return std::nullopt;
  std::string_view rest = name.substr(place + kind.size());
  if (!take_number(rest) || !rest.starts_with('(')) return std::nullopt;
  rest.remove_prefix(1);
  if (rest.starts_with("sq")) rest.remove_prefix(2);
  return take_number(rest);
}

// The most frequent value; of equals the smallest. `values` is not empty.
template <class T>
T most_frequent(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  T best = values.front();
  std::ptrdiff_t most = 0;
  for (auto it = values.begin(); it != values.end();) {
    const auto end = std::upper_bound(it, values.end(), *it);
    if (end - it > most) {
      most = end - it;
      best = *it;
    }
    it = end;
  }
  return best;
}

class LayerFinder {
 public:
  LayerFinder(const ProfilerTrace& trace, const KernelClassifier& classifier) : trace_(trace) {
    rules_.resize(trace.names.size());
    std::vector<bool> done(trace.names.size());
    for (const DeviceEvent& event : trace.events) {
      if (done[event.name]) continue;
      rules_[event.name] = classifier.find(trace.names[event.name]);
      done[event.name] = true;
    }
    index_annotations();
    for (std::size_t o = 0; o < trace.operators.size(); ++o) {
      const MoeOperator& op = trace.operators[o];
      operators_.add(op.thread, op.start, op.end(), o);
    }
    operators_.seal();
  }

  TraceLayers find() {
    TraceLayers result;
    assign_sections(result);
    for (TraceSection& section : result.sections) find_in(section);
    summarise(result);
    return result;
  }

 private:
  [[nodiscard]] const std::string& name_of(const Annotation& annotation) const { return trace_.names[annotation.name]; }

  void index_annotations() {
    std::optional<std::string_view> kind;
    for (const std::string_view prefix : kSectionPrefixes) {
      const auto starts = [&](const Annotation& a) { return !a.on_device && name_of(a).starts_with(prefix); };
      if (!kind && std::any_of(trace_.annotations.begin(), trace_.annotations.end(), starts)) kind = prefix;
    }
    // Without a known kind the outermost ranges of each thread.
    std::map<std::int64_t, TimePoint> covered;
    for (std::size_t a = 0; a < trace_.annotations.size(); ++a) {
      const Annotation& annotation = trace_.annotations[a];
      const std::string& name = name_of(annotation);
      if (name.starts_with(kStagePrefix)) {
        NestedRanges& ranges = annotation.on_device ? device_stages_ : host_stages_;
        ranges.add(annotation.thread, annotation.start, annotation.end(), a);
        continue;
      }
      const auto of_library = [&](std::string_view prefix) { return name.starts_with(prefix); };
      if (std::any_of(std::begin(kLibraryPrefixes), std::end(kLibraryPrefixes), of_library)) continue;
      const auto known = covered.find(annotation.thread);
      const bool outermost = known == covered.end() || known->second <= annotation.start;
      if (kind ? !name.starts_with(*kind) : !outermost) continue;
      NestedRanges& ranges = annotation.on_device ? device_sections_ : host_sections_;
      ranges.add(annotation.thread, annotation.start, annotation.end(), a);
      if (!annotation.on_device) covered[annotation.thread] = annotation.end();
    }
    for (NestedRanges* ranges : {&host_stages_, &device_stages_, &host_sections_, &device_sections_}) ranges->seal();
  }

  // The range of the host that launched the event; of the device where the launch is not known.
  [[nodiscard]] const Annotation* range_of(const DeviceEvent& event, const NestedRanges& host,
                                           const NestedRanges& device) const {
    std::optional<std::size_t> found;
    if (event.launched) found = host.find(event.thread, *event.launched);
    if (!found) found = device.find(event.stream, event.start);
    return found ? &trace_.annotations[*found] : nullptr;
  }

  // What ranges of the same section have in common.
  static std::string section_key(const std::string& name) {
    if (name.starts_with("ProfilerStep#")) return "ProfilerStep#";
    if (const std::optional<std::int64_t> tokens = annotated_tokens(name)) {
      const bool prefill = name.find("context_0(") == std::string::npos && name.find("DECODE") == std::string::npos;
      return fmt::format("{} of {}", prefill ? "mixed or prefill" : "decode", *tokens);
    }
    return name;
  }

  void assign_sections(TraceLayers& result) {
    std::map<std::string, std::size_t> by_key;
    std::map<std::size_t, std::vector<const Annotation*>> ranges;
    for (std::size_t e = 0; e < trace_.events.size(); ++e) {
      const DeviceEvent& event = trace_.events[e];
      const Annotation* annotation = range_of(event, host_sections_, device_sections_);
      const std::string name = annotation == nullptr ? "" : name_of(*annotation);
      const auto [known, added] = by_key.try_emplace(section_key(name), result.sections.size());
      if (added) {
        TraceSection section;
        section.name = name;
        section.tokens = annotated_tokens(name);
        result.sections.push_back(std::move(section));
      }
      result.sections[known->second].events.push_back(classified(e));
      std::vector<const Annotation*>& seen = ranges[known->second];
      if (annotation != nullptr && (seen.empty() || seen.back() != annotation)) seen.push_back(annotation);
    }
    for (auto& [section, seen] : ranges) {
      std::sort(seen.begin(), seen.end());
      const auto distinct = std::unique(seen.begin(), seen.end()) - seen.begin();
      result.sections[section].repeats = std::max<std::int64_t>(1, distinct);
    }
  }

  [[nodiscard]] ClassifiedEvent classified(std::size_t e) const {
    ClassifiedEvent result;
    result.event = e;
    const DeviceEvent& event = trace_.events[e];
    switch (event.kind) {
      case DeviceEvent::Kind::kCopy:
        result.kernel_class = KernelClass::kCopy;
        break;
      case DeviceEvent::Kind::kFill:
        result.kernel_class = KernelClass::kFill;
        break;
      case DeviceEvent::Kind::kKernel:
        result.rule = rules_[event.name];
        if (result.rule == nullptr) break;
        result.kernel_class = result.rule->kernel_class;
        result.stages = result.rule->stages;
        break;
    }
    return result;
  }

  // The layers of a section, stream by stream.
  void find_in(TraceSection& section) {
    std::map<std::pair<std::int32_t, std::int64_t>, std::vector<std::size_t>> streams;
    for (std::size_t i = 0; i < section.events.size(); ++i) {
      const DeviceEvent& event = trace_.events[section.events[i].event];
      streams[{event.device, event.stream}].push_back(i);
    }
    std::vector<std::int64_t> tokens, hidden, experts, distances;
    for (const auto& [stream, members] : streams) {
      std::vector<OrderedKernel> kernels;
      for (const std::size_t i : members) {
        kernels.push_back(ordered(section.events[i], tokens, hidden, experts));
      }
      std::optional<std::size_t> before;
      for (const std::vector<std::size_t>& layer : split_layers(kernels)) {
        const auto has_product = [&](std::size_t k) { return kernels[k].stages.meets(kProducts); };
        if (std::any_of(layer.begin(), layer.end(), has_product)) {
          if (before) distances.push_back(static_cast<std::int64_t>(layer.front() - *before));
          before = layer.front();
        }
        LayerInstance instance;
        for (const std::size_t k : layer) {
          ClassifiedEvent& event = section.events[members[k]];
          event.stages = kernels[k].stages;
          event.in_layer = true;
          instance.kernels.push_back(members[k]);
        }
        instance.signature = signature_of(section, instance);
        section.layers.push_back(std::move(instance));
      }
    }
    std::stable_sort(section.layers.begin(), section.layers.end(), [](const LayerInstance& a, const LayerInstance& b) {
      return a.kernels.front() < b.kernels.front();
    });
    set_apart(section);
    mark_regular(section);
    if (!distances.empty()) section.period = most_frequent(distances);
    if (!tokens.empty()) section.tokens = most_frequent(tokens);
    if (!hidden.empty()) section.hidden = most_frequent(hidden);
    if (!experts.empty()) section.experts = most_frequent(experts);
    section.strategy = strategy_of(section);
  }

  [[nodiscard]] OrderedKernel ordered(const ClassifiedEvent& event, std::vector<std::int64_t>& tokens,
                                      std::vector<std::int64_t>& hidden, std::vector<std::int64_t>& experts) const {
    OrderedKernel kernel{event.kernel_class, event.stages};
    const DeviceEvent& device_event = trace_.events[event.event];
    if (const Annotation* stage = range_of(device_event, host_stages_, device_stages_)) {
      if (const auto stages = parse_stages(name_of(*stage).substr(kStagePrefix.size()))) {
        // The kernel's own name tells what it fuses.
        const bool told = event.kernel_class == KernelClass::kMoe && event.stages.meets(*stages);
        return {event.kernel_class, told ? event.stages : *stages, true, true};
      }
    }
    if (!device_event.launched) return kernel;
    const std::optional<std::size_t> found = operators_.find(device_event.thread, *device_event.launched);
    if (!found) return kernel;
    kernel.in_moe = true;
    const std::vector<std::vector<std::int64_t>>& inputs = trace_.operators[*found].inputs;
    if (!inputs.empty() && inputs[0].size() == 2 && inputs[0][0] > 0 && inputs[0][0] <= kMostTokens) {
      tokens.push_back(inputs[0][0]);
      hidden.push_back(inputs[0][1]);
      if (inputs.size() > 1 && inputs[1].size() == 2 && inputs[1][0] == inputs[0][0]) experts.push_back(inputs[1][1]);
    }
    return kernel;
  }

  static std::string signature_of(const TraceSection& section, const LayerInstance& layer) {
    std::string signature, last;
    for (const std::size_t i : layer.kernels) {
      const std::string stage = section.events[i].stages.name();
      if (stage == last || stage.empty()) continue;
      signature += (signature.empty() ? "" : " ") + stage;
      last = stage;
    }
    return signature;
  }

  static void set_apart(TraceSection& section) {
    const auto has_product = [&section](const LayerInstance& layer) {
      return std::any_of(layer.kernels.begin(), layer.kernels.end(),
                         [&section](std::size_t i) { return section.events[i].stages.meets(kProducts); });
    };
    if (std::none_of(section.layers.begin(), section.layers.end(), has_product)) return;
    const auto others = std::stable_partition(section.layers.begin(), section.layers.end(), has_product);
    section.apart.assign(std::make_move_iterator(others), std::make_move_iterator(section.layers.end()));
    section.layers.erase(others, section.layers.end());
  }

  static void mark_regular(TraceSection& section) {
    if (section.layers.empty()) return;
    std::vector<std::string> signatures;
    for (const LayerInstance& layer : section.layers) signatures.push_back(layer.signature);
    const std::string usual = most_frequent(std::move(signatures));
    for (LayerInstance& layer : section.layers) layer.regular = layer.signature == usual;
  }

  // By the time of those kernels whose rules name one; else by the kind of products.
  [[nodiscard]] std::string strategy_of(const TraceSection& section) const {
    std::map<std::string, Duration> times;
    bool loop = false, copies = false;
    for (const ClassifiedEvent& event : section.events) {
      if (!event.in_layer) continue;
      if (event.rule != nullptr && !event.rule->strategy.empty()) {
        times[event.rule->strategy] += trace_.events[event.event].length;
      }
      loop = loop || (event.kernel_class == KernelClass::kGemm && event.stages.has(MoeStage::kGemm1));
      copies = copies || event.stages.has(MoeStage::kGather1);
    }
    if (times.empty()) return copies ? "gather_gemv" : loop ? "expert_loop" : "";
    return std::max_element(times.begin(), times.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
  }

  void summarise(TraceLayers& result) const {
    for (const TraceSection& section : result.sections) {
      for (const ClassifiedEvent& event : section.events) {
        const Duration length = trace_.events[event.event].length;
        const bool moe = event.in_layer || event.kernel_class == KernelClass::kMoe;
        const bool unknown = event.kernel_class == KernelClass::kUnknown && event.stages.empty();
        result.device_time += length;
        if (!unknown) result.named_time += length;
        result.by_class[std::string(class_name(moe && !unknown ? KernelClass::kMoe : event.kernel_class))] += length;
        if (event.in_layer) {
          ++result.moe_kernels;
          if (!event.stages.empty()) ++result.staged_kernels;
        }
      }
    }
  }

  const ProfilerTrace& trace_;
  std::vector<const KernelRule*> rules_;  // of each name that a device event has
  NestedRanges host_sections_, device_sections_, host_stages_, device_stages_, operators_;
};

}  // namespace

std::size_t TraceSection::regular_layers() const {
  return static_cast<std::size_t>(
      std::count_if(layers.begin(), layers.end(), [](const LayerInstance& layer) { return layer.regular; }));
}

bool TraceLayers::has_layers() const {
  return std::any_of(sections.begin(), sections.end(), [](const TraceSection& s) { return !s.layers.empty(); });
}

TraceLayers find_layers(const ProfilerTrace& trace, const KernelClassifier& classifier) {
  return LayerFinder(trace, classifier).find();
}

std::optional<std::int64_t> annotated_tokens(const std::string& name) {
  if (name.starts_with("execute_")) {
    std::string_view rest = std::string_view(name).substr(std::string_view("execute_").size());
    if (const std::optional<std::int64_t> tokens = take_number(rest); tokens && *tokens > 0) return tokens;
    const std::optional<std::int64_t> context = tokens_of_kind(name, "context_");
    const std::optional<std::int64_t> generation = tokens_of_kind(name, "generation_");
    const std::int64_t tokens = context.value_or(0) + generation.value_or(0);
    return tokens > 0 ? std::optional(tokens) : std::nullopt;
  }
  if (!name.starts_with("step[")) return std::nullopt;
  for (const std::string_view field : {"toks=", "tokens=", "bs="}) {
    const std::size_t place = name.find(field);
    if (place == std::string::npos) continue;
    std::string_view rest = std::string_view(name).substr(place + field.size());
    if (const std::optional<std::int64_t> tokens = take_number(rest); tokens && *tokens > 0) return tokens;
  }
  return std::nullopt;
}

Duration covered_time(std::vector<std::pair<TimePoint, TimePoint>> spans) {
  std::sort(spans.begin(), spans.end());
  Duration covered;
  std::optional<TimePoint> until;
  for (const auto& [start, end] : spans) {
    const TimePoint from = until ? std::max(*until, start) : start;
    if (end > from) covered += end - from;
    until = until ? std::max(*until, end) : end;
  }
  return covered;
}

Duration busy_time(const ProfilerTrace& trace, const TraceSection& section, const std::vector<std::size_t>& kernels) {
  std::vector<std::pair<TimePoint, TimePoint>> spans;
  for (const std::size_t i : kernels) {
    const DeviceEvent& event = trace.events[section.events[i].event];
    spans.emplace_back(event.start, event.end());
  }
  return covered_time(std::move(spans));
}

}  // namespace moesim
