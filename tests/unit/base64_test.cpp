#include "traces/routing_formats/base64.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/testkit/traces.h"

namespace moesim {
namespace {

// RFC 4648, section 10.
TEST(Base64, DecodesTheStandardsExamples) {
  const std::pair<const char*, const char*> examples[] = {
      {"", ""},
      {"Zg==", "f"},
      {"Zm8=", "fo"},
      {"Zm9v", "foo"},
      {"Zm9vYg==", "foob"},
      {"Zm9vYmE=", "fooba"},
      {"Zm9vYmFy", "foobar"},
  };
  for (const auto& [text, bytes] : examples) {
    const Base64Text decoded = decode_base64(text);
    EXPECT_FALSE(decoded.wrong) << text;
    EXPECT_EQ(decoded.bytes, bytes);
  }
}

TEST(Base64, DecodesAllBytes) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (std::size_t size = 250; size <= all.size(); ++size) {
    EXPECT_EQ(decode_base64(testkit::base64(all.substr(0, size))).bytes, all.substr(0, size));
  }
}

TEST(Base64, SaysWhereTextIsNone) {
  EXPECT_EQ(decode_base64("Zm*v").wrong, 2U);
  EXPECT_EQ(decode_base64("Zg==Zg==").wrong, 2U);  // padding only at the end
  EXPECT_EQ(decode_base64("Zm9").wrong, 3U);
  EXPECT_EQ(decode_base64("Zg=").wrong, 3U);
  EXPECT_EQ(decode_base64("Zh==").wrong, 4U);  // bits that no byte has
  EXPECT_EQ(decode_base64("====").wrong, 0U);
  EXPECT_EQ(decode_base64("Zm9v\n").wrong, 4U);
}

}  // namespace
}  // namespace moesim
