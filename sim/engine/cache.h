// What the cache levels still hold: least recently used over regions, by how many bytes were inserted since.
//
// A region read or written front to back is remembered by the insert counter at its first and last byte. A later reader
// at fraction x of the region finds it when fewer bytes than the useful capacity came in between. The counter books an
// item's bytes when the item starts; a reader that starts while those before it still read follows them at a shorter
// distance: by what was delivered in between. The edge is a ramp of +- kRampShare of the capacity (sets fill unevenly),
// and shares are quantised to 1 / kShareSteps so that alike items stay alike.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/engine/flow_physics.h"
#include "sim/units/quantity.h"

namespace moesim {

class CacheState {
 public:
  CacheState(Bytes useful_capacity, std::size_t regions) : capacity_(useful_capacity.as_double()), marks_(regions) {}

  static constexpr int kShareSteps = 16;
  static constexpr double kRampShare = 0.05;

  struct Position {
    double booked = 0, delivered = 0;  // bytes
  };

  [[nodiscard]] bool was_read(std::size_t region) const { return marks_[region].was_read; }
  [[nodiscard]] bool was_written(std::size_t region) const { return marks_[region].known && !marks_[region].was_read; }
  // Steps of kShareSteps that miss: all when the region was never here.
  [[nodiscard]] int miss_steps(std::size_t region, double fraction) const;
  [[nodiscard]] Position position() const { return position_; }
  void insert(double bytes) { position_.booked += bytes; }
  void deliver(double bytes) { position_.delivered += bytes; }
  // The region came in between these positions, by being read or written.
  void mark(std::size_t region, const Position& begin, const Position& end, bool read) {
    marks_[region] = {begin, end, true, read, read || marks_[region].was_read};
  }

 private:
  struct Mark {
    Position begin, end;
    bool known = false;
    bool last_read = false;  // the last to bring it in read it
    bool was_read = false;
  };
  double capacity_;
  Position position_;
  std::vector<Mark> marks_;
};

// The levels in front of the memory, nearest first. They outlive kernels.
class CacheHierarchy {
 public:
  CacheHierarchy(const Machine& machine, std::size_t regions);

  struct Read {
    MissSteps misses{};
    bool reread = false;     // memory had delivered the region before
    double from_memory = 0;  // bytes
  };
  // Reads `bytes` of a region at this fraction of its length, of which `may_miss` are not read by others at the same
  // time. Without re-reads or copies, what was read or written once is still in the nearest level.
  Read read(std::size_t region, double fraction, double may_miss, EffectSet without);
  void write(double bytes);
  void deliver(const ChannelArray& bytes);  // into each level, booked before

  // Insert counters now, and marking that a region came in between then and now.
  using Positions = std::array<CacheState::Position, kMaxChannels>;
  [[nodiscard]] Positions positions() const;
  void mark(std::size_t region, const Positions& begin, bool read);

 private:
  std::vector<CacheState> levels_;
};

}  // namespace moesim
