// What it models: which experts a batch of independent tokens picks, for given popularities of the experts.
// What it leaves out: correlation between tokens of a batch, between layers and between steps; group-limited routing.
// For those: routing/, or a routed trace.
// Determinism: uniform, balanced, same and disjoint use integers only. zipf, lognormal and dirichlet compare keys made with
// the C library's log, exp and pow, power_law rounds such numbers: an id could differ between two libraries only where two
// keys, or a number and a half, lie within their last bit.
#include "workloads/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "sim/io/input_error.h"
#include "sim/units/check.h"
#include "workloads/routing/popularity.h"
#include "workloads/routing/random_stream.h"

namespace moesim {
namespace {

// Beyond this even the second expert is never picked, and the popularities leave the range of a double.
constexpr double kMostSkew = 10;
// Beyond this dirichlet is uniform.
constexpr double kMostConcentration = 10'000;

struct RoutingForm {
  RoutingKind kind;
  std::string_view name;
  std::string_view argument;  // "" when the routing takes none
  double most = 0;            // of its number
};
constexpr RoutingForm kForms[] = {
    {RoutingKind::kUniform, "uniform", ""},
    {RoutingKind::kZipf, "zipf", "S", kMostSkew},
    {RoutingKind::kLognormal, "lognormal", "SIGMA", kMostSkew},
    {RoutingKind::kDirichlet, "dirichlet", "C", kMostConcentration},
    {RoutingKind::kBalanced, "balanced", ""},
    {RoutingKind::kSame, "same", ""},
    {RoutingKind::kDisjoint, "disjoint", ""},
    {RoutingKind::kPowerLaw, "power_law", "ALPHA", kMostSkew},
    {RoutingKind::kTrace, "trace", "FILE"},
};

std::string usage(const RoutingForm& form) {
  return form.argument.empty() ? std::string(form.name) : fmt::format("{}:{}", form.name, form.argument);
}

[[noreturn]] void fail(const std::string& found, const std::string& expected, const std::string& nearest = "") {
  throw InputError({.file = "--routing", .where = "", .found = found, .expected = expected, .nearest = nearest});
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::vector<std::int32_t> sorted_pack(std::int64_t experts) {
  std::vector<std::int32_t> pack(static_cast<std::size_t>(experts));
  std::iota(pack.begin(), pack.end(), 0);
  return pack;
}

void append_first(RoutedBatch& batch, const std::vector<std::int32_t>& pack) {
  batch.ids.insert(batch.ids.end(), pack.begin(), pack.begin() + batch.topk);
}

void draw_uniform(RoutedBatch& batch, RandomStream& stream) {
  std::vector<std::int32_t> pack = sorted_pack(batch.experts);
  for (std::int64_t token = 0; token < batch.tokens; ++token) {
    stream.deal(pack, static_cast<std::size_t>(batch.topk));
    append_first(batch, pack);
  }
}

void draw_same(RoutedBatch& batch, RandomStream& stream) {
  std::vector<std::int32_t> pack = sorted_pack(batch.experts);
  stream.deal(pack, static_cast<std::size_t>(batch.topk));
  for (std::int64_t token = 0; token < batch.tokens; ++token) append_first(batch, pack);
}

// The k smallest of independent exponential times with rates w: a draw without replacement with probabilities in
// proportion to w (Efraimidis and Spirakis 2006; the same law as Gumbel top-k).
void draw_weighted(RoutedBatch& batch, const std::vector<double>& weights, RandomStream& stream) {
  std::vector<std::pair<double, std::int32_t>> keys(weights.size());
  for (std::int64_t token = 0; token < batch.tokens; ++token) {
    for (std::size_t e = 0; e < weights.size(); ++e) {
      keys[e] = {-std::log(stream.unit()) / weights[e], static_cast<std::int32_t>(e)};
    }
    std::partial_sort(keys.begin(), keys.begin() + batch.topk, keys.end());
    for (std::int64_t slot = 0; slot < batch.topk; ++slot)
      batch.ids.push_back(keys[static_cast<std::size_t>(slot)].second);
  }
}

// Remembers which experts the current row holds.
class Row {
 public:
  explicit Row(std::int64_t experts) : last_token_(static_cast<std::size_t>(experts), -1) {}
  [[nodiscard]] bool holds(std::int64_t token, std::int64_t expert) const {
    return last_token_[static_cast<std::size_t>(expert)] == token;
  }
  void add(std::int64_t token, std::int64_t expert) { last_token_[static_cast<std::size_t>(expert)] = token; }

 private:
  std::vector<std::int64_t> last_token_;
};

// The stride pattern of published MoE kernel benchmarks (ai-dynamo/aiconfigurator, balanced logits): with
// s = ceil(E / k), token t and slot j pick (t + j s) mod E, or floor(t s / T + j s) mod E when there are fewer than s
// tokens. Where k does not divide E a row may come round to an expert it already holds; it then takes the next free
// one.
void draw_balanced(RoutedBatch& batch) {
  const std::int64_t stride = (batch.experts + batch.topk - 1) / batch.topk;
  Row row(batch.experts);
  for (std::int64_t token = 0; token < batch.tokens; ++token) {
    const std::int64_t first = batch.tokens >= stride ? token : token * stride / batch.tokens;
    for (std::int64_t slot = 0; slot < batch.topk; ++slot) {
      std::int64_t expert = (first + slot * stride) % batch.experts;
      while (row.holds(token, expert)) expert = (expert + 1) % batch.experts;
      row.add(token, expert);
      batch.ids.push_back(static_cast<std::int32_t>(expert));
    }
  }
}

void draw_disjoint(RoutedBatch& batch, RandomStream& stream) {
  std::vector<std::int32_t> pack = sorted_pack(batch.experts);
  std::size_t dealt = pack.size();
  Row row(batch.experts);
  for (std::int64_t token = 0; token < batch.tokens; ++token) {
    for (std::int64_t slot = 0; slot < batch.topk; ++slot) {
      if (dealt == pack.size()) {
        stream.deal(pack, pack.size());
        dealt = 0;
      }
      // A row that began with the last cards of the old pack skips them in the new one; they are dealt later. One card
      // is always free: the row holds fewer than k <= E experts, those dealt from this pack among them.
      std::size_t next = dealt;
      while (row.holds(token, pack[next])) ++next;
      std::swap(pack[dealt], pack[next]);
      row.add(token, pack[dealt]);
      batch.ids.push_back(pack[dealt++]);
    }
  }
}

// Experts by rows, fewest first; equal ones by number.
std::vector<std::size_t> emptiest_first(const std::vector<std::int64_t>& rows) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rows[a] < rows[b]; });
  return order;
}

// One number of a power law x^-alpha on [low, high], by its inverse distribution.
double power_law_sample(double alpha, double low, double high, RandomStream& stream) {
  const double u = stream.unit();
  if (alpha == 1) return low * std::pow(high / low, u);
  const double exponent = 1 - alpha;
  return std::pow((std::pow(high, exponent) - std::pow(low, exponent)) * u + std::pow(low, exponent), 1 / exponent);
}

// The skewed loads of published MoE kernel benchmarks (ai-dynamo/aiconfigurator, power-law logits): a number per expert
// from the power law on [1, 0.8 T], or on [0.01, 2] where the picks do not go round all experts, scaled to the picks
// and rounded. No expert has more than T rows; what that cuts off goes to the emptiest experts, what rounding leaves is
// given to the emptiest, one row each in turn, or taken row by row from whichever is then the fullest.
std::vector<std::int64_t> power_law_rows(const RoutedBatch& batch, double alpha, RandomStream& stream) {
  constexpr double kMostShare = 0.8;
  constexpr double kFewPicks[] = {0.01, 2};
  const bool many = batch.picks() > batch.experts;
  const double low = many ? 1 : kFewPicks[0];
  const double high = many ? std::max(1.0, kMostShare * static_cast<double>(batch.tokens)) : kFewPicks[1];
  std::vector<double> draws(static_cast<std::size_t>(batch.experts));
  for (double& draw : draws) draw = power_law_sample(alpha, low, high, stream);
  const double scale = static_cast<double>(batch.picks()) / std::accumulate(draws.begin(), draws.end(), 0.0);

  std::vector<std::int64_t> rows;
  std::int64_t overflow = 0;
  for (const double draw : draws) {
    const std::int64_t wanted = std::llround(draw * scale);
    rows.push_back(std::min(wanted, batch.tokens));
    overflow += wanted - rows.back();
  }
  for (; overflow > 0; --overflow) {
    const auto emptiest = std::min_element(rows.begin(), rows.end());
    if (*emptiest == batch.tokens) break;  // rounding gave more than all experts hold
    ++*emptiest;
  }
  std::int64_t missing = batch.picks() - std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  for (; missing < 0; ++missing) --*std::max_element(rows.begin(), rows.end());
  const std::vector<std::size_t> order = emptiest_first(rows);
  for (std::size_t i = 0; missing > 0; i = (i + 1) % order.size()) {
    if (rows[order[i]] == batch.tokens) continue;
    ++rows[order[i]];
    --missing;
  }
  return rows;
}

}  // namespace

Routing parse_routing(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const std::string argument = colon == std::string::npos ? "" : text.substr(colon + 1);
  std::vector<std::string> names;
  std::vector<std::string> usages;
  for (const RoutingForm& form : kForms) {
    names.emplace_back(form.name);
    usages.push_back(usage(form));
    if (name != form.name) continue;
    const bool has_argument = colon != std::string::npos && !argument.empty();
    if (form.argument.empty() ? colon != std::string::npos : !has_argument)
      fail(fmt::format("'{}'", text), usage(form));
    if (form.argument.empty()) return {.kind = form.kind, .parameter = 0, .trace_file = ""};
    if (form.kind == RoutingKind::kTrace) return {.kind = form.kind, .parameter = 0, .trace_file = argument};
    const std::optional<double> parameter = parse_number(argument);
    if (!parameter || !(*parameter > 0 && *parameter <= form.most)) {
      fail(fmt::format("'{}'", text), fmt::format("{} with a number above 0 and at most {}", usage(form), form.most));
    }
    return {.kind = form.kind, .parameter = *parameter, .trace_file = ""};
  }
  fail(fmt::format("'{}'", text), fmt::format("one of {}", fmt::join(usages, ", ")), nearest_name(name, names));
}

std::string routing_name(const Routing& routing) {
  for (const RoutingForm& form : kForms) {
    if (form.kind != routing.kind) continue;
    if (form.argument.empty()) return std::string(form.name);
    if (form.kind == RoutingKind::kTrace) return fmt::format("{}:{}", form.name, routing.trace_file);
    return fmt::format("{}:{}", form.name, routing.parameter);
  }
  MOESIM_CHECK(false);
  return "";
}

RoutedBatch draw_batch(const Routing& routing, std::int64_t experts, std::int64_t topk, std::int64_t tokens,
                       std::uint64_t seed, std::uint64_t sample) {
  MOESIM_CHECK(experts >= 1 && experts <= std::numeric_limits<std::int32_t>::max());
  MOESIM_CHECK(topk >= 1 && topk <= experts && tokens >= 0);
  MOESIM_CHECK(routing.kind != RoutingKind::kTrace);
  RoutedBatch batch{.tokens = tokens, .topk = topk, .experts = experts, .ids = {}};
  batch.ids.reserve(static_cast<std::size_t>(batch.picks()));
  RandomStream stream = stream_of(seed, sample);
  switch (routing.kind) {
    case RoutingKind::kUniform:
      draw_uniform(batch, stream);
      break;
    case RoutingKind::kZipf:
    case RoutingKind::kLognormal:
    case RoutingKind::kDirichlet: {
      // It belongs to the seed, not to the sample: all samples of a point share their hot experts.
      RandomStream popularity = popularity_stream(seed, 0);
      draw_weighted(batch, popularity_weights(routing, experts, popularity), stream);
      break;
    }
    case RoutingKind::kBalanced:
      draw_balanced(batch);
      break;
    case RoutingKind::kSame:
      draw_same(batch, stream);
      break;
    case RoutingKind::kDisjoint:
      draw_disjoint(batch, stream);
      break;
    case RoutingKind::kPowerLaw:
      // Skewed loads without co-activation.
      batch = deal_rows(power_law_rows(batch, routing.parameter, stream), tokens, topk);
      break;
    case RoutingKind::kTrace:
      break;
  }
  return batch;
}

}  // namespace moesim
