// A file that is there whole or not at all.
#pragma once

#include <string>

namespace moesim {

class OutputFile {
 public:
  // Checks at once that it can be written: not after an hour of work. `flag` named it. Throws InputError.
  OutputFile(std::string path, std::string flag);
  void write(const std::string& text);

 private:
  std::string path_, flag_, part_;
};

}  // namespace moesim
