#include "workloads/dtype.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/io/input_error.h"
#include "sim/units/check.h"

namespace moesim {
namespace {

struct NamedFormat {
  const char* name;
  WeightFormat format;
};

constexpr std::array kFormats = {
    NamedFormat{"fp32", {Dtype::kFp32}},
    NamedFormat{"bf16", {Dtype::kBf16}},
    NamedFormat{"fp16", {Dtype::kFp16}},
    NamedFormat{"fp8", {Dtype::kFp8}},
    NamedFormat{"fp8_block128", {Dtype::kFp8Block128}},
    NamedFormat{"int8", {Dtype::kInt8}},
    NamedFormat{"int4:32", {Dtype::kInt4, 32}},
    NamedFormat{"int4:64", {Dtype::kInt4, 64}},
    NamedFormat{"int4:128", {Dtype::kInt4, 128}},
    NamedFormat{"mxfp4", {Dtype::kMxfp4}},
    NamedFormat{"nvfp4", {Dtype::kNvfp4}},
};
constexpr const char* kDefaultInt4 = "int4:128";

// Layout of the scales, part of each format's definition: OCP Microscaling 1.0 (mxfp4: E8M0 per 32), NVIDIA's NVFP4
// (E4M3 per 16), DeepSeek-V3's weight_scale_inv (float32 per 128 x 128), GPTQ and AWQ (float16 per group of K).
constexpr std::int64_t kFloat32Bytes = 4;
constexpr std::int64_t kFloat16Bytes = 2;
constexpr std::int64_t kFp8BlockSide = 128;
constexpr std::int64_t kMxfp4Group = 32;
constexpr std::int64_t kNvfp4Group = 16;
constexpr std::int64_t kBitsPerByte = 8;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t bits_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFp32:
      return 32;
    case Dtype::kBf16:
    case Dtype::kFp16:
      return 16;
    case Dtype::kFp8:
    case Dtype::kFp8Block128:
    case Dtype::kInt8:
      return 8;
    case Dtype::kInt4:
    case Dtype::kMxfp4:
    case Dtype::kNvfp4:
      return 4;
  }
  MOESIM_CHECK(false);
  return 0;
}

}  // namespace

std::string format_name(WeightFormat format) {
  for (const NamedFormat& known : kFormats) {
    if (known.format == format) return known.name;
  }
  // parse_format makes only the groups listed above; code may ask for others.
  MOESIM_CHECK(format.dtype == Dtype::kInt4 && format.group > 0);
  return fmt::format("int4:{}", format.group);
}

WeightFormat parse_format(const std::string& text, const std::string& where) {
  const std::string name = text == "int4" ? kDefaultInt4 : text;
  for (const NamedFormat& known : kFormats) {
    if (name == known.name) return known.format;
  }
  const std::vector<std::string> names = format_names();
  throw InputError({.file = "",
                    .where = where,
                    .found = fmt::format("'{}'", text),
                    .expected = fmt::format("a weight format: {}", fmt::join(names, ", ")),
                    .nearest = nearest_name(text, names)});
}

WeightFormat parse_cache_format(const std::string& text, const std::string& where) {
  const std::vector<std::string> names = {"bf16", "fp16", "fp8"};
  if (std::find(names.begin(), names.end(), text) == names.end()) {
    throw InputError({where, "", fmt::format("'{}'", text), fmt::format("one of {}", fmt::join(names, ", ")),
                      nearest_name(text, names)});
  }
  return parse_format(text, where);
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const NamedFormat& known : kFormats) names.emplace_back(known.name);
  return names;
}

double payload_bits(WeightFormat format) { return static_cast<double>(bits_of(format.dtype)); }

Bytes payload_bytes(WeightFormat format, std::int64_t n, std::int64_t k) {
  MOESIM_CHECK(n >= 0 && k >= 0);
  return Bytes(n * ceil_div(k * bits_of(format.dtype), kBitsPerByte));
}

Bytes scale_bytes(WeightFormat format, std::int64_t n, std::int64_t k) {
  MOESIM_CHECK(n >= 0 && k >= 0);
  switch (format.dtype) {
    case Dtype::kFp32:
    case Dtype::kBf16:
    case Dtype::kFp16:
      return Bytes(0);
    case Dtype::kFp8:
      return Bytes(kFloat32Bytes);
    case Dtype::kFp8Block128:
      return Bytes(kFloat32Bytes * ceil_div(n, kFp8BlockSide) * ceil_div(k, kFp8BlockSide));
    case Dtype::kInt8:
      return Bytes(kFloat32Bytes * n);
    case Dtype::kInt4:
      MOESIM_CHECK(format.group > 0);
      return Bytes(kFloat16Bytes * n * ceil_div(k, format.group));
    case Dtype::kMxfp4:
      return Bytes(n * ceil_div(k, kMxfp4Group));
    case Dtype::kNvfp4:
      return Bytes(n * ceil_div(k, kNvfp4Group));  // the float32 of the whole tensor is left out
  }
  MOESIM_CHECK(false);
  return Bytes(0);
}

Bytes matrix_bytes(WeightFormat format, std::int64_t n, std::int64_t k) {
  return payload_bytes(format, n, k) + scale_bytes(format, n, k);
}

}  // namespace moesim
