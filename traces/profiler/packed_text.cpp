#include "traces/profiler/packed_text.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "sim/io/input_error.h"
#include "sim/units/check.h"

namespace moesim {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 16;
constexpr unsigned char kGzipMagic[] = {0x1F, 0x8B};
constexpr int kGzipWindow = 15 + 16;  // zlib: largest window, gzip header and check sum

}  // namespace

struct PackedText::File {
  std::string path;
  std::FILE* handle = nullptr;
  std::array<unsigned char, kBlockBytes> packed{};
  std::array<char, kBlockBytes> text{};
  std::int64_t read = 0;  // bytes of the file so far
  bool is_packed = false;
  bool in_member = false;  // between the header and the end of a gzip member
  bool file_ended = false;
  z_stream stream{};

  File() { MOESIM_CHECK(inflateInit2(&stream, kGzipWindow) == Z_OK); }
  ~File() {
    inflateEnd(&stream);
    if (handle != nullptr) std::fclose(handle);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  [[noreturn]] void fail(const std::string& found, const std::string& expected) const {
    throw InputError({path, read == 0 ? "" : fmt::format("byte {}", read - stream.avail_in), found, expected, ""});
  }

  // More of the file; false at its end.
  bool fill() {
    const std::size_t count = std::fread(packed.data(), 1, packed.size(), handle);
    if (std::ferror(handle) != 0) fail(std::generic_category().message(errno), "a readable file");  // a directory, too
    read += static_cast<std::int64_t>(count);
    stream.next_in = packed.data();
    stream.avail_in = static_cast<unsigned>(count);
    file_ended = count == 0;
    return !file_ended;
  }

  std::size_t unpack() {
    stream.next_out = reinterpret_cast<unsigned char*>(text.data());
    stream.avail_out = static_cast<unsigned>(text.size());
    while (stream.avail_out == text.size()) {
      if (stream.avail_in == 0 && !fill()) {
        if (in_member) fail("the end of the file within its gzip stream", "the whole of it: the file is truncated");
        return 0;
      }
      if (!in_member) begin_member();
      const int status = inflate(&stream, Z_NO_FLUSH);
      if (status == Z_STREAM_END) {
        in_member = false;
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        fail(fmt::format("gzip data that do not unpack ({})", stream.msg == nullptr ? "zlib" : stream.msg),
             "a whole gzip file");
      }
    }
    return text.size() - stream.avail_out;
  }

  void begin_member() {
    if (stream.next_in[0] != kGzipMagic[0]) fail("bytes after the end of the gzip stream", "the end of the file");
    MOESIM_CHECK(inflateReset(&stream) == Z_OK);
    in_member = true;
  }

  std::size_t copy() {
    if (stream.avail_in == 0 && !fill()) return 0;
    const std::size_t count = stream.avail_in;
    std::copy_n(stream.next_in, count, reinterpret_cast<unsigned char*>(text.data()));
    stream.avail_in = 0;
    return count;
  }
};

PackedText::PackedText(const std::string& path) : file_(std::make_unique<File>()) {
  file_->path = path;
  file_->handle = std::fopen(path.c_str(), "rb");
  if (file_->handle == nullptr) file_->fail(std::generic_category().message(errno), "a readable file");
  if (!file_->fill()) file_->fail("an empty file", "a profiler trace");
  const File& file = *file_;
  file_->is_packed =
      file.stream.avail_in >= sizeof kGzipMagic && file.packed[0] == kGzipMagic[0] && file.packed[1] == kGzipMagic[1];
}

PackedText::~PackedText() = default;

PackedText::int_type PackedText::underflow() {
  if (gptr() < egptr()) return traits_type::to_int_type(*gptr());
  if (delivered_ - piece_ > kMostPieceBytes) {
    throw InputError({file_->path, fmt::format("byte {} of the text", piece_),
                      fmt::format("more than {} MiB without a whole JSON value", kMostPieceBytes >> 20),
                      "strings and gaps of at most so many", ""});
  }
  const std::size_t count = file_->is_packed ? file_->unpack() : file_->copy();
  if (count == 0) return traits_type::eof();
  // nlohmann takes a zero byte for the end of the text and would not look at what follows.
  if (const void* zero = std::memchr(file_->text.data(), 0, count)) {
    const auto offset = static_cast<const char*>(zero) - file_->text.data();
    throw InputError({file_->path, fmt::format("byte {} of the text", delivered_ + offset), "a zero byte", "JSON", ""});
  }
  delivered_ += static_cast<std::int64_t>(count);
  setg(file_->text.data(), file_->text.data(), file_->text.data() + count);
  return traits_type::to_int_type(*gptr());
}

}  // namespace moesim
