// A text file, plain or packed by gzip, as a stream: only one block of it is in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <streambuf>
#include <string>

namespace moesim {

// Throws InputError that names the file: not readable, a broken or truncated gzip stream, bytes after its end. Several
// gzip members one after the other are one text, as gunzip has it.
class PackedText final : public std::streambuf {
 public:
  explicit PackedText(const std::string& path);
  ~PackedText() override;
  PackedText(const PackedText&) = delete;
  PackedText& operator=(const PackedText&) = delete;

  // Bytes of text handed out so far.
  [[nodiscard]] std::int64_t position() const { return delivered_ - (egptr() - gptr()); }
  // Whoever reads says where the last whole piece ended; from there the stream goes on for at most `limit` bytes, so
  // that a text without an end is an error and no matter of memory.
  void note_piece() { piece_ = delivered_; }

  static constexpr std::int64_t kMostPieceBytes = std::int64_t{16} << 20;

 protected:
  int_type underflow() override;

 private:
  struct File;
  std::unique_ptr<File> file_;
  std::int64_t delivered_ = 0;
  std::int64_t piece_ = 0;
};

}  // namespace moesim
