#include "traces/profiler_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <istream>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "sim/io/input_error.h"
#include "traces/profiler/decimal_time.h"
#include "traces/profiler/event_stream.h"
#include "traces/profiler/packed_text.h"

namespace moesim {
namespace {

constexpr std::size_t kMostHostRecords = 4'000'000;  // annotations, MoE operators and launches
constexpr std::size_t kMostNameBytes = std::size_t{64} << 20;
constexpr std::int64_t kMostSpan = 4'000'000'000'000;  // microseconds (46 days) from the first event that is kept
constexpr std::int64_t kPicosecondsPerWhole = 1'000'000;

bool contains(std::string_view text, std::string_view piece) { return text.find(piece) != std::string_view::npos; }

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

// Where events go, by category; the capitals are those of PyTorch before 1.13.
enum class Category { kKernel, kCopy, kFill, kAnnotation, kDeviceAnnotation, kOperator, kCall, kOther };

Category category_of(std::string_view text) {
  if (is_one_of(text, {"kernel", "Kernel"})) return Category::kKernel;
  if (is_one_of(text, {"gpu_memcpy", "Memcpy"})) return Category::kCopy;
  if (is_one_of(text, {"gpu_memset", "Memset"})) return Category::kFill;
  if (text == "user_annotation") return Category::kAnnotation;
  if (text == "gpu_user_annotation") return Category::kDeviceAnnotation;
  if (is_one_of(text, {"cpu_op", "Operator"})) return Category::kOperator;
  if (is_one_of(text, {"cuda_runtime", "cuda_driver", "hip_runtime", "Runtime"})) return Category::kCall;
  return Category::kOther;
}

// "vllm::moe_forward", "sglang::inplace_fused_experts": of a library, not of one kernel.
bool is_moe_operator(std::string_view name) {
  return contains(name, "::") && (contains(name, "moe") || contains(name, "fused_experts"));
}

bool launches_work(std::string_view name) {
  return contains(name, "Launch") || contains(name, "Memcpy") || contains(name, "Memset");
}

struct Launch {
  std::int64_t correlation = 0;
  TimePoint at;
  std::int64_t thread = 0;
};

// Keeps what the trace is made of; the drafts are those of ProfilerSax.
class Builder final : public ProfilerSink {
 public:
  explicit Builder(const std::string& file) { trace_.file = file; }

  void event(const EventDraft& draft) override {
    ++trace_.all_events;
    const Category category = category_of(draft.category);
    switch (category) {
      case Category::kKernel:
        return add_device_event(draft, DeviceEvent::Kind::kKernel);
      case Category::kCopy:
        return add_device_event(draft, DeviceEvent::Kind::kCopy);
      case Category::kFill:
        return add_device_event(draft, DeviceEvent::Kind::kFill);
      case Category::kAnnotation:
      case Category::kDeviceAnnotation:
        return add_annotation(draft, category == Category::kDeviceAnnotation);
      case Category::kOperator:
        if (is_moe_operator(draft.name)) add_operator(draft);
        return;
      case Category::kCall:
        if (draft.correlation && launches_work(draft.name)) add_launch(draft);
        return;
      case Category::kOther:
        return;
    }
  }

  void device(ProfiledDevice device) override { trace_.devices.push_back(std::move(device)); }
  void world_size(std::int64_t size) override { trace_.world_size = size; }

  ProfilerTrace finish() {
    link_launches();
    shift();
    std::stable_sort(trace_.events.begin(), trace_.events.end(),
                     [](const DeviceEvent& a, const DeviceEvent& b) { return a.start < b.start; });
    const auto earlier = [](const auto& a, const auto& b) {
      return std::pair(a.start, b.end()) < std::pair(b.start, a.end());  // the outer one of two first
    };
    std::stable_sort(trace_.annotations.begin(), trace_.annotations.end(), earlier);
    std::stable_sort(trace_.operators.begin(), trace_.operators.end(), earlier);
    return std::move(trace_);
  }

 private:
  void add_device_event(const EventDraft& draft, DeviceEvent::Kind kind) {
    draft.require_complete();
    if (trace_.events.size() == kMostDeviceEvents) {
      throw InputError({trace_.file, draft.pointer(), fmt::format("more than {} device events", kMostDeviceEvents),
                        "at most so many (profile fewer steps, or cut the trace)", ""});
    }
    constexpr std::int64_t kMostId = std::numeric_limits<std::int32_t>::max();
    DeviceEvent event;
    event.kind = kind;
    event.name = intern(draft);
    event.device = static_cast<std::int32_t>(
        std::clamp<std::int64_t>(draft.device.value_or(draft.process.value_or(0)), -1, kMostId));
    event.stream = draft.stream.value_or(draft.thread.value_or(0));
    event.start = start_of(draft);
    event.length = length_of(draft);
    event.grid = draft.grid;
    event.block = draft.block;
    event.correlation = draft.correlation.value_or(-1);
    trace_.events.push_back(event);
  }

  void add_annotation(const EventDraft& draft, bool on_device) {
    draft.require_complete();
    check_host_records(draft);
    trace_.annotations.push_back(
        {intern(draft), on_device, draft.thread.value_or(0), start_of(draft), length_of(draft)});
  }

  void add_operator(const EventDraft& draft) {
    draft.require_complete();
    check_host_records(draft);
    trace_.operators.push_back(
        {intern(draft), draft.thread.value_or(0), start_of(draft), length_of(draft), draft.inputs});
  }

  void add_launch(const EventDraft& draft) {
    draft.require_complete();
    check_host_records(draft);
    launches_.push_back({*draft.correlation, start_of(draft), draft.thread.value_or(0)});
    if (contains(draft.name, "GraphLaunch")) trace_.graph_launches = true;
  }

  void check_host_records(const EventDraft& draft) const {
    if (launches_.size() + trace_.annotations.size() + trace_.operators.size() < kMostHostRecords) return;
    throw InputError({trace_.file, draft.pointer(),
                      fmt::format("more than {} annotations, MoE operators and launches", kMostHostRecords),
                      "at most so many (profile fewer steps, or cut the trace)", ""});
  }

  std::uint32_t intern(const EventDraft& draft) {
    const auto known = name_ids_.find(draft.name);
    if (known != name_ids_.end()) return known->second;
    name_bytes_ += draft.name.size();
    if (name_bytes_ > kMostNameBytes) {
      throw InputError({trace_.file, draft.pointer(), fmt::format("more than {} MiB of names", kMostNameBytes >> 20),
                        "at most so many", ""});
    }
    const auto id = static_cast<std::uint32_t>(trace_.names.size());
    std::string printable = draft.name;  // for tables: no line breaks, no escapes of a terminal
    std::replace_if(
        printable.begin(), printable.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7F; },
        ' ');
    trace_.names.push_back(std::move(printable));
    name_ids_.emplace(draft.name, id);
    return id;
  }

  TimePoint start_of(const EventDraft& draft) {
    if (!base_) base_ = draft.start->whole;
    // Both have at most 18 digits: the difference fits.
    const std::int64_t whole = draft.start->whole - *base_;
    if (std::abs(whole) > kMostSpan) {
      draft.fail("ts", fmt::format("a time {} s from the first event's", whole / 1'000'000),
                 fmt::format("within {} days of it", kMostSpan / 86'400'000'000));
    }
    return TimePoint(whole * kPicosecondsPerWhole + draft.start->fraction);
  }

  static Duration length_of(const EventDraft& draft) {
    if (draft.length->whole < 0) draft.fail("dur", "a negative duration", "0 or more");
    if (draft.length->whole > kMostSpan) {
      draft.fail("dur", fmt::format("a duration of {} s", draft.length->whole / 1'000'000),
                 fmt::format("at most {} days", kMostSpan / 86'400'000'000));
    }
    return Duration(draft.length->whole * kPicosecondsPerWhole + draft.length->fraction);
  }

  void link_launches() {
    std::stable_sort(launches_.begin(), launches_.end(),
                     [](const Launch& a, const Launch& b) { return a.correlation < b.correlation; });
    for (DeviceEvent& event : trace_.events) {
      if (event.correlation < 0) continue;
      const auto launch =
          std::lower_bound(launches_.begin(), launches_.end(), event.correlation,
                           [](const Launch& l, std::int64_t correlation) { return l.correlation < correlation; });
      if (launch == launches_.end() || launch->correlation != event.correlation) continue;
      event.launched = launch->at;
      event.thread = launch->thread;
    }
  }

  // So that the first moment is 0.
  void shift() {
    std::optional<TimePoint> first;
    const auto see = [&first](TimePoint at) { first = first ? std::min(*first, at) : at; };
    for (const DeviceEvent& event : trace_.events) see(event.start);
    for (const Annotation& annotation : trace_.annotations) see(annotation.start);
    for (const MoeOperator& op : trace_.operators) see(op.start);
    if (!first) return;
    const auto moved = [&first](TimePoint at) { return TimePoint((at - *first).value()); };
    for (DeviceEvent& event : trace_.events) {
      event.start = moved(event.start);
      if (event.launched) event.launched = moved(*event.launched);
    }
    for (Annotation& annotation : trace_.annotations) annotation.start = moved(annotation.start);
    for (MoeOperator& op : trace_.operators) op.start = moved(op.start);
  }

  ProfilerTrace trace_;
  std::unordered_map<std::string, std::uint32_t> name_ids_;
  std::size_t name_bytes_ = 0;
  std::vector<Launch> launches_;
  std::optional<std::int64_t> base_;  // whole microseconds of the first event that is kept
};

}  // namespace

ProfilerTrace read_profiler_trace(const std::string& path) {
  PackedText text(path);
  std::istream stream(&text);
  Builder builder(path);
  parse_profiler_json(stream, text, path, builder);
  return builder.finish();
}

}  // namespace moesim
