#include "traces/tile_configs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include "sim/io/input_error.h"
#include "sim/io/strict_json.h"
#include "sim/units/integer.h"

namespace moesim {
namespace {

constexpr std::int64_t kMost = 1'000'000;

struct Named {
  const char* key;  // in a file
  const char* parameter;
};
constexpr Named kNames[] = {{"BLOCK_SIZE_M", "block_m"}, {"BLOCK_SIZE_N", "block_n"}, {"BLOCK_SIZE_K", "block_k"},
                            {"GROUP_SIZE_M", "group_m"}, {"num_warps", "num_warps"},  {"num_stages", "num_stages"}};

// The text between `key` and the next comma; nullopt when the name has no such key.
std::optional<std::string> field(const std::string& name, const std::string& key) {
  const std::size_t begin = name.find(key);
  if (begin == std::string::npos) return std::nullopt;
  const std::size_t from = begin + key.size();
  return name.substr(from, name.find(',', from) - from);
}

std::optional<std::int64_t> whole(const std::string& text) {
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

// How both projects write a device's name.
std::string with_underscores(std::string text) {
  std::replace(text.begin(), text.end(), ' ', '_');
  return text;
}

// The name by which the driver, and hence the stacks, know a device: of its aliases the one in words.
std::optional<std::string> driver_name(const HardwareModel& hardware) {
  for (const std::string& alias : hardware.aliases) {
    if (alias.find(' ') != std::string::npos) return with_underscores(alias);
  }
  return std::nullopt;
}

// "" when the name's formats are none of ours.
std::string weights_of(const std::string& name) {
  const std::optional<std::string> dtype = field(name, ",dtype=");
  if (!dtype) return name.find("block_shape") == std::string::npos ? "bf16" : "";
  if (*dtype != "fp8_w8a8" || name.find("per_channel") != std::string::npos) return "";
  if (name.find("block_shape=[128,128]") != std::string::npos) return "fp8_block128";
  return name.find("block_shape") == std::string::npos ? "fp8" : "";
}

}  // namespace

std::string tile_file_name(const TileFile& file, const HardwareModel& hardware, TileStack stack) {
  const std::optional<std::string> device = driver_name(hardware);
  if (!device) {
    throw InputError({"--out", "", fmt::format("device '{}'", hardware.name),
                      "a device whose file has the driver's name for it among its aliases, as in \"NVIDIA H200\"", ""});
  }
  const std::string weights = format_name(file.weights);
  std::string format;
  if (weights == "fp8_block128") {
    format = fmt::format(",dtype=fp8_w8a8,block_shape=[128,{}128]", stack == TileStack::kSglang ? " " : "");
  } else if (weights == "fp8") {
    format = ",dtype=fp8_w8a8";
  } else if (weights != "bf16" && weights != "fp16") {
    throw InputError({"--out", "", fmt::format("weights {}", weights),
                      "bf16, fp16, fp8 or fp8_block128: the stacks' Triton kernel has files for these", ""});
  }
  return fmt::format("E={},N={},device_name={}{}.json", file.experts, file.width, *device, format);
}

std::string tile_file_text(const TileFile& file) {
  std::string text = "{";
  for (const auto& [tokens, tile] : file.tiles) {
    text += fmt::format("{}\n    \"{}\": {{", tokens == file.tiles.begin()->first ? "" : ",", tokens);
    const char* separator = "";
    for (const Named& named : kNames) {
      const auto value = tile.find(named.parameter);
      if (value == tile.end()) continue;
      text += fmt::format("{}\n        \"{}\": {}", separator, named.key, value->second);
      separator = ",";
    }
    text += "\n    }";
  }
  return text + "\n}\n";
}

TileConfigs::TileConfigs(const std::string& folder, const HardwareModel& hardware) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw InputError({"--tile-configs", "", fmt::format("'{}'", folder), "a folder", ""});
  }
  std::set<std::string> devices;
  for (const std::string& alias : hardware.aliases) devices.insert(with_underscores(alias));
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());  // of several versions the last counts
  for (const std::filesystem::path& path : paths) {
    std::string name = path.filename().string();
    name.erase(std::remove(name.begin(), name.end(), ' '), name.end());
    if (path.extension() != ".json" || name.ends_with("_down.json")) continue;
    name.resize(name.size() - std::string(".json").size());
    const std::optional<std::int64_t> experts = whole(field(name, "E=").value_or(""));
    const std::optional<std::int64_t> width = whole(field(name, ",N=").value_or(""));
    const std::string weights = weights_of(name);
    if (!experts || !width || weights.empty() || !devices.contains(field(name, "device_name=").value_or(""))) continue;
    const JsonDocument document = JsonDocument::read_file(path.string());
    const JsonView root = document.root();
    std::map<std::int64_t, Tile>& tiles = files_[{*experts, *width, weights}];
    tiles.clear();
    for (const std::string& key : root.keys()) {
      const std::optional<std::int64_t> tokens = whole(key);
      if (!tokens) continue;  // "triton_version"
      for (const Named& named : kNames) {
        const JsonView tile = root.at(key);
        if (!tile.has(named.key)) continue;
        tiles[*tokens][named.parameter] = fmt::format("{}", tile.at(named.key).as_int(1, kMost));
      }
    }
  }
}

void TileConfigs::apply(MoeMeasurement& row) const {
  const auto file = files_.find({divide_up(row.experts, row.ep), divide_up(row.intermediate, row.tp), row.weights});
  if (file == files_.end() || file->second.empty()) return;
  const auto nearest = std::min_element(file->second.begin(), file->second.end(), [&](const auto& a, const auto& b) {
    return std::abs(a.first - row.tokens) < std::abs(b.first - row.tokens);
  });
  for (const auto& [name, value] : nearest->second) row.parameters[name] = value;
}

}  // namespace moesim
