// The server against queueing theory: Little's law, the utilisation law, M/D/1 and M/M/1 (one request at a time).
//
// Tolerances: four standard errors of a mean of n waiting times, which are about exponential and stay alike for
// (1 + r) / (1 - r)^2 requests at utilisation r.
#include <gtest/gtest.h>

#include <cmath>

#include "workloads/routing/random_stream.h"
#include "workloads/sessions/server.h"

namespace moesim {
namespace {

constexpr double kService = 0.010;  // seconds
constexpr double kRequests = 20'000;

struct Queue {
  ServerRun run;
  double wait = 0;  // mean, seconds, before the first step
  double share_busy = 0;
  double count = 0;
};

// Poisson arrivals of requests of one step each, one at a time.
Queue simulate_queue(double utilisation, const StepTimer& timer) {
  const double rate = utilisation / kService;
  const LengthLaw one{LengthLaw::Kind::kFixed, 1, 0};
  ServerLimits limits;
  limits.batch.sequences = 1;
  limits.session_bytes = [](std::int64_t) { return Bytes(0); };
  const TimePoint horizon(duration_from_seconds(kRequests / rate).value());
  Queue queue;
  queue.run = run_server(open_requests(rate, one, one, horizon, 11), limits, timer);
  double busy = 0;
  for (const TurnRecord& turn : queue.run.turns) queue.wait += to_seconds(*turn.start - turn.arrival);
  for (const StepRecord& step : queue.run.steps) busy += to_seconds(step.time);
  queue.count = static_cast<double>(queue.run.turns.size());
  queue.wait /= queue.count;
  queue.share_busy = busy / to_seconds(queue.run.steps.back().start - TimePoint());
  return queue;
}

double tolerance(double wait, double r, double n) {
  return 4 * wait * std::sqrt(2 * (1 + r) / ((1 - r) * (1 - r)) / n);
}

std::variant<StepTime, Infeasible> fixed(std::size_t, const std::vector<StepSequences>&) {
  return StepTime{duration_from_seconds(kService), 0};
}

class Queueing : public testing::TestWithParam<double> {};

// Mean wait = r D / (2 (1 - r)).
TEST_P(Queueing, OfDeterministicServiceIsMD1) {
  const double r = GetParam();
  const Queue queue = simulate_queue(r, fixed);
  const double expected = r * kService / (2 * (1 - r));
  EXPECT_NEAR(queue.wait, expected, tolerance(expected, r, queue.count));
}

// Mean wait = r D / (1 - r).
TEST_P(Queueing, OfExponentialServiceIsMM1) {
  const double r = GetParam();
  RandomStream stream = stream_of(3, 0);
  const Queue queue = simulate_queue(r, [&](std::size_t, const std::vector<StepSequences>&) {
    return StepTime{Duration(1) + duration_from_seconds(-kService * std::log(stream.unit())), 0};
  });
  const double expected = r * kService / (1 - r);
  EXPECT_NEAR(queue.wait, expected, tolerance(expected, r, queue.count));
}

// Share of the time that the server is busy = rate x service; the rate of n arrivals is known to 1 / sqrt(n).
TEST_P(Queueing, UtilisationIsRateTimesService) {
  const Queue queue = simulate_queue(GetParam(), fixed);
  EXPECT_NEAR(queue.share_busy, GetParam(), 4 * GetParam() / std::sqrt(queue.count));
}

// Turns in the system = rate x time in the system, exactly over a run that ends empty.
TEST_P(Queueing, LittlesLawIsExact) {
  const Queue queue = simulate_queue(GetParam(), fixed);
  EXPECT_TRUE(queue.run.little_exact);
  double sum = 0;
  for (const TurnRecord& turn : queue.run.turns) sum += to_seconds(*turn.finish - turn.arrival);
  EXPECT_NEAR(queue.run.turns_in_system_seconds, sum, 1e-9 * sum);
}

INSTANTIATE_TEST_SUITE_P(Utilisations, Queueing, testing::Values(0.3, 0.6, 0.8),
                         [](const auto& test) { return std::to_string(static_cast<int>(test.param * 100)); });

}  // namespace
}  // namespace moesim
