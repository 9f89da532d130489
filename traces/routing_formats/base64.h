// Base64 (RFC 4648, with padding).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace moesim {

struct Base64Text {
  std::string bytes;
  std::optional<std::size_t> wrong;  // where the text is none; its size where it ends too early
};
Base64Text decode_base64(std::string_view text);

}  // namespace moesim
