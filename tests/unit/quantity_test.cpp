#include "sim/units/quantity.h"

#include <gtest/gtest.h>

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "sim/units/clock.h"
#include "sim/units/id.h"

namespace moesim {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) { a + b; };
template <class A, class B>
concept Subtractable = requires(A a, B b) { a - b; };
template <class A, class B>
concept Comparable = requires(A a, B b) { a < b; };

// What must not compile is checked where it can be: as a failed requirement.
static_assert(Addable<Bytes, Bytes> && !Addable<Bytes, Flops> && !Addable<Bytes, Duration>);
static_assert(!Addable<Bytes, std::int64_t> && !Addable<Duration, Cycles>);
static_assert(!Comparable<Bytes, Flops> && !Comparable<BytesPerSecond, FlopsPerSecond>);
static_assert(!std::convertible_to<std::int64_t, Bytes> && !std::convertible_to<Bytes, std::int64_t>);
static_assert(Addable<TimePoint, Duration> && !Addable<TimePoint, TimePoint>);
static_assert(Subtractable<TimePoint, TimePoint> && !Subtractable<TimePoint, Cycles>);
static_assert(!std::is_same_v<TimePoint, Duration>);

TEST(Quantity, StartsAtZero) {
  EXPECT_EQ(Bytes().value(), 0);
  EXPECT_EQ(BytesPerSecond().value(), 0.0);
}

TEST(Quantity, Arithmetic) {
  EXPECT_EQ(Bytes(3) + Bytes(4), Bytes(7));
  EXPECT_EQ(Bytes(3) - Bytes(4), Bytes(-1));
  EXPECT_EQ(Bytes(3) * 4, Bytes(12));
  EXPECT_EQ(4 * Bytes(3), Bytes(12));
  Bytes bytes(10);
  bytes += Bytes(5);
  bytes -= Bytes(1);
  EXPECT_EQ(bytes, Bytes(14));
}

TEST(Quantity, Order) {
  EXPECT_LT(Duration(1), Duration(2));
  EXPECT_GE(Hertz(2.0), Hertz(2.0));
  EXPECT_NE(Flops(1), Flops(2));
}

TEST(Quantity, AmountsAreExactWhereADoubleIsNot) {
  const std::int64_t odd = (std::int64_t{1} << 53) + 1;
  EXPECT_EQ((Bytes(odd) + Bytes(2)).value(), odd + 2);
}

TEST(Duration, RoundsToTheNearestPicosecond) {
  EXPECT_EQ(duration_from_seconds(1e-12), Duration(1));
  EXPECT_EQ(duration_from_seconds(1.4e-12), Duration(1));
  EXPECT_EQ(duration_from_seconds(1.6e-12), Duration(2));
  EXPECT_EQ(duration_from_seconds(-1.6e-12), Duration(-2));
  EXPECT_EQ(duration_from_seconds(0), Duration(0));
}

TEST(Duration, ToSecondsAndMicroseconds) {
  EXPECT_EQ(to_seconds(Duration(2'500'000'000'000)), 2.5);
  EXPECT_EQ(to_microseconds(Duration(2'500'000)), 2.5);
}

TEST(TransferTime, IsBytesOverRate) {
  EXPECT_EQ(transfer_time(Bytes(4'800), BytesPerSecond(4.8e12)), Duration(1'000));
  EXPECT_EQ(transfer_time(Bytes(0), BytesPerSecond(1)), Duration(0));
}

TEST(TransferTime, DoesNotOverflowWithLargeAmounts) {
  // 141 GB in picoseconds times bytes would not fit 64 bits.
  EXPECT_EQ(transfer_time(Bytes(141'000'000'000), BytesPerSecond(1e12)), Duration(141'000'000'000));
}

TEST(TimePoint, MovesByDurations) {
  const TimePoint start(100);
  EXPECT_EQ(start + Duration(20), TimePoint(120));
  EXPECT_EQ(TimePoint(120) - start, Duration(20));
  EXPECT_LT(start, start + Duration(1));
}

TEST(Clock, TurnsCyclesIntoTime) {
  const Clock clock(Hertz(2e9));
  EXPECT_EQ(clock.duration(Cycles(3)), Duration(1'500));
  EXPECT_EQ(clock.seconds(Cycles(4)), 2e-9);
  EXPECT_EQ(clock.frequency(), Hertz(2e9));
}

TEST(Id, IsItsIndex) {
  struct Kernel {};
  struct Region {};
  static_assert(!std::convertible_to<std::size_t, Id<Kernel>> && !Comparable<Id<Kernel>, Id<Region>>);
  EXPECT_EQ(Id<Kernel>(7).index(), 7U);
  EXPECT_LT(Id<Kernel>(1), Id<Kernel>(2));
}

}  // namespace
}  // namespace moesim
