#include "workloads/step/step_memory.h"

#include <fmt/format.h>

#include <cmath>

namespace moesim {
namespace {

constexpr WeightFormat kRouterFormat = {Dtype::kBf16, 0};
constexpr std::int64_t kSmallBytes = 2;
constexpr std::int64_t kMostDevices = 1024;  // that a message names
constexpr double kGiga = 1e9;

Bytes rounded(double bytes) { return Bytes(std::llround(bytes)); }

Bytes of_matrices(const std::vector<WeightMatrix>& matrices, std::int64_t tp) {
  Bytes sum;
  for (const WeightMatrix& matrix : matrices) sum += bytes_of(local_matrix(matrix, tp));
  return sum;
}

double cache_bytes(const DecodeStep& step, double values) { return values * payload_bits(step.options.cache) / 8; }

// One expert, or all shared experts of a layer, of this width.
Bytes ffn_bytes(const MoeModel& model, WeightFormat format, std::int64_t hidden, std::int64_t width) {
  if (width == 0) return Bytes(0);
  return matrix_bytes(format, model.gated ? 2 * width : width, hidden) + matrix_bytes(format, hidden, width);
}

void add_mixer(StepMemory& memory, const DecodeStep& step, const Mixer& mixer) {
  memory.attention += of_matrices(mixer.before, step.tp) + of_matrices(mixer.after, step.tp);
  memory.rest += Bytes(mixer.small_parameters * kSmallBytes);
  for (const StepSequences& alike : step.local_sequences()) {
    const LocalCache local = local_cache(mixer, alike.context, step.tp);
    const auto count = static_cast<double>(alike.count);
    memory.cache += rounded(count * cache_bytes(step, static_cast<double>(local.stored) * local.token_values()));
    memory.state += rounded(count * static_cast<double>(local.state_heads) * local.state_bytes);
  }
}

void add_moe(StepMemory& memory, const DecodeStep& step, const DecoderLayer& layer) {
  const MoeModel& model = step.model;
  const std::int64_t hidden = model.latent > 0 ? model.latent : model.hidden;
  const std::int64_t width = divide_up(model.expert_intermediate, step.tp);
  memory.experts += ffn_bytes(model, model.expert_weights, hidden, width) * divide_up(model.experts, step.ep);
  memory.shared += ffn_bytes(model, model.other_weights, model.hidden, divide_up(model.shared_intermediate, step.tp));
  if (model.latent > 0) {
    memory.shared += matrix_bytes(model.other_weights, model.latent, model.hidden) +
                     matrix_bytes(model.other_weights, model.hidden, model.latent);
  }
  if (model.expert_bias) {
    const std::int64_t rows = (model.gated ? 2 * width : width) + hidden;
    memory.rest += Bytes(rows * divide_up(model.experts, step.ep) * kSmallBytes);
  }
  if (!layer.hash_routed) {
    memory.routers += matrix_bytes(kRouterFormat, model.experts + model.zero_experts, model.hidden);
  }
}

std::string gigabytes(Bytes bytes) { return fmt::format("{:.1f} GB", bytes.as_double() / kGiga); }

bool fits(const DecodeStep& step, const HardwareModel& hardware) {
  return memory_of(step).all().as_double() <= hardware[Hw::kHbmCapacity];
}

// The least power of two of tensor-parallel devices that holds the step, else of expert-parallel ones, or nothing.
std::string way_out(const DecodeStep& step, const HardwareModel& hardware) {
  DecodeStep tensor = step, expert = step;
  for (tensor.tp *= 2; tensor.tp <= std::min(kMostDevices, step.model.expert_intermediate); tensor.tp *= 2) {
    if (fits(tensor, hardware)) return fmt::format("; --tp {} would hold it", tensor.tp);
  }
  for (expert.ep *= 2; expert.ep <= std::min(kMostDevices, step.model.experts); expert.ep *= 2) {
    if (fits(expert, hardware)) return fmt::format("; --ep {} would hold it", expert.ep);
  }
  return "";
}

}  // namespace

StepMemory memory_of(const DecodeStep& step) {
  const MoeModel& model = step.model;
  StepMemory memory;
  for (std::int64_t l = 0; l < step.layers(); ++l) {
    const DecoderLayer& layer = model.decoder_layers[static_cast<std::size_t>(l)];
    memory.rest += Bytes(layer.small_parameters * kSmallBytes);
    if (layer.mixer) add_mixer(memory, step, model.mixers[*layer.mixer]);
    if (layer.dense_intermediate > 0) {
      for (const WeightMatrix& matrix : dense_matrices(model, layer, step.tp)) memory.dense += bytes_of(matrix);
    }
    if (layer.moe) add_moe(memory, step, layer);
  }
  memory.head = bytes_of(head_matrix(model, step.tp));
  if (!model.tied_embeddings) memory.rest += memory.head;  // as large
  memory.rest += Bytes(model.small_parameters * kSmallBytes);
  return memory;
}

Bytes bytes_read(const DecodeStep& step) {
  const StepMemory memory = memory_of(step);
  Bytes sum = memory.attention + memory.dense + memory.routers + memory.shared + memory.head + memory.state;
  for (const MoeLayer& layer : step.moe_layers) sum += (layer.up_bytes() + layer.down_bytes()) * layer.active;
  for (std::int64_t l = 0; l < step.layers(); ++l) {
    const DecoderLayer& layer = step.model.decoder_layers[static_cast<std::size_t>(l)];
    if (!layer.mixer) continue;
    for (const StepSequences& alike : step.local_sequences()) {
      const LocalCache local = local_cache(step.model.mixers[*layer.mixer], alike.context, step.tp);
      const double values = static_cast<double>(local.attended * local.heads) * local.head_values +
                            static_cast<double>(local.stored) * local.indexed_values;
      sum += rounded(static_cast<double>(alike.count) * cache_bytes(step, values));
    }
  }
  return sum;
}

std::optional<Infeasible> memory_shortage(const DecodeStep& step, const HardwareModel& hardware) {
  if (fits(step, hardware)) return std::nullopt;
  const StepMemory memory = memory_of(step);
  const double capacity = hardware[Hw::kHbmCapacity];
  return Infeasible{fmt::format("weights {} + KV cache and state {} = {}, {} has {}{}", gigabytes(memory.weights()),
                                gigabytes(memory.cache + memory.state), gigabytes(memory.all()), hardware.name,
                                gigabytes(rounded(capacity)), way_out(step, hardware))};
}

}  // namespace moesim
