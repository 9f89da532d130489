// (time, sequence) order.
#include "sim/engine/event_queue.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/testkit/kernels.h"

namespace moesim {
namespace {

TEST(EventQueue, PopsByTimeThenByOrderOfPushing) {
  testkit::Random random(5);
  EventQueue<int> queue;
  std::vector<std::pair<std::int64_t, int>> expected;
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t time = random.whole(0, 99);  // about 20 events at each time
    queue.push(time, i);
    expected.emplace_back(time, i);
  }
  std::stable_sort(expected.begin(), expected.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [time, payload] : expected) {
    ASSERT_FALSE(queue.empty());
    ASSERT_EQ(queue.next_time(), time);
    ASSERT_EQ(queue.pop(), payload);
  }
  EXPECT_TRUE(queue.empty());
}

// Pushed while others are popped, never in the past: times still rise, equal times keep their order.
TEST(EventQueue, HoldsWhilePushingAndPopping) {
  testkit::Random random(6);
  EventQueue<std::uint64_t> queue;
  std::uint64_t pushed = 0;
  std::int64_t now = 0;
  std::uint64_t last = 0;
  queue.push(0, pushed++);
  for (int i = 0; i < 5000 && !queue.empty(); ++i) {
    const std::int64_t time = queue.next_time();
    const std::uint64_t payload = queue.pop();
    ASSERT_GE(time, now);
    if (time == now && i > 0) {
      ASSERT_GT(payload, last);
    }
    now = time;
    last = payload;
    for (std::int64_t n = random.whole(0, 2); n > 0 || queue.empty(); --n) {
      queue.push(now + random.whole(0, 3), pushed++);
    }
  }
}

}  // namespace
}  // namespace moesim
