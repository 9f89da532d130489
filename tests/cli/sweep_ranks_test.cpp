// moesim sweep under mpirun: the same bytes, and one message where something is wrong. Compiled where there is an MPI.
#include <gmock/gmock.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

using testing::HasSubstr;

using Arguments = std::vector<std::string>;

const Arguments kSweep = {
    "sweep",          "--model", "olmoe-1b-7b",     "--samples",     "1",  "--strategy", "grouped_gemm,stream_gemv",
    "--uncalibrated", "--vary",  "experts=64,4,32", "--concurrency", "1-6"};

Arguments sweep_with(const Arguments& more) { return joined(kSweep, more); }

// Two ranks, also as root and on one core; Open MPI leaks at its end.
CommandOutput run_two(const Arguments& arguments) {
  Arguments words = {MOESIM_MPIRUN, "--oversubscribe", "--quiet", "-n", "2", MOESIM_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_program(words, {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                             "ASAN_OPTIONS=detect_leaks=0", "OMPI_MCA_rmaps_base_oversubscribe=1"});
}

std::ptrdiff_t messages_in(const std::string& errors) {
  std::ptrdiff_t count = 0;
  for (std::size_t at = errors.find("moesim: "); at != std::string::npos; at = errors.find("moesim: ", at + 1)) ++count;
  return count;
}

TEST(SweepRanks, SameBytesAsOneProcessAndGoOnWhereItEnded) {
  const std::string out = temp_folder() + "out.csv";
  const std::string alone = successful_output(kSweep);
  const CommandOutput two = run_two(sweep_with({"--out", out}));
  EXPECT_EQ(two.exit_code, 0) << two.errors;
  EXPECT_THAT(two.output, HasSubstr("out.csv: 18 points, "));
  EXPECT_EQ(file_text(out), alone);

  std::ofstream(out, std::ios::binary) << alone.substr(0, alone.size() / 2);
  const CommandOutput rest = run_two(sweep_with({"--out", out, "--threads", "2"}));
  EXPECT_EQ(rest.exit_code, 0) << rest.errors;
  EXPECT_THAT(rest.output, HasSubstr("of them there before"));
  EXPECT_EQ(file_text(out), alone);
}

TEST(SweepRanks, WrongInputIsSaidOnce) {
  for (const Arguments& wrong : {Arguments{"--vary", "expert=1"}, Arguments{"--nonsense"}}) {
    const CommandOutput run = run_two(sweep_with(wrong));
    EXPECT_EQ(run.exit_code, 2) << run.errors;
    EXPECT_EQ(messages_in(run.errors), 1) << run.errors;
    EXPECT_EQ(run.output, "");
  }
}

// A file that only the first rank has.
TEST(SweepRanks, AnErrorOnOneRankEndsAll) {
  const std::string folder = temp_folder();
  const std::string script = temp_file("second_has_another_device.sh",
                                       "#!/bin/sh\n"
                                       "exec " MOESIM_BINARY " \"$@\" --device " +
                                           folder + "h200.$OMPI_COMM_WORLD_RANK.json\n");
  const std::string device = read_source_file("hwmodels/devices/h200.json");
  temp_file("h200.0.json", device);
  const auto run = [&] {
    Arguments words = {MOESIM_MPIRUN, "--oversubscribe", "--quiet", "-n", "2", "/bin/sh", script};
    words.insert(words.end(), kSweep.begin(), kSweep.end());
    return run_program(words,
                       {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "ASAN_OPTIONS=detect_leaks=0"});
  };
  const CommandOutput missing = run();
  EXPECT_EQ(missing.exit_code, 2) << missing.errors;
  EXPECT_EQ(messages_in(missing.errors), 1) << missing.errors;
  EXPECT_THAT(missing.errors, HasSubstr("moesim: rank 1: found "));
  EXPECT_THAT(missing.errors, HasSubstr("h200.1.json"));

  temp_file("h200.1.json", device + "\n");
  const CommandOutput other = run();
  EXPECT_EQ(other.exit_code, 2) << other.errors;
  EXPECT_THAT(other.errors, HasSubstr("moesim: rank 1: found another version of moesim, or other files"));
}

}  // namespace
}  // namespace moesim
