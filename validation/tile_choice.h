// What choosing a kernel's tile by simulation costs, against the best of many that were measured.
//
// Cells: one layer (model, shard, weights, tokens, trace) and stage under at least kFewestTiles tiles of one
// implementation. Each tile is simulated as a search does before anything is compiled: at the boost clock, registers and
// on-chip bytes by the strategy's rules and not as launched.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hwmodels/calibration.h"
#include "hwmodels/hardware_model.h"
#include "traces/measurement.h"

namespace moesim {

inline constexpr std::size_t kFewestTiles = 8;

struct TileCell {
  std::string model, weights, stage, implementation;
  std::int64_t tp = 1, ep = 1, tokens = 0;
  std::size_t tiles = 0;                // measured
  std::size_t refused = 0;              // of these, that a search would not take: infeasible by its rules
  std::string best, predicted, chosen;  // tiles: measured best, predicted best, and what is chosen (min_gain)
  double best_us = 0, predicted_us = 0, chosen_us = 0;  // as measured
  std::map<std::string, double> defaults_us;            // by stack, where its default tile was measured
  double median_abs_error_pct = 0;                      // over the tiles
  [[nodiscard]] double regret_pct(double us) const { return (us / best_us - 1) * 100; }
};

struct TileChoice {
  std::vector<TileCell> cells;           // in order of first appearance
  std::size_t rows = 0, other_rows = 0;  // in cells; not
};

struct TileChoiceOptions {
  const Calibration* calibration = nullptr;
  // Share of the default's time that a tile has to save to be chosen; the default is that of the first stack whose tile was
  // measured.
  double min_gain = 0;
  std::function<void(std::size_t, std::size_t)> progress;
};

// `hardware` is used for every row whatever its device.
TileChoice evaluate_tile_choice(const std::vector<MoeMeasurement>& rows, const HardwareModel& hardware,
                                const TileChoiceOptions& options);

}  // namespace moesim
