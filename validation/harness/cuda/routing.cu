#include <algorithm>
#include <cmath>
#include <numeric>

#include "routing.cuh"

namespace harness {

const std::vector<Model>& models() {
  static const std::vector<Model> all = {
      {"qwen3.5-397b", 4096, 1024, 512, 10}, {"mixtral-8x7b", 4096, 14336, 8, 2},  {"deepseek-v3", 7168, 2048, 256, 8},
      {"qwen3-30b", 2048, 768, 128, 8},      {"gpt-oss-120b", 2880, 2880, 128, 4}, {"olmoe", 2048, 1024, 64, 8},
  };
  return all;
}

std::vector<std::int16_t> draw_picks(const Model& model, const std::string& kind, int repeats, int tokens,
                                     std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1.0p-53; };
  const std::size_t experts = static_cast<std::size_t>(model.experts);
  std::vector<std::int16_t> picks;
  std::vector<int> order(experts);
  std::vector<double> weight(experts, 1.0);
  for (int repeat = 0; repeat < repeats; ++repeat) {
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = experts - 1; i > 0; --i) std::swap(order[i], order[random() % (i + 1)]);
    if (kind.rfind("zipf:", 0) == 0) {  // popularity by rank; who is popular differs from repeat to repeat
      const double exponent = std::stod(kind.substr(5));
      for (std::size_t i = 0; i < experts; ++i)
        weight[static_cast<std::size_t>(order[i])] = std::pow(static_cast<double>(i + 1), -exponent);
    }
    for (int token = 0; token < tokens; ++token) {
      if (kind == "same") {
        for (int slot = 0; slot < model.topk; ++slot)
          picks.push_back(static_cast<std::int16_t>(order[static_cast<std::size_t>(slot)]));
        continue;
      }
      std::vector<double> left = weight;  // without replacement, in proportion to popularity
      for (int slot = 0; slot < model.topk; ++slot) {
        double at = unit() * std::accumulate(left.begin(), left.end(), 0.0);
        std::size_t chosen = experts;
        for (std::size_t e = 0; e < experts; ++e) {
          if (left[e] == 0) continue;
          chosen = e;
          if ((at -= left[e]) < 0) break;
        }
        left[chosen] = 0;
        picks.push_back(static_cast<std::int16_t>(chosen));
      }
    }
  }
  return picks;
}

namespace {
template <class T>
T* upload(const std::vector<T>& values) {
  T* device = nullptr;
  CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&device), std::max<std::size_t>(1, values.size()) * sizeof(T)));
  CUDA_CHECK(cudaMemcpy(device, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return device;
}
}  // namespace

Routing make_routing(const std::int16_t* picks, int tokens, int topk, std::uint64_t seed) {
  Routing r;
  r.tokens = tokens;
  r.topk = topk;
  const int count = tokens * topk;
  std::vector<int> sorted(static_cast<std::size_t>(count)), position(sorted.size()), expert(picks, picks + count);
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(), [&](int a, int b) { return picks[a] < picks[b]; });
  constexpr int kOne = 1 << 16;
  std::vector<int4> singles;
  for (int i = 0; i < count; ++i) {
    position[static_cast<std::size_t>(sorted[static_cast<std::size_t>(i)])] = i;
    const int e = picks[sorted[static_cast<std::size_t>(i)]];
    if (r.experts.empty() || r.experts.back() != e) {
      r.experts.push_back(e);
      r.first.push_back(i);
      r.rows.push_back(0);
    }
    ++r.rows.back();
    singles.push_back(make_int4(i, i, 1, kOne));
  }
  r.active = static_cast<int>(r.experts.size());
  std::mt19937_64 random(seed);
  std::vector<float> weights(static_cast<std::size_t>(count));
  for (float& w : weights) w = 0.05f + 0.3f * static_cast<float>(random() >> 40) / 16777216.0f;
  r.picks = upload(sorted);
  r.position = upload(position);
  r.expert_of_pick = upload(expert);
  r.pick_weights = upload(weights);
  for (int rows : {8, 16, 32, 64, 128}) {
    std::vector<int4> groups;
    for (std::size_t i = 0; i < r.experts.size(); ++i) {
      const int parts = (r.rows[i] + rows - 1) / rows;
      for (int part = 0; part < parts; ++part)
        groups.push_back(make_int4(r.experts[i], r.first[i] + part * rows, std::min(rows, r.rows[i] - part * rows),
                                   part + parts * kOne));
    }
    r.groups.push_back({rows, static_cast<int>(groups.size()), upload(groups)});
  }
  r.singles = {1, count, upload(singles)};
  return r;
}

void release(Routing& r) {
  for (void* p : {static_cast<void*>(r.picks), static_cast<void*>(r.position), static_cast<void*>(r.expert_of_pick),
                  static_cast<void*>(r.pick_weights), static_cast<void*>(r.singles.groups)})
    CUDA_CHECK(cudaFree(p));
  for (Routing::Groups& g : r.groups) CUDA_CHECK(cudaFree(g.groups));
  r = Routing{};
}

const Routing::Groups& Routing::of(int rows_of_group) const {
  for (const Groups& g : groups)
    if (g.rows == rows_of_group) return g;
  std::fprintf(stderr, "no groups of %d rows\n", rows_of_group);
  std::abort();
}
int Routing::most_rows() const { return *std::max_element(rows.begin(), rows.end()); }

}  // namespace harness
