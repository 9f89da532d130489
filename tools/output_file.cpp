#include "tools/output_file.h"

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "sim/io/input_error.h"

namespace moesim {
namespace {

[[noreturn]] void cannot_write(const std::string& flag, const std::string& path) {
  throw InputError({flag, "", "'" + path + "', which cannot be written", "a file in a folder that is there", ""});
}

}  // namespace

OutputFile::OutputFile(std::string path, std::string flag)
    : path_(std::move(path)), flag_(std::move(flag)), part_(path_ + ".part") {
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored) || !std::ofstream(part_, std::ios::binary)) {
    cannot_write(flag_, path_);
  }
  std::filesystem::remove(part_, ignored);  // nothing is left where the work is interrupted
}

OutputFile::~OutputFile() {
  if (!stream_.is_open()) return;
  stream_.close();
  std::error_code ignored;
  std::filesystem::remove(part_, ignored);
}

void OutputFile::write(const std::string& text) {
  stream() << text;
  commit();
}

std::ostream& OutputFile::stream() {
  if (!stream_.is_open()) stream_.open(part_, std::ios::binary);
  return stream_;
}

std::int64_t OutputFile::commit() {
  const auto bytes = static_cast<std::int64_t>(stream_.tellp());
  stream_.close();
  std::error_code error;
  if (stream_) std::filesystem::rename(part_, path_, error);
  if (stream_ && !error) return bytes;
  std::filesystem::remove(part_, error);
  cannot_write(flag_, path_);
}

}  // namespace moesim
