// moesim_cuda_harness OUTPUT [--quick] [--only micro|ports|turnaround|moe] [--seed N] [--budget SECONDS]
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "kernels.cuh"
#include "micro.cuh"

namespace {
[[noreturn]] void usage(int status) {
  std::fprintf(
      status == 0 ? stdout : stderr,
      "usage: moesim_cuda_harness OUTPUT [--quick] [--only micro|ports|turnaround|moe] [--seed N] [--budget SECONDS]\n"
      "writes OUTPUT/measurements.jsonl, OUTPUT/routes/*.npy, OUTPUT/provenance.json\n"
      "exit status: 0 all kernels right, 1 some were wrong (their rows are left out), 2 wrong input, 3 CUDA error\n");
  std::exit(status);
}
}  // namespace

int main(int argc, char** argv) {
  harness::Options options;
  bool named = false;
  for (int i = 0; i < argc; ++i) options.command += (i ? " " : "") + std::string(i ? argv[i] : "moesim_cuda_harness");
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto value = [&]() -> std::string {
      if (++i >= argc) usage(2);
      return argv[i];
    };
    if (argument == "--help")
      usage(0);
    else if (argument == "--quick")
      options.quick = true;
    else if (argument == "--only")
      options.only = value();
    else if (argument == "--seed")
      options.seed = std::strtoull(value().c_str(), nullptr, 10);
    else if (argument == "--budget")
      options.budget_s = std::strtod(value().c_str(), nullptr);
    else if (argument[0] != '-' && !named)
      options.output = argument, named = true;
    else
      usage(2);
  }
  constexpr const char* kParts[] = {"", "micro", "ports", "turnaround", "moe"};
  const bool known =
      std::any_of(std::begin(kParts), std::end(kParts), [&](const char* p) { return options.only == p; });
  if (!named || !known) usage(2);

  harness::Device device;
  harness::Report report(options, device);
  harness::Timer timer(device, options.seed);
  report.note(std::string(device.properties().name) + ", driver " + device.driver());
  const harness::Pool pool = harness::make_pool(timer.stream(), options.seed);
  report.note("weights filled");
  report.write_provenance();  // again at the end; so that an interrupted run has one
  if (options.only == "ports") harness::run_micro_ports(device, timer, pool, report);
  if (options.only == "turnaround") harness::run_micro_turnaround(device, timer, report);
  if (options.only.empty() || options.only == "micro") harness::run_micro(options, device, timer, pool, report);
  if (options.only.empty() || options.only == "moe") harness::run_moe(options, device, timer, pool, report);
  report.write_provenance();
  report.print_summary();
  return report.refused() > 0 ? 1 : 0;
}
