#include "traces/profiler/event_draft.h"

#include <fmt/format.h>

namespace moesim {
namespace {

constexpr std::size_t kMostQuotedBytes = 60;

}  // namespace

std::string EventDraft::pointer(const std::string& field) const {
  return fmt::format("{}/{}{}{}", array_form ? "" : "/traceEvents", index, field.empty() ? "" : "/", field);
}

void EventDraft::fail(const std::string& field, const std::string& found, const std::string& expected) const {
  throw InputError({*file, pointer(field), found, expected, ""});
}

void EventDraft::require_complete() const {
  if (problem) throw InputError(*problem);
  if (phase != "X") fail("ph", in_quotes(phase), "'X', a complete event");
  if (name.empty()) fail("", "no name", "an event with its name");
  if (!start) fail("", "no key 'ts'", "an event with its start");
  if (!length) fail("", "no key 'dur'", "an event with its duration");
}

std::string in_quotes(std::string_view text) {
  if (text.size() <= kMostQuotedBytes) return fmt::format("'{}'", text);
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; };
  std::size_t end = kMostQuotedBytes;
  while (end > 0 && continues(text[end])) --end;
  return fmt::format("'{}...'", text.substr(0, end));
}

}  // namespace moesim
