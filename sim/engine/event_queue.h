// Timed events in (time, sequence) order: a binary heap of plain structs; the sequence number makes it stable.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace moesim {

template <class Payload>
class EventQueue {
 public:
  struct Event {
    std::int64_t time;  // picoseconds
    std::uint64_t sequence;
    Payload payload;
  };
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::int64_t next_time() const { return heap_.front().time; }
  void push(std::int64_t time, const Payload& payload) {
    heap_.push_back({time, sequence_++, payload});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  Payload pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Payload payload = heap_.back().payload;
    heap_.pop_back();
    return payload;
  }

 private:
  static bool later(const Event& a, const Event& b) {
    return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
  }
  std::vector<Event> heap_;
  std::uint64_t sequence_ = 0;
};

}  // namespace moesim
