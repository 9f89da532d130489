// Trace Event Format: {"displayTimeUnit":"ns","traceEvents":[...]}. A group is a process, a track a thread of it, a counter a
// counter of it. Times are microseconds, written as exact decimals of the picoseconds.
#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <ostream>
#include <vector>

#include "sim/units/check.h"
#include "traces/timeline/text.h"
#include "traces/timeline/track_writer.h"

namespace moesim {
namespace {

constexpr std::int64_t kPerMicrosecond = 1'000'000;  // picoseconds

void append_microseconds(std::string& out, std::int64_t picoseconds) {
  const char* sign = picoseconds < 0 ? "-" : "";
  const std::int64_t whole = std::abs(picoseconds / kPerMicrosecond), rest = std::abs(picoseconds % kPerMicrosecond);
  fmt::format_to(std::back_inserter(out), "{}{}.{:06}", sign, whole, rest);
}

void append_number(std::string& out, double value) {
  MOESIM_CHECK(std::isfinite(value));
  fmt::format_to(std::back_inserter(out), "{}", value);
}

class ChromeWriter : public TrackWriter {
 public:
  explicit ChromeWriter(std::ostream& out) : out_(out) { out_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":["; }

  Track add_group(std::string_view name) override {
    const Track group = add(0, "");
    metadata("process_name", group, 0, "name", name);
    metadata("process_sort_index", group, 0, group);
    return group;
  }

  Track add_track(Track group, std::string_view name) override {
    const Track track = add(group, "");
    metadata("thread_name", group, track, "name", name);
    metadata("thread_sort_index", group, track, track);
    return track;
  }

  Track add_counter(Track group, std::string_view name, std::string_view unit) override {
    std::string full(name);
    if (!unit.empty()) full += fmt::format(" ({})", unit);
    return add(group, full);
  }

  void slice(Track track, TimePoint start, Duration length, std::string_view name, std::string_view category,
             std::span<const Argument> arguments) override {
    MOESIM_CHECK(length >= Duration(0));
    begin("X", parent(track), track);
    line_ += ",\"name\":";
    append_json_string(line_, name);
    line_ += ",\"cat\":";
    append_json_string(line_, category);
    line_ += ",\"ts\":";
    append_microseconds(line_, start.value());
    line_ += ",\"dur\":";
    append_microseconds(line_, length.value());
    fmt::format_to(std::back_inserter(line_), ",\"args\":{{\"start_ps\":{},\"duration_ps\":{}", start.value(),
                   length.value());
    for (const Argument& argument : arguments) {
      line_ += ',';
      append_json_string(line_, argument.name);
      line_ += ':';
      append(argument);
    }
    line_ += "}}";
    write();
  }

  void count(Track counter, TimePoint at, double value) override {
    begin("C", parent(counter), 0);
    line_ += ",\"name\":";
    append_json_string(line_, tracks_[counter - 1].counter);
    line_ += ",\"ts\":";
    append_microseconds(line_, at.value());
    line_ += ",\"args\":{\"value\":";
    append_number(line_, value);
    line_ += "}}";
    write();
  }

  void finish() override { out_ << "\n]}\n"; }

 private:
  struct Entry {
    Track group = 0;
    std::string counter;  // its name
  };

  Track add(Track group, std::string counter) {
    tracks_.push_back({group, std::move(counter)});
    return tracks_.size();
  }
  [[nodiscard]] Track parent(Track track) const {
    MOESIM_CHECK(track >= 1 && track <= tracks_.size() && tracks_[track - 1].group >= 1);
    return tracks_[track - 1].group;
  }

  void begin(const char* phase, Track pid, Track tid) {
    line_.clear();
    fmt::format_to(std::back_inserter(line_), "{}\n{{\"ph\":\"{}\",\"pid\":{},\"tid\":{}", first_ ? "" : ",", phase,
                   pid, tid);
    first_ = false;
  }
  void metadata(const char* what, Track pid, Track tid, const char* key, std::string_view value) {
    begin("M", pid, tid);
    fmt::format_to(std::back_inserter(line_), ",\"name\":\"{}\",\"args\":{{\"{}\":", what, key);
    append_json_string(line_, value);
    line_ += "}}";
    write();
  }
  void metadata(const char* what, Track pid, Track tid, Track index) {
    begin("M", pid, tid);
    fmt::format_to(std::back_inserter(line_), ",\"name\":\"{}\",\"args\":{{\"sort_index\":{}}}}}", what, index);
    write();
  }
  void append(const Argument& argument) {
    if (const auto* whole = std::get_if<std::int64_t>(&argument.value)) {
      fmt::format_to(std::back_inserter(line_), "{}", *whole);
    } else if (const auto* number = std::get_if<double>(&argument.value)) {
      append_number(line_, *number);
    } else {
      append_json_string(line_, std::get<std::string_view>(argument.value));
    }
  }
  void write() { out_.write(line_.data(), static_cast<std::streamsize>(line_.size())); }

  std::ostream& out_;
  std::vector<Entry> tracks_;
  std::string line_;
  bool first_ = true;
};

}  // namespace

std::unique_ptr<TrackWriter> chrome_writer(std::ostream& out) { return std::make_unique<ChromeWriter>(out); }

}  // namespace moesim
