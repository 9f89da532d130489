#include "workloads/config_reader.h"

#include <fmt/format.h>

#include "workloads/config_errors.h"

namespace moesim {
namespace {

// Lists of so many entries are [text, vision] (ERNIE-4.5-VL): the text model's come first.
constexpr std::size_t kModalities = 2;

std::optional<JsonView> find_path(JsonView view, const std::string& path) {
  for (std::size_t begin = 0;;) {
    const std::size_t dot = path.find('.', begin);
    const std::string key = path.substr(begin, dot - begin);
    if (!view.is_object() || !view.has(key)) return std::nullopt;
    view = view.at(key);
    if (dot == std::string::npos) return view;
    begin = dot + 1;
  }
}

}  // namespace

std::optional<JsonView> ConfigReader::find(const Keys& keys) const {
  for (const std::string& key : keys) {
    if (std::optional<JsonView> found = find_path(config_, key)) return found;
  }
  return std::nullopt;
}

JsonView ConfigReader::at(const Keys& keys) const {
  if (const std::optional<JsonView> found = find(keys)) return *found;
  const std::string& path = keys.front();
  const std::size_t dot = path.rfind('.');
  const std::optional<JsonView> parent = dot == std::string::npos ? config_ : find_path(config_, path.substr(0, dot));
  return parent ? parent->at(path.substr(dot == std::string::npos ? 0 : dot + 1)) : config_.at(path.substr(0, dot));
}

std::int64_t ConfigReader::count(const std::string& name, const Keys& keys, std::int64_t max) const {
  return agreed(name, keys, max,
                [](const JsonView& view, std::int64_t least, std::int64_t most) { return view.as_int(least, most); });
}

std::int64_t ConfigReader::count_or_list(const std::string& name, const Keys& keys, std::int64_t max) const {
  return agreed(name, keys, max, whole_or_list);
}

std::int64_t ConfigReader::agreed(const std::string& name, const Keys& keys, std::int64_t max, ReadWhole read) const {
  if (const std::optional<std::int64_t> stated = overrides_.whole(name)) return *stated;
  const JsonView first = at(keys);
  const std::int64_t value = read(first, 1, max);
  for (const std::string& key : keys) {
    const std::optional<JsonView> other = find({key});
    if (!other || read(*other, 1, max) == value) continue;
    other->fail(fmt::format("{}, as {} says", value, key_of(first)));
  }
  return value;
}

std::int64_t ConfigReader::whole_or(const Keys& keys, std::int64_t absent, std::int64_t min, std::int64_t max) const {
  const std::optional<JsonView> found = find(keys);
  return found ? whole_or_list(*found, min, max) : absent;
}

bool ConfigReader::flag_or(const Keys& keys, bool absent) const {
  const std::optional<JsonView> found = find(keys);
  return found ? found->as_bool() : absent;
}

std::int64_t whole_or_list(const JsonView& value, std::int64_t min, std::int64_t max) {
  if (!value.is_array() || value.size() == 0) return value.as_int(min, max);
  const std::int64_t first = value.at(0).as_int(min, max);
  for (std::size_t i = 1; i < value.size(); ++i) {
    if (value.at(i).as_int(0, max) == first || value.size() == kModalities) continue;
    refuse(value.at(i), fmt::format("{} after {}", value.at(i).as_int(0, max), first),
           "the same in every layer: layers that differ are not modelled");
  }
  return first;
}

std::string key_of(const JsonView& view) { return view.pointer().substr(view.pointer().rfind('/') + 1); }

}  // namespace moesim
