#include "traces/routed_trace_writer.h"

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "sim/io/input_error.h"
#include "sim/units/check.h"
#include "traces/routing_formats/sidecar.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kExtension = ".npy";

std::size_t word_bytes(const RoutedTraceShape& shape) {
  return shape.experts > std::numeric_limits<std::int16_t>::max() ? sizeof(std::int32_t) : sizeof(std::int16_t);
}

// Version 1.0: magic, version, length of the dictionary, dictionary padded with spaces so that the data begin at a
// multiple of 64 bytes, as numpy.save writes it.
std::string npy_header(const RoutedTraceShape& shape) {
  constexpr std::size_t kAlignment = 64, kBefore = 10;
  std::string dictionary = fmt::format("{{'descr': '<i{}', 'fortran_order': False, 'shape': ({}, {}, {}, {}), }}",
                                       word_bytes(shape), shape.steps, shape.layers, shape.tokens, shape.topk);
  while ((kBefore + dictionary.size() + 1) % kAlignment != 0) dictionary += ' ';
  dictionary += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dictionary.size() & 0xFFU);
  header += static_cast<char>(dictionary.size() >> 8U);
  return header + dictionary;
}

}  // namespace

RoutedTraceWriter::RoutedTraceWriter(std::string path, const RoutedTraceShape& shape, const std::string& flag)
    : path_(std::move(path)), part_(path_ + ".part"), flag_(flag), shape_(shape) {
  if (!path_.ends_with(kExtension)) {
    throw InputError({flag_, "", fmt::format("'{}'", path_), "a name that ends in .npy", ""});
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored)) cannot_write();
  file_.open(part_, std::ios::binary);
  if (!file_) cannot_write();
  file_ << npy_header(shape_);
}

RoutedTraceWriter::~RoutedTraceWriter() {
  file_.close();
  std::error_code ignored;
  std::filesystem::remove(part_, ignored);
}

void RoutedTraceWriter::cannot_write() const {
  throw InputError(
      {flag_, "", "'" + path_ + "', which cannot be written", "a file in a folder that is there and has room", ""});
}

void RoutedTraceWriter::add(const RoutedBatch& batch) {
  MOESIM_CHECK(batch.tokens == shape_.tokens && batch.topk == shape_.topk && batch.experts == shape_.experts);
  const std::size_t word = word_bytes(shape_);
  bytes_.clear();
  for (const std::int32_t id : batch.ids) {
    auto rest = static_cast<std::uint32_t>(id);
    for (std::size_t byte = 0; byte < word; ++byte, rest >>= 8U) bytes_ += static_cast<char>(rest & 0xFFU);
  }
  if (!file_.write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()))) cannot_write();
  ++batches_;
}

void RoutedTraceWriter::finish(const RoutedTraceSource& source) {
  MOESIM_CHECK(batches_ == shape_.steps * shape_.layers);
  const Json json = {{"schema", kRoutingSchema},
                     {"model", source.model.empty() ? Json() : Json(source.model)},
                     {"experts", shape_.experts},
                     {"source", source.source},
                     {"seed", source.seed},
                     {"routing", source.routing},
                     {"shape", {shape_.steps, shape_.layers, shape_.tokens, shape_.topk}},
                     {"dimensions", {"steps", "layers", "tokens", "k"}}};
  file_.close();
  constexpr int kIndent = 2;
  const std::string sidecar = trace_sidecar_path(path_), sidecar_part = sidecar + ".part";
  std::ofstream text(sidecar_part, std::ios::binary);
  text << json.dump(kIndent) << '\n';
  text.close();
  std::error_code error;
  if (file_ && text) std::filesystem::rename(part_, path_, error);
  if (file_ && text && !error) std::filesystem::rename(sidecar_part, sidecar, error);
  if (file_ && text && !error) return;
  std::error_code ignored;
  std::filesystem::remove(sidecar_part, ignored);
  cannot_write();
}

}  // namespace moesim
