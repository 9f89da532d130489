#include "traces/routing_formats/trace_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "sim/io/input_error.h"
#include "sim/units/check.h"
#include "sim/units/integer.h"
#include "traces/routing_formats/counts.h"
#include "traces/routing_formats/limits.h"

namespace moesim {
namespace {

[[noreturn]] void fail(const Place& place, const std::string& found, const std::string& expected) {
  throw InputError({place.file, place.where, found, expected, ""});
}

Place place_of(const JsonView& view) { return {view.file(), view.pointer()}; }

}  // namespace

TraceBuilder::TraceBuilder(const RoutingFile& file) : file_(file) {
  if (file.sidecar()) {
    trace_.model = file.sidecar()->model;
    trace_.source = file.sidecar()->source;
  }
  trace_.experts = file.hints().experts.value_or(0);
}

void TraceBuilder::set_experts(const JsonView& number) {
  set_experts(number.as_int(1, kMostExperts), place_of(number));
}

void TraceBuilder::set_experts(std::int64_t number, const Place& place) {
  if (trace_.experts > 0 && trace_.experts != number) {
    fail(place, fmt::format("{} experts", number), fmt::format("{}", trace_.experts));
  }
  trace_.experts = number;
}

void TraceBuilder::set_topk(const JsonView& number) { check_topk(number.as_int(1, kMostExperts), place_of(number)); }

void TraceBuilder::check_topk(std::int64_t topk, const Place& place) {
  if (topk_ > 0 && topk != topk_) {
    fail(place, fmt::format("{} experts in a row", topk), fmt::format("{}, as before", topk_));
  }
  topk_ = topk;
}

std::int64_t TraceBuilder::experts() const {
  if (trace_.experts > 0) return trace_.experts;
  throw InputError({file_.path(), "", "nothing that says how many experts there are",
                    fmt::format("--model, --experts or a sidecar {}", trace_sidecar_path(file_.path())), ""});
}

std::int64_t TraceBuilder::topk() const {
  if (topk_ > 0) return topk_;
  if (file_.hints().topk) return *file_.hints().topk;
  throw InputError({file_.path(), "", "nothing that says how many experts a token has",
                    fmt::format("--model, --topk or a sidecar {}", trace_sidecar_path(file_.path())), ""});
}

void TraceBuilder::begin_step(std::int64_t id) {
  current_ = steps_.size();
  steps_.push_back({id, {}});
  last_of_id_[id] = current_;
}

void TraceBuilder::find_step(std::int64_t id, std::int64_t layer) {
  const auto last = last_of_id_.find(id);
  if (last == last_of_id_.end() || steps_[last->second].layers.contains(layer)) {
    begin_step(id);
  } else {
    current_ = last->second;
  }
}

void TraceBuilder::count_picks(std::int64_t picks) {
  picks_ += picks;
  if (picks_ > kMostPicks) {
    file_.fail("", fmt::format("more than {} picks", kMostPicks),
               "a shorter trace (or of counts, a size with --tokens)");
  }
}

void TraceBuilder::add_rows(std::int64_t layer, std::span<const std::int64_t> ids, std::int64_t topk, Padding padding,
                            const PlaceOf& place) {
  MOESIM_CHECK(!steps_.empty() && topk >= 1);
  const std::int64_t all = experts();
  seen_in_row_.resize(static_cast<std::size_t>(all), 0);
  count_picks(static_cast<std::int64_t>(ids.size()));
  std::vector<std::int32_t>& out = steps_[current_].layers[layer];
  const auto width = static_cast<std::size_t>(topk);
  for (std::size_t begin = 0; begin < ids.size(); begin += width) {
    ++rows_;
    std::int64_t picked = 0;
    for (std::size_t i = begin; i < std::min(begin + width, ids.size()); ++i) {
      const std::int64_t id = ids[i];
      if (id == -1 && padding == Padding::kMinusOne) continue;
      const bool known = id >= 0 && id < all;
      if (!known || seen_in_row_[static_cast<std::size_t>(id)] == rows_) {
        fail(place(i), fmt::format("expert {}{}", id, known ? " a second time" : ""),
             fmt::format("expert ids from 0 to {}, each once in a row", all - 1));
      }
      seen_in_row_[static_cast<std::size_t>(id)] = rows_;
      out.push_back(static_cast<std::int32_t>(id));
      ++picked;
    }
    if (picked > 0) check_topk(picked, place(begin));
  }
  if (out.empty()) steps_[current_].layers.erase(layer);
}

void TraceBuilder::add_row(std::int64_t layer, const JsonView& row, Padding padding) {
  std::vector<std::int64_t> ids(row.size());
  if (ids.empty()) row.fail("an array of expert ids");
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = row.at(i).as_int(-kMostExperts, kMostId);
  add_rows(layer, ids, static_cast<std::int64_t>(ids.size()), padding,
           [&](std::size_t i) { return place_of(row.at(i)); });
}

void TraceBuilder::add_rows(std::int64_t layer, const JsonView& rows, Padding padding) {
  for (std::size_t i = 0; i < rows.size(); ++i) add_row(layer, rows.at(i), padding);
}

void TraceBuilder::add_counts(std::int64_t layer, const JsonView& counts) {
  std::vector<std::int64_t> rows(counts.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = counts.at(i).as_int(0, kMostCount);
  const auto place = [&](std::size_t i) { return place_of(counts.at(i)); };
  if (rows.empty()) counts.fail("an array of rows per expert");
  add_counts(layer, rows, place);
}

void TraceBuilder::add_counts(std::int64_t layer, std::span<const std::int64_t> counts, const PlaceOf& place) {
  set_experts(static_cast<std::int64_t>(counts.size()), place(0));
  trace_.from_counts = true;
  if (std::all_of(counts.begin(), counts.end(), [](std::int64_t count) { return count == 0; })) return;
  topk_ = topk();
  if (topk_ > experts()) fail(place(0), fmt::format("{} experts", experts()), fmt::format("at least k = {}", topk_));
  const CountedRows counted = counted_rows(counts, topk_, file_.hints().tokens);
  if (counted.impossible) {
    const std::size_t i = *counted.impossible;
    fail(place(i), fmt::format("{} rows of one expert", counts[i]),
         fmt::format("at most {}, the tokens: all rows / {} experts a token (or --tokens, to scale)", counted.tokens,
                     topk_));
  }
  count_picks(counted.tokens * topk_);
  steps_[current_].layers[layer] = deal_rows(counted.rows, counted.tokens, topk_).ids;
}

void TraceBuilder::add_distinct(std::int64_t layer, std::int64_t tokens, std::int64_t distinct, const Place& place) {
  trace_.from_counts = true;
  topk_ = topk();
  const std::int64_t most = std::min(experts(), tokens * topk_);
  if (distinct < topk_ || distinct > most) {
    fail(place, fmt::format("{} distinct experts", distinct), fmt::format("{} to {}", topk_, most));
  }
  count_picks(tokens * topk_);
  std::vector<std::int32_t>& ids = steps_[current_].layers[layer];
  for (std::int64_t pick = 0; pick < tokens * topk_; ++pick) ids.push_back(static_cast<std::int32_t>(pick % distinct));
}

bool TraceBuilder::whole(const Step& step) const {
  for (const std::int64_t layer : trace_.layers) {
    const auto found = step.layers.find(layer);
    if (found == step.layers.end() || found->second.size() != step.layers.begin()->second.size()) return false;
  }
  return true;
}

void TraceBuilder::make_ids_unique() {
  std::set<std::int64_t> ids;
  for (const Step& step : steps_) ids.insert(step.id);
  if (ids.size() == steps_.size()) return;
  for (std::size_t i = 0; i < steps_.size(); ++i) steps_[i].id = static_cast<std::int64_t>(i);
}

RoutedTrace TraceBuilder::finish() {
  std::erase_if(steps_, [](const Step& step) { return step.layers.empty(); });
  make_ids_unique();
  std::set<std::int64_t> layers;
  for (const Step& step : steps_) {
    for (const auto& [layer, ids] : step.layers) layers.insert(layer);
  }
  trace_.layers.assign(layers.begin(), layers.end());
  if (steps_.size() > 1 && !whole(steps_.back())) {
    note(fmt::format("the last step, {}, has not all tokens of all layers: left out", steps_.back().id));
    steps_.pop_back();
  }
  if (steps_.empty()) file_.fail("", "no routed token", "at least one");
  trace_.topk = topk_;
  for (Step& step : steps_) {
    TraceStep& out = trace_.steps.emplace_back();
    out.id = step.id;
    const std::size_t picks = step.layers.begin()->second.size();
    for (const std::int64_t layer : trace_.layers) {
      std::vector<std::int32_t>& ids = step.layers[layer];
      if (ids.size() != picks) {
        file_.fail(
            fmt::format("step {}, layer {}", step.id, layer),
            fmt::format("{} tokens", ids.size() / static_cast<std::size_t>(topk_)),
            fmt::format("{}, as in layer {}", picks / static_cast<std::size_t>(topk_), step.layers.begin()->first));
      }
      out.layers.push_back({.tokens = static_cast<std::int64_t>(picks) / topk_,
                            .topk = topk_,
                            .experts = trace_.experts,
                            .ids = std::move(ids)});
    }
  }
  return std::move(trace_);
}

}  // namespace moesim
