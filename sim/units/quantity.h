// Strong types for physical quantities: one fixed unit per type, no implicit conversions.
//
// Amounts are int64 (exact), rates are double. The largest amount is 9.2e18 of its unit:
// Duration covers 106 days in picoseconds, Bytes covers 8 EiB.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>

namespace moesim {

template <class Tag, class Rep>
class Quantity {
 public:
  using rep = Rep;
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep value) : value_(value) {}
  [[nodiscard]] constexpr Rep value() const { return value_; }
  [[nodiscard]] constexpr double as_double() const { return static_cast<double>(value_); }

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value_ + b.value_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value_ - b.value_); }
  friend constexpr Quantity operator*(Quantity a, Rep factor) { return Quantity(a.value_ * factor); }
  friend constexpr Quantity operator*(Rep factor, Quantity a) { return Quantity(a.value_ * factor); }

 private:
  Rep value_{};
};

struct BytesTag {};
struct FlopsTag {};
struct DurationTag {};
struct BytesPerSecondTag {};
struct FlopsPerSecondTag {};
struct HertzTag {};
struct CyclesTag {};

using Bytes = Quantity<BytesTag, std::int64_t>;
using Flops = Quantity<FlopsTag, std::int64_t>;
using Duration = Quantity<DurationTag, std::int64_t>;  // picoseconds
using BytesPerSecond = Quantity<BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<FlopsPerSecondTag, double>;
using Hertz = Quantity<HertzTag, double>;
using Cycles = Quantity<CyclesTag, double>;  // becomes time only through a Clock

inline constexpr double kPicosecondsPerSecond = 1e12;
inline constexpr double kPicosecondsPerMicrosecond = 1e6;

// Rounds once, to the nearest picosecond. `seconds` must be finite and below 9.2e6.
[[nodiscard]] inline Duration duration_from_seconds(double seconds) {
  return Duration(std::llround(seconds * kPicosecondsPerSecond));
}
[[nodiscard]] constexpr double to_seconds(Duration d) { return d.as_double() / kPicosecondsPerSecond; }
[[nodiscard]] constexpr double to_microseconds(Duration d) { return d.as_double() / kPicosecondsPerMicrosecond; }
[[nodiscard]] inline Duration transfer_time(Bytes bytes, BytesPerSecond rate) {
  return duration_from_seconds(bytes.as_double() / rate.value());
}

// A point on the simulated clock; the difference of two is a Duration.
class TimePoint {
 public:
  constexpr TimePoint() = default;
  constexpr explicit TimePoint(std::int64_t picoseconds) : value_(picoseconds) {}
  [[nodiscard]] constexpr std::int64_t value() const { return value_; }
  constexpr auto operator<=>(const TimePoint&) const = default;
  friend constexpr TimePoint operator+(TimePoint t, Duration d) { return TimePoint(t.value_ + d.value()); }
  friend constexpr Duration operator-(TimePoint a, TimePoint b) { return Duration(a.value_ - b.value_); }

 private:
  std::int64_t value_ = 0;
};

}  // namespace moesim
