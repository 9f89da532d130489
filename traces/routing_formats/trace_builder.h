// Puts a trace together from rows as they come, and checks them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/io/strict_json.h"
#include "traces/routing_formats/routing_file.h"

namespace moesim {

// Where a reader stands: of a row's i-th id.
struct Place {
  std::string file, where;
};
using PlaceOf = std::function<Place(std::size_t i)>;

enum class Padding {
  kNone,
  kMinusOne,  // -1 stands for no expert: the rest of a short row, or a whole row of a token without routed experts
};

class TraceBuilder {
 public:
  explicit TraceBuilder(const RoutingFile& file);

  // What the file says of itself.
  void set_model(std::string name) { trace_.model = std::move(name); }
  void set_source(std::string source) { trace_.source = std::move(source); }
  void set_experts(const JsonView& number);
  void set_experts(std::int64_t number, const Place& place);
  void set_topk(const JsonView& number);
  void note(std::string text) { trace_.notes.push_back(std::move(text)); }

  // Begins a step of that id.
  void begin_step(std::int64_t id);
  // The step of that id into which `layer` goes: begins one where the last of that id has the layer.
  void find_step(std::int64_t id, std::int64_t layer);
  // Adds rows of `topk` ids to the layer of the current step.
  void add_rows(std::int64_t layer, std::span<const std::int64_t> ids, std::int64_t topk, Padding padding,
                const PlaceOf& place_of);
  // The same for JSON: one row, or an array of rows.
  void add_row(std::int64_t layer, const JsonView& row, Padding padding = Padding::kNone);
  void add_rows(std::int64_t layer, const JsonView& rows, Padding padding = Padding::kNone);
  // A layer of the current step by its rows per expert. All zero: a layer without routed experts.
  void add_counts(std::int64_t layer, std::span<const std::int64_t> counts, const PlaceOf& place_of);
  void add_counts(std::int64_t layer, const JsonView& counts);
  // A layer of the current step that is known by its tokens and distinct experts alone.
  void add_distinct(std::int64_t layer, std::int64_t tokens, std::int64_t distinct, const Place& place);

  // Stated, or of the hints. InputError where nothing says it.
  [[nodiscard]] std::int64_t experts() const;
  [[nodiscard]] std::int64_t topk() const;
  [[nodiscard]] bool empty() const { return steps_.empty(); }

  // Throws InputError where layers of a step differ in tokens (only of the last step: that one is left out), or there is
  // nothing. Steps whose ids are not unique (micro-batches) are numbered 0, 1, ...
  RoutedTrace finish();

 private:
  struct Step {
    std::int64_t id;
    std::map<std::int64_t, std::vector<std::int32_t>> layers;  // ids, row-major
  };
  void check_topk(std::int64_t topk, const Place& place);
  void count_picks(std::int64_t picks);
  [[nodiscard]] bool whole(const Step& step) const;
  void make_ids_unique();

  const RoutingFile& file_;
  RoutedTrace trace_;
  std::int64_t topk_ = 0;  // of the rows, or stated; 0: not known
  std::int64_t picks_ = 0;
  std::vector<Step> steps_;
  std::size_t current_ = 0;
  std::map<std::int64_t, std::size_t> last_of_id_;
  std::vector<std::size_t> seen_in_row_;  // by expert: the number of the row that had it last
  std::size_t rows_ = 0;
};

}  // namespace moesim
