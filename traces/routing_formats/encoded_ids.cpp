#include "traces/routing_formats/encoded_ids.h"

#include <fmt/format.h>

#include <utility>

#include "sim/io/input_error.h"
#include "traces/routing_formats/base64.h"
#include "traces/routing_formats/limits.h"

namespace moesim {
namespace {

constexpr std::size_t kRank = 3;

std::string bytes_of(const JsonView& value) {
  const std::string text = value.as_string();
  Base64Text decoded = decode_base64(text);
  if (decoded.wrong) {
    const std::size_t at = *decoded.wrong;
    throw InputError(
        {value.file(), value.pointer(),
         at < text.size() ? fmt::format("'{}' at character {}", text[at], at) : fmt::format("{} characters", at),
         at < text.size() ? "base64" : "base64, whole groups of four", ""});
  }
  return std::move(decoded.bytes);
}

std::vector<std::int64_t> words(std::string_view bytes, std::size_t width) {
  std::vector<std::int64_t> values;
  values.reserve(bytes.size() / width);
  for (std::size_t at = 0; at < bytes.size(); at += width) {
    std::uint64_t value = 0;
    for (std::size_t i = width; i > 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[at + i - 1]);
    const unsigned unused = 64 - 8 * static_cast<unsigned>(width);
    values.push_back(static_cast<std::int64_t>(value << unused) >> unused);  // with its sign
  }
  return values;
}

std::size_t width_of(const JsonView& dtype) {
  const std::string name = dtype.as_string();
  if (name == "int16") return sizeof(std::int16_t);
  if (name == "int32") return sizeof(std::int32_t);
  if (name == "int64") return sizeof(std::int64_t);
  dtype.fail("int16, int32 or int64");
}

IntegerArray nested_lists(const JsonView& tokens) {
  IntegerArray array{.shape = {static_cast<std::int64_t>(tokens.size()), 0, 0}, .values = {}};
  const auto expect = [](const JsonView& list, std::int64_t& size) {
    const auto found = static_cast<std::int64_t>(list.size());
    if (found == 0 || (size != 0 && size != found)) {
      throw InputError({list.file(), list.pointer(), fmt::format("a list of {}", found),
                        size == 0 ? "at least one" : fmt::format("{}, as before", size), ""});
    }
    size = found;
  };
  for (std::size_t token = 0; token < tokens.size(); ++token) {
    const JsonView layers = tokens.at(token);
    expect(layers, array.shape[1]);
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      const JsonView row = layers.at(layer);
      expect(row, array.shape[2]);
      for (std::size_t i = 0; i < row.size(); ++i) array.values.push_back(row.at(i).as_int(-kMostExperts, kMostId));
    }
  }
  return array;
}

IntegerArray shaped_bytes(const JsonView& object) {
  const std::string encoding = object.at("encoding").as_string();
  if (encoding != "base64") object.at("encoding").fail("'base64'");
  const std::size_t width = width_of(object.at("dtype"));
  const JsonView shape = object.at("shape");
  if (shape.size() != kRank) shape.fail("[tokens, layers, k]");
  IntegerArray array;
  std::int64_t left = kMostPicks;  // bounds the product
  std::int64_t count = 1;
  for (std::size_t i = 0; i < kRank; ++i) {
    array.shape.push_back(shape.at(i).as_int(i == 0 ? 0 : 1, left));
    left /= std::max<std::int64_t>(array.shape.back(), 1);
    count *= array.shape.back();
  }
  const std::string bytes = bytes_of(object.at("data"));
  if (bytes.size() != static_cast<std::size_t>(count) * width) {
    throw InputError({object.file(), object.at("data").pointer(), fmt::format("{} bytes", bytes.size()),
                      fmt::format("{}, as many as shape and dtype say", static_cast<std::size_t>(count) * width), ""});
  }
  array.values = words(bytes, width);
  return array;
}

}  // namespace

std::span<const std::int64_t> EncodedIds::row(std::int64_t token, std::int64_t layer) const {
  const auto width = static_cast<std::size_t>(topk());
  return std::span(array.values).subspan(static_cast<std::size_t>(token * layers() + layer) * width, width);
}

Place EncodedIds::place(std::size_t flat) const {
  const std::string index = index_text(flat, array.shape);
  if (!nested) return {file, pointer + " " + index};
  std::string path = pointer;
  for (const char c : index) {
    if (c == '[' || c == ' ') path += '/';
    if (c >= '0' && c <= '9') path += c;
  }
  return {file, path};
}

EncodedIds decode_ids(const JsonView& value) {
  EncodedIds ids{.array = {}, .file = value.file(), .pointer = value.pointer(), .nested = value.is_array()};
  if (value.is_array()) {
    ids.array = nested_lists(value);
  } else if (value.is_string()) {
    ids.array = parse_npy(bytes_of(value), fmt::format("{}: {}", value.file(), value.pointer()));
    if (ids.array.shape.size() != kRank) {
      throw InputError({value.file(), value.pointer(), fmt::format("{} dimensions", ids.array.shape.size()),
                        "[tokens, layers, k]", ""});
    }
  } else if (value.is_object()) {
    ids.array = shaped_bytes(value);
  } else {
    value.fail("nested lists, base64 of a .npy file, or an object of encoding, dtype, shape and data");
  }
  return ids;
}

EncodedIds decode_flat_ids(const JsonView& value, std::int64_t layers, std::int64_t topk) {
  EncodedIds ids{.array = {}, .file = value.file(), .pointer = value.pointer(), .nested = false};
  const std::string bytes = bytes_of(value);
  const std::size_t token_bytes = static_cast<std::size_t>(layers * topk) * sizeof(std::int32_t);
  if (bytes.size() % token_bytes != 0) {
    throw InputError(
        {value.file(), value.pointer(), fmt::format("{} bytes", bytes.size()),
         fmt::format("a multiple of {}: int32 of {} layers, {} experts a token", token_bytes, layers, topk), ""});
  }
  ids.array.shape = {static_cast<std::int64_t>(bytes.size() / token_bytes), layers, topk};
  ids.array.values = words(bytes, sizeof(std::int32_t));
  return ids;
}

void add_tokens(TraceBuilder& builder, const EncodedIds& ids, std::int64_t begin, std::int64_t end, Padding padding) {
  for (std::int64_t token = begin; token < end; ++token) {
    for (std::int64_t layer = 0; layer < ids.layers(); ++layer) {
      const std::int64_t first = (token * ids.layers() + layer) * ids.topk();
      builder.add_rows(layer, ids.row(token, layer), ids.topk(), padding,
                       [&](std::size_t i) { return ids.place(static_cast<std::size_t>(first) + i); });
    }
  }
}

}  // namespace moesim
