// Recorded arrivals and laws of lengths: damaged text.
#include <gmock/gmock.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/fuzz/mutate.h"
#include "tests/testkit/run_command.h"
#include "traces/arrival_trace.h"

namespace moesim::fuzz {
namespace {

const std::vector<std::string> kTraces = {
    R"({"arrival_s": 0.25, "prompt_tokens": 512, "output_tokens": 64, "session": "a"})"
    "\n"
    R"({"arrival_s": 0.5, "prompt_tokens": 16, "output_tokens": 0})"
    "\n",
    "arrival_s,prompt_tokens,output_tokens,session\n0.5,512,64,\"a,b\"\n0,3,0,\n1e3,7,9,\"a,b\"\n",
    "prompt_tokens,arrival_s,output_tokens\r\n10,1.5,4\r\n",
};

TEST(Fuzz, ArrivalTraces) {
  const std::string path = temp_folder() + "arrivals";
  const Tally tally = feed(kTraces, json_words(), 5, kMutations / 4, [&](const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    TimePoint last;
    for (const Session& session : read_arrivals(path)) {
      ASSERT_FALSE(session.turns.empty());
      EXPECT_GE(session.turns.front().arrival, last);
      last = session.turns.front().arrival;
      for (std::size_t k = 0; k < session.turns.size(); ++k) {
        EXPECT_GE(session.turns[k].prompt, 1);
        EXPECT_GE(session.turns[k].output, 0);
        EXPECT_GE(session.turns[k].arrival, session.turns[k > 0 ? k - 1 : 0].arrival);
      }
    }
  });
  EXPECT_GT(tally.accepted, kMutations / 400);
  EXPECT_GT(tally.refused, kMutations / 40);
}

TEST(Fuzz, LengthLaws) {
  const std::vector<std::string> good = {"512", "uniform:3..9", "lognormal:400,0.5", "exponential:100"};
  const Tally tally = feed(good, {"..", ",", ":", "-1", "0", "nan", "1e300", "99999999999999999999"}, 6, kMutations,
                           [](const std::string& text) {
                             RandomStream stream(1);
                             const std::int64_t length = draw_length(parse_length_law(text, "--prompt"), stream);
                             EXPECT_TRUE(length >= 1 && length <= kMostLength) << text;
                           });
  EXPECT_GT(tally.accepted, kMutations / 100);
  EXPECT_GT(tally.refused, kMutations / 10);
}

}  // namespace
}  // namespace moesim::fuzz
