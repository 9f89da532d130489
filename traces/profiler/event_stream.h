// The JSON of a profiler trace, event by event: what of it is read, and what may stand there.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "traces/profiler/event_draft.h"
#include "traces/profiler/packed_text.h"
#include "traces/profiler_trace.h"

namespace moesim {

class ProfilerSink {
 public:
  virtual ~ProfilerSink() = default;
  virtual void event(const EventDraft& draft) = 0;
  virtual void device(ProfiledDevice device) = 0;
  virtual void world_size(std::int64_t size) = 0;
};

// Throws InputError.
void parse_profiler_json(std::istream& stream, PackedText& text, const std::string& file, ProfilerSink& sink);

}  // namespace moesim
