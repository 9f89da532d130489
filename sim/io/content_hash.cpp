#include "sim/io/content_hash.h"

#include <fmt/format.h>

#include <cstdint>

namespace moesim {

std::string content_hash(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : bytes) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3U;
  }
  return fmt::format("{:016x}", hash);
}

}  // namespace moesim
