#include "traces/npy.h"

#include <fmt/format.h>

#include <charconv>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

// GCC 12 under -fsanitize=address takes members of std::regex, which xtensor's npy reader uses, for uninitialized.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xnpy.hpp>
#pragma GCC diagnostic pop

#include "sim/io/input_error.h"
#include "sim/units/check.h"

namespace moesim {
namespace {

constexpr std::size_t kMinRank = 2;  // [tokens, k]
constexpr std::size_t kMaxRank = 4;  // [steps, layers, tokens, k]

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::string_view kVersion1("\x01\x00", 2);
constexpr std::string_view kVersion2("\x02\x00", 2);

// xtensor 0.24 takes the bytes of a header's length for signed and misreads those of 128 and more. A dictionary without
// spaces stays below: 45 characters and four dimensions whose product is that of a file of kMostNpyBytes.
constexpr std::size_t kLongestDictionary = 126;

// One file while it is checked; all errors go through here.
class NpyFile {
 public:
  NpyFile(std::string bytes, const std::string& name) : name_(name), bytes_(std::move(bytes)) {}

  [[nodiscard]] std::string_view bytes() const { return bytes_; }
  [[nodiscard]] std::string take() { return std::move(bytes_); }
  [[noreturn]] void fail(const std::string& where, const std::string& found, const std::string& expected) const {
    throw InputError({name_, where, found, expected, ""});
  }

 private:
  const std::string& name_;
  std::string bytes_;
};

struct NpyHeader {
  std::size_t word_bytes = 0;  // 2, 4 or 8: a signed little-endian integer
  std::vector<std::int64_t> shape;
  std::size_t size = 0;    // bytes before the data
  std::string dictionary;  // without spaces
};

std::size_t little_endian(std::string_view bytes) {
  std::size_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  return value;
}

// Sets header.size and header.dictionary. Layout: magic, version (2 bytes), length of the dictionary
// (2 bytes in version 1, 4 in version 2, little-endian), dictionary, newline.
void split_header(const NpyFile& file, NpyHeader& header) {
  const std::string_view bytes = file.bytes();
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    file.fail("", "a file that does not begin with \\x93NUMPY", "a .npy file");
  }
  const std::string_view version = bytes.substr(kMagic.size(), kVersion1.size());
  const bool is_1_0 = version == kVersion1;
  const bool is_2_0 = version == kVersion2;
  if (!is_1_0 && !is_2_0) file.fail("header", "another version of the format, or none", "version 1.0 or 2.0 of .npy");

  const std::size_t length_at = kMagic.size() + kVersion1.size();
  const std::size_t length_bytes = is_1_0 ? 2 : 4;
  const std::size_t text_at = length_at + length_bytes;
  if (bytes.size() < text_at) file.fail("header", fmt::format("a file of {} bytes", bytes.size()), "a whole header");
  const std::size_t length = little_endian(bytes.substr(length_at, length_bytes));
  if (bytes.size() - text_at < length) {
    file.fail("header", fmt::format("a file of {} bytes", bytes.size()), fmt::format("a header of {} bytes", length));
  }
  header.size = text_at + length;
  std::string_view text = bytes.substr(text_at, length);
  if (text.empty() || text.back() != '\n') file.fail("header", "no newline at its end", "a .npy header");
  header.dictionary = text.substr(0, text.size() - 1);
  std::erase(header.dictionary, ' ');
  if (header.dictionary.size() > kLongestDictionary) {
    file.fail("header", fmt::format("a dictionary of {} characters", header.dictionary.size()),
              "that of an integer array");
  }
}

bool take(std::string_view& rest, std::string_view literal) {
  if (!rest.starts_with(literal)) return false;
  rest.remove_prefix(literal.size());
  return true;
}

std::string_view take_until(std::string_view& rest, char end) {
  const std::string_view taken = rest.substr(0, rest.find(end));
  rest.remove_prefix(taken.size());
  return taken;
}

std::vector<std::int64_t> parse_shape(const NpyFile& file, std::string_view text) {
  std::vector<std::int64_t> shape;
  std::string_view rest = text;
  while (!rest.empty()) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (error != std::errc() || value < 1 || (!rest.empty() && !take(rest, ","))) {
      file.fail("header", fmt::format("shape ({})", text), "dimensions of at least 1 that fit 64 bits");
    }
    shape.push_back(value);
  }
  if (shape.size() < kMinRank || shape.size() > kMaxRank) {
    file.fail("header", fmt::format("shape ({})", text),
              "[tokens, k], [repeats, tokens, k] or [steps, layers, tokens, k]");
  }
  return shape;
}

// Checks all that xtensor's reader takes on trust, before anything of the size that the header claims is allocated.
NpyHeader read_header(const NpyFile& file) {
  NpyHeader header;
  split_header(file, header);
  std::string_view rest = header.dictionary;
  const bool has_descr = take(rest, "{'descr':'");
  const std::string_view descr = take_until(rest, '\'');
  const bool has_order = take(rest, "','fortran_order':");
  const std::string_view fortran_order = take_until(rest, ',');
  const bool has_shape = take(rest, ",'shape':(");
  const std::string_view shape = take_until(rest, ')');
  const bool has_end = rest == "),}" || rest == ")}";
  if (!has_descr || !has_order || !has_shape || !has_end || (fortran_order != "True" && fortran_order != "False")) {
    file.fail("header", fmt::format("'{}'", header.dictionary),
              "descr (one type), fortran_order and shape, as numpy.save writes");
  }
  if (descr != "<i2" && descr != "<i4" && descr != "<i8") {
    file.fail("header", fmt::format("dtype '{}'", descr), "int16, int32 or int64, little-endian ('<i2', '<i4', '<i8')");
  }
  if (fortran_order == "True") file.fail("header", "Fortran order", "C order (numpy.ascontiguousarray)");
  header.word_bytes = static_cast<std::size_t>(descr.back() - '0');
  header.shape = parse_shape(file, shape);

  // Divided, not multiplied: the product of a forged shape overflows.
  const std::size_t data_bytes = file.bytes().size() - header.size;
  std::size_t left = data_bytes / header.word_bytes;
  bool fits = data_bytes % header.word_bytes == 0;
  for (const std::int64_t dimension : header.shape) {
    fits = fits && left % static_cast<std::size_t>(dimension) == 0;
    left /= static_cast<std::size_t>(dimension);
  }
  if (!fits || left != 1) {
    file.fail("", fmt::format("{} bytes of data", data_bytes),
              fmt::format("as many as shape ({}) of '{}' has", shape, descr));
  }
  return header;
}

// `bytes` is the whole file.
std::vector<std::int64_t> all_values(std::string bytes, const NpyHeader& header) {
  const std::size_t length = header.dictionary.size() + 1;
  std::string short_header(kMagic);
  short_header += kVersion1;
  short_header += static_cast<char>(length);
  short_header += '\0';
  short_header += header.dictionary;
  short_header += '\n';
  bytes.replace(0, header.size, short_header);

  std::istringstream stream(std::move(bytes));
  const auto widened = [](const auto& array) { return std::vector<std::int64_t>(array.begin(), array.end()); };
  if (header.word_bytes == sizeof(std::int16_t)) return widened(xt::load_npy<std::int16_t>(stream));
  if (header.word_bytes == sizeof(std::int32_t)) return widened(xt::load_npy<std::int32_t>(stream));
  MOESIM_CHECK(header.word_bytes == sizeof(std::int64_t));
  return widened(xt::load_npy<std::int64_t>(stream));
}

}  // namespace

IntegerArray parse_npy(std::string bytes, const std::string& name) {
  NpyFile file(std::move(bytes), name);
  const NpyHeader header = read_header(file);
  return {.shape = header.shape, .values = all_values(file.take(), header)};
}

std::string index_text(std::size_t flat, std::span<const std::int64_t> shape) {
  std::vector<std::size_t> index(shape.size());
  for (std::size_t d = shape.size(); d > 0; --d) {
    const auto extent = static_cast<std::size_t>(shape[d - 1]);
    index[d - 1] = flat % extent;
    flat /= extent;
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

std::string npy_bytes(const std::vector<std::int32_t>& values, const std::vector<std::size_t>& shape, bool wide) {
  if (wide) return xt::dump_npy(xt::adapt(values, shape));
  const std::vector<std::int16_t> narrow(values.begin(), values.end());
  return xt::dump_npy(xt::adapt(narrow, shape));
}

}  // namespace moesim
