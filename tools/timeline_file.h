// A timeline's file, in the format that its extension says; there whole or not at all.
#pragma once

#include <functional>
#include <string>

#include "tools/output_file.h"

namespace moesim {

class TrackWriter;

class TimelineFile {
 public:
  // What help says of the extensions.
  static constexpr const char* kFormats = ".json, .json.gz (Chrome), .pftrace or .perfetto-trace";

  // Checks the extension, and that the file can be written (flag --timeline). Throws InputError.
  explicit TimelineFile(std::string path);
  // `fill` writes the tracks and does not finish(). Returns what to say of the file.
  std::string write(const std::function<void(TrackWriter&)>& fill);

 private:
  enum class Format { kChrome, kChromeGzip, kPerfetto };
  static Format format_of(const std::string& path);

  std::string path_;
  Format format_;
  OutputFile file_;
};

}  // namespace moesim
