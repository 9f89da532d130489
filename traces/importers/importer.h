// Importers: other projects' measurements of MoE layers as rows of schema moesim.measurement/2 and routed traces.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "hwmodels/hardware_model.h"
#include "traces/measurement.h"
#include "traces/tile_configs.h"
#include "workloads/moe_model.h"
#include "workloads/router.h"

namespace moesim {

// The most that a table may state; beyond it a number is a slip or damage.
inline constexpr std::int64_t kMaxWidth = 10'000'000;
inline constexpr std::int64_t kMaxExperts = 65'536;
inline constexpr std::int64_t kMaxTokens = 10'000'000;
inline constexpr double kMaxMicroseconds = 1e12;

// What an importer makes of a file.
struct ImportedRows {
  std::vector<MoeMeasurement> rows;                        // routed_trace is a key of `traces`
  std::map<std::string, std::vector<RoutedBatch>> traces;  // by path below the output folder
  std::map<std::string, std::int64_t> skipped;             // measured times left out, by reason
  std::int64_t warm = 0;                                   // rows whose weights fit the last-level cache
};

// What is imported.
struct ImportSource {
  std::string path;
  const HardwareModel& hardware;
  TileConfigs tile_configs;  // of the stacks that look into such files
};

// Collects rows and what they share.
class ImportBuilder {
 public:
  explicit ImportBuilder(const ImportSource& source);

  // The trace that `routing` draws for these sizes; drawn once.
  std::string drawn_trace(const Routing& routing, std::int64_t experts, std::int64_t topk, std::int64_t tokens);
  std::string trace(const std::string& name, std::vector<RoutedBatch> batches);
  void skip(const std::string& reason, std::int64_t times = 1) {
    if (times > 0) result_.skipped[reason] += times;
  }
  // Completes a row whose model, shard, formats, routed_trace, implementation and time are set: device, strategy and
  // launch by its stack profile, tuned tiles, mean active experts, source; a row that comes as warm (its weights were
  // read over and over) stays so when they fit the cache.
  void add(MoeMeasurement row, const std::string& where);
  [[nodiscard]] ImportedRows take() { return std::move(result_); }

 private:
  // Name of the model that comes with moesim and has these sizes; else one made of them.
  [[nodiscard]] std::string name_of(const MoeMeasurement& row) const;

  const ImportSource& source_;
  std::string file_;  // without folders
  std::vector<MoeModel> models_;
  ImportedRows result_;
};

struct Importer {
  const char* name;  // of --format
  const char* summary;
  // Throws InputError.
  ImportedRows (*read)(const ImportSource& source);
};

std::span<const Importer> importers();

ImportedRows import_aiconfigurator(const ImportSource& source);
ImportedRows import_aiter(const ImportSource& source);
ImportedRows import_infersim(const ImportSource& source);
ImportedRows import_llmservingsim(const ImportSource& source);

}  // namespace moesim
