#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>

#include "hwmodels/build_machine.h"
#include "hwmodels/loader.h"
#include "hwmodels/schema.h"
#include "hwmodels/uncertainty.h"
#include "sim/io/input_error.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A device file as text, piece by piece, so that a test spoils exactly one. The constants hold their largest value.
class DeviceText {
 public:
  explicit DeviceText(Grid grid = Grid::kParallel) {
    if (grid == Grid::kSequential) head("grid", R"("sequential")");
    for (const HwEntry& entry : hw_schema()) {
      if (entry.presence(grid) == Presence::kUnknown) continue;
      const bool plain = entry.dimension == Dimension::kDimensionless;
      const std::string value = format_quantity(entry.max, entry.dimension);
      constants_[entry.path] = constant(plain ? value : fmt::format("\"{}\"", value));
    }
  }

  static std::string constant(const std::string& value, const std::string& kind = "\"published\"",
                              const std::string& source = "\"a page that can be read\"") {
    return fmt::format(R"({{"value": {}, "kind": {}, "source": {}}})", value, kind, source);
  }

  DeviceText& set(const std::string& path, const std::string& json) {
    constants_[path] = json;
    return *this;
  }
  DeviceText& remove(const std::string& path) {
    EXPECT_EQ(constants_.erase(path), 1U) << path;
    return *this;
  }
  DeviceText& head(const std::string& key, const std::string& json) {
    head_[key] = json;
    return *this;
  }

  [[nodiscard]] std::string str() const {
    std::string text = "{";
    for (const auto& [key, json] : head_) text += fmt::format("\"{}\": {}, ", key, json);
    std::string group;
    for (const auto& [path, json] : constants_) {  // sorted, so that a group's constants stand together
      const std::string next = path.substr(0, path.find('.'));
      if (next != group) text += fmt::format("{}\"{}\": {{", group.empty() ? "" : "}, ", next);
      text += fmt::format("{}\"{}\": {}", next != group ? "" : ", ", path.substr(path.find('.') + 1), json);
      group = next;
    }
    return text + "}}";
  }

 private:
  std::map<std::string, std::string> head_ = {{"schema", R"("moesim.device/1")"}, {"name", R"("test-chip")"},
                                              {"title", R"("Test Chip 1 GB")"},   {"vendor", R"("Test")"},
                                              {"architecture", R"("T1")"},        {"unit_name", R"("SM")"},
                                              {"aliases", R"(["tc"])"},           {"notes", R"("")"}};
  std::map<std::string, std::string> constants_;
};

const Constant& constant_of(const HardwareModel& hardware, Hw id) {
  const std::optional<Constant>& constant = hardware.constants[static_cast<std::size_t>(id)];
  if (!constant.has_value()) throw std::logic_error(std::string("no ") + hw_entry(id).path);
  return *constant;
}

InputProblem problem_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.problem();
  }
  ADD_FAILURE() << "no InputError";
  return {};
}

InputProblem problem_of(const DeviceText& text) {
  return problem_of([&text] { (void)parse_hardware(text.str(), "test.json"); });
}

HardwareModel parse(const DeviceText& text) { return parse_hardware(text.str(), "test.json"); }

TEST(ParseHardware, reads_every_part_of_a_file) {
  const DeviceText text = DeviceText().set("hbm.bandwidth", DeviceText::constant("\"4.8 TB/s\"", "\"datasheet\""));
  const HardwareModel hardware = parse(text);
  EXPECT_EQ(hardware.name, "test-chip");
  EXPECT_EQ(hardware.title, "Test Chip 1 GB");
  EXPECT_EQ(hardware.vendor, "Test");
  EXPECT_EQ(hardware.architecture, "T1");
  EXPECT_EQ(hardware.unit_name, "SM");
  EXPECT_THAT(hardware.aliases, ::testing::ElementsAre("tc"));
  EXPECT_THAT(hardware.notes, IsEmpty());
  EXPECT_EQ(hardware.file, "test.json");
  EXPECT_EQ(hardware.grid, Grid::kParallel);
  for (const HwEntry& entry : hw_schema()) {
    if (entry.presence(Grid::kParallel) == Presence::kUnknown) continue;
    ASSERT_TRUE(hardware.has(entry.id)) << entry.path;
    if (entry.id == Hw::kHbmBandwidth) continue;
    EXPECT_DOUBLE_EQ(hardware[entry.id], entry.max) << entry.path;
  }
  const Constant& bandwidth = constant_of(hardware, Hw::kHbmBandwidth);
  EXPECT_DOUBLE_EQ(bandwidth.value, 4.8e12);
  EXPECT_EQ(bandwidth.kind, SourceKind::kDatasheet);
  EXPECT_EQ(bandwidth.source, "a page that can be read");
}

TEST(ParseHardware, hash_is_fnv1a_64_of_the_bytes) {
  const std::string text = DeviceText().str();
  // The definition, written out: offset basis, then xor and multiply by the prime for each byte.
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  EXPECT_EQ(parse_hardware(text, "a.json").hash, fmt::format("{:016x}", hash));
  EXPECT_NE(parse_hardware(text + "\n", "a.json").hash, parse_hardware(text, "a.json").hash);
}

TEST(ParseHardware, takes_every_kind_that_a_file_may_hold) {
  for (const SourceKind kind :
       {SourceKind::kDatasheet, SourceKind::kPublished, SourceKind::kMicrobenchmark, SourceKind::kAssumed}) {
    const std::string name = fmt::format("\"{}\"", source_kind_name(kind));
    const HardwareModel hardware = parse(DeviceText().set("hbm.knee", DeviceText::constant("2", name)));
    EXPECT_EQ(constant_of(hardware, Hw::kHbmKnee).kind, kind);
  }
}

TEST(ParseHardware, optional_constants_may_be_absent_and_required_ones_may_not) {
  for (const Grid grid : {Grid::kParallel, Grid::kSequential}) {
    for (const HwEntry& entry : hw_schema()) {
      if (entry.presence(grid) == Presence::kUnknown) continue;
      const DeviceText text = DeviceText(grid).remove(entry.path);
      if (entry.presence(grid) != Presence::kOptional) {
        const std::string path = entry.path, group = path.substr(0, path.find('.'));
        const InputProblem problem = problem_of(text);
        // A group of one constant is gone with it.
        const bool whole_group = text.str().find(fmt::format("\"{}\": {{", group)) == std::string::npos;
        EXPECT_EQ(problem.where, whole_group ? "" : "/" + group) << path;
        EXPECT_THAT(problem.expected, HasSubstr(whole_group ? group : path.substr(path.find('.') + 1)));
      } else {
        const HardwareModel hardware = parse(text);
        EXPECT_FALSE(hardware.has(entry.id)) << entry.path;
        EXPECT_THROW((void)hardware[entry.id], std::logic_error) << entry.path;
      }
    }
  }
}

TEST(ParseHardware, a_grid_is_of_one_kind_and_has_the_constants_of_that_kind) {
  EXPECT_EQ(parse(DeviceText().head("grid", R"("parallel")")).grid, Grid::kParallel);
  EXPECT_EQ(parse(DeviceText(Grid::kSequential)).grid, Grid::kSequential);
  const InputProblem misspelt = problem_of(DeviceText().head("grid", R"("sequental")"));
  EXPECT_EQ(misspelt.where, "/grid");
  EXPECT_EQ(misspelt.nearest, "sequential");
  // A constant of the other kind is an unknown key, in the file and to --set.
  EXPECT_THAT(problem_of(DeviceText(Grid::kSequential).set("llc.capacity", DeviceText::constant("\"1 MiB\""))).found,
              HasSubstr("llc"));
  EXPECT_THAT(problem_of(DeviceText().set("mxu.count", DeviceText::constant("2"))).found, HasSubstr("mxu"));
  HardwareModel hardware = parse(DeviceText(Grid::kSequential));
  EXPECT_THAT(problem_of([&] { apply_override(hardware, "launch.graph=1us"); }).found, HasSubstr("launch.graph"));
  apply_override(hardware, "sequence.step=1us");
  EXPECT_DOUBLE_EQ(hardware[Hw::kSequenceStep], 1e-6);
}

TEST(ParseHardware, a_group_of_optional_constants_may_be_absent) {
  DeviceText text;
  for (const HwEntry& entry : hw_schema()) {
    if (std::string(entry.path).starts_with("link.")) text.remove(entry.path);
  }
  EXPECT_THAT(text.str(), testing::Not(HasSubstr("\"link\"")));
  EXPECT_FALSE(parse_hardware(text.str(), "device.json").has(Hw::kLinkBandwidth));
}

TEST(ParseHardware, misspelt_key_names_the_nearest_one) {
  const InputProblem constant =
      problem_of(DeviceText().remove("hbm.bandwidth").set("hbm.bandwith", DeviceText::constant("\"4.8 TB/s\"")));
  EXPECT_EQ(constant.file, "test.json");
  EXPECT_THAT(constant.where, HasSubstr("/hbm"));
  EXPECT_THAT(constant.found, HasSubstr("bandwith"));
  EXPECT_EQ(constant.nearest, "bandwidth");

  EXPECT_EQ(problem_of(DeviceText().head("alias", "[]")).nearest, "aliases");
  EXPECT_EQ(problem_of(DeviceText().set("lauch.graph", DeviceText::constant("\"1 us\""))).nearest, "launch");
  EXPECT_EQ(
      problem_of(DeviceText().set("hbm.knee", R"({"value": 2, "kind": "assumed", "sauce": "somewhere"})")).nearest,
      "source");
}

TEST(ParseHardware, uncertainty_is_a_share_of_the_value) {
  const auto with = [](const std::string& share) {
    return DeviceText().set(
        "hbm.knee",
        R"({"value": 2, "kind": "assumed", "source": "a page that can be read", "uncertainty": )" + share + "}");
  };
  const HardwareModel hardware = parse_hardware(with("0.25").str(), "test.json");
  const HwEntry& entry = hw_entry(Hw::kHbmKnee);
  const Constant& knee = *hardware.constants[static_cast<std::size_t>(Hw::kHbmKnee)];
  EXPECT_EQ(knee.uncertainty, 0.25);
  EXPECT_EQ(constant_range(knee, entry).low, 1.5);
  EXPECT_EQ(constant_range(knee, entry).high, 2.5);
  EXPECT_TRUE(constant_range(knee, entry).stated);
  for (const char* wrong : {"-0.1", "0.95", "\"5 %\""}) {
    EXPECT_EQ(problem_of(with(wrong)).where, "/hbm/knee/uncertainty") << wrong;
  }
}

TEST(ParseHardware, ports_are_known_in_full_or_not_at_all) {
  DeviceText text;
  text.set("port.units", DeviceText::constant("6")).set("port.advantage", DeviceText::constant("1.5"));
  text.set("port.queue", DeviceText::constant("\"12 MB\"")).remove("port.units_on_short");
  const InputProblem problem = problem_of(text);
  EXPECT_EQ(problem.where, "/port");
  EXPECT_THAT(problem.expected, HasSubstr("units_on_short"));

  text.set("port.units_on_short", DeviceText::constant("4"));
  const Ports ports = build_machine(parse_hardware(text.str(), "test.json")).ports;
  EXPECT_EQ(ports.short_units, 4);
  EXPECT_EQ(ports.advantage, 1.5);
  EXPECT_EQ(ports.queue, Bytes(12'000'000));
  EXPECT_EQ(problem_of(text.set("port.advantage", DeviceText::constant("0.9"))).where, "/port/advantage/value");
}

TEST(ParseHardware, duplicate_key_is_refused) {
  const std::string twice = R"({"value": 2, "value": 3, "kind": "assumed", "source": "a page that can be read"})";
  const InputProblem problem = problem_of(DeviceText().set("hbm.knee", twice));
  EXPECT_EQ(problem.where, "/hbm/knee/value");
}

TEST(ParseHardware, schema_version_is_checked) {
  const InputProblem problem = problem_of(DeviceText().head("schema", R"("moesim.device/2")"));
  EXPECT_EQ(problem.where, "/schema");
  EXPECT_THAT(problem.expected, HasSubstr("moesim.device/1"));
}

struct WrongValue {
  const char* path;
  const char* value;
  const char* expected;  // part of what the message says should stand there
};

class WrongValueTest : public ::testing::TestWithParam<WrongValue> {};

TEST_P(WrongValueTest, is_refused_with_file_and_pointer) {
  const auto& [path, value, expected] = GetParam();
  const InputProblem problem = problem_of(DeviceText().set(path, DeviceText::constant(value)));
  std::string pointer = std::string("/") + path + "/value";
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  EXPECT_EQ(problem.file, "test.json");
  EXPECT_EQ(problem.where, pointer);
  EXPECT_THAT(problem.expected, HasSubstr(expected));
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongValueTest,
    ::testing::Values(WrongValue{"hbm.bandwidth", "4.8e12", "TB/s"},            // a number without a unit
                      WrongValue{"hbm.bandwidth", R"("4.8e12")", "TB/s"},       // the same in a string
                      WrongValue{"hbm.bandwidth", R"("4.8 TB")", "TB/s"},       // unit of another dimension
                      WrongValue{"hbm.bandwidth", R"("-4.8 TB/s")", ""},        // negative
                      WrongValue{"hbm.bandwidth", R"("4.8 GB/s")", "10 GB/s"},  // slipped unit: out of range
                      WrongValue{"hbm.latency", R"("0.3288 ms")", "us"},        // the same upwards
                      WrongValue{"hbm.read_fraction", "1.01", "1"},
                      WrongValue{"hbm.read_fraction", R"("0.9")", ""},  // a string where a number belongs
                      WrongValue{"unit.count", "131.5", "whole"}, WrongValue{"unit.count", "true", ""},
                      WrongValue{"occupancy.shared", R"("1024.5 B")", "whole"},
                      WrongValue{"matrix.fp8", R"("0 FLOP/clk")", "FLOP/clk"}),
    [](const auto& param) { return fmt::format("case_{}", param.index); });

TEST(ParseHardware, kind_and_source_are_checked) {
  const std::string value = "\"4.8 TB/s\"";
  const auto problem = [&value](const std::string& kind, const std::string& source) {
    return problem_of(DeviceText().set("hbm.bandwidth", DeviceText::constant(value, kind, source)));
  };
  const InputProblem misspelt = problem("\"datashet\"", "\"a page that can be read\"");
  EXPECT_EQ(misspelt.where, "/hbm/bandwidth/kind");
  EXPECT_EQ(misspelt.nearest, "datasheet");
  // What a file may not claim: these come from a calibration overlay and from --set.
  EXPECT_EQ(problem("\"fitted\"", "\"a page that can be read\"").where, "/hbm/bandwidth/kind");
  EXPECT_EQ(problem("\"override\"", "\"a page that can be read\"").where, "/hbm/bandwidth/kind");
  EXPECT_EQ(problem("\"datasheet\"", "\"\"").where, "/hbm/bandwidth/source");
  EXPECT_EQ(problem("\"datasheet\"", "\"  \"").where, "/hbm/bandwidth/source");
  EXPECT_EQ(problem("\"datasheet\"", "3").where, "/hbm/bandwidth/source");

  const InputProblem missing =
      problem_of(DeviceText().set("hbm.bandwidth", R"({"value": "4.8 TB/s", "kind": "datasheet"})"));
  EXPECT_EQ(missing.where, "/hbm/bandwidth");
  EXPECT_THAT(missing.expected, HasSubstr("source"));
}

TEST(ParseHardware, constants_that_contradict_each_other_are_refused) {
  const InputProblem clock = problem_of(DeviceText().set("clock.boost", DeviceText::constant("\"1.98 GHz\"")));
  EXPECT_EQ(clock.where, "/clock/sustained/value");
  EXPECT_THAT(clock.expected, HasSubstr("clock.boost"));
  EXPECT_EQ(problem_of(DeviceText().set("occupancy.shared", DeviceText::constant("\"64 KiB\""))).where,
            "/occupancy/shared_per_cta/value");
}

TEST(ParseHardware, names_can_be_told_from_paths) {
  EXPECT_EQ(problem_of(DeviceText().head("name", R"("a/b")")).where, "/name");
  EXPECT_EQ(problem_of(DeviceText().head("name", R"("a.json")")).where, "/name");
  EXPECT_EQ(problem_of(DeviceText().head("name", R"("")")).where, "/name");
  EXPECT_EQ(problem_of(DeviceText().head("aliases", R"(["x", "y,z"])")).where, "/aliases/1");
  EXPECT_EQ(problem_of(DeviceText().head("aliases", R"(["x", "x"])")).where, "/aliases/1");
  EXPECT_EQ(problem_of(DeviceText().head("aliases", R"(["test-chip"])")).where, "/aliases/0");
}

TEST(LoadHardware, finds_names_and_aliases) {
  EXPECT_EQ(load_hardware("h200").name, "h200");
  EXPECT_EQ(load_hardware("h100").name, "h100-sxm");
  EXPECT_EQ(load_hardware("NVIDIA H200").name, "h200");
  EXPECT_EQ(load_hardware("h200").file, "h200.json");
}

TEST(LoadHardware, unknown_name_gives_the_nearest) {
  const InputProblem problem = problem_of([] { (void)load_hardware("h100-sx"); });
  EXPECT_THAT(problem.found, HasSubstr("h100-sx"));
  EXPECT_EQ(problem.nearest, "h100-sxm");
  EXPECT_THAT(problem_of([] { (void)load_hardware("abacus-of-wood"); }).nearest, IsEmpty());
  EXPECT_EQ(problem_of([] { (void)load_hardware(""); }).found, "''");
}

TEST(LoadHardware, reads_a_path) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "moesim_hardware_loader_test.json";
  std::ofstream(path) << DeviceText().str();
  const HardwareModel hardware = load_hardware(path.string());
  EXPECT_EQ(hardware.name, "test-chip");
  EXPECT_EQ(hardware.file, path.string());
  std::filesystem::remove(path);

  EXPECT_EQ(problem_of([&path] { (void)load_hardware(path.string()); }).file, path.string());
  EXPECT_EQ(problem_of([] { (void)load_hardware("no-such-device.json"); }).file, "no-such-device.json");
}

TEST(DeviceNames, are_sorted_and_load) {
  const std::vector<std::string> names = device_names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_THAT(names, ::testing::IsSupersetOf({"h200", "b200", "mi300x"}));
  for (const std::string& name : names) EXPECT_EQ(load_hardware(name).name, name);
}

TEST(ApplyOverride, replaces_one_number_and_says_so) {
  HardwareModel hardware = parse(DeviceText());
  const HardwareModel before = hardware;
  apply_override(hardware, "hbm.bandwidth=6TB/s");
  EXPECT_DOUBLE_EQ(hardware[Hw::kHbmBandwidth], 6e12);
  EXPECT_EQ(constant_of(hardware, Hw::kHbmBandwidth).kind, SourceKind::kOverride);
  EXPECT_EQ(constant_of(hardware, Hw::kHbmBandwidth).source, "--set");
  for (const HwEntry& entry : hw_schema()) {
    if (entry.id == Hw::kHbmBandwidth || entry.presence(hardware.grid) == Presence::kUnknown) continue;
    EXPECT_EQ(hardware[entry.id], before[entry.id]) << entry.path;
  }
  apply_override(hardware, "unit.count=100");
  EXPECT_EQ(hardware[Hw::kUnitCount], 100);
}

TEST(ApplyOverride, can_add_what_the_device_lacks) {
  HardwareModel hardware = parse(DeviceText().remove("matrix.fp4"));
  apply_override(hardware, "matrix.fp4=32768 FLOP/clk");
  EXPECT_DOUBLE_EQ(hardware[Hw::kMatrixFp4], 32768);
}

TEST(ApplyOverride, wrong_assignments_change_nothing) {
  HardwareModel hardware = parse(DeviceText());
  const auto problem = [&hardware](const std::string& assignment) {
    return problem_of([&] { apply_override(hardware, assignment); });
  };
  EXPECT_EQ(problem("hbm.bandwith=6TB/s").nearest, "hbm.bandwidth");
  EXPECT_THAT(problem("hbm.bandwidth").expected, HasSubstr("PATH=VALUE"));
  EXPECT_THAT(problem("").expected, HasSubstr("PATH=VALUE"));
  EXPECT_EQ(problem("=6TB/s").file, "--set");
  for (const char* assignment : {"hbm.bandwidth=", "hbm.bandwidth=6", "hbm.bandwidth=6 us", "hbm.bandwidth=-6TB/s",
                                 "hbm.bandwidth=6TB/s more", "hbm.bandwidth=6 B/s"}) {
    const InputProblem wrong = problem(assignment);
    EXPECT_EQ(wrong.file, "--set") << assignment;
    EXPECT_EQ(wrong.where, "hbm.bandwidth") << assignment;
  }
  EXPECT_EQ(problem("unit.count=0").where, "unit.count");
  EXPECT_EQ(problem("unit.count=1.5").where, "unit.count");
  EXPECT_EQ(problem("unit.count=132 SM").where, "unit.count");
  for (const HwEntry& entry : hw_schema()) {
    if (entry.presence(hardware.grid) == Presence::kUnknown) continue;
    EXPECT_EQ(constant_of(hardware, entry.id).kind, SourceKind::kPublished);
  }
}

TEST(Schema, paths_are_unique_and_ranges_are_ranges) {
  std::set<std::string> paths;
  for (const HwEntry& entry : hw_schema()) {
    EXPECT_TRUE(paths.insert(entry.path).second) << entry.path;
    EXPECT_LT(entry.min, entry.max) << entry.path;
    EXPECT_EQ(std::count(entry.path, entry.path + std::string(entry.path).size(), '.'), 1) << entry.path;
    EXPECT_GT(std::string(entry.meaning).size(), 4U) << entry.path;
    EXPECT_EQ(&hw_entry(entry.id), &entry);
  }
  EXPECT_EQ(paths.size(), kHwCount);
}

}  // namespace
}  // namespace moesim
