// Importers: other projects' measurements of MoE layers as rows of schema moesim.measurement/2 and routed traces.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "hwmodels/hardware_model.h"
#include "traces/measurement.h"
#include "workloads/moe_model.h"
#include "workloads/router.h"

namespace moesim {

// What an importer makes of a file.
struct ImportedRows {
  std::vector<MoeMeasurement> rows;                        // routed_trace is a key of `traces`
  std::map<std::string, std::vector<RoutedBatch>> traces;  // by path below the output folder
  std::map<std::string, std::int64_t> skipped;             // measured times left out, by reason
  std::int64_t warm = 0;                                   // rows whose weights fit the last-level cache
};

// Collects rows and what they share.
class ImportBuilder {
 public:
  ImportBuilder(const std::string& path, const HardwareModel& hardware);

  // The trace that `routing` draws for these sizes; drawn once.
  std::string drawn_trace(const Routing& routing, std::int64_t experts, std::int64_t topk, std::int64_t tokens);
  std::string trace(const std::string& name, std::vector<RoutedBatch> batches);
  void skip(const std::string& reason, std::int64_t times = 1) {
    if (times > 0) result_.skipped[reason] += times;
  }
  // Completes a row whose model, shard, formats, routed_trace, implementation and time are set: device, strategy and
  // launch by its stack profile, mean active experts, warm, source.
  void add(MoeMeasurement row, const std::string& where);
  [[nodiscard]] const HardwareModel& hardware() const { return hardware_; }
  [[nodiscard]] ImportedRows take() { return std::move(result_); }

 private:
  // Name of the model that comes with moesim and has these sizes; else one made of them.
  [[nodiscard]] std::string name_of(const MoeMeasurement& row) const;

  std::string file_;  // without folders
  const HardwareModel& hardware_;
  std::vector<MoeModel> models_;
  ImportedRows result_;
};

struct Importer {
  const char* name;  // of --format
  const char* summary;
  // Throws InputError.
  ImportedRows (*read)(const std::string& path, const HardwareModel& hardware);
};

std::span<const Importer> importers();

ImportedRows import_aiconfigurator(const std::string& path, const HardwareModel& hardware);
ImportedRows import_aiter(const std::string& path, const HardwareModel& hardware);
ImportedRows import_infersim(const std::string& path, const HardwareModel& hardware);
ImportedRows import_llmservingsim(const std::string& path, const HardwareModel& hardware);

}  // namespace moesim
