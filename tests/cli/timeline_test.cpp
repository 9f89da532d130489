// moesim run --timeline: what is written where, and what is refused before any work. What the files hold: tests/tools.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/io/strict_json.h"
#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::StartsWith;

using Arguments = std::vector<std::string>;

const Arguments kRun = {"run", "--model", "olmoe-1b-7b", "--concurrency", "2,4", "--samples", "1"};

Arguments with(const Arguments& more, Arguments arguments = kRun) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// Those called "a.", whole or not.
std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("a.")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Timeline, IsWrittenBesideTheSameOutput) {
  const std::string without = successful_output(kRun);
  for (const char* name : {"a.json", "a.json.gz", "a.pftrace", "a.perfetto-trace"}) {
    const std::string folder = temp_folder();
    const CommandOutput run = run_moesim(with({"--timeline", folder + name}));
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_EQ(run.output, without);
    EXPECT_THAT(run.errors, MatchesRegex("moesim: .*: [0-9]+ slices, [0-9]+ counter values, [0-9]+ bytes\n"));
    EXPECT_THAT(files_in(folder), testing::ElementsAre(name));
  }
}

TEST(Timeline, HasAGroupOfTracksForEachFeasibleStrategy) {
  const std::string path = temp_folder() + "a.json";
  const CommandOutput run = run_moesim(with({"--timeline", path, "--units", "1", "--strategy",
                                             "stream_gemv,grouped_gemm:block_m=128,block_n=512,num_stages=16,auto"}));
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  const nlohmann::json trace = nlohmann::json::parse(read_text_file(path, 1 << 28));
  std::vector<std::string> groups;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("name") == "process_name") groups.push_back(event.at("args").at("name"));
  }
  EXPECT_THAT(groups, testing::ElementsAre("stream_gemv", "stream_gemv: work items of 1 of 132 units",
                                           "stream_gemv: experts whose weights stream", "auto",
                                           "auto: work items of 1 of 132 units", "auto: experts whose weights stream"));
}

TEST(Timeline, AnOldFileGivesWayToTheNewOne) {
  const std::string path = temp_file("a.json", "old");
  EXPECT_EQ(run_moesim(with({"--timeline", path})).exit_code, 0);
  EXPECT_THAT(read_text_file(path, 1 << 28), StartsWith("{\"displayTimeUnit\""));
}

TEST(Timeline, OtherExtensionsAreNamed) {
  for (const char* name : {"a", "a.txt", "a.json.bz2", ".json", "a.json/", ""}) {
    EXPECT_THAT(error_line_of(with({"--timeline", name})),
                AllOf(HasSubstr("--timeline"), HasSubstr(".json, .json.gz, .pftrace, .perfetto-trace")))
        << name;
  }
  EXPECT_THAT(error_line_of(with({"--timeline", "a.jsn"})), HasSubstr("did you mean '.json'"));
  EXPECT_THAT(error_line_of(with({"--timeline", "a.pftrac"})), HasSubstr("did you mean '.pftrace'"));
  EXPECT_THAT(error_line_of(with({"--timeline", "a.json.gzip"})), HasSubstr("did you mean '.json.gz'"));
}

TEST(Timeline, WhatCannotBeWrittenIsKnownBeforeAnyWork) {
  // With a device that is not there, too: the file comes first.
  for (const Arguments& device : {Arguments{}, Arguments{"--device", "none"}}) {
    EXPECT_THAT(error_line_of(with(device, with({"--timeline", "/nowhere/a.json"}))),
                AllOf(HasSubstr("--timeline"), HasSubstr("cannot be written")));
  }
  const std::string folder = temp_folder();
  std::filesystem::create_directory(folder + "b.json");
  EXPECT_THAT(error_line_of(with({"--timeline", folder + "b.json"})), HasSubstr("cannot be written"));
}

TEST(Timeline, WrongUnits) {
  const std::string path = temp_folder() + "a.json";
  for (const char* units : {"0", "-1", "some", "1.5", "99999999999"}) {
    EXPECT_THAT(error_line_of(with({"--timeline", path, "--units", units})),
                AllOf(HasSubstr("--units"), HasSubstr(units)));
  }
  EXPECT_THAT(error_line_of(with({"--units", "4"})), AllOf(HasSubstr("--units"), HasSubstr("--timeline FILE")));
  EXPECT_THAT(error_line_of(with({"--timline", path})), HasSubstr("did you mean '--timeline'"));
}

TEST(Timeline, WhatFailsLaterLeavesNoFile) {
  const std::string folder = temp_folder();
  error_line_of(with({"--timeline", folder + "a.json", "--device", "h2000"}));
  EXPECT_THAT(files_in(folder), IsEmpty());
  const CommandOutput none = run_moesim(
      with({"--timeline", folder + "a.json", "--strategy", "grouped_gemm:block_m=128,block_n=512,num_stages=16"}));
  EXPECT_EQ(none.exit_code, 3) << none.errors;
  EXPECT_THAT(files_in(folder), IsEmpty());
}

}  // namespace
}  // namespace moesim
