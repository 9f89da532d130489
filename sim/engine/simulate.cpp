#include "sim/engine/simulate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "sim/engine/blame_meter.h"
#include "sim/engine/cache.h"
#include "sim/engine/event_queue.h"
#include "sim/engine/flow_table.h"
#include "sim/engine/lanes.h"
#include "sim/engine/normal.h"
#include "sim/engine/recorder.h"
#include "sim/engine/slots.h"
#include "sim/units/check.h"

namespace moesim {
namespace {

// A wave starts as several cohorts, staggered by the dispatch rate, so that items stay out of step as they do on a
// device. More cohorts cost time and change results by less than the 0.5 % that the cohort test allows. Kernels of few
// waves take more of them: a cohort's stagger is a larger share of their time, and cohorts have fewer waves to come apart.
std::int64_t cohorts_per_wave(std::int64_t items, std::int64_t slots) {
  if (items <= 24 * slots) return 16;
  return items <= 256 * slots ? 8 : 4;
}

// Ports, and how far apart items of a cohort end, decide the tail of a kernel, a small part of one of more waves than this:
// there they would only multiply the events.
constexpr std::int64_t kTailedWaves = 6;

// Ablation of the tail: items are cut into this many, or fewer in a kernel of so many waves that its tail is short.
constexpr double kTailCuts = 32;
constexpr double kTailWaves = 256;

// Cohorts of different classes that end within a window of each other end together, in its middle: some a little early,
// some a little late, so that classes that hardly differ do not splinter the cohorts. The window is a share of an
// item's time that grows with the waves still to come: it stays below kEndTogether of the kernel's remaining time.
constexpr double kEndTogether = 1.0 / 16384;
constexpr double kLeastWindow = 1.0 / 256;
constexpr double kMostWindow = 1.0 / 8;

enum class EventKind : std::uint8_t { kKernelReady, kWaitOver, kAheadStart, kFlowStart, kItemsEnd };

struct Event {
  EventKind kind;
  std::uint32_t index;  // kernel or cohort
};

struct Cohort {
  std::uint32_t kernel = 0;
  std::uint32_t group = 0;
  std::uint32_t flow = 0;
  std::int64_t items = 0;
  std::int64_t after_wait = 0;  // picoseconds from the end of the wait to the first step
  std::int64_t fill = 0;        // of these; loads ahead: of the loads after them, where these have all come
  std::int8_t loaded = 0;       // share of its loads that has come meanwhile
  bool first = false;           // of the first wave
  std::int64_t epilogue = 0;
  std::int64_t flow_start = 0;  // until the wait is over: the end of prologue_before
};

struct KernelState {
  std::size_t next_group = 0;
  std::int64_t started_in_group = 0;
  std::int64_t remaining = 0;  // items not yet started
  std::int64_t started = 0;
  std::int64_t unfinished = 0;  // items whose epilogue is not done
  std::int64_t resident = 0;    // items that hold a slot
  std::int64_t slots = 0;       // on an empty machine
  Lanes lanes;
  std::int64_t quantum = 1;  // items of a cohort at most
  std::int64_t cuts = 1;     // pieces of an item that count as items of their own
  double port_spread = 0;    // of its last items' times (lanes.h)
  std::int64_t flowing = 0;  // items in their K-steps
  std::int64_t delayed = 0;  // items in dispatch, prologue, fill, epilogue
  std::int64_t waiting = 0;  // items that wait for other items
  std::uint32_t predecessors_running = 0;
  std::uint32_t predecessors_starting = 0;  // of these, with items still to start (programmatic launch)
  bool launched = false;                    // items may start
  bool ready_pushed = false;
  bool wait_over = false;
  bool done = false;
  CacheHierarchy::Positions group_begin{};     // where the group in progress began
  CacheHierarchy::Positions write_begin{};     // and the region that it writes
  std::vector<std::int64_t> group_unfinished;  // only with item dependencies
  std::vector<std::uint32_t> parked;           // cohorts that wait for the kernel's wait or for other items
  std::vector<std::uint32_t> loading;          // of these, those whose loads run ahead
  std::vector<std::uint32_t> flows;            // its records
  double memory_read = 0, memory_reread = 0, cache_read = 0, written = 0;
  KernelResult result;
};

class Engine {
 public:
  Engine(const ExecutionPlan& plan, const Machine& machine, const SimulateOptions& options);
  SimulationResult run();

 private:
  [[nodiscard]] const Kernel& kernel(std::uint32_t k) const { return plan_.kernels()[k]; }
  // Of a prologue or epilogue of kernel k, picoseconds.
  [[nodiscard]] std::int64_t scaled(std::uint32_t k, Duration d) const {
    return without_.has(Effect::kFill) ? 0 : std::llround(d.as_double() / static_cast<double>(states_[k].cuts));
  }
  // Its items may hold slots while its predecessors run.
  [[nodiscard]] bool starts_early(std::uint32_t k) const {
    return plan_.launch_mode() == LaunchMode::kProgrammatic || kernel(k).joined;
  }
  [[nodiscard]] std::int64_t items_of(std::uint32_t k, const ItemGroup& group) const {
    return group.count * states_[k].cuts;
  }

  [[nodiscard]] std::vector<std::vector<std::uint32_t>> leave_out_helpers();
  void consider_launch(std::uint32_t k);
  void wait_over(std::uint32_t k);
  void release_parked(std::uint32_t k);
  void start_items();
  bool start_some(std::uint32_t k);
  [[nodiscard]] std::int64_t free_slots(std::uint32_t k) const;
  [[nodiscard]] bool fills_queues(std::uint32_t k) const;
  [[nodiscard]] double bytes_in_flight(std::uint32_t k, std::int64_t items) const;
  [[nodiscard]] bool few_waves(std::uint32_t k) const {
    return states_[k].result.items <= kTailedWaves * states_[k].slots;
  }
  [[nodiscard]] Lane& lane_of(std::uint32_t flow) {
    const FlowKey& key = flows_[flow].key;
    return states_[key.kernel].lanes[key.short_port ? kShort : kUsual];
  }
  void start_cohort(std::uint32_t k, std::int64_t first_item, std::int64_t items, std::int64_t level, bool short_port,
                    double start_share);
  std::uint32_t flow_for(const FlowKey& key);
  std::uint32_t take_cohort();
  [[nodiscard]] std::int64_t fill_of(std::uint32_t k, std::uint32_t flow) const;
  void ahead_start(std::uint32_t cohort);
  void ahead_end(std::uint32_t cohort, double share, double left);
  void stop_ahead(std::uint32_t k);
  void schedule_flow(std::uint32_t cohort);
  void flow_start(std::uint32_t cohort);
  [[nodiscard]] Spread spread_of(const FlowRecord& record) const;
  void queue_end(FlowRecord& record, std::uint32_t cohort, double finish);
  void queue_ends(FlowRecord& record, std::uint32_t cohort, double finish);
  void flow_end(FlowRecord& record);
  void items_end(std::uint32_t cohort);
  void group_progress(std::uint32_t k, std::uint32_t group, std::int64_t items);
  void kernel_end(std::uint32_t k);
  void all_started(std::uint32_t k);
  [[nodiscard]] bool may_pass_wait(std::uint32_t k, std::uint32_t group) const;

  void resolve_rates();
  void record_change();
  void advance(std::int64_t to);

  const ExecutionPlan& plan_;
  const Machine& machine_;
  const SimulateOptions& options_;
  const EffectSet without_;
  std::int64_t now_ = 0;
  double dispatch_free_ = 0;
  std::vector<KernelState> states_;
  CacheHierarchy caches_;
  FlowTable flows_;
  BlameMeter meter_;
  std::vector<KernelActivity> activity_;
  std::vector<Cohort> cohorts_;
  std::vector<std::uint32_t> free_cohorts_;
  EventQueue<Event> events_;
  std::vector<std::vector<std::uint32_t>> successors_;
  std::vector<std::uint32_t> running_;  // kernels launched and not done, in launch order
  bool rates_stale_ = false;
  bool blame_stale_ = true;
  std::optional<Recorder> recorder_;
  std::vector<Recorder::KernelItems> recorded_;
  SimulationResult result_;
};

Engine::Engine(const ExecutionPlan& plan, const Machine& machine, const SimulateOptions& options)
    : plan_(plan),
      machine_(machine),
      options_(options),
      without_(options.without),
      states_(plan.kernels().size()),
      caches_(machine, plan.regions().size()),
      flows_(machine),
      meter_(plan.kernels().size()),
      successors_(plan.kernels().size()) {
  if (options.listener != nullptr) recorder_.emplace(plan, machine, *options.listener);
  const std::vector<std::vector<std::uint32_t>> predecessors = leave_out_helpers();
  for (std::uint32_t k = 0; k < states_.size(); ++k) {
    KernelState& s = states_[k];
    s.slots = slots_beside(machine, kernel(k).footprint, {});
    if (kernel(k).schedule.max_resident) s.slots = std::min(s.slots, *kernel(k).schedule.max_resident);
    s.slots -= s.slots % kernel(k).gang;
    MOESIM_CHECK(s.slots > 0);  // a strategy that does not fit is infeasible before it gets here
    s.result.slots = s.slots;
    if (s.done) continue;
    s.remaining = kernel(k).items();
    if (without_.has(Effect::kTail)) {
      const double waves = static_cast<double>(s.remaining) / static_cast<double>(s.slots);
      s.cuts = std::llround(std::clamp(kTailWaves / waves, 1.0, kTailCuts));
      s.remaining *= s.cuts;
    }
    s.unfinished = s.remaining;
    const std::int64_t wave = std::min(s.slots, s.remaining);
    s.lanes = lanes_of(machine, s.slots, fills_queues(k));
    const std::int64_t cohorts = cohorts_per_wave(s.remaining, s.slots);
    s.quantum = std::max(kernel(k).gang, (wave + cohorts - 1) / cohorts / kernel(k).gang * kernel(k).gang);
    s.result.items = s.remaining;
    s.predecessors_running = static_cast<std::uint32_t>(predecessors[k].size());
    s.predecessors_starting = s.predecessors_running;
    for (const std::uint32_t before : predecessors[k]) successors_[before].push_back(k);
    for (const ItemGroup& group : kernel(k).groups) {
      if (!group.after.empty() && s.group_unfinished.empty()) {
        for (const ItemGroup& g : kernel(k).groups) s.group_unfinished.push_back(items_of(k, g));
      }
    }
  }
}

// The predecessors of each kernel. Helpers that are left out are done before time begins; what followed them follows what
// they followed.
std::vector<std::vector<std::uint32_t>> Engine::leave_out_helpers() {
  std::vector<std::vector<std::uint32_t>> predecessors(states_.size());
  const auto& offsets = plan_.predecessor_offsets();
  for (const std::uint32_t k : plan_.order()) {
    std::vector<std::uint32_t>& list = predecessors[k];
    for (std::uint32_t i = offsets[k]; i < offsets[k + 1]; ++i) {
      const std::uint32_t before = plan_.predecessors()[i];
      if (states_[before].done) {
        list.insert(list.end(), predecessors[before].begin(), predecessors[before].end());
      } else {
        list.push_back(before);
      }
    }
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    states_[k].done = without_.has(Effect::kHelpers) && kernel(k).helper;
  }
  return predecessors;
}

// Kernel k may have more in flight than the memory's own queues hold. Clusters, whose places are not modelled, never do.
bool Engine::fills_queues(std::uint32_t k) const {
  const KernelState& s = states_[k];
  if (machine_.ports.short_units == 0 || without_.has(Effect::kInFlight)) return false;
  if (kernel(k).gang > 1 || s.slots % machine_.units != 0 || s.remaining > kTailedWaves * s.slots) return false;
  return bytes_in_flight(k, std::min(s.slots, s.remaining)) > machine_.ports.queue.as_double();
}

// Of so many items of kernel k, at most.
double Engine::bytes_in_flight(std::uint32_t k, std::int64_t items) const {
  double most = 0;  // of an item
  for (const ItemClass& c : kernel(k).classes) {
    most = std::max(most, c.read.as_double() * std::min(1.0, c.stages / static_cast<double>(c.steps)));
  }
  return most * static_cast<double>(items);
}

// Pushes the launch of k when its predecessors allow it.
void Engine::consider_launch(std::uint32_t k) {
  KernelState& s = states_[k];
  if (s.ready_pushed) return;
  const bool early = starts_early(k);
  if (early ? s.predecessors_starting > 0 : s.predecessors_running > 0) return;
  s.ready_pushed = true;
  s.result.launch = TimePoint(now_);
  Duration delay;
  if (!without_.has(Effect::kLaunch) && !kernel(k).joined) {
    switch (plan_.launch_mode()) {
      case LaunchMode::kStream:
        delay = machine_.launch_stream;
        break;
      case LaunchMode::kGraph:
        delay = machine_.launch_graph;
        break;
      // Overlapped with the predecessors; a first kernel has none to hide behind.
      case LaunchMode::kProgrammatic:
        delay = s.predecessors_running > 0 ? Duration(0) : machine_.launch_programmatic;
        break;
    }
    if (!(early && s.predecessors_running > 0) && machine_.units > 1) {
      const auto grid = static_cast<double>(std::min(s.remaining, s.slots));
      const double share = std::min(1.0, std::log(grid) / std::log(static_cast<double>(machine_.units)));
      delay += Duration(std::llround(machine_.launch_spread.as_double() * share));
    }
  }
  events_.push(now_ + delay.value(), {EventKind::kKernelReady, k});
}

void Engine::wait_over(std::uint32_t k) {
  states_[k].wait_over = true;
  stop_ahead(k);
  release_parked(k);
}

void Engine::release_parked(std::uint32_t k) {
  KernelState& s = states_[k];
  s.waiting = 0;
  std::erase_if(s.parked, [&](std::uint32_t cohort) {
    if (may_pass_wait(k, cohorts_[cohort].group)) {
      schedule_flow(cohort);
      return true;
    }
    if (s.wait_over) s.waiting += cohorts_[cohort].items;
    return false;
  });
  blame_stale_ = true;
}

std::int64_t Engine::free_slots(std::uint32_t k) const {
  const KernelState& s = states_[k];
  std::vector<Resident> others;
  for (const std::uint32_t other : running_) {
    if (other != k && states_[other].resident > 0)
      others.push_back({&kernel(other).footprint, states_[other].resident});
  }
  std::int64_t slots = s.slots;
  if (!others.empty()) {
    slots = std::min(slots, slots_beside(machine_, kernel(k).footprint, others));
    slots -= slots % kernel(k).gang;
  }
  return slots - s.resident;
}

void Engine::start_items() {
  for (std::size_t i = 0; i < running_.size(); ++i) {  // launch order; earlier kernels first
    while (start_some(running_[i])) {
    }
  }
}

// Starts at most one cohort of k.
bool Engine::start_some(std::uint32_t k) {
  KernelState& s = states_[k];
  if (!s.launched || s.remaining == 0) return false;
  const std::int64_t gang = kernel(k).gang;
  const ItemGroup& group = kernel(k).groups[s.next_group];
  const std::int64_t group_items = items_of(k, group);
  std::int64_t items = std::min(free_slots(k), group_items - s.started_in_group);
  const std::int64_t quantum = options_.cohorts ? s.quantum : gang;
  items = std::min(items, quantum);
  items -= items % gang;
  if (items <= 0) return false;

  Lane& lane = s.lanes[next_lane(s.lanes)];
  const bool short_port = &lane == &s.lanes[kShort];
  std::int64_t wave = std::min(s.slots, s.resident + s.remaining);
  if (s.lanes[kShort].units > 0) {
    const std::int64_t part = std::max<std::int64_t>(1, items * lane.units / machine_.units);
    items = std::min(part, lane.slots - lane.resident);
    wave = s.started < s.slots ? std::max(lane.resident + items, wave * lane.units / machine_.units)
                               : std::min(lane.slots, lane.resident + s.remaining);
  }

  // The last items find slots free wherever others ended first: some units take several, others none.
  const std::int64_t each = lane.slots / lane.units;
  if (kernel(k).schedule.kind == Schedule::Kind::kGrid && few_waves(k) && gang == 1 && each > 1) {
    const bool last_pass = lane.begin_pass(s.remaining);
    if (last_pass && s.lanes[kShort].units > 0) {
      const std::int64_t alike = s.remaining * machine_.units / lane.units;  // on all units
      s.port_spread = port_spread(machine_, bytes_in_flight(k, alike), alike, each);
    }
  }
  lane.started += items;

  const double start_share = static_cast<double>(s.started_in_group) / static_cast<double>(group_items);
  const std::int64_t even = wave / lane.units;
  // Items of the last, partly filled wave that lie on fuller units share these units' pipes with one item more.
  const std::int64_t fuller = items_on_fuller_units(lane.units, wave, lane.resident, items);
  if (s.started_in_group == 0) {
    s.group_begin = caches_.positions();
    // A region that several groups write in turn is one region, front to back.
    const bool goes_on = s.next_group > 0 && group.write_region == kernel(k).groups[s.next_group - 1].write_region;
    if (!goes_on) s.write_begin = s.group_begin;
  }
  if (lane.refilled_in_part) {
    std::int64_t first = s.started_in_group;
    for (const RefillPart& part : lane.levels.next(items)) {
      start_cohort(k, first, part.items, part.level, short_port, start_share);
      first += part.items;
    }
  } else {
    if (fuller > 0) start_cohort(k, s.started_in_group, fuller, even + 1, short_port, start_share);
    if (items > fuller) {
      start_cohort(k, s.started_in_group + fuller, items - fuller, std::max<std::int64_t>(1, even), short_port,
                   start_share);
    }
  }

  s.started_in_group += items;
  s.started += items;
  s.remaining -= items;
  if (s.started_in_group == group_items) {
    if (group.region) caches_.mark(group.region->index(), s.group_begin, true);
    if (group.write_region) caches_.mark(group.write_region->index(), s.write_begin, false);
    ++s.next_group;
    s.started_in_group = 0;
  }
  if (s.remaining == 0) all_started(k);
  return true;
}

void Engine::start_cohort(std::uint32_t k, std::int64_t first_item, std::int64_t items, std::int64_t level,
                          bool short_port, double start_share) {
  KernelState& s = states_[k];
  const Kernel& kern = kernel(k);
  const ItemGroup& group = kern.groups[s.next_group];
  const ItemClass& c = kern.classes[group.item_class];
  const bool persistent = kern.schedule.kind == Schedule::Kind::kPersistent;
  const bool first_on_slot = s.started < s.slots;

  FlowKey key;
  key.kernel = k;
  key.item_class = group.item_class;
  key.level = level;
  key.short_port = short_port;
  key.settled = s.lanes[short_port ? kShort : kUsual].refilled_in_part;
  const auto cuts = static_cast<double>(s.cuts);
  const double all = static_cast<double>(items) / cuts;
  const double read = c.read.as_double() * all;
  s.cache_read += read + c.resident_read.as_double() * all;
  if (group.region) {
    const CacheHierarchy::Read from = caches_.read(group.region->index(), start_share, read * c.first_share, without_);
    key.misses = from.misses;
    key.reread = from.reread;
    s.memory_read += from.from_memory;
    if (from.reread) s.memory_reread += from.from_memory;
  }
  const double written = c.write.as_double() * all;
  s.written += written;
  if (group.write_region) caches_.write(written);

  const std::uint32_t index = take_cohort();
  Cohort& cohort = cohorts_[index];
  cohort.kernel = k;
  cohort.group = static_cast<std::uint32_t>(s.next_group);
  cohort.items = items;
  cohort.flow = flow_for(key);
  cohort.epilogue = scaled(k, c.epilogue);

  // The device starts one item per interval; a cohort stands for items around its middle. Items of a first wave find
  // their slots free and start one after another; items that replace others were freed one by one, so they wait for their
  // slots to turn around, or for a backlog.
  double start = static_cast<double>(now_);
  std::int64_t before = 0;
  if (kern.joined || (persistent && !first_on_slot)) {
    cohort.after_wait = scaled(k, c.tile_prologue);
  } else {
    const double costs = without_.has(Effect::kLaunch) ? 0 : 1;
    const double interval = costs * machine_.dispatch_interval.as_double();
    const double middle = interval * std::max(0.0, all - 1) / 2;
    if (!first_on_slot) start += costs * machine_.turnaround.as_double() / cuts - middle;
    start = std::max(start, dispatch_free_) + middle;
    dispatch_free_ = start + middle + interval * std::min(1.0, all);
    before = scaled(k, c.prologue_before) + (first_on_slot ? scaled(k, c.first_prologue) : 0);
    cohort.after_wait = scaled(k, c.prologue_after);
  }
  if (first_on_slot) cohort.fill = fill_of(k, cohort.flow);
  cohort.first = first_on_slot;
  if (!kern.joined) cohort.after_wait += cohort.fill;
  const auto dispatched = static_cast<std::int64_t>(std::llround(start));
  if (s.started == 0) s.result.start = TimePoint(dispatched);
  s.resident += items;
  lane_of(cohort.flow).resident += items;
  ++result_.cohorts;
  blame_stale_ = true;

  cohort.flow_start = dispatched + before;
  if (recorder_) {
    Span span;
    span.kernel = k;
    span.group = cohort.group;
    span.first_item = first_item;
    span.items = items;
    span.start = TimePoint(dispatched);
    recorder_->dispatched(index, span, before);
  }
  if (may_pass_wait(k, cohort.group)) {
    schedule_flow(index);
  } else {
    s.parked.push_back(index);
    if (s.wait_over) {
      s.waiting += items;
    } else if (c.ahead > 0 && c.read > Bytes(0)) {
      events_.push(cohort.flow_start + (kern.joined ? 0 : cohort.fill), {EventKind::kAheadStart, index});
    }
  }
}

// What the first loads of a wave's items take beyond their steps' time, picoseconds.
std::int64_t Engine::fill_of(std::uint32_t k, std::uint32_t flow) const {
  if (without_.has(Effect::kFill)) return 0;
  const KernelState& s = states_[k];
  const ItemClass& c = kernel(k).classes[flows_[flow].key.item_class];
  const double rounds = std::max(1.0, static_cast<double>(c.steps) / c.stages);
  const auto wave = static_cast<double>(std::min(s.slots, s.started + s.remaining));
  const double fill = fill_seconds(machine_, flows_[flow].flow, wave, rounds);
  return std::llround(fill * kPicosecondsPerSecond / static_cast<double>(s.cuts));
}

// Loads that need not wait begin, unless the wait is over by now.
void Engine::ahead_start(std::uint32_t index) {
  Cohort& cohort = cohorts_[index];
  KernelState& s = states_[cohort.kernel];
  if (std::find(s.parked.begin(), s.parked.end(), index) == s.parked.end()) return;
  if (!kernel(cohort.kernel).joined) cohort.after_wait -= cohort.fill;
  FlowKey key = flows_[cohort.flow].key;
  key.ahead.alone = true;
  cohort.flow = flow_for(key);
  s.loading.push_back(index);
  s.flowing += cohort.items;
  lane_of(cohort.flow).flowing += cohort.items;
  flows_.start(cohort.flow, cohort.items);
  FlowRecord& record = flows_[cohort.flow];
  record.fifo.push_back({record.progress + 1, index});
  rates_stale_ = true;
}

// This share of them has come, the rest will in so many seconds. Where nothing more is in flight, the next loads come as an
// item's first do.
void Engine::ahead_end(std::uint32_t index, double share, double left) {
  Cohort& cohort = cohorts_[index];
  KernelState& s = states_[cohort.kernel];
  flows_[cohort.flow].items -= cohort.items;
  s.flowing -= cohort.items;
  lane_of(cohort.flow).flowing -= cohort.items;
  rates_stale_ = true;
  const ItemClass& c = kernel(cohort.kernel).classes[flows_[cohort.flow].key.item_class];
  share *= ahead_share(c, static_cast<double>(s.cuts));
  if (share < 1)
    cohort.after_wait += std::max<std::int64_t>(0, cohort.fill - std::llround(left * kPicosecondsPerSecond));
  cohort.loaded = static_cast<std::int8_t>(std::lround(share * Ahead::kShareSteps));
}

// The wait is over: what has come of the loads stays, and the rest comes as the items take their steps.
void Engine::stop_ahead(std::uint32_t k) {
  for (const std::uint32_t index : states_[k].loading) {
    FlowRecord& record = flows_[cohorts_[index].flow];
    const auto queued = std::find_if(record.fifo.begin() + static_cast<std::ptrdiff_t>(record.head), record.fifo.end(),
                                     [&](const FlowCohort& q) { return q.cohort == index; });
    const double left = std::clamp(queued->finish - record.progress, 0.0, 1.0);
    record.fifo.erase(queued);
    ahead_end(index, 1 - left, left / record.rate);
  }
  states_[k].loading.clear();
}

std::uint32_t Engine::take_cohort() {
  if (free_cohorts_.empty()) {
    cohorts_.emplace_back();
    return static_cast<std::uint32_t>(cohorts_.size() - 1);
  }
  const std::uint32_t index = free_cohorts_.back();
  free_cohorts_.pop_back();
  cohorts_[index] = {};
  return index;
}

bool Engine::may_pass_wait(std::uint32_t k, std::uint32_t group) const {
  const KernelState& s = states_[k];
  if (!s.wait_over) return false;
  for (const std::uint32_t before : kernel(k).groups[group].after) {
    if (s.group_unfinished[before] > 0) return false;
  }
  return true;
}

// The wait of the cohort is over (now or at the end of its first prologue).
void Engine::schedule_flow(std::uint32_t index) {
  Cohort& cohort = cohorts_[index];
  KernelState& s = states_[cohort.kernel];
  s.delayed += cohort.items;
  const std::int64_t from = std::max(cohort.flow_start, now_);
  if (recorder_) recorder_->released(index, from);
  cohort.flow_start = from + cohort.after_wait;
  blame_stale_ = true;
  events_.push(cohort.flow_start, {EventKind::kFlowStart, index});
}

std::uint32_t Engine::flow_for(const FlowKey& key) {
  KernelState& s = states_[key.kernel];
  for (const std::uint32_t i : s.flows) {
    if (flows_[i].key == key) return i;
  }
  const ItemClass& item = kernel(key.kernel).classes[key.item_class];
  const auto cuts = static_cast<double>(s.cuts);
  const ItemClass& asked = key.ahead == Ahead{} ? item : with_ahead(item, key.ahead, cuts);
  FlowPhysics physics = make_physics(machine_, asked, key.misses, key.reread, cuts, without_);
  physics.flow.short_port = key.short_port;
  const double rate = rate_in_group(machine_, s.result.items).value();
  if (rate > 0 && !without_.has(Effect::kCacheBandwidth)) {
    double& port = physics.pipe_seconds[static_cast<std::size_t>(PipeKind::kLoadPort)];
    port = std::max(port, (asked.read + asked.resident_read).as_double() / (static_cast<double>(asked.steps) * rate));
  }
  s.flows.push_back(flows_.add_record(key, physics));
  return s.flows.back();
}

void Engine::flow_start(std::uint32_t index) {
  Cohort& cohort = cohorts_[index];
  KernelState& s = states_[cohort.kernel];
  if (FlowKey key = flows_[cohort.flow].key; key.ahead.alone) {
    key.ahead = {false, cohort.loaded};
    cohort.flow = flow_for(key);
  }
  FlowRecord& record = flows_[cohort.flow];
  s.delayed -= cohort.items;
  s.flowing += cohort.items;
  lane_of(cohort.flow).flowing += cohort.items;
  flows_.start(cohort.flow, cohort.items);
  rates_stale_ = true;
  if (recorder_) recorder_->flow_started(index, cohort.flow, now_);
  queue_ends(record, index, record.progress + 1);
}

// Items of the record will end at this progress.
void Engine::queue_end(FlowRecord& record, std::uint32_t index, double finish) {
  const Cohort& cohort = cohorts_[index];
  const KernelState& s = states_[cohort.kernel];
  const auto begin = record.fifo.begin() + static_cast<std::ptrdiff_t>(record.head);
  const auto after = std::upper_bound(begin, record.fifo.end(), finish,
                                      [](double value, const FlowCohort& queued) { return value < queued.finish; });
  if (options_.cohorts && s.group_unfinished.empty() && after != begin && record.rate > 0) {
    // Splinters that follow each other closer than whole cohorts do become one, done at their mean.
    FlowCohort& before = *std::prev(after);
    Cohort& earlier = cohorts_[before.cohort];
    const double apart = (finish - before.finish) / record.rate * kPicosecondsPerSecond;
    const double stagger = machine_.dispatch_interval.as_double() * static_cast<double>(s.quantum);
    if (apart <= stagger && earlier.items + cohort.items <= s.quantum) {
      const double share = static_cast<double>(cohort.items) / static_cast<double>(earlier.items + cohort.items);
      before.finish += share * (finish - before.finish);
      earlier.items += cohort.items;
      if (recorder_) recorder_->merged(before.cohort, index);
      free_cohorts_.push_back(index);
      return;
    }
  }
  record.fifo.insert(after, {finish, index});
}

// Standard deviation of the ends of items, in items' worth of progress: of the bytes that come from memory.
Spread Engine::spread_of(const FlowRecord& record) const {
  const KernelState& s = states_[record.key.kernel];
  if (record.key.ahead.alone || machine_.round_spread == 0) return {};
  if (without_.has(Effect::kTail) || without_.has(Effect::kInFlight)) return {};
  const ItemClass& c = kernel(record.key.kernel).classes[record.key.item_class];
  const double rounds = std::max(1.0, static_cast<double>(c.steps) / c.stages);
  const double rounds_spread = machine_.round_spread / std::sqrt(rounds);
  const bool last = record.key.settled || s.started <= s.slots;
  return {rounds_spread * record.flow.memory_share, last ? s.port_spread * record.flow.memory_share : 0};
}

// As queue_end; items end apart from each other. In a kernel of many waves cohorts do, and the items of the last ones.
void Engine::queue_ends(FlowRecord& record, std::uint32_t index, double finish) {
  const double spread = spread_of(record).all();
  if (spread == 0) return queue_end(record, index, finish);
  const std::uint32_t k = record.key.kernel;
  const KernelState& s = states_[k];
  EndSpread& ends = lane_of(cohorts_[index].flow).end_spread;
  if (s.remaining > 0 && !few_waves(k)) {
    const double share = ends.next_together();
    double late = spread * normal_quantile(share);
    if (cohorts_[index].first) {
      const ItemClass& c = kernel(k).classes[record.key.item_class];
      late += burst_share(machine_, record.flow, static_cast<double>(s.slots), c) * (share - 0.5);
    }
    return queue_end(record, index, std::max(record.progress, finish + late));
  }
  const std::int64_t gang = kernel(k).gang;
  for (const SpreadPart& part : ends.next(cohorts_[index].items, gang)) {
    std::uint32_t some = index;
    if (part.items < cohorts_[index].items) {
      some = take_cohort();
      cohorts_[some] = cohorts_[index];
      cohorts_[some].items = part.items;
      cohorts_[index].items -= part.items;
      if (recorder_) recorder_->split(index, some, part.items);
    }
    queue_end(record, some, std::max(record.progress, finish + spread * part.deviation));
  }
}

void Engine::flow_end(FlowRecord& record) {
  const FlowCohort done = record.pop();
  if (!options_.cohorts) record.progress = done.finish;  // drops what rounding to picoseconds left
  Cohort& cohort = cohorts_[done.cohort];
  KernelState& s = states_[cohort.kernel];
  if (record.key.ahead.alone) {
    std::erase(s.loading, done.cohort);
    return ahead_end(done.cohort, 1, 0);
  }
  record.items -= cohort.items;
  s.flowing -= cohort.items;
  lane_of(cohort.flow).flowing -= cohort.items;
  if (recorder_) recorder_->drained(done.cohort, cohort.flow, now_);
  rates_stale_ = true;
  const Schedule& schedule = kernel(cohort.kernel).schedule;
  if (schedule.kind == Schedule::Kind::kPersistent && schedule.look_ahead > 0) {
    s.resident -= cohort.items;  // the next item's loads are under way while this one stores
    lane_of(cohort.flow).resident -= cohort.items;
  }
  if (cohort.epilogue > 0) {
    s.delayed += cohort.items;
    events_.push(now_ + cohort.epilogue, {EventKind::kItemsEnd, done.cohort});
  } else {
    items_end(done.cohort);
  }
}

void Engine::items_end(std::uint32_t index) {
  Cohort& cohort = cohorts_[index];
  const std::uint32_t k = cohort.kernel;
  KernelState& s = states_[k];
  if (cohort.epilogue > 0) s.delayed -= cohort.items;
  const Schedule& schedule = kernel(k).schedule;
  if (!(schedule.kind == Schedule::Kind::kPersistent && schedule.look_ahead > 0)) {
    s.resident -= cohort.items;
    lane_of(cohort.flow).resident -= cohort.items;
  }
  if (recorder_) recorder_->ended(index, now_);
  s.unfinished -= cohort.items;
  blame_stale_ = true;
  if (!s.group_unfinished.empty()) group_progress(k, cohort.group, cohort.items);
  free_cohorts_.push_back(index);
  if (s.unfinished == 0) kernel_end(k);
}

void Engine::group_progress(std::uint32_t k, std::uint32_t group, std::int64_t items) {
  KernelState& s = states_[k];
  s.group_unfinished[group] -= items;
  if (s.group_unfinished[group] == 0 && !s.parked.empty()) release_parked(k);
}

void Engine::all_started(std::uint32_t k) {
  // A first wave is even but for the last item of each unit; later, slots come free in any order.
  KernelState& s = states_[k];
  if (s.started <= s.slots && s.lanes[kShort].units > 0) {
    s.port_spread = port_spread(machine_, bytes_in_flight(k, s.started), s.started, 1);
  }
  for (const std::uint32_t i : s.flows) {
    FlowRecord& record = flows_[i];
    if (few_waves(k) || spread_of(record).all() == 0) continue;
    const std::vector<FlowCohort> under_way(record.fifo.begin() + static_cast<std::ptrdiff_t>(record.head),
                                            record.fifo.end());
    record.fifo.clear();
    record.head = 0;
    for (const FlowCohort& cohort : under_way) queue_ends(record, cohort.cohort, cohort.finish);
  }
  for (const std::uint32_t next : successors_[k]) {
    --states_[next].predecessors_starting;
    consider_launch(next);
  }
}

void Engine::kernel_end(std::uint32_t k) {
  KernelState& s = states_[k];
  s.done = true;
  s.result.end = TimePoint(now_);
  running_.erase(std::find(running_.begin(), running_.end(), k));
  for (const std::uint32_t next : successors_[k]) {
    KernelState& n = states_[next];
    --n.predecessors_running;
    if (n.predecessors_running == 0 && starts_early(next)) {
      const bool at_once = without_.has(Effect::kLaunch) || kernel(next).joined;
      const std::int64_t delay = at_once ? 0 : machine_.launch_programmatic.value();
      events_.push(now_ + delay, {EventKind::kWaitOver, next});
    }
    consider_launch(next);
  }
}

void Engine::resolve_rates() {
  rates_stale_ = false;
  blame_stale_ = true;
  flows_.resolve([&](const FlowRecord& record) {
    const std::uint32_t k = record.key.kernel;
    double others = 0;  // items of other kernels
    for (const std::uint32_t other : running_) {
      if (other != k) others += static_cast<double>(states_[other].flowing);
    }
    const Lane& lane = states_[k].lanes[record.key.short_port ? kShort : kUsual];
    const auto level = static_cast<double>(record.key.level);
    const auto even = static_cast<double>((lane.flowing + lane.units - 1) / lane.units);
    double sharing = record.key.settled ? level : std::min(level, even);
    // Items that are late since many share their port are late together.
    if (states_[k].port_spread > 0) sharing += spread_of(record).ports_share() * (level - sharing);
    return sharing + others / static_cast<double>(machine_.units);
  });
}

void Engine::record_change() {
  recorded_.clear();
  for (const std::uint32_t k : running_) {
    const KernelState& s = states_[k];
    const std::int64_t active = s.started - (s.result.items - s.unfinished);
    recorded_.push_back({k, active, s.flowing, s.resident, active - s.flowing - s.delayed});
  }
  recorder_->changed(now_, recorded_, flows_, meter_);
}

void Engine::advance(std::int64_t to) {
  const auto interval = static_cast<double>(to - now_);
  if (interval <= 0) return;
  if (blame_stale_) {
    blame_stale_ = false;
    activity_.clear();
    for (const std::uint32_t k : running_) {
      activity_.push_back({k, states_[k].delayed, states_[k].waiting, states_[k].remaining == 0});
    }
    meter_.resolve(activity_, flows_);
    if (recorder_) record_change();
  }
  std::uint32_t launching = 0;
  if (meter_.idle()) {  // the first kernel that is being launched or waits for its predecessors' end
    launching = *std::find_if(plan_.order().begin(), plan_.order().end(),
                              [&](std::uint32_t k) { return states_[k].ready_pushed && !states_[k].done; });
  }
  meter_.advance(interval, launching);
  if (recorder_) recorder_->advance(to, flows_);
  caches_.deliver(flows_.advance(interval / kPicosecondsPerSecond));
  now_ = to;
}

SimulationResult Engine::run() {
  for (const std::uint32_t k : plan_.order()) {
    if (states_[k].predecessors_running == 0 && !states_[k].done) {
      states_[k].wait_over = true;
      consider_launch(k);
    }
  }
  for (;;) {
    if (rates_stale_) resolve_rates();
    std::int64_t next = flows_.next_end(now_, [&](const FlowRecord& earliest) {
      if (!options_.cohorts) return 0.0;
      const KernelState& s = states_[earliest.key.kernel];
      const double waves = static_cast<double>(s.remaining) / static_cast<double>(s.slots);
      return std::clamp(kEndTogether * waves, kLeastWindow, kMostWindow);
    });
    if (!events_.empty()) next = std::min(next, events_.next_time());
    if (next == std::numeric_limits<std::int64_t>::max()) break;
    if (options_.deadline && next > options_.deadline->value()) {
      result_.total = Duration(next);
      result_.stopped = true;
      return std::move(result_);
    }
    advance(next);
    ++result_.events;
    for (std::size_t i = 0; i < flows_.due().size(); ++i) {
      if (flows_.due()[i] > next) continue;
      FlowRecord& record = flows_[flows_.active()[i]];
      const double finish = record.front().finish;
      while (!record.empty() && record.front().finish <= finish) flow_end(record);
    }
    while (!events_.empty() && events_.next_time() == now_) {
      const Event event = events_.pop();
      switch (event.kind) {
        case EventKind::kKernelReady: {
          KernelState& s = states_[event.index];
          s.launched = true;
          if (!starts_early(event.index)) s.wait_over = true;
          running_.push_back(event.index);
          blame_stale_ = true;
          break;
        }
        case EventKind::kWaitOver:
          wait_over(event.index);
          break;
        case EventKind::kAheadStart:
          ahead_start(event.index);
          break;
        case EventKind::kFlowStart:
          flow_start(event.index);
          break;
        case EventKind::kItemsEnd:
          items_end(event.index);
          break;
      }
    }
    start_items();
  }

  result_.total = Duration(now_);
  std::array<double, kBlameCount> total{};
  std::vector<std::array<double, kBlameCount>> parts;
  for (std::uint32_t k = 0; k < states_.size(); ++k) {
    KernelState& s = states_[k];
    MOESIM_CHECK(s.done);
    result_.items += s.result.items;
    const std::array<double, kBlameCount> blame = meter_.total(k, kernel(k).helper);
    for (std::size_t b = 0; b < kBlameCount; ++b) total[b] += blame[b];
    parts.push_back(blame);
    s.result.memory_read = Bytes(std::llround(s.memory_read));
    s.result.memory_reread = Bytes(std::llround(s.memory_reread));
    s.result.cache_read = Bytes(std::llround(s.cache_read));
    s.result.written = Bytes(std::llround(s.written));
    result_.kernels.push_back(s.result);
  }
  result_.attribution = round_attribution(total, result_.total);
  const std::vector<Attribution> rounded = round_parts(parts, result_.attribution);
  for (std::size_t k = 0; k < rounded.size(); ++k) result_.kernels[k].attribution = rounded[k];
  if (recorder_) recorder_->finish(result_);
  return std::move(result_);
}

}  // namespace

SimulationResult simulate(const ExecutionPlan& plan, const Machine& machine, const SimulateOptions& options) {
  return Engine(plan, machine, options).run();
}

}  // namespace moesim
