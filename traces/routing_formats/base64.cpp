#include "traces/routing_formats/base64.h"

#include <cstdint>

namespace moesim {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kGroup = 4;  // characters that hold three bytes
constexpr unsigned kBitsPerCharacter = 6, kBitsPerByte = 8;

}  // namespace

Base64Text decode_base64(std::string_view text) {
  std::string_view digits = text;
  for (int padding = 0; padding < 2 && digits.ends_with('='); ++padding) digits.remove_suffix(1);
  Base64Text result;
  std::uint32_t bits = 0;
  unsigned held = 0;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::size_t value = kAlphabet.find(digits[i]);
    if (value == std::string_view::npos) return {.bytes = "", .wrong = i};
    bits = (bits << kBitsPerCharacter | static_cast<std::uint32_t>(value)) & 0xFFFFU;
    held += kBitsPerCharacter;
    if (held < kBitsPerByte) continue;
    held -= kBitsPerByte;
    result.bytes += static_cast<char>(bits >> held & 0xFFU);
  }
  const std::uint32_t rest = bits & ((1U << held) - 1);
  if (text.size() % kGroup != 0 || rest != 0) return {.bytes = "", .wrong = text.size()};
  return result;
}

}  // namespace moesim
