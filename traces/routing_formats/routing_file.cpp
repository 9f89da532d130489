#include "traces/routing_formats/routing_file.h"

#include <algorithm>
#include <utility>

#include "sim/io/input_error.h"
#include "sim/units/check.h"
#include "traces/npy.h"

namespace moesim {
namespace {

constexpr std::string_view kBinaryMagics[] = {"\x93NUMPY", "PK\x03\x04", "PK\x05\x06"};

}  // namespace

RoutingFile::RoutingFile(std::string path, TraceHints hints)
    : path_(std::move(path)), hints_(hints), sidecar_(read_sidecar(path_)) {
  if (sidecar_) {
    if (sidecar_->experts > 0) {
      if (hints_.experts && *hints_.experts != sidecar_->experts) {
        throw InputError({trace_sidecar_path(path_), "/experts", std::to_string(sidecar_->experts),
                          std::to_string(*hints_.experts) + ", as of the model", ""});
      }
      hints_.experts = sidecar_->experts;
    }
    if (!hints_.topk && sidecar_->topk > 0) hints_.topk = sidecar_->topk;
    if (!hints_.layers && !sidecar_->layers.empty()) {
      hints_.layers = static_cast<std::int64_t>(sidecar_->layers.size());
    }
  }
  head_ = read_head(path_);
  if (!binary()) read_first();
}

bool RoutingFile::binary() const {
  if (path_.ends_with(".npy") || path_.ends_with(".npz")) return true;
  return std::any_of(std::begin(kBinaryMagics), std::end(kBinaryMagics),
                     [&](std::string_view magic) { return starts_with(magic); });
}

void RoutingFile::read_first() {
  JsonLines reader(path_);
  const std::optional<std::string> line = reader.next_text();
  if (!line) fail("", "an empty file", "a routing");
  const std::string place = reader.place();
  const std::optional<std::string> next = reader.next_text();
  more_lines_ = next.has_value();
  try {
    document_ = JsonDocument::parse(*line, more_lines_ ? place : path_);
  } catch (const InputError&) {
    // An object a line, or one value over several lines?
    if (!next || (line->starts_with('{') && next->starts_with('{'))) throw;
    document_ = JsonDocument::read_file(path_);
    more_lines_ = false;
  }
  first_ = document_->root();
  const JsonView object = first_->is_array() && first_->size() > 0 ? first_->at(0) : *first_;
  if (object.is_object()) keys_ = object.keys();
}

const JsonView& RoutingFile::first() const {
  MOESIM_CHECK(first_.has_value());
  return *first_;
}

bool RoutingFile::has_key(std::string_view key) const {
  return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
}

JsonView RoutingFile::only() const {
  if (more_lines_) fail("", "more than one line of JSON", "one value of this format");
  return first();
}

std::string RoutingFile::bytes() const { return read_text_file(path_, kMostNpyBytes); }

void RoutingFile::fail(const std::string& where, const std::string& found, const std::string& expected) const {
  throw InputError({path_, where, found, expected, ""});
}

}  // namespace moesim
