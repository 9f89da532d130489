// Weight and activation formats: payload, scales, and what dequantising one weight costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/units/quantity.h"

namespace moesim {

enum class Dtype { kFp32, kBf16, kFp16, kFp8, kFp8Block128, kInt8, kInt4, kMxfp4, kNvfp4 };

struct WeightFormat {
  Dtype dtype = Dtype::kBf16;
  std::int64_t group = 0;  // int4: weights along K that share a scale (32, 64, 128); 0 otherwise
  friend bool operator==(const WeightFormat&, const WeightFormat&) = default;
};

// "bf16", "fp16", "fp8" (one scale a matrix), "fp8_block128" (one float32 scale per 128 x 128), "int8" (one scale an
// output row), "int4:32" (one 16-bit scale per group of K; int4 alone is int4:128), "mxfp4" (one byte per 32), "nvfp4"
// (one byte per 16).
std::string format_name(WeightFormat format);
// Throws InputError naming `where` with the nearest right name.
WeightFormat parse_format(const std::string& text, const std::string& where);
// Of a KV cache: "bf16", "fp16" or "fp8". Throws InputError naming `where`.
WeightFormat parse_cache_format(const std::string& text, const std::string& where);
std::vector<std::string> format_names();

[[nodiscard]] double payload_bits(WeightFormat format);  // of one weight: 16, 8, 4
// Bytes of an n x k matrix (n output rows, k inputs): payload rounded up to bytes per row, plus scales.
[[nodiscard]] Bytes payload_bytes(WeightFormat format, std::int64_t n, std::int64_t k);
[[nodiscard]] Bytes scale_bytes(WeightFormat format, std::int64_t n, std::int64_t k);
[[nodiscard]] Bytes matrix_bytes(WeightFormat format, std::int64_t n, std::int64_t k);

}  // namespace moesim
