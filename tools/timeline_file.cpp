#include "tools/timeline_file.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/io/input_error.h"
#include "traces/timeline/gzip_output.h"
#include "traces/timeline/track_writer.h"

namespace moesim {
namespace {

constexpr const char* kFlag = "--timeline";

// Hands on, and counts.
class CountingWriter : public TrackWriter {
 public:
  explicit CountingWriter(TrackWriter& writer) : writer_(writer) {}
  Track add_group(std::string_view name) override { return writer_.add_group(name); }
  Track add_track(Track group, std::string_view name) override { return writer_.add_track(group, name); }
  Track add_counter(Track group, std::string_view name, std::string_view unit) override {
    return writer_.add_counter(group, name, unit);
  }
  void slice(Track track, TimePoint start, Duration length, std::string_view name, std::string_view category,
             std::span<const Argument> arguments) override {
    ++slices;
    writer_.slice(track, start, length, name, category, arguments);
  }
  void count(Track counter, TimePoint at, double value) override {
    ++counts;
    writer_.count(counter, at, value);
  }
  void finish() override { writer_.finish(); }

  std::int64_t slices = 0, counts = 0;

 private:
  TrackWriter& writer_;
};

}  // namespace

TimelineFile::Format TimelineFile::format_of(const std::string& path) {
  const std::pair<const char*, Format> known[] = {{".json", Format::kChrome},
                                                  {".json.gz", Format::kChromeGzip},
                                                  {".pftrace", Format::kPerfetto},
                                                  {".perfetto-trace", Format::kPerfetto}};
  std::vector<std::string> names;
  for (const auto& [extension, format] : known) {
    if (path.ends_with(extension) && path.size() > std::string_view(extension).size()) return format;
    names.emplace_back(extension);
  }
  const std::string name = path.substr(path.find_last_of('/') + 1);
  const std::size_t dot = name.find('.');
  const std::string found = dot == std::string::npos ? "" : name.substr(dot);
  throw InputError({kFlag, "", fmt::format("'{}'", path), fmt::format("a file {}", fmt::join(names, ", ")),
                    found.empty() ? "" : nearest_name(found, names)});
}

TimelineFile::TimelineFile(std::string path) : path_(std::move(path)), format_(format_of(path_)), file_(path_, kFlag) {}

std::string TimelineFile::write(const std::function<void(TrackWriter&)>& fill) {
  std::optional<GzipOutput> gzip;
  std::ostream* out = &file_.stream();
  if (format_ == Format::kChromeGzip) out = &gzip.emplace(*out);
  const std::unique_ptr<TrackWriter> writer =
      format_ == Format::kPerfetto ? perfetto_writer(*out) : chrome_writer(*out);
  CountingWriter counting(*writer);
  fill(counting);
  counting.finish();
  if (gzip) gzip->finish();
  const std::int64_t bytes = file_.commit();
  return fmt::format("{}: {} slices, {} counter values, {} bytes", path_, counting.slices, counting.counts, bytes);
}

}  // namespace moesim
