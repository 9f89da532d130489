// What a cache level still holds: least recently used over regions, by how many bytes were inserted since.
//
// A region read or written front to back is remembered by the insert counter at its first and last byte. A later reader
// at fraction x of the region finds it when fewer bytes than the useful capacity came in between. The edge is a ramp of
// +- kRampShare of the capacity (sets fill unevenly), and shares are quantised to 1 / kShareSteps so that alike items
// stay alike.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/units/quantity.h"

namespace moesim {

class CacheState {
 public:
  CacheState(Bytes useful_capacity, std::size_t regions) : capacity_(useful_capacity.as_double()), marks_(regions) {}

  static constexpr int kShareSteps = 16;
  static constexpr double kRampShare = 0.05;

  [[nodiscard]] bool known(std::size_t region) const { return marks_[region].known; }
  // Steps of kShareSteps that miss: all when the region was never here.
  [[nodiscard]] int miss_steps(std::size_t region, double fraction) const;
  [[nodiscard]] double position() const { return position_; }
  void insert(double bytes) { position_ += bytes; }
  void mark(std::size_t region, double begin, double end) { marks_[region] = {begin, end, true}; }

 private:
  struct Mark {
    double begin = 0, end = 0;
    bool known = false;
  };
  double capacity_;
  double position_ = 0;
  std::vector<Mark> marks_;
};

}  // namespace moesim
