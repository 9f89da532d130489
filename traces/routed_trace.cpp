#include "traces/routed_trace.h"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
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
#include "sim/io/strict_json.h"
#include "sim/units/check.h"

namespace moesim {
namespace {

constexpr std::int64_t kMaxFileBytes = std::int64_t{256} << 20;
constexpr std::size_t kMinRank = 2;  // [tokens, k]
constexpr std::size_t kMaxRank = 4;  // [steps, layers, tokens, k]

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::string_view kVersion1("\x01\x00", 2);
constexpr std::string_view kVersion2("\x02\x00", 2);

// xtensor 0.24 takes the bytes of a header's length for signed and misreads those of 128 and more. A dictionary without
// spaces stays below: 45 characters and four dimensions whose product is that of a file of kMaxFileBytes.
constexpr std::size_t kLongestDictionary = 126;

// One file while it is checked; all errors go through here.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path) : path_(path), bytes_(read_text_file(path, kMaxFileBytes)) {}

  [[nodiscard]] std::string_view bytes() const { return bytes_; }
  [[nodiscard]] std::string take() { return std::move(bytes_); }
  [[noreturn]] void fail(const std::string& where, const std::string& found, const std::string& expected) const {
    throw InputError({path_, where, found, expected, ""});
  }

 private:
  std::string path_;
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
void split_header(const TraceFile& file, NpyHeader& header) {
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

std::vector<std::int64_t> parse_shape(const TraceFile& file, std::string_view text) {
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
NpyHeader read_header(const TraceFile& file) {
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
std::vector<std::int64_t> all_ids(std::string bytes, const NpyHeader& header) {
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

// "[3, 0, 5]": the place of the flat index `flat`.
std::string index_text(std::size_t flat, std::span<const std::int64_t> shape) {
  std::vector<std::size_t> index(shape.size());
  for (std::size_t d = shape.size(); d > 0; --d) {
    const auto extent = static_cast<std::size_t>(shape[d - 1]);
    index[d - 1] = flat % extent;
    flat /= extent;
  }
  return fmt::format("[{}]", fmt::join(index, ", "));
}

void check_ids(const TraceFile& file, const NpyHeader& header, std::span<const std::int64_t> ids,
               std::int64_t experts) {
  const auto topk = static_cast<std::size_t>(header.shape.back());
  std::vector<std::optional<std::size_t>> last_row(static_cast<std::size_t>(experts));  // where each expert was seen
  const auto fail = [&](std::size_t i, const char* remark) {
    file.fail(index_text(i, header.shape), fmt::format("expert {}{}", ids[i], remark),
              fmt::format("expert ids from 0 to {}, each once in a row", experts - 1));
  };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= experts) fail(i, "");
    std::optional<std::size_t>& seen = last_row[static_cast<std::size_t>(ids[i])];
    const std::size_t row = i / topk;
    if (seen == row) fail(i, " a second time");
    seen = row;
  }
}

}  // namespace

std::vector<RoutedBatch> read_routed_trace(const std::string& path, std::int64_t experts) {
  MOESIM_CHECK(experts >= 1 && experts <= std::numeric_limits<std::int32_t>::max());
  TraceFile file(path);
  const NpyHeader header = read_header(file);
  const std::vector<std::int64_t> ids = all_ids(file.take(), header);
  check_ids(file, header, ids, experts);

  RoutedBatch batch;
  batch.tokens = header.shape[header.shape.size() - 2];
  batch.topk = header.shape.back();
  batch.experts = experts;
  const auto picks = static_cast<std::size_t>(batch.picks());
  std::vector<RoutedBatch> batches;
  batches.reserve(ids.size() / picks);
  for (std::size_t begin = 0; begin < ids.size(); begin += picks) {
    batch.ids.clear();
    for (const std::int64_t id : std::span(ids).subspan(begin, picks)) {
      batch.ids.push_back(static_cast<std::int32_t>(id));
    }
    batches.push_back(batch);
  }
  return batches;
}

std::string routed_trace_bytes(const std::vector<RoutedBatch>& batches) {
  MOESIM_CHECK(!batches.empty());
  const RoutedBatch& first = batches.front();
  std::vector<std::int32_t> ids;
  for (const RoutedBatch& batch : batches) {
    MOESIM_CHECK(batch.tokens == first.tokens && batch.topk == first.topk);
    ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
  }
  const std::array<std::size_t, 3> shape = {batches.size(), static_cast<std::size_t>(first.tokens),
                                            static_cast<std::size_t>(first.topk)};
  if (first.experts > std::numeric_limits<std::int16_t>::max()) return xt::dump_npy(xt::adapt(ids, shape));
  const std::vector<std::int16_t> narrow(ids.begin(), ids.end());
  return xt::dump_npy(xt::adapt(narrow, shape));
}

}  // namespace moesim
