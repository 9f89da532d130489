// Routed traces in .npy.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "tests/fuzz/mutate.h"
#include "traces/routed_trace.h"

namespace moesim::fuzz {
namespace {

std::string little_endian(std::int64_t value, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
  return text;
}

// Ids 0, 1, 2, ... modulo 8, in rows of two.
std::string trace(const std::string& descr, std::size_t word, const std::string& shape, std::int64_t ids, int version) {
  const std::string dictionary =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }         \n";
  std::string file = "\x93NUMPY" + little_endian(version, 2) +
                     little_endian(static_cast<std::int64_t>(dictionary.size()), version == 1 ? 2 : 4) + dictionary;
  for (std::int64_t i = 0; i < ids; ++i) file += little_endian(i % 8, word);
  return file;
}

TEST(Fuzz, NpyTraces) {
  const std::vector<std::string> good = {trace("<i2", 2, "4, 2", 8, 1), trace("<i4", 4, "2, 2, 2", 8, 2),
                                         trace("<i8", 8, "2, 1, 2, 2", 8, 1)};
  const std::string path = testing::TempDir() + "fuzz_trace.npy";
  const Tally tally =
      feed(good,
           {"(", ")", ",", "'", "0", "-1", "4294967296", "18446744073709551615", "2305843009213693952, 8", "True",
            "<i1", ">i4", "<f4", "<u8", "O", "\n", "{", "}"},
           1, kMutations, [&](const std::string& bytes) {
             std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
             for (const RoutedBatch& batch : read_routed_trace(path, 8)) {
               EXPECT_EQ(static_cast<std::int64_t>(batch.ids.size()), batch.picks());
               EXPECT_TRUE(std::ranges::all_of(batch.ids, [](std::int32_t id) { return id >= 0 && id < 8; }));
             }
           });
  EXPECT_GT(tally.accepted, kMutations / 100);
  EXPECT_GT(tally.refused, kMutations / 10);
}

}  // namespace
}  // namespace moesim::fuzz
