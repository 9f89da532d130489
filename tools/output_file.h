// A file that is there whole or not at all.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace moesim {

class OutputFile {
 public:
  // Checks at once that it can be written: not after an hour of work. `flag` named it. Throws InputError.
  OutputFile(std::string path, std::string flag);
  OutputFile(OutputFile&&) = default;
  OutputFile& operator=(OutputFile&&) = default;
  ~OutputFile();  // what was not committed is gone

  void write(const std::string& text);
  // Piece by piece: what went into the stream is the file once commit() returns its bytes.
  std::ostream& stream();
  std::int64_t commit();

 private:
  std::string path_, flag_, part_;
  std::ofstream stream_;
};

}  // namespace moesim
