#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/topological_sort.hpp>
#include <iterator>

#include "sim/plan/execution_plan.h"
#include "sim/units/check.h"

namespace moesim {
namespace {

void check_class(const ItemClass& c) {
  MOESIM_CHECK(c.steps >= 1 && c.stages > 0 && c.read_weight >= 1);
  MOESIM_CHECK(c.read >= Bytes(0) && c.resident_read >= Bytes(0) && c.write >= Bytes(0));
  MOESIM_CHECK(c.first_share > 0 && c.first_share <= 1);
  MOESIM_CHECK(c.ahead >= 0);
  MOESIM_CHECK(c.read_port_weight > 0 && c.resident_port_weight > 0);
  MOESIM_CHECK(c.useful_share >= 0 && c.useful_share <= 1);
  MOESIM_CHECK(c.stationary_share >= 0 && c.stationary_share <= 1);
  for (const double seconds : c.pipe_seconds) MOESIM_CHECK(seconds >= 0);
  for (const Duration d : {c.step_latency, c.load_latency, c.step_issue, c.step_sequence, c.first_prologue,
                           c.prologue_before, c.prologue_after, c.tile_prologue, c.epilogue}) {
    MOESIM_CHECK(d >= Duration(0));
  }
}

void check_kernel(const Kernel& kernel, std::size_t regions) {
  MOESIM_CHECK(kernel.gang >= 1);
  MOESIM_CHECK(!kernel.groups.empty());
  for (const ItemClass& c : kernel.classes) check_class(c);
  for (std::size_t g = 0; g < kernel.groups.size(); ++g) {
    const ItemGroup& group = kernel.groups[g];
    MOESIM_CHECK(group.item_class < kernel.classes.size());
    MOESIM_CHECK(group.count > 0 && group.count % kernel.gang == 0);
    MOESIM_CHECK(!group.region || group.region->index() < regions);
    MOESIM_CHECK(group.region || kernel.classes[group.item_class].read == Bytes(0));
    MOESIM_CHECK(!group.write_region || group.write_region->index() < regions);
    for (const std::uint32_t before : group.after) MOESIM_CHECK(before < g);
  }
}

}  // namespace

std::int64_t Kernel::items() const {
  std::int64_t sum = 0;
  for (const ItemGroup& group : groups) sum += group.count;
  return sum;
}

RegionId PlanBuilder::add_region(std::string name, Bytes bytes) {
  MOESIM_CHECK(bytes >= Bytes(0));
  regions_.push_back({std::move(name), bytes});
  return RegionId(regions_.size() - 1);
}

KernelId PlanBuilder::add_kernel(Kernel kernel) {
  kernel.layer = layer_;
  kernels_.push_back(std::move(kernel));
  return KernelId(kernels_.size() - 1);
}

void PlanBuilder::add_dependence(KernelId before, KernelId after) {
  MOESIM_CHECK(before.index() < kernels_.size() && after.index() < kernels_.size());
  edges_.emplace_back(static_cast<std::uint32_t>(before.index()), static_cast<std::uint32_t>(after.index()));
}

KernelId PlanBuilder::append(ExecutionPlan plan, std::optional<KernelId> before) {
  const std::size_t first_kernel = kernels_.size();
  const std::size_t first_region = regions_.size();
  const auto moved = [&](std::optional<RegionId>& region) {
    if (region) region = RegionId(first_region + region->index());
  };
  std::move(plan.regions_.begin(), plan.regions_.end(), std::back_inserter(regions_));
  for (std::size_t k = 0; k < plan.kernels_.size(); ++k) {
    for (ItemGroup& group : plan.kernels_[k].groups) {
      moved(group.region);
      moved(group.write_region);
    }
    const KernelId id = add_kernel(std::move(plan.kernels_[k]));
    if (before && plan.offsets_[k] == plan.offsets_[k + 1]) add_dependence(*before, id);
    for (std::uint32_t i = plan.offsets_[k]; i < plan.offsets_[k + 1]; ++i) {
      edges_.emplace_back(static_cast<std::uint32_t>(first_kernel + plan.before_[i]),
                          static_cast<std::uint32_t>(id.index()));
    }
  }
  return KernelId(first_kernel + plan.order_.back());
}

ExecutionPlan PlanBuilder::seal() {
  MOESIM_CHECK(!kernels_.empty());
  for (const Kernel& kernel : kernels_) check_kernel(kernel, regions_.size());
  std::sort(edges_.begin(), edges_.end());
  edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());

  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;
  Graph graph(edges_.begin(), edges_.end(), kernels_.size());
  ExecutionPlan plan;
  std::vector<std::size_t> reversed;
  boost::topological_sort(graph, std::back_inserter(reversed));  // throws boost::not_a_dag on a cycle
  // Kernels of equal rank keep the order in which they were added.
  std::vector<std::uint32_t> rank(kernels_.size(), 0);
  for (auto it = reversed.rbegin(); it != reversed.rend(); ++it) {
    for (auto [edge, end] = boost::out_edges(*it, graph); edge != end; ++edge) {
      std::uint32_t& r = rank[boost::target(*edge, graph)];
      r = std::max(r, rank[*it] + 1);
    }
  }
  plan.order_.resize(kernels_.size());
  for (std::size_t k = 0; k < kernels_.size(); ++k) plan.order_[k] = static_cast<std::uint32_t>(k);
  std::stable_sort(plan.order_.begin(), plan.order_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return rank[a] < rank[b]; });

  plan.offsets_.assign(kernels_.size() + 1, 0);
  for (const auto& [before, after] : edges_) ++plan.offsets_[after + 1];
  for (std::size_t k = 0; k < kernels_.size(); ++k) plan.offsets_[k + 1] += plan.offsets_[k];
  plan.before_.resize(edges_.size());
  std::vector<std::uint32_t> next(plan.offsets_.begin(), plan.offsets_.end() - 1);
  for (const auto& [before, after] : edges_) plan.before_[next[after]++] = before;

  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    MOESIM_CHECK(!kernels_[k].joined || plan.offsets_[k + 1] - plan.offsets_[k] == 1);
  }
  plan.kernels_ = std::move(kernels_);
  plan.regions_ = std::move(regions_);
  plan.launch_mode_ = mode_;
  *this = PlanBuilder(mode_);
  return plan;
}

}  // namespace moesim
