// A stream that compresses what is written to it (gzip) into another one, in bounded memory.
#pragma once

#include <memory>
#include <ostream>

namespace moesim {

class GzipOutput : public std::ostream {
 public:
  explicit GzipOutput(std::ostream& to);
  ~GzipOutput() override;
  // Writes what is left; nothing may be written after it.
  void finish();

 private:
  class Buffer;
  std::unique_ptr<Buffer> buffer_;
};

}  // namespace moesim
