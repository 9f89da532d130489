// Writes a routed trace batch by batch: .npy int16 (int32 beyond 32,767 experts) [steps, layers, tokens, k], and beside
// it FILE.json, which says where it comes from.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "workloads/routed_batch.h"

namespace moesim {

struct RoutedTraceShape {
  std::int64_t steps = 0, layers = 0, tokens = 0, topk = 0;
  std::int64_t experts = 0;
};

// What the sidecar says, schema "moesim.routing/1".
struct RoutedTraceSource {
  std::string model;    // "": none
  std::string source;   // who made it, "moesim 0.1.0 route"
  std::string routing;  // the law with its options
  std::uint64_t seed = 0;
};

// The files appear when the last batch is in, whole; until then they are FILE.part, which goes away with the writer.
class RoutedTraceWriter {
 public:
  // Throws InputError that names `flag` where the path does not end in .npy or cannot be written.
  RoutedTraceWriter(std::string path, const RoutedTraceShape& shape, const std::string& flag);
  ~RoutedTraceWriter();
  RoutedTraceWriter(const RoutedTraceWriter&) = delete;
  RoutedTraceWriter& operator=(const RoutedTraceWriter&) = delete;

  void add(const RoutedBatch& batch);
  // After steps x layers batches.
  void finish(const RoutedTraceSource& source);

 private:
  [[noreturn]] void cannot_write() const;

  std::string path_, part_, flag_;
  RoutedTraceShape shape_;
  std::ofstream file_;
  std::string bytes_;  // of one batch
  std::int64_t batches_ = 0;
};

}  // namespace moesim
