// How: the duplicate share of new batches (requests of their own, drawn domains) is a mean over popularities and draws.
// Each evaluation draws as many batches as bring its standard error to kError, or fewer where it is clear of the
// target, in equal parts from all popularities of the scope; the parameter found is judged by other draws.
#include "workloads/routing/match.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "sim/io/input_error.h"
#include "sim/units/check.h"
#include "sim/units/integer.h"
#include "workloads/routing/expert_loads.h"
#include "workloads/routing/routing_generator.h"

namespace moesim {
namespace {

constexpr double kError = 0.004;  // standard error of a share, of the share that is asked for
constexpr std::int64_t kLeastBatches = 2000;
constexpr std::int64_t kMostBatches = 400'000;
constexpr std::int64_t kMostPicks = 100'000'000;  // of one evaluation
constexpr int kHalvings = 14;                     // of the logarithm of the parameter
constexpr double kClear = 5;                      // standard errors from the target that need no further draws
constexpr double kTolerance = 5;                  // standard errors; "not reached" beyond them

struct LawRange {
  RoutingKind kind;
  const char* name;
  double even, skewed;  // the parameter at its ends
};
constexpr LawRange kLaws[] = {{RoutingKind::kZipf, "zipf", 0.01, 10},
                              {RoutingKind::kLognormal, "lognormal", 0.01, 10},
                              {RoutingKind::kDirichlet, "dirichlet", 1000, 0.003},
                              {RoutingKind::kPowerLaw, "power_law", 0.01, 10}};

const LawRange& range_of(RoutingKind kind) {
  for (const LawRange& law : kLaws) {
    if (law.kind == kind) return law;
  }
  MOESIM_CHECK(false);
  return kLaws[0];
}

[[noreturn]] void fail(const std::string& found, const std::string& expected, const std::string& nearest = "") {
  throw InputError({"--match", "", fmt::format("'{}'", found), expected, nearest});
}

template <class Number>
bool read_number(std::string_view text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return !text.empty() && error == std::errc() && stop == end;
}

struct Share {
  double mean = 0, standard_error = 0;
};

// Mean of per-popularity means: between popularities of one scope nothing is estimated, they are all there.
class DuplicateShare {
 public:
  DuplicateShare(const RoutingOptions& options, const MatchTarget& target, const MatchScope& scope)
      : options_(options),
        target_(target),
        scope_(scope),
        meter_(scope.router.experts),
        scratch_(scope.router.experts) {
    batch_ = {.tokens = target.tokens, .topk = scope.router.topk, .experts = scope.router.experts, .ids = {}};
  }

  // `stream`: search and judgement draw from streams of their own.
  Share operator()(const Routing& law, std::uint64_t stream) {
    const std::int64_t populations = scope_.layers * scope_.seeds;
    const std::int64_t most = std::max<std::int64_t>(1, std::min(kMostBatches, kMostPicks / batch_.picks()));
    const std::int64_t first = std::min(most, kLeastBatches);
    const Share pilot = draw(law, divide_up(first, populations), stream);
    if (std::abs(pilot.mean - target_.duplicates) > kClear * pilot.standard_error) return pilot;
    const double missing = pilot.standard_error / (kError * target_.duplicates);
    const auto wanted = static_cast<std::int64_t>(static_cast<double>(first) * missing * missing);
    if (wanted <= first) return pilot;
    return draw(law, divide_up(std::min(most, wanted), populations), stream);
  }

 private:
  Share draw(const Routing& law, std::int64_t batches, std::uint64_t stream_index) {
    double sum = 0, squares = 0, between = 0, between_squares = 0;
    for (std::int64_t seed = 0; seed < scope_.seeds; ++seed) {
      for (std::int64_t layer = 0; layer < scope_.layers; ++layer) {
        const std::uint64_t of_seed = scope_.seed + static_cast<std::uint64_t>(seed);
        const double mean = draw_one(law, of_seed, layer, batches, stream_index, squares);
        sum += mean * static_cast<double>(batches);
        between += mean;
        between_squares += mean * mean;
      }
    }
    const auto count = static_cast<double>(batches * scope_.layers * scope_.seeds);
    const auto populations = static_cast<double>(scope_.layers * scope_.seeds);
    const double mean = sum / count;
    // Within popularities: the variance of all batches less that between popularities' means (which holds a part of
    // the noise too, so that a single batch each still has an error to state).
    const double total = squares / count - mean * mean;
    const double apart =
        batches > 1 ? between_squares / populations - (between / populations) * (between / populations) : 0;
    return {mean, std::sqrt(std::max(0.0, total - apart) / std::max(1.0, count - populations))};
  }

  double draw_one(const Routing& law, std::uint64_t seed, std::int64_t layer, std::int64_t batches,
                  std::uint64_t stream_index, double& squares) {
    double sum = 0;
    const auto add = [&](const RoutedBatch& batch) {
      constexpr double kPercent = 100;
      const double share = meter_.measure(batch)[static_cast<std::size_t>(Load::kDuplicatePercent)] / kPercent;
      sum += share;
      squares += share * share;
    };
    const std::uint64_t stream_seed = mix(seed) ^ stream_index;
    if (is_popularity_law(law.kind)) {
      const LayerRouter router(law, options_, scope_.router, seed, layer);
      RandomStream stream = stream_of(stream_seed, static_cast<std::uint64_t>(layer));
      for (std::int64_t i = 0; i < batches; ++i) {
        draw_fresh_batch(router, options_, target_.tokens, batch_, scratch_, stream);
        add(batch_);
      }
    } else {
      for (std::int64_t i = 0; i < batches; ++i) {
        const auto sample = static_cast<std::uint64_t>(layer * batches + i);
        add(draw_batch(law, scope_.router.experts, scope_.router.topk, target_.tokens, stream_seed, sample));
      }
    }
    return sum / static_cast<double>(batches);
  }

  const RoutingOptions& options_;
  const MatchTarget& target_;
  const MatchScope& scope_;
  LoadMeter meter_;
  RowScratch scratch_;
  RoutedBatch batch_;
};

double rounded(double value) { return std::strtod(fmt::format("{:.4g}", value).c_str(), nullptr); }

}  // namespace

MatchTarget parse_match(const std::string& text) {
  const std::string expected = "duplicates=SHARE@TOKENS, as in duplicates=5%@3, and perhaps ,LAW";
  MatchTarget target;
  const std::size_t comma = text.find(',');
  std::string_view rest = std::string_view(text).substr(0, comma);
  const std::string_view prefix = "duplicates=";
  const std::size_t sign = rest.find('@');
  if (!rest.starts_with(prefix) || sign == std::string_view::npos) fail(text, expected);
  std::string_view share = rest.substr(prefix.size(), sign - prefix.size());
  const bool percent = share.ends_with('%');
  if (percent) share.remove_suffix(1);
  if (!read_number(share, target.duplicates) || !read_number(rest.substr(sign + 1), target.tokens)) {
    fail(text, expected);
  }
  constexpr double kPercent = 100;
  if (percent) target.duplicates /= kPercent;
  constexpr std::int64_t kMostTokens = 100'000;
  if (!(target.duplicates > 0 && target.duplicates < 1) || target.tokens < 1 || target.tokens > kMostTokens) {
    fail(text, fmt::format("a share above 0 and below 100 % at 1 to {} tokens", kMostTokens));
  }
  std::vector<std::string> names;
  for (const LawRange& law : kLaws) {
    names.emplace_back(law.name);
    const bool asked = comma == std::string::npos ? law.kind != RoutingKind::kPowerLaw  // slow, and flat at few tokens
                                                  : text.substr(comma + 1) == law.name;
    if (asked) target.laws.push_back(law.kind);
  }
  if (target.laws.empty()) {
    fail(text, fmt::format("a law of {}", fmt::join(names, ", ")), nearest_name(text.substr(comma + 1), names));
  }
  return target;
}

Match match_duplicates(RoutingKind kind, const RoutingOptions& options, const MatchTarget& target,
                       const MatchScope& scope, const std::function<void()>& step) {
  const LawRange& range = range_of(kind);
  const auto law_at = [&](double parameter) { return Routing{.kind = kind, .parameter = parameter, .trace_file = ""}; };
  check_routing_options(law_at(range.even), options, scope.router);
  DuplicateShare share_of(options, target, scope);
  const std::uint64_t search = 1, judgement = 2;
  double even = std::log(range.even), skewed = std::log(range.skewed);
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (even + skewed) / 2;
    const Share share = share_of(law_at(std::exp(middle)), search);
    (share.mean < target.duplicates ? even : skewed) = middle;
    if (step) step();
  }
  Match match{.target = target.duplicates, .tokens = target.tokens, .law = {}};
  match.law = law_at(rounded(std::exp((even + skewed) / 2)));
  const Share reached = share_of(match.law, judgement);
  match.reached = reached.mean;
  match.standard_error = reached.standard_error;
  match.solved = std::abs(reached.mean - target.duplicates) <= kTolerance * kError * target.duplicates;
  return match;
}

std::string match_text(const Match& match) {
  constexpr double kPercent = 100;
  return fmt::format("duplicates {:.2f} +- {:.2f} % at {} tokens", kPercent * match.reached,
                     kPercent * match.standard_error, match.tokens);
}

}  // namespace moesim
