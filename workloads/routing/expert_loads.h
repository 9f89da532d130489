// How a batch's rows spread over the experts, in the numbers that decide a layer's time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "workloads/routed_batch.h"

namespace moesim {

enum class Load {
  kDistinct,          // experts with rows
  kDuplicatePercent,  // picks whose expert another pick loads anyway
  kRowsPerActive,     // picks / distinct
  kMaxRows,
  kMaxOverMean,  // the mean over all experts, idle ones too
  kGini,         // of rows over all experts: 0 even, near 1 all on one
  kEffective,    // exp(entropy of the rows' shares): so many equally loaded experts would be as spread
  kTiles16,      // row tiles of 16: sum of rows / 16 rounded up
  kTiles64,
  kTiles128,
};
inline constexpr std::size_t kLoadCount = static_cast<std::size_t>(Load::kTiles128) + 1;

struct LoadName {
  const char* key;      // JSON, CSV
  const char* heading;  // table
};
const LoadName& load_name(std::size_t load);

using Loads = std::array<double, kLoadCount>;

// Experts by rows: 0, 1, 2, 3 to 4, 5 to 8, ... 257 and more.
inline constexpr std::size_t kHistogramBins = 11;
std::array<const char*, kHistogramBins> histogram_names();

// Measures one batch after the other in time that grows with its picks, not with the number of experts.
class LoadMeter {
 public:
  explicit LoadMeter(std::int64_t experts);

  const Loads& measure(const RoutedBatch& batch);
  // Of the batch measured last.
  [[nodiscard]] const std::array<std::int64_t, kHistogramBins>& histogram() const { return histogram_; }

 private:
  void count_rows(const RoutedBatch& batch);

  std::int64_t experts_;
  std::vector<std::int64_t> rows_;  // all 0 between calls
  std::vector<std::int32_t> active_;
  std::vector<std::int64_t> experts_with_;  // [rows]
  Loads loads_{};
  std::array<std::int64_t, kHistogramBins> histogram_{};
};

}  // namespace moesim
