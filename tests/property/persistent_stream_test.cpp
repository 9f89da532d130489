// stream_gemv:persistent=1: one CTA a unit streams its share of the active experts' rows.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "tests/property/cases.h"

namespace moesim::property {
namespace {

Case case_of(const std::string& model, const std::string& format, std::int64_t tokens, const std::string& routing) {
  Case c;
  c.model = model;
  c.format = format;
  c.activations = "bf16";
  c.tokens = tokens;
  c.routing = routing;
  c.scope = Scope::kExpertFfn;
  return c;
}

Prediction predicted(const Case& c, const MoeLayer& layer, const std::string& on, const std::string& parameters = "") {
  return feasible(layer, device(on), "stream_gemv:persistent=1" + parameters, c.options()).value();
}

TEST(PersistentStream, ReadsEachActiveExpertOnce) {
  for (const char* on : {"h100-sxm", "h200", "b200"}) {
    for (const std::int64_t tokens : {1, 3, 16}) {
      const Case c = case_of("qwen3.5-397b-a17b-fp8", "bf16", tokens, "uniform");
      const MoeLayer layer = c.layer();
      const double weights = (layer.up_bytes() + layer.down_bytes()).as_double() * static_cast<double>(layer.active);
      const Prediction prediction = predicted(c, layer, on);
      EXPECT_NEAR(prediction.memory_read.as_double() / weights, 1, 1e-3) << c.text() << " on " << on;
      EXPECT_GE(prediction.time, prediction.bound) << c.text() << " on " << on;
    }
  }
}

TEST(PersistentStream, ComesNearTheReadRateWithMuchToRead) {
  const Case c = case_of("mixtral-8x7b", "bf16", 4, "uniform");
  const Prediction prediction = predicted(c, c.layer(), "h200");
  EXPECT_LT(prediction.time.as_double(), 1.1 * prediction.bound.as_double());
}

// Little in flight: bytes / latency bound the rate (Little's law).
TEST(PersistentStream, AShallowRingIsSlower) {
  const Case c = case_of("mixtral-8x7b", "bf16", 1, "uniform");
  const MoeLayer layer = c.layer();
  const Prediction deep = predicted(c, layer, "h200");
  const Prediction shallow = predicted(c, layer, "h200", ",up.bytes_in_flight=8192,down.bytes_in_flight=8192");
  EXPECT_GT(shallow.time.as_double(), 1.8 * deep.time.as_double());
}

TEST(PersistentStream, MoreThanAPassOfPicksReadsAgain) {
  const Case few = case_of("mixtral-8x7b", "bf16", 16, "same"), many = case_of("mixtral-8x7b", "bf16", 40, "same");
  const Prediction once = predicted(few, few.layer(), "h200");
  const Prediction thrice = predicted(many, many.layer(), "h200");
  EXPECT_GT(thrice.time, once.time);
  EXPECT_GE(thrice.memory_read, once.memory_read);
}

TEST(PersistentStream, NeedsRoomForItsRing) {
  const Case c = case_of("mixtral-8x7b", "bf16", 1, "uniform");
  EXPECT_FALSE(feasible(c.layer(), device("h200"), "stream_gemv:persistent=1,up.bytes_in_flight=1048576", c.options()));
}

}  // namespace
}  // namespace moesim::property
