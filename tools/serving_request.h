// What `serve-sim` simulates: its flags, and the request that they make.
#pragma once

#include <optional>
#include <string>

#include "tools/run_request.h"
#include "workloads/studies/serving.h"

namespace moesim {

struct ServingFlags {
  RequestFlags engine;
  std::string workload = "streams";
  std::optional<std::string> sessions, holding, period, tokens_in, tokens_out, jitter, context;
  std::optional<std::string> rate, prompt, output, arrivals;
  std::optional<std::string> deadline, max_ttft, max_tpot;
  std::string misses = "1%";
  std::optional<std::string> horizon, warm_up;
  std::string budget = "2048", max_batch = "256";
  std::optional<std::string> max_sessions, context_limit, chunk_bucket;
  std::string memory_share = "0.9", host_time = "0us";
  std::string context_bucket = "1024", count_digits = "4", samples = "1";

  void add(FlagSet& set);
};

// Reads the files that the flags name. Throws InputError.
ServingRequest serving_request_of(const ServingFlags& flags);

}  // namespace moesim
