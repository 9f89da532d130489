#include "traces/timeline/gzip_output.h"

#include <zlib.h>

#include <array>
#include <streambuf>

#include "sim/units/check.h"

namespace moesim {
namespace {

constexpr std::size_t kChunk = 1 << 16;
constexpr int kGzipWindow = 15 + 16;  // the largest window, with a gzip header (no name, no time)
constexpr int kMemoryLevel = 8;

}  // namespace

class GzipOutput::Buffer : public std::streambuf {
 public:
  explicit Buffer(std::ostream& out) : out_(out) {
    const int state =
        deflateInit2(&zip_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, kMemoryLevel, Z_DEFAULT_STRATEGY);
    MOESIM_CHECK(state == Z_OK);
    setp(in_.data(), in_.data() + in_.size());
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() override { deflateEnd(&zip_); }

  void finish() { compress(Z_FINISH); }

 protected:
  int_type overflow(int_type c) override {
    compress(Z_NO_FLUSH);
    if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
    return out_ ? traits_type::not_eof(c) : traits_type::eof();
  }
  int sync() override { return out_ ? 0 : -1; }

 private:
  void compress(int flush) {
    zip_.next_in = reinterpret_cast<Bytef*>(in_.data());
    zip_.avail_in = static_cast<uInt>(pptr() - pbase());
    do {
      zip_.next_out = reinterpret_cast<Bytef*>(compressed_.data());
      zip_.avail_out = static_cast<uInt>(compressed_.size());
      MOESIM_CHECK(deflate(&zip_, flush) != Z_STREAM_ERROR);
      out_.write(compressed_.data(), static_cast<std::streamsize>(compressed_.size() - zip_.avail_out));
    } while (zip_.avail_out == 0);
    setp(in_.data(), in_.data() + in_.size());
  }

  std::ostream& out_;
  z_stream zip_{};
  std::array<char, kChunk> in_{};
  std::array<char, kChunk> compressed_{};
};

GzipOutput::GzipOutput(std::ostream& to) : std::ostream(nullptr), buffer_(std::make_unique<Buffer>(to)) {
  rdbuf(buffer_.get());
}

GzipOutput::~GzipOutput() = default;

void GzipOutput::finish() { buffer_->finish(); }

}  // namespace moesim
