// A file whose format is to be found, or is known, and what was said about it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/io/strict_json.h"
#include "traces/routed_trace.h"
#include "traces/routing_formats/json_lines.h"
#include "traces/routing_formats/sidecar.h"

namespace moesim {

class RoutingFile {
 public:
  // Opens it, looks at its beginning, reads its sidecar where there is one. What the sidecar says completes `hints`.
  RoutingFile(std::string path, TraceHints hints);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const TraceHints& hints() const { return hints_; }
  [[nodiscard]] const std::optional<Sidecar>& sidecar() const { return sidecar_; }
  [[nodiscard]] bool starts_with(std::string_view magic) const { return head_.starts_with(magic); }

  // JSON: the whole file where it is one value; else its first line. InputError for what is no JSON.
  [[nodiscard]] const JsonView& first() const;
  [[nodiscard]] bool binary() const;
  // Keys of first(), of its first element where it is an array; none of what is no object.
  [[nodiscard]] bool has_key(std::string_view key) const;
  // first() as the file's only value: an InputError where lines follow.
  [[nodiscard]] JsonView only() const;
  [[nodiscard]] JsonLines lines() const { return JsonLines(path_); }
  [[nodiscard]] std::string bytes() const;

  [[noreturn]] void fail(const std::string& where, const std::string& found, const std::string& expected) const;

 private:
  void read_first();

  std::string path_;
  TraceHints hints_;
  std::optional<Sidecar> sidecar_;
  std::string head_;
  std::optional<JsonDocument> document_;
  std::optional<JsonView> first_;
  bool more_lines_ = false;
  std::vector<std::string> keys_;
};

}  // namespace moesim
