// Wrong input: exit code 2, one line on standard error that names the place, nothing on standard output.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/testkit/run_command.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

using Arguments = std::vector<std::string>;

// The line, without "moesim: " and the line's end.
std::string complaint_of(const Arguments& arguments) {
  const CommandOutput run = run_moesim(arguments);
  EXPECT_EQ(run.exit_code, 2) << run.output << run.errors;
  EXPECT_THAT(run.output, IsEmpty());
  EXPECT_THAT(run.errors, AllOf(StartsWith("moesim: "), EndsWith("\n")));
  EXPECT_EQ(std::count(run.errors.begin(), run.errors.end(), '\n'), 1) << run.errors;
  const std::string prefix = "moesim: ";
  return run.errors.size() <= prefix.size() ? ""
                                            : run.errors.substr(prefix.size(), run.errors.size() - prefix.size() - 1);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("no " + from);
  return text.replace(at, from.size(), to);
}

// The device file of the H200 in which the value of hbm.bandwidth is another.
std::string device_with_bandwidth(const std::string& value) {
  const std::string text = read_source_file("hwmodels/devices/h200.json");
  const std::string key = "\"bandwidth\": {\"value\": \"";
  const std::size_t begin = text.find(key) + key.size();
  const std::size_t end = text.find('"', begin);
  return temp_file("device.json", std::string(text).replace(begin, end - begin, value));
}

std::string model_file(int experts, int topk) {
  return temp_file("model.json",
                   fmt::format(R"({{"model_type": "mixtral", "hidden_size": 64, "intermediate_size": 128,)"
                               R"( "num_local_experts": {}, "num_experts_per_tok": {}, "num_hidden_layers": 2}})",
                               experts, topk));
}

// ------------------------------------------------------------------------------------------------------ files

TEST(WrongInput, MisspeltKeyInADeviceFile) {
  const std::string path = temp_file(
      "device.json", replaced(read_source_file("hwmodels/devices/h200.json"), "\"bandwidth\"", "\"bandwith\""));
  EXPECT_THAT(complaint_of({"run", "--device", path}),
              AllOf(StartsWith(path + ": /hbm"), HasSubstr("bandwith"), HasSubstr("did you mean 'bandwidth'?")));
}

TEST(WrongInput, MoreTopkThanExperts) {
  const std::string path = model_file(4, 8);
  EXPECT_THAT(complaint_of({"run", "--model", path}),
              AllOf(StartsWith(path + ": /num_experts_per_tok"), HasSubstr("8")));
}

TEST(WrongInput, UnknownFamily) {
  const std::string path =
      temp_file("model.json", R"({"model_type": "mixtrall", "hidden_size": 64, "intermediate_size": 128,)"
                              R"( "num_local_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2})");
  EXPECT_THAT(complaint_of({"run", "--model", path}),
              AllOf(StartsWith(path + ": /model_type"), HasSubstr("missing: intermediate"),
                    HasSubstr("--model-override"), HasSubstr("did you mean 'mixtral'?")));
  EXPECT_THAT(successful_output({"models", path, "--model-override", "intermediate=128"}),
              HasSubstr("expert width             128\n"));
  EXPECT_THAT(successful_output({"models", path, "--model-override", "family=mixtral"}),
              HasSubstr("expert width             128\n"));
}

TEST(WrongInput, ModelOverrides) {
  EXPECT_THAT(complaint_of({"run", "--model-override", "hiden=64"}),
              AllOf(StartsWith("--model-override: found 'hiden=64'"), HasSubstr("did you mean 'hidden'?")));
  EXPECT_THAT(complaint_of({"run", "--model-override", "hidden=many"}), HasSubstr("a whole number"));
  EXPECT_THAT(complaint_of({"models", "--model-override", "hidden=64"}), HasSubstr("no model that it is for"));
}

TEST(WrongInput, UnknownModel) {
  EXPECT_THAT(complaint_of({"run", "--model", "mixtral-8x7"}),
              AllOf(HasSubstr("'mixtral-8x7'"), HasSubstr("did you mean 'mixtral-8x7b'?")));
}

TEST(WrongInput, TruncatedJson) {
  const std::string text = read_source_file("hwmodels/devices/h200.json");
  const std::string device = temp_file("device.json", text.substr(0, text.size() / 2));
  EXPECT_THAT(complaint_of({"run", "--device", device}), StartsWith(device + ": "));
  const std::string model = temp_file("model.json", R"({"model_type": "mixtral", "hidden_si)");
  EXPECT_THAT(complaint_of({"run", "--model", model}), StartsWith(model + ": "));
}

TEST(WrongInput, ExpertOutOfRangeInATrace) {
  const std::string trace = npy_file("trace.npy", "2, 2", {0, 1, 7, 8});
  EXPECT_THAT(complaint_of({"run", "--model", "mixtral-8x7b", "--routing", "trace:" + trace}),
              AllOf(StartsWith(trace + ": [1, 1]: "), HasSubstr("expert 8"), HasSubstr("0 to 7")));
}

TEST(WrongInput, NegativeBandwidth) {
  const std::string path = device_with_bandwidth("-4.8 TB/s");
  EXPECT_THAT(complaint_of({"run", "--device", path}),
              AllOf(StartsWith(path + ": /hbm/bandwidth/value: "), HasSubstr("'-4.8 TB/s'")));
  EXPECT_THAT(complaint_of({"run", "--set", "hbm.bandwidth=-4.8TB/s"}), StartsWith("--set: hbm.bandwidth: "));
}

TEST(WrongInput, UnitMissing) {
  const std::string path = device_with_bandwidth("4.8");
  EXPECT_THAT(complaint_of({"run", "--device", path}),
              AllOf(StartsWith(path + ": /hbm/bandwidth/value: "), HasSubstr("a number with a unit")));
  EXPECT_THAT(complaint_of({"run", "--set", "hbm.bandwidth=4.8"}), HasSubstr("a number with a unit"));
}

TEST(WrongInput, HugeNumbers) {
  EXPECT_THAT(complaint_of({"run", "--samples", "1e9"}), StartsWith("--samples: found '1e9'"));
  EXPECT_THAT(complaint_of({"run", "--samples", "1000000000"}), StartsWith("--samples: "));
  EXPECT_THAT(complaint_of({"run", "--concurrency", "99999999999999999999"}), StartsWith("--concurrency: "));
  EXPECT_THAT(complaint_of({"run", "--concurrency", "1000001"}), StartsWith("--concurrency: "));
  EXPECT_THAT(complaint_of({"run", "--concurrency", "1-1000000"}), StartsWith("--concurrency: "));
  EXPECT_THAT(complaint_of({"run", "--seed", "18446744073709551616"}), StartsWith("--seed: "));
  EXPECT_THAT(complaint_of({"run", "--tp", "99999999999999999999"}), StartsWith("--tp: "));
  EXPECT_THAT(complaint_of({"run", "--clock", "1e300GHz"}), StartsWith("--clock: "));
  EXPECT_THAT(complaint_of({"run", "--clock", "sustaned"}), HasSubstr("did you mean 'sustained'?"));
  EXPECT_THAT(complaint_of({"run", "--set", "hbm.bandwidth=1e400TB/s"}), StartsWith("--set: "));
  EXPECT_THAT(complaint_of({"run", "--routing", "zipf:1e400"}), StartsWith("--routing: "));
  const std::string device = device_with_bandwidth("1e30 TB/s");
  EXPECT_THAT(complaint_of({"run", "--device", device}), StartsWith(device + ": /hbm/bandwidth/value: "));
  const std::string model = temp_file("model.json", R"({"model_type": "mixtral", "hidden_size": 1e300})");
  EXPECT_THAT(complaint_of({"run", "--model", model}), StartsWith(model + ": "));
}

TEST(WrongInput, ConcurrencyListThatIsNone) {
  for (const char* list :
       {"", ",", "1,", ",1", "1,,2", "0", "-1", "1.5", "x", "8-1", "1-", "-", "1-2-3", " 1", "1e3"}) {
    SCOPED_TRACE(list);
    EXPECT_THAT(complaint_of({"run", "--concurrency", list}), StartsWith("--concurrency: found "));
  }
}

TEST(WrongInput, FileThatCannotBeRead) {
  const std::string folder = temp_folder();
  const std::string missing = folder + "missing.json";
  EXPECT_THAT(complaint_of({"run", "--model", missing}), StartsWith(missing + ": "));
  EXPECT_THAT(complaint_of({"run", "--device", missing}), StartsWith(missing + ": "));
  EXPECT_THAT(complaint_of({"run", "--routing", "trace:" + missing}), StartsWith(missing + ": "));
  EXPECT_THAT(complaint_of({"validate", "--measurements", missing}), StartsWith(missing + ": "));
  EXPECT_THAT(complaint_of({"run", "--model", folder}), StartsWith(folder + ": "));
  EXPECT_THAT(complaint_of({"run", "--device", folder}), StartsWith(folder + ": "));
  EXPECT_THAT(complaint_of({"validate", "--measurements", folder}), StartsWith(folder + ": "));
}

TEST(WrongInput, ControlCharactersStayOnOneLine) {
  EXPECT_THAT(complaint_of({"run", "--model", "a\nb"}), HasSubstr("'a b'"));
}

// ------------------------------------------------------------------------------------------------------ flags

TEST(WrongInput, MisspeltSubcommand) {
  EXPECT_THAT(complaint_of({"rnu"}), AllOf(HasSubstr("'rnu'"), HasSubstr("did you mean 'run'?")));
}

TEST(WrongInput, MisspeltFlag) {
  for (const Arguments& arguments : {Arguments{"run", "--concurency", "1"}, Arguments{"run", "--concurency=1"}}) {
    EXPECT_THAT(complaint_of(arguments),
                AllOf(StartsWith("run: found '--concurency"), HasSubstr("did you mean '--concurrency'?")));
  }
}

TEST(WrongInput, FlagWithoutValueOrWithTwo) {
  EXPECT_THAT(complaint_of({"run", "--model"}), StartsWith("--model: found no value"));
  EXPECT_THAT(complaint_of({"run", "--model="}), StartsWith("--model: found no value"));
  EXPECT_THAT(complaint_of({"run", "--model", "a", "--model", "b"}), StartsWith("--model: found 2 values"));
}

TEST(WrongInput, ArgumentTooMany) {
  EXPECT_THAT(complaint_of({"run", "mixtral-8x7b"}), StartsWith("run: found 'mixtral-8x7b', expected nothing more"));
  EXPECT_THAT(complaint_of({"models", "mixtral-8x7b", "more"}), HasSubstr("'more'"));
}

TEST(WrongInput, UnknownNames) {
  EXPECT_THAT(complaint_of({"run", "--device", "h2000"}), HasSubstr("did you mean 'h200'?"));
  EXPECT_THAT(complaint_of({"run", "--strategy", "stream_gem"}), HasSubstr("did you mean 'stream_gemv'?"));
  EXPECT_THAT(complaint_of({"run", "--strategy", "stream_gemv,grouped_gem:block_m=32"}),
              HasSubstr("did you mean 'grouped_gemm'?"));
  EXPECT_THAT(complaint_of({"run", "--strategy", "grouped_gemm:block_n=32,blok_m=16"}),
              HasSubstr("did you mean 'block_m'?"));
  EXPECT_THAT(complaint_of({"run", "--scope", "moe_laier"}), HasSubstr("did you mean 'moe_layer'?"));
  EXPECT_THAT(complaint_of({"run", "--launch", "grap"}), HasSubstr("did you mean 'graph'?"));
  EXPECT_THAT(complaint_of({"run", "--routing", "unifrom"}), HasSubstr("did you mean 'uniform'?"));
  EXPECT_THAT(complaint_of({"run", "--weights", "bf61"}), StartsWith("--weights: "));
  EXPECT_THAT(complaint_of({"run", "--format", "jsn"}), HasSubstr("did you mean 'json'?"));
  EXPECT_THAT(complaint_of({"run", "--set", "hbm.bandwith=1TB/s"}), HasSubstr("did you mean 'hbm.bandwidth'?"));
  EXPECT_THAT(complaint_of({"models", "mixtral-8x7"}), HasSubstr("did you mean 'mixtral-8x7b'?"));
  EXPECT_THAT(complaint_of({"devices", "h2000"}), HasSubstr("did you mean 'h200'?"));
  EXPECT_THAT(complaint_of({"strategies", "stream_gem"}), HasSubstr("did you mean 'stream_gemv'?"));
  EXPECT_THAT(complaint_of({"devices", "--format", "yaml"}), StartsWith("--format: "));
}

TEST(WrongInput, FlagsThatContradict) {
  EXPECT_THAT(complaint_of({"run", "--explain", "--format", "csv"}), StartsWith("--explain: "));
  EXPECT_THAT(complaint_of({"devices", "--set", "hbm.bandwidth=1TB/s"}), StartsWith("--set: "));
  const std::string trace = "trace:" + npy_file("trace.npy", "1, 2, 2", {0, 1, 2, 3});
  EXPECT_THAT(complaint_of({"run", "--model", "mixtral-8x7b", "--routing", trace, "--concurrency", "1,2"}),
              AllOf(StartsWith("--concurrency: found 1"), HasSubstr("2, the tokens of")));
  EXPECT_THAT(complaint_of({"run", "--model", "mixtral-8x7b", "--routing", trace, "--samples", "8"}),
              StartsWith("--samples: found 8"));
  EXPECT_THAT(complaint_of({"run", "--model", "olmoe-1b-7b", "--routing", trace}), HasSubstr("2 experts a token"));
}

TEST(WrongInput, EffectsAndLadders) {
  EXPECT_THAT(complaint_of({"run", "--without", "launch,paddin"}),
              AllOf(StartsWith("--without: found 'paddin', expected one of helpers, fill, "), HasSubstr("'padding'")));
  EXPECT_THAT(complaint_of({"run", "--without", ""}), StartsWith("--without: "));
  EXPECT_THAT(complaint_of({"run", "--ladder", "grouped_gem,stream_gemv"}),
              AllOf(StartsWith("--ladder: found 'grouped_gem'"), HasSubstr("'grouped_gemm'")));
  EXPECT_THAT(complaint_of({"run", "--ladder", "grouped_gemm:block_x=1,stream_gemv"}), StartsWith("--ladder"));
  for (const std::string ends : {"stream_gemv", "stream_gemv,stream_gemv", "auto,stream_gemv", "all"}) {
    EXPECT_THAT(complaint_of({"run", "--ladder", ends}),
                AllOf(StartsWith("--ladder: "), HasSubstr("two strategies, neither of them auto")));
  }
  EXPECT_THAT(complaint_of({"run", "--ladder", "grouped_gemm,stream_gemv", "--format", "csv"}),
              StartsWith("--ladder: "));
}

TEST(WrongInput, ShardsThatTheModelDoesNotHave) {
  EXPECT_THAT(complaint_of({"run", "--model", "mixtral-8x7b", "--ep", "9"}), StartsWith("--ep: found 9"));
  EXPECT_THAT(complaint_of({"run", "--model", "mixtral-8x7b", "--tp", "20000"}), StartsWith("--tp: found 20000"));
}

TEST(WrongInput, MeasurementsThatAreNone) {
  EXPECT_THAT(complaint_of({"validate"}), StartsWith("--measurements: found nothing"));
  const std::string broken = temp_file("measurements.jsonl", "{\"schema\": \"moesim.measurement/2\", \"kind\": ");
  EXPECT_THAT(complaint_of({"validate", "--measurements", broken}), StartsWith(broken));
}

TEST(WrongInput, ImplementationOfAnotherStrategy) {
  EXPECT_THAT(complaint_of({"run", "--strategy", "stream_gemv:implementation=triton-grouped"}),
              AllOf(StartsWith("--strategy"), HasSubstr("triton-grouped"), HasSubstr("grouped_gemm")));
  EXPECT_THAT(complaint_of({"run", "--strategy", "stream_gemv:implementation="}), HasSubstr("implementation=NAME"));
  EXPECT_THAT(complaint_of({"run", "--strategy", "stream_gemv:implementation=a,implementation=b"}), HasSubstr("twice"));
}

}  // namespace
}  // namespace moesim
