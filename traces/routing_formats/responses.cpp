// What serving engines answer: vLLM (--enable-return-routed-experts) and SGLang (--enable-return-routed-experts).
//
// The prompt is the first step; then the t-th generated token of all sequences makes a step: sequences of one response run
// side by side. The last generated token had no forward pass; some clients fill its rows with zeros, which are left out.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/io/input_error.h"
#include "traces/routing_formats/catalogue.h"
#include "traces/routing_formats/encoded_ids.h"
#include "traces/routing_formats/limits.h"

namespace moesim {
namespace {

struct Sequence {
  EncodedIds ids;
  std::int64_t begin = 0, prompt_end = 0, end = 0;  // tokens
};

void add_sequences(TraceBuilder& builder, const std::vector<Sequence>& sequences, Padding padding) {
  std::int64_t longest = 0;
  bool prompt = false;
  for (const Sequence& sequence : sequences) {
    longest = std::max(longest, sequence.end - sequence.prompt_end);
    prompt = prompt || sequence.prompt_end > sequence.begin;
  }
  if (prompt) builder.begin_step(0);
  for (const Sequence& sequence : sequences) {
    add_tokens(builder, sequence.ids, sequence.begin, sequence.prompt_end, padding);
  }
  for (std::int64_t t = 0; t < longest; ++t) {
    builder.begin_step(1 + t);
    for (const Sequence& sequence : sequences) {
      const std::int64_t token = sequence.prompt_end + t;
      if (token < sequence.end) add_tokens(builder, sequence.ids, token, token + 1, padding);
    }
  }
}

// Rows of zeros at the end; no router picks expert 0 twice.
std::int64_t zero_rows(const EncodedIds& ids) {
  std::int64_t rows = 0;
  if (ids.topk() < 2) return rows;
  const auto zero = [&](std::int64_t token) {
    for (std::int64_t layer = 0; layer < ids.layers(); ++layer) {
      const auto row = ids.row(token, layer);
      if (std::any_of(row.begin(), row.end(), [](std::int64_t id) { return id != 0; })) return false;
    }
    return true;
  };
  while (rows < ids.tokens() && zero(ids.tokens() - 1 - rows)) ++rows;
  return rows;
}

std::vector<JsonView> elements(const JsonView& view) {
  if (!view.is_array()) return {view};
  std::vector<JsonView> views;
  for (std::size_t i = 0; i < view.size(); ++i) views.push_back(view.at(i));
  return views;
}

}  // namespace

bool is_vllm(const RoutingFile& file) { return file.has_key("prompt_routed_experts") || file.has_key("choices"); }

RoutedTrace read_vllm(const RoutingFile& file) {
  TraceBuilder builder(file);
  std::vector<Sequence> sequences;
  std::int64_t padded = 0;
  for (const JsonView& response : elements(file.only())) {
    if (response.has("model")) builder.set_model(response.at("model").as_string());
    if (response.has("prompt_routed_experts")) {
      EncodedIds ids = decode_ids(response.at("prompt_routed_experts"));
      const std::int64_t tokens = ids.tokens();
      sequences.push_back({.ids = std::move(ids), .begin = 0, .prompt_end = tokens, .end = tokens});
    }
    for (const JsonView& choice : elements(response.at("choices"))) {
      if (!choice.has("routed_experts")) continue;
      EncodedIds ids = decode_ids(choice.at("routed_experts"));
      const std::int64_t zeros = zero_rows(ids);
      padded += zeros;
      const std::int64_t end = ids.tokens() - zeros;
      sequences.push_back({.ids = std::move(ids), .begin = 0, .prompt_end = 0, .end = end});
    }
  }
  add_sequences(builder, sequences, Padding::kNone);
  if (padded > 0) builder.note(fmt::format("tokens of zeros at the end of answers (padding), left out: {}", padded));
  return builder.finish();
}

bool is_sglang(const RoutingFile& file) { return file.has_key("meta_info"); }

// Base64 of int32 [tokens, layers, k], flat: the layers (those without experts too, where ids are -1) and k are the
// model's. `prompt_tokens` divides prompt from answer.
RoutedTrace read_sglang(const RoutingFile& file) {
  TraceBuilder builder(file);
  if (!file.hints().layers) {
    file.fail("", "nothing that says how many layers the model has",
              "--model, --layers or a sidecar " + trace_sidecar_path(file.path()));
  }
  const std::int64_t topk = builder.topk();
  std::vector<Sequence> sequences;
  for (const JsonView& response : elements(file.only())) {
    const JsonView meta = response.at("meta_info");
    EncodedIds ids = decode_flat_ids(meta.at("routed_experts"), *file.hints().layers, topk);
    const std::int64_t tokens = ids.tokens();
    const std::int64_t prompt = meta.has("prompt_tokens") ? meta.at("prompt_tokens").as_int(0, kMostPicks) : tokens;
    sequences.push_back({.ids = std::move(ids), .begin = 0, .prompt_end = std::min(prompt, tokens), .end = tokens});
  }
  add_sequences(builder, sequences, Padding::kMinusOne);
  return builder.finish();
}

}  // namespace moesim
