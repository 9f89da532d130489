// Integer arrays in .npy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moesim {

// The most that is read of a file, and of a member of an archive.
inline constexpr std::int64_t kMostNpyBytes = std::int64_t{256} << 20;

struct IntegerArray {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> values;  // row-major
};

// `bytes` is a whole .npy file of int16, int32 or int64 with 2 to 4 dimensions, `name` what errors call it. Checks all that
// the library takes on trust. Throws InputError.
IntegerArray parse_npy(std::string bytes, const std::string& name);

// "[3, 0, 5]": the place of the flat index `flat`.
std::string index_text(std::size_t flat, std::span<const std::int64_t> shape);

// The bytes of a .npy file of int16, or int32 where `wide`.
std::string npy_bytes(const std::vector<std::int32_t>& values, const std::vector<std::size_t>& shape, bool wide);

}  // namespace moesim
