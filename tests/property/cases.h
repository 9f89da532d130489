// What the property tests run: layers of several models, shards, formats and routings, drawn by a seed.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/testkit/kernels.h"
#include "tests/testkit/models.h"
#include "workloads/moe_layer.h"
#include "workloads/predict.h"

namespace moesim::property {

// Sanitizers make the tests about ten times slower: fewer draws, but every strategy on every device all the same.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr int kThinning = 8;
#else
inline constexpr int kThinning = 1;
#endif

// By name; "tiny", "tiny-latent" and "tiny-zero" are of testkit. Read once.
const MoeModel& model_of(const std::string& name);

struct Case {
  std::string model, routing, format, activations;
  std::int64_t tokens = 1, tp = 1, ep = 1;
  std::uint64_t seed = 1;
  Scope scope = Scope::kMoeLayer;
  LaunchMode launch = LaunchMode::kGraph;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] RoutedBatch batch() const;
  [[nodiscard]] MoeLayer layer() const;
  [[nodiscard]] MoeLayer layer_of(const RoutedBatch& batch) const;
  [[nodiscard]] PredictOptions options() const;
};

Case random_case(testkit::Random& random);

const StrategyChoice& strategy_choice(const std::string& text);
// Nothing when the strategy cannot run there.
std::optional<Prediction> feasible(const MoeLayer& layer, const HardwareModel& hardware, const std::string& strategy,
                                   const PredictOptions& options);
// Read once.
const HardwareModel& device(const std::string& name);

struct Pair {
  std::string strategy, device;
};
inline void PrintTo(const Pair& pair, std::ostream* out) { *out << pair.strategy << " on " << pair.device; }
// Every strategy on every device file with its kind of grid.
std::vector<Pair> all_pairs();
std::string pair_name(const Pair& pair);  // fit for a test's name

}  // namespace moesim::property
