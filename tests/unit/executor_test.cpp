// Work in order from threads in any order.
#include "workloads/studies/executor.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace moesim {
namespace {

TEST(Executor, TakesInOrderWhateverTakesLonger) {
  for (const std::size_t threads : {1U, 2U, 5U}) {
    std::vector<std::string> taken;
    OrderedWork work;
    work.first = 3;
    work.end = 40;
    work.make = [](std::size_t number) {
      if (number % 7 == 3) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      return std::to_string(number);
    };
    work.take = [&](std::size_t number, const std::string& text) {
      EXPECT_EQ(number, 3 + taken.size());
      taken.push_back(text);
    };
    thread_executor(threads)(work);
    ASSERT_EQ(taken.size(), 37U);
    EXPECT_EQ(taken.front(), "3");
    EXPECT_EQ(taken.back(), "39");
  }
}

// The first piece holds all others back; no more than the bound are made meanwhile.
TEST(Executor, MakesABoundedNumberAhead) {
  constexpr std::size_t kThreads = 2, kBound = kThreads * kAheadPerThread;
  std::atomic<std::size_t> made{0}, most{0};
  OrderedWork work;
  work.end = 4 * kBound;
  work.make = [&](std::size_t number) {
    if (number == 0) {
      while (made < kBound - 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      most = made.load();
    }
    ++made;
    return std::string();
  };
  work.take = [](std::size_t, const std::string&) {};
  thread_executor(kThreads)(work);
  EXPECT_EQ(made, work.end);
  EXPECT_LT(most, kBound);
}

TEST(Executor, ErrorsEndTheWork) {
  std::size_t taken = 0;
  OrderedWork work;
  work.end = 100'000;
  work.make = [](std::size_t number) {
    if (number == 20) throw std::runtime_error("twenty");
    return std::string();
  };
  work.take = [&](std::size_t, const std::string&) { ++taken; };
  EXPECT_THROW(thread_executor(2)(work), std::runtime_error);
  EXPECT_LE(taken, 20U);
}

}  // namespace
}  // namespace moesim
