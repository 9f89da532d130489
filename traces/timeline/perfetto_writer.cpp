// perfetto.protos.Trace, packet by packet: each is field 1 of Trace, so that the packets one after another are the message. A
// group is a process, tracks and counters are its children in the order in which they were added. Names are interned.
// Timestamps are whole nanoseconds: of slices that begin or end in the same one the order of the packets decides, so an end
// is held back until the next slice of its track lies outside.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/wire_format_lite.h>
#include <perfetto.pb.h>

#include <cmath>
#include <optional>
#include <ostream>
#include <unordered_map>
#include <vector>

#include "sim/units/check.h"
#include "traces/timeline/text.h"
#include "traces/timeline/track_writer.h"

namespace moesim {
namespace {

constexpr std::uint32_t kSequence = 1;
constexpr std::size_t kMostNames = 1 << 16;  // interned; later ones are written out
constexpr std::int64_t kPerNanosecond = 1000;

std::uint64_t nanoseconds(TimePoint at) {
  MOESIM_CHECK(at >= TimePoint());
  return static_cast<std::uint64_t>((at.value() + kPerNanosecond / 2) / kPerNanosecond);
}

class Names {
 public:
  // The name's number, 0: it has none. `added`: it is new.
  std::uint64_t number(const std::string& name, bool& added) {
    const auto it = numbers_.find(name);
    added = it == numbers_.end() && numbers_.size() < kMostNames;
    if (added) return numbers_[name] = numbers_.size() + 1;
    return it == numbers_.end() ? 0 : it->second;
  }

 private:
  std::unordered_map<std::string, std::uint64_t> numbers_;
};

class PerfettoWriter : public TrackWriter {
 public:
  explicit PerfettoWriter(std::ostream& out) : stream_(std::in_place, &out), coded_(std::in_place, &*stream_) {
    perfetto::TracePacket& packet = begin();
    packet.set_sequence_flags(perfetto::TracePacket::SEQ_INCREMENTAL_STATE_CLEARED);
    packet.mutable_track_descriptor()->set_uuid(0);
    packet.mutable_track_descriptor()->set_process_ordering(perfetto::TrackDescriptor::PROCESS_ORDERING_EXPLICIT);
    write();
  }

  Track add_group(std::string_view name) override {
    perfetto::TrackDescriptor& descriptor = add();
    descriptor.mutable_process()->set_pid(static_cast<std::int32_t>(tracks_.size()));
    descriptor.mutable_process()->set_process_name(valid_utf8(name));
    descriptor.set_child_ordering(perfetto::TrackDescriptor::EXPLICIT);
    write();
    return tracks_.size();
  }

  Track add_track(Track group, std::string_view name) override {
    add(group, name);
    write();
    return tracks_.size();
  }

  Track add_counter(Track group, std::string_view name, std::string_view unit) override {
    add(group, name).mutable_counter()->set_unit_name(valid_utf8(unit));
    write();
    return tracks_.size();
  }

  void slice(Track track, TimePoint start, Duration length, std::string_view name, std::string_view category,
             std::span<const Argument> arguments) override {
    MOESIM_CHECK(length >= Duration(0));
    const TimePoint end = start + length;
    close(track, start, end);
    perfetto::TrackEvent& event = begin_event(track, start, perfetto::TrackEvent::TYPE_SLICE_BEGIN);
    set_names(event, name, category);
    add_whole(event, "start_ps", start.value());
    add_whole(event, "duration_ps", length.value());
    for (const Argument& argument : arguments) add_argument(event, argument);
    write();
    open_of(track).push_back(end);
  }

  void count(Track counter, TimePoint at, double value) override {
    MOESIM_CHECK(std::isfinite(value));
    begin_event(counter, at, perfetto::TrackEvent::TYPE_COUNTER).set_double_counter_value(value);
    write();
  }

  void finish() override {
    for (std::size_t t = 0; t < tracks_.size(); ++t) {
      while (!tracks_[t].empty()) close_last(t + 1);
    }
    coded_.reset();  // which writes what they hold
    stream_.reset();
  }

 private:
  perfetto::TracePacket& begin() {
    packet_.Clear();
    packet_.set_trusted_packet_sequence_id(kSequence);
    return packet_;
  }
  perfetto::TrackDescriptor& add() {
    tracks_.emplace_back();
    perfetto::TrackDescriptor& descriptor = *begin().mutable_track_descriptor();
    descriptor.set_uuid(tracks_.size());
    descriptor.set_sibling_order_rank(static_cast<std::int32_t>(tracks_.size()));
    return descriptor;
  }
  perfetto::TrackDescriptor& add(Track group, std::string_view name) {
    perfetto::TrackDescriptor& descriptor = add();
    descriptor.set_parent_uuid(group);
    descriptor.set_name(valid_utf8(name));
    return descriptor;
  }
  perfetto::TrackEvent& begin_event(Track track, TimePoint at, perfetto::TrackEvent::Type type) {
    perfetto::TracePacket& packet = begin();
    packet.set_sequence_flags(perfetto::TracePacket::SEQ_NEEDS_INCREMENTAL_STATE);
    packet.set_timestamp(nanoseconds(at));
    perfetto::TrackEvent& event = *packet.mutable_track_event();
    event.set_type(type);
    event.set_track_uuid(track);
    return event;
  }

  std::vector<TimePoint>& open_of(Track track) {
    MOESIM_CHECK(track >= 1 && track <= tracks_.size());
    return tracks_[track - 1];
  }
  void close_last(Track track) {
    begin_event(track, open_of(track).back(), perfetto::TrackEvent::TYPE_SLICE_END);
    write();
    open_of(track).pop_back();
  }
  // Ends the track's slices that one from start to end does not lie in.
  void close(Track track, TimePoint start, TimePoint end) {
    std::vector<TimePoint>& open = open_of(track);
    while (!open.empty() && (open.back() <= start || open.back() < end)) close_last(track);
  }

  void set_names(perfetto::TrackEvent& event, std::string_view name, std::string_view category) {
    bool added = false;
    std::string text = valid_utf8(category);
    if (const std::uint64_t iid = categories_.number(text, added)) {
      event.add_category_iids(iid);
      if (added) intern(*packet_.mutable_interned_data()->add_event_categories(), iid, std::move(text));
    } else {
      event.add_categories(std::move(text));
    }
    text = valid_utf8(name);
    if (const std::uint64_t iid = names_.number(text, added)) {
      event.set_name_iid(iid);
      if (added) intern(*packet_.mutable_interned_data()->add_event_names(), iid, std::move(text));
    } else {
      event.set_name(std::move(text));
    }
  }
  perfetto::DebugAnnotation& add_annotation(perfetto::TrackEvent& event, std::string_view name) {
    perfetto::DebugAnnotation& annotation = *event.add_debug_annotations();
    bool added = false;
    std::string text = valid_utf8(name);
    if (const std::uint64_t iid = arguments_.number(text, added)) {
      annotation.set_name_iid(iid);
      if (added) intern(*packet_.mutable_interned_data()->add_debug_annotation_names(), iid, std::move(text));
    } else {
      annotation.set_name(std::move(text));
    }
    return annotation;
  }
  void add_whole(perfetto::TrackEvent& event, std::string_view name, std::int64_t value) {
    add_annotation(event, name).set_int_value(value);
  }
  void add_argument(perfetto::TrackEvent& event, const Argument& argument) {
    perfetto::DebugAnnotation& annotation = add_annotation(event, argument.name);
    if (const auto* whole = std::get_if<std::int64_t>(&argument.value)) {
      annotation.set_int_value(*whole);
    } else if (const auto* number = std::get_if<double>(&argument.value)) {
      MOESIM_CHECK(std::isfinite(*number));
      annotation.set_double_value(*number);
    } else {
      annotation.set_string_value(valid_utf8(std::get<std::string_view>(argument.value)));
    }
  }
  static void intern(perfetto::InternedName& entry, std::uint64_t iid, std::string name) {
    entry.set_iid(iid);
    entry.set_name(std::move(name));
  }

  void write() {
    using google::protobuf::internal::WireFormatLite;
    coded_->WriteTag(
        WireFormatLite::MakeTag(perfetto::Trace::kPacketFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
    coded_->WriteVarint32(static_cast<std::uint32_t>(packet_.ByteSizeLong()));
    packet_.SerializeWithCachedSizes(&*coded_);
  }

  std::optional<google::protobuf::io::OstreamOutputStream> stream_;
  std::optional<google::protobuf::io::CodedOutputStream> coded_;
  perfetto::TracePacket packet_;
  std::vector<std::vector<TimePoint>> tracks_;  // ends of its open slices, outermost first
  Names names_, categories_, arguments_;
};

}  // namespace

std::unique_ptr<TrackWriter> perfetto_writer(std::ostream& out) { return std::make_unique<PerfettoWriter>(out); }

}  // namespace moesim
