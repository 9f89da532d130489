#include "workloads/studies/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "sim/io/input_error.h"
#include "sim/io/strict_json.h"

namespace moesim {
namespace {

constexpr const char* kSchema = "moesim.grid/1";
constexpr std::size_t kMostPoints = 1'000'000'000;

std::string scalar(const JsonView& view) {
  if (view.is_string()) return view.as_string();
  if (!view.is_number()) view.fail("a number or a text");
  constexpr double kMost = 9e15;  // up to where a double holds whole numbers exactly
  const double number = view.as_double(-kMost, kMost);
  return fmt::format("{}", number);
}

Axis read_axis(const std::string& name, const JsonView& view) {
  const std::string place = fmt::format("{}: {}", view.file(), view.pointer());
  if (view.is_string()) return parse_axis(fmt::format("{}={}", name, view.as_string()), place);
  std::vector<std::string> pieces;
  if (view.is_array()) {
    for (std::size_t i = 0; i < view.size(); ++i) pieces.push_back(scalar(view.at(i)));
  } else {
    pieces.push_back(scalar(view));
  }
  return axis_of(name, pieces, place);
}

}  // namespace

std::size_t AxisGrid::points() const {
  std::size_t count = 1;
  for (const Axis& axis : axes) count *= axis.values.size();
  return count;
}

std::vector<AxisValue> AxisGrid::values(std::size_t point) const {
  std::vector<AxisValue> chosen(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    const std::vector<AxisValue>& values = axes[i].values;
    chosen[i] = values[point % values.size()];
    point /= values.size();
  }
  return chosen;
}

void add_axis(AxisGrid& grid, Axis axis, const std::string& flag) {
  const auto same = [&](const Axis& known) { return known.name == axis.name; };
  if (std::any_of(grid.axes.begin(), grid.axes.end(), same)) {
    throw InputError({flag, "", fmt::format("'{}' a second time", axis.name), "each axis once", ""});
  }
  if (axis.values.size() > kMostPoints / grid.points()) {
    throw InputError({flag, axis.name, fmt::format("{} times {} points", axis.values.size(), grid.points()),
                      fmt::format("at most {} in all", kMostPoints), ""});
  }
  grid.axes.push_back(std::move(axis));
}

AxisGrid load_grid(const std::string& path) {
  constexpr std::int64_t kMostBytes = 1 << 24;
  return parse_grid(read_text_file(path, kMostBytes), path);
}

AxisGrid parse_grid(const std::string& text, const std::string& file_name) {
  const JsonDocument document = JsonDocument::parse(text, file_name);
  const JsonView root = document.root();
  if (!root.is_object()) root.fail("an object");
  root.only_keys({"schema", "vary", "keep", "strategies"});
  if (const JsonView schema = root.at("schema"); schema.as_string() != kSchema) {
    schema.fail(fmt::format("'{}'", kSchema));
  }
  AxisGrid grid;
  const JsonView vary = root.at("vary");
  if (!vary.is_object()) vary.fail("an object of axes");
  for (const std::string& name : vary.keys()) add_axis(grid, read_axis(name, vary.at(name)), file_name);
  if (root.has("keep")) {
    const JsonView keep = root.at("keep");
    grid.keep = parse_keep(keep.as_string(), fmt::format("{}: {}", file_name, keep.pointer()));
  }
  if (root.has("strategies")) {
    const JsonView list = root.at("strategies");
    if (!list.is_array() || list.size() == 0) list.fail("an array of strategies");
    for (std::size_t i = 0; i < list.size(); ++i) grid.strategies.push_back(list.at(i).as_string());
  }
  return grid;
}

}  // namespace moesim
