#include "traces/views/catalogue.h"

#include <fmt/format.h>

#include <vector>

#include "sim/io/input_error.h"

namespace moesim {
namespace {

constexpr ConcurrencyView kViews[] = {
    {"table", write_concurrency_table, true},
    {"json", write_concurrency_json, true},
    {"csv", write_concurrency_csv, false},
    {"svg", write_concurrency_svg, false},
};

}  // namespace

std::span<const ConcurrencyView> concurrency_views() { return kViews; }

const ConcurrencyView& find_concurrency_view(const std::string& name) {
  std::vector<std::string> names;
  for (const ConcurrencyView& view : kViews) {
    if (name == view.name) return view;
    names.emplace_back(view.name);
  }
  throw InputError({"--format", "", fmt::format("'{}'", name), fmt::format("one of {}", fmt::join(names, ", ")),
                    nearest_name(name, names)});
}

}  // namespace moesim
