#include "sim/engine/flow_table.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace moesim {
namespace {

constexpr std::size_t kMemoSlots = 1024;
constexpr int kLikeBits = 4;

}  // namespace

FlowCohort FlowRecord::pop() {
  const FlowCohort first = fifo[head++];
  if (head == fifo.size()) {
    fifo.clear();
    head = 0;
  }
  return first;
}

FlowTable::FlowTable(const Machine& machine) : solver_(machine), memo_(kMemoSlots), guesses_(kMemoSlots) {}

std::uint32_t FlowTable::add_record(const FlowKey& key, const FlowPhysics& physics) {
  auto known = std::find(physics_.begin(), physics_.end(), physics);
  if (known == physics_.end()) known = physics_.insert(physics_.end(), physics);
  FlowRecord record;
  record.key = key;
  record.physics = static_cast<std::uint32_t>(known - physics_.begin());
  record.flow = physics.flow;
  record.steps = physics.steps;
  records_.push_back(std::move(record));
  return static_cast<std::uint32_t>(records_.size() - 1);
}

void FlowTable::start(std::uint32_t index, std::int64_t items) {
  FlowRecord& record = records_[index];
  if (record.items == 0 && std::find(active_.begin(), active_.end(), index) == active_.end()) active_.push_back(index);
  record.items += items;
}

void FlowTable::drop_empty() {
  std::erase_if(active_, [&](std::uint32_t i) { return records_[i].items == 0; });
}

void FlowTable::solve() {
  solver_flows_.clear();
  key_.clear();
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a over words
  std::uint64_t like = hash;                   // of numbers of items in sixteenths of a doubling
  for (const std::uint32_t i : active_) {
    const FlowRecord& record = records_[i];
    solver_flows_.push_back({&record.flow, static_cast<double>(record.items)});
    for (const double word :
         {static_cast<double>(record.physics), static_cast<double>(record.items), record.flow.floor}) {
      key_.push_back(word);
      hash = (hash ^ std::bit_cast<std::uint64_t>(word)) * 1099511628211u;
    }
    const auto items = std::bit_cast<std::uint64_t>(static_cast<double>(record.items)) >> (52 - kLikeBits);
    like = (like ^ (items << 32 | record.physics)) * 1099511628211u;
  }
  Memo& memo = memo_[(hash ^ (hash >> 32)) % kMemoSlots];
  if (memo.key != key_) {
    step_times_.resize(active_.size());
    solver_.solve(solver_flows_, step_times_, memo.factors, guesses_[(like ^ (like >> 32)) % kMemoSlots]);
    memo.key = key_;
    memo.rates.resize(active_.size());
    memo.blames.resize(active_.size());
    for (std::size_t i = 0; i < active_.size(); ++i) {
      const FlowRecord& record = records_[active_[i]];
      memo.rates[i] = 1 / (record.steps * step_times_[i]);
      memo.blames[i] = blame_shares(physics_[record.physics], record.flow.floor,
                                    solver_.factors_of(record.flow, memo.factors), solver_.channels());
    }
  }
  solved_ = &memo;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    records_[active_[i]].rate = memo.rates[i];
    records_[active_[i]].blame = memo.blames[i];
  }
}

ChannelArray FlowTable::advance(double seconds) {
  ChannelArray inserted{};
  for (const std::uint32_t i : active_) {
    FlowRecord& record = records_[i];
    const double progress = record.rate * seconds;
    record.progress += progress;
    const double steps = progress * record.steps * static_cast<double>(record.items);
    const FlowPhysics& physics = physics_[record.physics];
    for (std::size_t j = 0; j < kMaxChannels; ++j) inserted[j] += steps * physics.inserted[j];
  }
  return inserted;
}

const FlowRecord* FlowTable::find_earliest(std::int64_t now) {
  due_.resize(active_.size());
  const FlowRecord* earliest = nullptr;
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < active_.size(); ++i) {
    const FlowRecord& record = records_[active_[i]];
    const double left = (record.front().finish - record.progress) / record.rate;  // seconds
    due_[i] = now + std::max<std::int64_t>(0, std::llround(left * kPicosecondsPerSecond));
    if (due_[i] < first) {
      first = due_[i];
      earliest = &record;
    }
  }
  return earliest;
}

std::int64_t FlowTable::draw_together(const FlowRecord& earliest, double window) {
  const std::int64_t first = *std::min_element(due_.begin(), due_.end());
  if (window == 0 || active_.size() < 2) return first;
  const std::int64_t limit = first + static_cast<std::int64_t>(window * kPicosecondsPerSecond / earliest.rate);
  std::int64_t last = first;
  for (const std::int64_t due : due_) {
    if (due <= limit) last = std::max(last, due);
  }
  const std::int64_t together = first + (last - first) / 2;
  for (std::int64_t& due : due_) {
    if (due <= limit) due = together;
  }
  return together;
}

}  // namespace moesim
