#include "tools/serving_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/io/input_error.h"
#include "sim/units/parse_quantity.h"
#include "tools/command_line.h"
#include "traces/arrival_trace.h"

namespace moesim {
namespace {

constexpr double kMostSeconds = 1e6;  // 11 days
constexpr double kMostRate = 1e6;     // requests a second
constexpr std::int64_t kMostTokens = 1'000'000;
constexpr std::int64_t kMostSessions = 1'000'000;
constexpr std::int64_t kMostContext = 100'000'000;
constexpr std::int64_t kMostSamples = 1000;
constexpr std::int64_t kMostDigits = 20;
constexpr std::int64_t kDefaultContext = 8192;            // of streams: start and limit
constexpr std::int64_t kDefaultRequestContext = 131'072;  // limit
constexpr std::int64_t kDefaultRequestChunk = 64;         // bucket
constexpr const char* kDefaultHorizon = "30s";
constexpr const char* kDefaultWarmUp = "5s";

Duration parse_time(const std::string& flag, const std::string& text, bool zero = false) {
  const double seconds = parse_quantity(text, Dimension::kTime, flag, "");
  if (seconds > kMostSeconds || (seconds == 0 && !zero)) {
    throw InputError({flag, "", fmt::format("'{}'", text),
                      fmt::format("a time of at most {} s{}", kMostSeconds, zero ? "" : ", above 0"), ""});
  }
  return duration_from_seconds(seconds);
}

// "1%" or "0.01".
double parse_share(const std::string& flag, const std::string& text) {
  if (!text.ends_with('%')) return parse_number(flag, text, 0, 1);
  constexpr double kPercent = 100;
  return parse_number(flag, text.substr(0, text.size() - 1), 0, kPercent) / kPercent;
}

struct Given {
  const char* flag;
  bool given;
};

// Flags of another workload.
void refuse(const std::string& workload, std::initializer_list<Given> flags, const char* expected) {
  for (const Given& flag : flags) {
    if (flag.given) throw InputError({flag.flag, "", workload, expected, ""});
  }
}

std::vector<double> numbers(const std::vector<std::int64_t>& whole) { return {whole.begin(), whole.end()}; }

std::vector<double> parse_rates(const std::string& text) {
  constexpr double kLeastRate = 1e-6;
  std::vector<double> rates;
  for (const std::string& piece : split_list("--rate", text)) {
    rates.push_back(parse_number("--rate", piece, kLeastRate, kMostRate));
  }
  std::sort(rates.begin(), rates.end());
  rates.erase(std::unique(rates.begin(), rates.end()), rates.end());
  return rates;
}

void read_streams(const ServingFlags& flags, ServingSetup& setup) {
  refuse("--workload streams",
         {{"--rate", flags.rate.has_value()},
          {"--prompt", flags.prompt.has_value()},
          {"--output", flags.output.has_value()},
          {"--arrivals", flags.arrivals.has_value()}},
         "--workload requests");
  StreamShape& stream = setup.stream;
  if (flags.period) stream.period = parse_time("--period", *flags.period);
  if (flags.tokens_in) stream.tokens_in = parse_length_law(*flags.tokens_in, "--tokens-in");
  if (flags.tokens_out) stream.tokens_out = parse_length_law(*flags.tokens_out, "--tokens-out", 0);
  if (flags.jitter) stream.jitter = parse_time("--jitter", *flags.jitter, true);
  if (flags.holding) {
    setup.kind = ServingKind::kOpenStreams;
    setup.holding = parse_time("--holding", *flags.holding);
  }
  if (flags.context_limit) {
    setup.context_limit = parse_whole("--context-limit", *flags.context_limit, 1, kMostContext);
  } else {
    setup.context_limit = kDefaultContext;
  }
  // Sessions for ever are at the limit; those that come begin.
  stream.context = setup.kind == ServingKind::kClosedStreams ? setup.context_limit : 0;
  if (flags.context) stream.context = parse_whole("--context", *flags.context, 0, setup.context_limit);
  if (flags.sessions) setup.loads = numbers(parse_concurrencies(*flags.sessions, "--sessions"));
  if (!flags.deadline) setup.goals.latency = stream.period;
}

void read_requests(const ServingFlags& flags, ServingSetup& setup) {
  refuse("--workload requests",
         {{"--sessions", flags.sessions.has_value()},
          {"--holding", flags.holding.has_value()},
          {"--period", flags.period.has_value()},
          {"--tokens-in", flags.tokens_in.has_value()},
          {"--tokens-out", flags.tokens_out.has_value()},
          {"--jitter", flags.jitter.has_value()},
          {"--context", flags.context.has_value()}},
         "--workload streams");
  setup.context_limit = kDefaultRequestContext;
  if (flags.context_limit) {
    setup.context_limit = parse_whole("--context-limit", *flags.context_limit, 1, kMostContext);
  }
  setup.rounding.chunk = kDefaultRequestChunk;
  if (flags.arrivals) {
    refuse("--arrivals FILE",
           {{"--rate", flags.rate.has_value()},
            {"--prompt", flags.prompt.has_value()},
            {"--output", flags.output.has_value()}},
           "what the file says");
    setup.kind = ServingKind::kTrace;
    setup.trace_file = *flags.arrivals;
    setup.loads = {1};
    return;
  }
  setup.kind = ServingKind::kRequests;
  setup.prompt = parse_length_law(flags.prompt.value_or("512"), "--prompt");
  setup.output = parse_length_law(flags.output.value_or("128"), "--output");
  if (flags.rate) setup.loads = parse_rates(*flags.rate);
  if (setup.loads.empty() && !flags.deadline && !flags.max_ttft && !flags.max_tpot) {
    throw InputError({"--rate", "", "no rate, and no goal to search the highest rate for",
                      "--rate LIST, or --max-ttft, --max-tpot or --deadline", ""});
  }
}

// The turns before the horizon; without one all, and the horizon is behind the last.
void read_arrivals_file(const ServingFlags& flags, ServingRequest& request) {
  ServingSetup& setup = request.setup;
  request.trace = read_arrivals(setup.trace_file);
  if (!flags.horizon) {
    for (const Session& session : request.trace) {
      setup.horizon = std::max(setup.horizon, session.turns.back().arrival - TimePoint() + Duration(1));
    }
    return;
  }
  const TimePoint end(setup.horizon.value());
  for (Session& session : request.trace) {
    std::erase_if(session.turns, [&](const Turn& turn) { return turn.arrival >= end; });
  }
  std::erase_if(request.trace, [](const Session& session) { return session.turns.empty(); });
  if (request.trace.empty()) {
    throw InputError({"--horizon", "", fmt::format("'{}'", *flags.horizon),
                      fmt::format("a time behind the first arrival of {}", setup.trace_file), ""});
  }
}

void read_server(const ServingFlags& flags, ServingSetup& setup) {
  setup.batch.tokens = parse_whole("--budget", flags.budget, 1, kMostTokens);
  setup.batch.sequences = parse_whole("--max-batch", flags.max_batch, 1, kMostTokens);
  if (flags.max_sessions) setup.most_sessions = parse_whole("--max-sessions", *flags.max_sessions, 1, kMostSessions);
  setup.memory_share = parse_share("--memory-share", flags.memory_share);
  setup.host = parse_time("--host-time", flags.host_time, true);
  if (flags.context_bucket == "exact") {
    setup.rounding = {.context = std::nullopt};
    if (flags.chunk_bucket) {
      throw InputError({"--chunk-bucket", "", "--context-bucket exact", "no bucket beside it", ""});
    }
  } else {
    setup.rounding.context = parse_whole("--context-bucket", flags.context_bucket, 1, kMostContext);
    setup.rounding.count_digits = static_cast<int>(parse_whole("--count-digits", flags.count_digits, 1, kMostDigits));
    if (flags.chunk_bucket) setup.rounding.chunk = parse_whole("--chunk-bucket", *flags.chunk_bucket, 1, kMostTokens);
  }
}

void read_goals(const ServingFlags& flags, ServingGoals& goals) {
  if (flags.deadline) goals.latency = parse_time("--deadline", *flags.deadline);
  if (flags.max_ttft) goals.first_token = parse_time("--max-ttft", *flags.max_ttft);
  if (flags.max_tpot) goals.per_token = parse_time("--max-tpot", *flags.max_tpot);
  goals.most_missed = parse_share("--misses", flags.misses);
}

void read_span(const ServingFlags& flags, ServingSetup& setup) {
  const bool trace = setup.kind == ServingKind::kTrace;
  if (flags.horizon || !trace) setup.horizon = parse_time("--horizon", flags.horizon.value_or(kDefaultHorizon));
  setup.warm_up = parse_time("--warm-up", flags.warm_up.value_or(trace ? "0s" : kDefaultWarmUp), true);
}

void check_span(const ServingSetup& setup) {
  if (setup.warm_up < setup.horizon) return;
  throw InputError(
      {"--warm-up", "", format_quantity(to_seconds(setup.warm_up), Dimension::kTime),
       fmt::format("less than the horizon, {}", format_quantity(to_seconds(setup.horizon), Dimension::kTime)), ""});
}

// Tokens of a request are those of its chunk; stickiness holds between them.
ConcurrencyRequest engine_request(const ServingFlags& flags) {
  RequestFlags engine = flags.engine;
  engine.scope = "step";
  engine.samples = fmt::format("{}", parse_whole("--samples", flags.samples, 1, kMostSamples));
  if (engine.strategies.empty()) engine.strategies = {"grouped_gemm,stream_gemv,auto"};
  RoutingFlags& routing = engine.routing;
  if (routing.tokens_per_request != "1") {
    throw InputError(
        {"--tokens-per-request", "", routing.tokens_per_request, "none: a request's tokens are its chunk's", ""});
  }
  if (routing.routing && routing.routing->starts_with("trace")) {
    throw InputError(
        {"--routing", "", *routing.routing, "a law: steps differ in tokens, which a trace cannot follow", ""});
  }
  const bool sticky = routing.sticky != "0" || routing.sticky_prefill;
  if (sticky && routing.match) {
    throw InputError(
        {"--match", "", "with --sticky", "one of the two: a match is of tokens of different requests", ""});
  }
  if (sticky) routing.tokens_per_request = "2";  // of at least: how many, the steps say
  ConcurrencyRequest request = request_of(engine);
  request.routing_options.tokens_per_request = 1;
  return request;
}

}  // namespace

void ServingFlags::add(FlagSet& set) {
  engine.add_of_steps(set);
  set.value("--workload", "streams|requests", workload,
            "Sessions that send a chunk every period, or requests that come one by one");
  set.value("--sessions", "LIST", sessions,
            "Streams: how many, as in 8,16,32; with --holding in the mean [default: the most that miss few enough]");
  set.value("--period", "TIME", period, "Streams: from chunk to chunk [default: 200 ms]");
  set.value("--tokens-in", "LAW", tokens_in, "Streams: tokens of a chunk [default: 16]");
  set.value("--tokens-out", "LAW", tokens_out, "Streams: tokens answered to a chunk, 0 or more [default: 4]");
  set.value("--jitter", "TIME", jitter, "Streams: a chunk comes up to so much late, uniformly [default: 0]");
  set.value("--holding", "TIME", holding,
            "Streams come by a Poisson process and stay an exponential time of this mean [default: all stay for ever]");
  set.value("--context", "N", context,
            "Streams: tokens that a session comes with [default: the limit, or 0 with --holding]");
  set.value("--rate", "LIST", rate,
            "Requests a second, a Poisson process [default: the highest that misses few enough]");
  set.value("--prompt", "LAW", prompt,
            "Requests: tokens in: N, uniform:A..B, lognormal:MEDIAN,SIGMA or exponential:MEAN [default: 512]");
  set.value("--output", "LAW", output, "Requests: tokens out, likewise [default: 128]");
  set.value("--arrivals", "FILE", arrivals,
            "Requests as recorded, JSON Lines or CSV of arrival_s, prompt_tokens, output_tokens, session");
  set.value("--deadline", "TIME", deadline, "Goal: from arrival to the last token [default: the period of streams]");
  set.value("--max-ttft", "TIME", max_ttft, "Goal: from arrival to the first token [default: none]");
  set.value("--max-tpot", "TIME", max_tpot, "Goal: mean time between the tokens of an answer [default: none]");
  set.value("--misses", "SHARE", misses, "Share of chunks or requests that may miss a goal");
  set.value("--horizon", "TIME", horizon,
            fmt::format("Arrivals until then [default: {}, of a file all]", kDefaultHorizon));
  set.value("--warm-up", "TIME", warm_up,
            fmt::format("What arrives before is not counted [default: {}, of a file 0s]", kDefaultWarmUp));
  set.value("--budget", "N", budget, "Tokens of a step at most: decodes first, then chunks of prompts");
  set.value("--max-batch", "N", max_batch, "Sequences of a step at most");
  set.value("--max-sessions", "N", max_sessions, "Sessions admitted at a time [default: as many as memory holds]");
  set.value("--context-limit", "N", context_limit,
            fmt::format("Tokens of a session's context, older ones are dropped; its memory is reserved at admission "
                        "[default: {}, of requests {}]",
                        kDefaultContext, kDefaultRequestContext));
  set.value("--memory-share", "SHARE", memory_share, "Of the device's memory, for weights and caches");
  set.value("--host-time", "TIME", host_time, "Of each step, beside the device's");
  set.value("--context-bucket", "N|exact", context_bucket,
            "Contexts of a step: levelled to their mean, rounded up to a multiple of N, so that steps come again");
  set.value(
      "--chunk-bucket", "N", chunk_bucket,
      fmt::format("The same of the tokens of a step's prompts [default: 1, of requests {}]", kDefaultRequestChunk));
  set.value("--count-digits", "N", count_digits,
            "The same of a step's sequences: rounded up to N binary digits, with 4 as 17 to 18, 100 to 104");
  set.value("--samples", "N", samples, "Routings drawn for each composition of a step");
}

ServingRequest serving_request_of(const ServingFlags& flags) {
  ServingRequest request;
  ServingSetup& setup = request.setup;
  const std::vector<std::string> workloads = {"streams", "requests"};
  if (flags.workload == "streams") {
    read_streams(flags, setup);
  } else if (flags.workload == "requests") {
    read_requests(flags, setup);
  } else {
    throw InputError({"--workload", "", fmt::format("'{}'", flags.workload), "streams or requests",
                      nearest_name(flags.workload, workloads)});
  }
  read_goals(flags, setup.goals);
  read_server(flags, setup);
  read_span(flags, setup);
  if (setup.kind == ServingKind::kTrace) read_arrivals_file(flags, request);
  check_span(setup);
  request.engine = engine_request(flags);
  request.engine.step.context = setup.context_limit;
  return request;
}

}  // namespace moesim
