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

void OutputFile::write(const std::string& text) {
  std::ofstream file(part_, std::ios::binary);
  file << text;
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(part_, path_, error);
  if (file && !error) return;
  std::filesystem::remove(part_, error);
  cannot_write(flag_, path_);
}

}  // namespace moesim
