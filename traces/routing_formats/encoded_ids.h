// Arrays of expert ids in a JSON response: nested lists, or bytes in base64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/io/strict_json.h"
#include "traces/npy.h"
#include "traces/routing_formats/trace_builder.h"

namespace moesim {

struct EncodedIds {
  IntegerArray array;  // [tokens, layers, k]
  std::string file, pointer;
  bool nested = false;

  [[nodiscard]] std::int64_t tokens() const { return array.shape[0]; }
  [[nodiscard]] std::int64_t layers() const { return array.shape[1]; }
  [[nodiscard]] std::int64_t topk() const { return array.shape[2]; }
  [[nodiscard]] std::span<const std::int64_t> row(std::int64_t token, std::int64_t layer) const;
  [[nodiscard]] Place place(std::size_t flat) const;
};

// Nested lists, base64 of a .npy file, or {"encoding": "base64", "dtype", "shape", "data"}. An empty list has no tokens.
EncodedIds decode_ids(const JsonView& value);
// Base64 of int32 without a shape.
EncodedIds decode_flat_ids(const JsonView& value, std::int64_t layers, std::int64_t topk);

// Adds the tokens [begin, end), each with all layers, to the current step.
void add_tokens(TraceBuilder& builder, const EncodedIds& ids, std::int64_t begin, std::int64_t end, Padding padding);

}  // namespace moesim
