#include "traces/profiler/event_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <istream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <variant>

#include "traces/profiler/event_draft.h"
#include "traces/profiler/trace_keys.h"

namespace moesim {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostDepth = 64;
constexpr std::size_t kMostMessageBytes = 120;
constexpr std::size_t kMostDevices = 4096;
constexpr std::size_t kMostInputs = 64, kMostDimensions = 16;
constexpr std::int64_t kMostWorld = 1'000'000;

struct Number {
  std::optional<std::int64_t> whole;  // where it is one that fits
  std::string_view text;              // as written, where it is no integer of 64 bits
};
struct Null {};
using Scalar = std::variant<Null, bool, Number, std::string*>;

std::string describe(const Scalar& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<Number>(&value)) {
    return number->text.empty() ? fmt::format("number {}", *number->whole) : fmt::format("number {}", number->text);
  }
  if (const auto* text = std::get_if<std::string*>(&value)) return "string " + in_quotes(**text);
  return "null";
}

std::string escaped(std::string_view key) {
  std::string text;
  for (const char c : key) text += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return text;
}

class ProfilerSax final : public nlohmann::json_sax<Json> {
 public:
  ProfilerSax(PackedText& text, const std::string& file, ProfilerSink& sink) : text_(text), file_(file), sink_(sink) {
    draft_.file = &file_;
  }

  bool null() override { return scalar(Null{}); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(number_integer_t value) override { return scalar(Number{value, {}}); }
  bool number_unsigned(number_unsigned_t value) override {
    if (std::in_range<std::int64_t>(value)) return scalar(Number{static_cast<std::int64_t>(value), {}});
    const std::string text = fmt::format("{}", value);
    return scalar(Number{std::nullopt, text});
  }
  bool number_float(number_float_t value, const string_t& token) override {
    std::optional<std::int64_t> integer;
    constexpr double kMostExact = 9007199254740992.0;  // 2^53
    if (value == std::trunc(value) && std::abs(value) <= kMostExact) integer = static_cast<std::int64_t>(value);
    return scalar(Number{integer, token});
  }
  bool string(string_t& value) override { return scalar(&value); }
  bool binary(binary_t& /*value*/) override { return true; }  // JSON has none

  bool start_object(std::size_t /*unknown*/) override { return open(false); }
  bool start_array(std::size_t /*unknown*/) override { return open(true); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    text_.note_piece();
    if (skipped_ > 0) return true;
    Frame& frame = frames_.back();
    frame.key = key_of(frame.place, name);
    if (frame.key == Key::kOther) {
      other_key_ = name;
      return true;
    }
    const std::uint32_t bit = std::uint32_t{1} << static_cast<unsigned>(frame.key);
    if ((frame.seen & bit) != 0) fail_at_value(fmt::format("key '{}' a second time", name), "each key once");
    frame.seen |= bit;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token, const nlohmann::detail::exception& error) override {
    constexpr int kNumberOverflow = 406;  // nlohmann's id of the one error that is not about syntax
    const std::string where = fmt::format("byte {} of the text", position == 0 ? 0 : position - 1);
    if (error.id == kNumberOverflow) {
      throw InputError({file_, where, "number " + in_quotes(token), "a number that a double can hold", ""});
    }
    std::string_view message = error.what();
    constexpr std::string_view kReason = " - ";
    if (const std::size_t reason = message.find(kReason); reason != std::string_view::npos) {
      message.remove_prefix(reason + kReason.size());
    }
    const std::string found(message.substr(0, message.find("; last read")));
    throw InputError({file_, where, printable(found), "JSON of a profiler trace", ""});
  }

  // After the last byte.
  void finish() const {
    if (!events_seen_) throw InputError({file_, "", "no key 'traceEvents'", "a profiler trace with its events", ""});
  }

 private:
  struct Frame {
    Place place;
    Key key = Key::kOther;   // objects: of the value that comes next
    std::uint32_t seen = 0;  // objects: bits of Key
    std::int64_t index = 0;  // arrays: of the value that comes next
  };

  // nlohmann quotes what it read last: bytes that are no text are left out.
  static std::string printable(const std::string& text) {
    std::string result;
    for (const char c : text.substr(0, kMostMessageBytes)) {
      if (c >= ' ' && c <= '~') result += c;
    }
    return result;
  }

  [[nodiscard]] std::string pointer() const {
    std::string text;
    for (const Frame& frame : frames_) {
      switch (frame.place) {
        case Place::kEvents:
        case Place::kDevices:
        case Place::kInputs:
        case Place::kInput:
        case Place::kGrid:
        case Place::kBlock:
          text += fmt::format("/{}", frame.index);
          break;
        case Place::kTop:
        case Place::kEvent:
        case Place::kArguments:
        case Place::kDevice:
        case Place::kDistributed:
          text += "/" + (frame.key == Key::kOther ? escaped(other_key_) : escaped(key_text(frame.key)));
          break;
      }
    }
    return text;
  }

  [[noreturn]] void fail_at_value(const std::string& found, const std::string& expected) const {
    throw InputError({file_, pointer(), found, expected, ""});
  }

  // A problem of the event that is being read; the first one counts, and only if the event is kept.
  void note(const std::string& found, const std::string& expected) {
    if (!draft_.problem) draft_.problem = InputProblem{file_, pointer(), found, expected, ""};
  }

  bool open(bool array) {
    text_.note_piece();
    if (frames_.size() + skipped_ == kMostDepth) {
      throw InputError({file_, pointer(), "deeper nesting", fmt::format("at most {} levels", kMostDepth), ""});
    }
    const std::optional<Place> place = skipped_ > 0 ? std::nullopt : place_of_container(array);
    if (!place) {
      ++skipped_;
      return true;
    }
    if (*place == Place::kEvents) events_seen_ = true;
    if (*place == Place::kEvent) start_event();
    if (*place == Place::kDevice) device_ = {};
    if (*place == Place::kInput && draft_.inputs.size() < kMostInputs) draft_.inputs.emplace_back();
    frames_.push_back({*place});
    return true;
  }

  // Of a container that begins where the innermost frame stands; nullopt: passed over.
  std::optional<Place> place_of_container(bool array) {
    if (frames_.empty()) {
      array_form_ = array;
      return array ? Place::kEvents : Place::kTop;
    }
    const Frame& frame = frames_.back();
    const auto must = [&](bool as_expected, const char* expected) {
      if (!as_expected) fail_at_value(array ? "an array" : "an object", expected);
    };
    switch (frame.place) {
      case Place::kTop:
        if (frame.key == Key::kOther) return std::nullopt;
        if (frame.key == Key::kDistributedInfo) {
          must(!array, "an object");
          return Place::kDistributed;
        }
        must(array, "an array");
        return frame.key == Key::kTraceEvents ? Place::kEvents : Place::kDevices;
      case Place::kEvents:
        must(!array, "an event, which is an object");
        return Place::kEvent;
      case Place::kDevices:
        must(!array, "an object");
        return Place::kDevice;
      case Place::kEvent:
        if (frame.key == Key::kArguments && !array) return Place::kArguments;
        if (frame.key != Key::kOther) expect_scalar(array ? "an array" : "an object");
        return std::nullopt;
      case Place::kArguments:
        if (array && frame.key == Key::kGrid) return Place::kGrid;
        if (array && frame.key == Key::kBlock) return Place::kBlock;
        if (array && frame.key == Key::kInputs) return Place::kInputs;
        if (frame.key != Key::kOther) note(array ? "an array" : "an object", expected_argument(frame.key));
        return std::nullopt;
      case Place::kInputs:
        if (array) return Place::kInput;
        note("an object", "an array of sizes");
        return std::nullopt;
      case Place::kGrid:
      case Place::kBlock:
        note(array ? "an array" : "an object", "a whole number");
        return std::nullopt;
      case Place::kInput:  // a list of tensors: their sizes are of no interest
        return std::nullopt;
      case Place::kDevice:
      case Place::kDistributed:
        must(frame.key == Key::kOther, "a number or a text");
        return std::nullopt;
    }
    return std::nullopt;
  }

  bool close() {
    text_.note_piece();
    if (skipped_ > 0) {
      --skipped_;
      if (skipped_ == 0) value_done();
      return true;
    }
    const Place place = frames_.back().place;
    const std::int64_t values = frames_.back().index;
    frames_.pop_back();
    if (place == Place::kEvent) end_event();
    if (place == Place::kDevice) sink_.device(device_);
    if ((place == Place::kGrid || place == Place::kBlock) && values > 3) {
      note(fmt::format("an array of {}", values), "three numbers");
    }
    value_done();
    return true;
  }

  void value_done() {
    if (!frames_.empty()) ++frames_.back().index;
  }

  bool scalar(const Scalar& value) {
    text_.note_piece();
    if (skipped_ > 0) return true;
    if (frames_.empty()) {
      throw InputError({file_, "", describe(value), "a profiler trace: an object with traceEvents, or an array", ""});
    }
    read(value);
    value_done();
    return true;
  }

  void read(const Scalar& value) {
    const Frame& frame = frames_.back();
    switch (frame.place) {
      case Place::kTop:
        if (frame.key == Key::kTraceEvents) fail_at_value(describe(value), "an array");
        return;  // deviceProperties: null is as good as none
      case Place::kEvents:
        fail_at_value(describe(value), "an event, which is an object");
      case Place::kEvent:
        return read_of_event(frame.key, value);
      case Place::kArguments:
        return read_argument(frame.key, value);
      case Place::kGrid:
        return read_size(draft_.grid, value);
      case Place::kBlock:
        return read_size(draft_.block, value);
      case Place::kInputs:
        return;  // a scalar's place
      case Place::kInput:
        return read_dimension(value);
      case Place::kDevices:
        fail_at_value(describe(value), "an object");
      case Place::kDevice:
        return read_of_device(frame.key, value);
      case Place::kDistributed:
        if (frame.key == Key::kWorldSize) sink_.world_size(must_be_whole(value, 1, kMostWorld));
        return;
    }
  }

  void read_of_event(Key key, const Scalar& value) {
    switch (key) {
      case Key::kPhase:
        draft_.phase = must_be_text(value);
        return;
      case Key::kCategory:
        draft_.category = must_be_text(value);
        return;
      case Key::kName:
        draft_.name = must_be_text(value);
        return;
      case Key::kStart:
        draft_.start = time_of(value);
        return;
      case Key::kLength:
        draft_.length = time_of(value);
        return;
      case Key::kProcess:  // "Spans", "Traces": of events that are not kept
        draft_.process = whole_or_none(value);
        return;
      case Key::kThread:
        draft_.thread = whole_or_none(value);
        return;
      default:  // args: null, as good as none; keys of other places do not come here
        return;
    }
  }

  void read_argument(Key key, const Scalar& value) {
    std::optional<std::int64_t>* target = key == Key::kDevice        ? &draft_.device
                                          : key == Key::kStream      ? &draft_.stream
                                          : key == Key::kCorrelation ? &draft_.correlation
                                                                     : nullptr;
    if (target != nullptr) {
      *target = whole_or_none(value);
      if (!*target) note(describe(value), expected_argument(key));
      return;
    }
    if (key != Key::kOther && !std::holds_alternative<Null>(value)) note(describe(value), expected_argument(key));
  }

  static const char* expected_argument(Key key) {
    return key == Key::kGrid || key == Key::kBlock ? "an array of three numbers"
           : key == Key::kInputs                   ? "an array of arrays of sizes"
                                                   : "a whole number";
  }

  void read_size(std::array<std::int32_t, 3>& sizes, const Scalar& value) {
    const std::optional<std::int64_t> size = whole_or_none(value);
    if (!size || *size < 0 || *size > std::numeric_limits<std::int32_t>::max()) {
      note(describe(value), fmt::format("a whole number from 0 to {}", std::numeric_limits<std::int32_t>::max()));
      return;
    }
    const auto axis = static_cast<std::size_t>(frames_.back().index);
    if (axis < sizes.size()) sizes[axis] = static_cast<std::int32_t>(*size);
  }

  void read_dimension(const Scalar& value) {
    const std::optional<std::int64_t> size = whole_or_none(value);
    if (!size || *size < 0) return note(describe(value), "a whole number of at least 0");
    std::vector<std::int64_t>& sizes = draft_.inputs.back();
    if (sizes.size() < kMostDimensions) sizes.push_back(*size);
  }

  void read_of_device(Key key, const Scalar& value) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (key == Key::kDeviceName) device_.name = must_be_text(value);
    if (key == Key::kMemory) device_.memory = must_be_whole(value, 0, kMost);
    if (key == Key::kUnits) device_.units = must_be_whole(value, 0, kMost);
    if (key == Key::kWarp) device_.warp = must_be_whole(value, 0, kMost);
  }

  static std::optional<std::int64_t> whole_or_none(const Scalar& value) {
    const auto* number = std::get_if<Number>(&value);
    return number == nullptr ? std::nullopt : number->whole;
  }

  std::optional<DecimalTime> time_of(const Scalar& value) {
    const auto* number = std::get_if<Number>(&value);
    if (number == nullptr) {
      note(describe(value), "a number of microseconds");
      return std::nullopt;
    }
    const std::optional<DecimalTime> time = number->text.empty()
                                                ? parse_decimal_time(fmt::format_int(*number->whole).str())
                                                : parse_decimal_time(number->text);
    if (!time) note(describe(value), "at most 18 digits of microseconds");
    return time;
  }

  std::string must_be_text(const Scalar& value) {
    auto* const* text = std::get_if<std::string*>(&value);
    if (text == nullptr) fail_at_value(describe(value), "a string");
    return std::move(**text);
  }

  [[nodiscard]] std::int64_t must_be_whole(const Scalar& value, std::int64_t min, std::int64_t max) const {
    const std::optional<std::int64_t> number = whole_or_none(value);
    if (!number || *number < min || *number > max) {
      fail_at_value(describe(value), fmt::format("a whole number from {} to {}", min, max));
    }
    return *number;
  }

  // Of an event's own fields: a container where a text or a number must stand.
  void expect_scalar(const char* found) {
    const Key key = frames_.back().key;
    if (key == Key::kPhase || key == Key::kCategory || key == Key::kName) fail_at_value(found, "a string");
    note(found, key == Key::kArguments ? "an object" : "a number");
  }

  void start_event() {
    draft_.index = frames_.back().index;
    draft_.array_form = array_form_;
    draft_.phase.clear();
    draft_.category.clear();
    draft_.name.clear();
    draft_.start.reset();
    draft_.length.reset();
    draft_.process.reset();
    draft_.thread.reset();
    draft_.device.reset();
    draft_.stream.reset();
    draft_.correlation.reset();
    draft_.grid = draft_.block = {};
    draft_.inputs.clear();
    draft_.problem.reset();
  }

  void end_event() {
    if (draft_.phase.empty()) {
      throw InputError({file_, draft_.pointer(), "no key 'ph'", "an event with its phase", ""});
    }
    sink_.event(draft_);
  }

  PackedText& text_;
  const std::string& file_;
  ProfilerSink& sink_;
  std::vector<Frame> frames_;
  std::size_t skipped_ = 0;  // containers open within what is passed over
  std::string other_key_;    // the last unknown key
  bool array_form_ = false, events_seen_ = false;
  EventDraft draft_;
  ProfiledDevice device_;
};

}  // namespace

void parse_profiler_json(std::istream& stream, PackedText& text, const std::string& file, ProfilerSink& sink) {
  ProfilerSax sax(text, file, sink);
  Json::sax_parse(stream, &sax);  // each failure throws
  sax.finish();
}

}  // namespace moesim
