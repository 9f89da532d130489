#include "workloads/step/decode_step.h"

namespace moesim {
namespace {

constexpr double kStateBytes = 4;  // float32

}  // namespace

std::vector<StepSequences> DecodeStep::local_sequences() const {
  if (mixed.empty()) return {{divide_up(sequences, ep), 1, options.context}};
  std::vector<StepSequences> local = mixed;
  for (StepSequences& alike : local) alike.count = divide_up(alike.count, ep);
  return local;
}

std::int64_t DecodeStep::tokens() const {
  if (mixed.empty()) return divide_up(sequences, ep);
  std::int64_t sum = 0;
  for (const StepSequences& alike : mixed) sum += divide_up(alike.count, ep) * alike.tokens;
  return sum;
}

std::int64_t DecodeStep::sampled() const {
  if (mixed.empty()) return divide_up(sequences, ep);
  std::int64_t sum = 0;
  for (const StepSequences& alike : mixed) sum += divide_up(alike.count, ep);
  return sum;
}

WeightMatrix local_matrix(WeightMatrix matrix, std::int64_t tp) {
  std::int64_t* divided = nullptr;
  if (matrix.split == Split::kRows) divided = matrix.count > 1 ? &matrix.count : &matrix.n;
  if (matrix.split == Split::kColumns) divided = &matrix.k;
  if (divided != nullptr) *divided = divide_up(*divided, tp);
  return matrix;
}

Bytes bytes_of(const WeightMatrix& matrix) { return matrix_bytes(matrix.format, matrix.n, matrix.k) * matrix.count; }

std::vector<WeightMatrix> dense_matrices(const MoeModel& model, const DecoderLayer& layer, std::int64_t tp) {
  const std::int64_t width = divide_up(layer.dense_intermediate, tp);
  return {{"dense_up", model.dense_gated ? 2 * width : width, model.hidden, 1, Split::kRows, model.dense_weights},
          {"dense_down", model.hidden, width, 1, Split::kColumns, model.dense_weights}};
}

WeightMatrix head_matrix(const MoeModel& model, std::int64_t tp) {
  return {"lm_head", divide_up(model.vocabulary, tp), model.hidden, 1, Split::kRows, model.head_weights};
}

LocalCache local_cache(const Mixer& mixer, std::int64_t context, std::int64_t tp) {
  LocalCache local;
  local.heads = divide_up(mixer.cache_heads, tp);
  const auto per_head = [&](std::int64_t values) {
    return static_cast<double>(values) / static_cast<double>(mixer.cache_heads);
  };
  local.head_values = per_head(mixer.cached_values - mixer.indexed_values);
  local.indexed_values = static_cast<double>(local.heads) * per_head(mixer.indexed_values);
  local.attended = mixer.window > 0 ? std::min(mixer.window, context) : context;
  local.stored = mixer.indexed_values > 0 ? context : local.attended;
  local.state_heads = mixer.state_values > 0 ? divide_up(mixer.state_heads, tp) : 0;
  local.state_bytes = kStateBytes * static_cast<double>(mixer.state_values) / static_cast<double>(mixer.state_heads);
  return local;
}

}  // namespace moesim
