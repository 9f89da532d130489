// The kind "moe" rows: every strategy of a point (model, shard, weights, routing, tokens) checked, then timed in one
// visit.
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels.cuh"
#include "routing.cuh"

namespace harness {
namespace {

constexpr double kToleranceBf16 = 0.02, kToleranceFp8 = 0.06;
constexpr std::int64_t kMostPicks = 8192;
constexpr std::int64_t kMostHidden = 7168;
constexpr std::int64_t kMostElements = 80ll << 20;  // picks * 2 * intermediate

template <class T>
T* allocate(std::int64_t count) {
  void* p = nullptr;
  CUDA_CHECK(cudaMalloc(&p, static_cast<std::size_t>(count) * sizeof(T)));
  return static_cast<T*>(p);
}

Buffers make_buffers() {
  Buffers b;
  b.x = allocate<__nv_bfloat16>(1024 * kMostHidden);
  b.x_sorted = allocate<__nv_bfloat16>(kMostPicks * kMostHidden);
  b.gate_up = allocate<__nv_bfloat16>(kMostElements);
  b.h = allocate<__nv_bfloat16>(kMostElements / 2);
  b.out = allocate<__nv_bfloat16>(1024 * kMostHidden);
  b.y = allocate<__nv_bfloat16>(kMostPicks * kMostHidden);
  b.y_float = allocate<float>(kMostPicks * kMostHidden);
  b.counters = allocate<int>(1024 * kMostHidden / 16);
  CUDA_CHECK(cudaMemset(b.counters, 0, 1024 * kMostHidden / 16 * sizeof(int)));
  b.reference_h = allocate<float>(kMostElements / 2);
  b.reference_out = allocate<float>(1024 * kMostHidden);
  return b;
}

struct Point {
  Model model;
  int tp = 1;
  Weights weights = Weights::kBf16;
  std::string routing = "uniform";
  int tokens = 1;
  bool stages = false, gather = false, loop = false, cublas_grouped = false;
};

struct Candidate {
  std::string strategy, implementation, launch, stage;  // implementation: JSON
  Sequence sequence;
  bool checked = true;  // compared with the reference before it is timed
};

class Runner {
 public:
  Runner(const Options& options, const Device& device, Timer& timer, const Pool& pool, Report& report)
      : options_(options),
        device_(device),
        timer_(timer),
        pool_(pool),
        report_(report),
        buffers_(make_buffers()),
        seed_(options.seed) {}

  void tune();
  void run(const Point& point);

 private:
  struct Setting {  // a point on the device
    Shape shape;
    std::vector<Layer> layers;
    std::vector<Routing> routings;
    std::string trace;
    double active = 0;
    std::int64_t expert_bytes = 0;
  };
  bool set_up(const Point& point, Setting& setting);
  void tear_down(Setting& setting);
  bool correct(const Point& point, const Setting& setting, const Candidate& candidate);
  std::vector<Candidate> candidates(const Point& point, const Setting& s);
  void add_stream(const Point& point, const Setting& s, std::vector<Candidate>& all);
  void add_grouped(const Point& point, const Setting& s, std::vector<Candidate>& all);
  void add_gather(const Point& point, const Setting& s, std::vector<Candidate>& all);
  void add_loop(const Point& point, const Setting& s, std::vector<Candidate>& all);
  void add_cublas_grouped(const Point& point, const Setting& s, std::vector<Candidate>& all);
  void emit(const Point& point, const Setting& s, const Candidate& candidate, const Timing& timing);
  const Routing& widest(const Setting& s) const {
    return *std::max_element(s.routings.begin(), s.routings.end(),
                             [](const Routing& a, const Routing& b) { return a.most_rows() < b.most_rows(); });
  }

  const Options& options_;
  const Device& device_;
  Timer& timer_;
  const Pool& pool_;
  Report& report_;
  Buffers buffers_;
  Cublas cublas_;
  std::uint64_t seed_;
  GemvVariant variant_[2] = {gemv_variants(Weights::kBf16)[0], gemv_variants(Weights::kFp8Block128)[0]};
  std::vector<Cublas::Grouped*> grouped_;
};

std::string point_name(const Point& p) {
  return p.model.name + (p.tp > 1 ? " tp" + std::to_string(p.tp) : "") + " " + name_of(p.weights) + " " + p.routing +
         " T" + std::to_string(p.tokens);
}

bool Runner::set_up(const Point& point, Setting& s) {
  const Model& m = point.model;
  s.shape = {m.hidden, m.intermediate / point.tp, m.experts, m.topk};
  const bool fp8 = point.weights == Weights::kFp8Block128;
  if (fp8 && (m.hidden % 128 != 0 || s.shape.intermediate % 128 != 0)) return false;
  const std::int64_t matrix = static_cast<std::int64_t>(m.hidden) * s.shape.intermediate * (fp8 ? 1 : 2);
  s.expert_bytes = 3 * matrix;
  const std::int64_t layer_bytes = s.expert_bytes * m.experts;
  const std::int64_t pool_bytes = fp8 ? pool_.e4m3_bytes : pool_.bf16_bytes;
  const std::int64_t picks = static_cast<std::int64_t>(point.tokens) * m.topk;
  if (layer_bytes > pool_bytes || picks > kMostPicks || picks * 2 * s.shape.intermediate > kMostElements) return false;

  // Enough distinct routings and layers that more than three times the cache is touched before a weight comes again.
  const double distinct = m.experts * (1 - std::pow(1 - static_cast<double>(m.topk) / m.experts,
                                                    point.routing == "same" ? 1 : point.tokens));
  const double touched = distinct * static_cast<double>(s.expert_bytes);
  const double wanted = 3.2 * static_cast<double>(device_.l2_bytes());
  const int fewest = touched > 2.5e9 ? 2 : 4;  // long runs: fewer routings
  int repeats = std::clamp(static_cast<int>(std::ceil(wanted / touched)), fewest, 64);
  const int layers = static_cast<int>(std::clamp<std::int64_t>(pool_bytes / layer_bytes, 1, repeats));
  repeats = (repeats + layers - 1) / layers * layers;

  const std::int64_t scales_up = static_cast<std::int64_t>(2 * s.shape.intermediate / 128) * (m.hidden / 128);
  const std::int64_t scales_down = static_cast<std::int64_t>(m.hidden / 128) * (s.shape.intermediate / 128);
  for (int l = 0; l < layers; ++l) {
    Layer layer;
    layer.weights = point.weights;
    layer.up = (fp8 ? pool_.e4m3 : pool_.bf16) + l * layer_bytes;
    layer.down = layer.up + 2 * matrix * m.experts;
    if (fp8) {
      const std::int64_t at = l * (scales_up + scales_down) * m.experts;
      if (at + (scales_up + scales_down) * m.experts > pool_.scale_count) return false;
      layer.up_scale = pool_.scales + at;
      layer.down_scale = layer.up_scale + scales_up * m.experts;
    }
    s.layers.push_back(layer);
  }
  const std::uint64_t seed = options_.seed * 1000003u + static_cast<std::uint64_t>(point.tokens) * 7919u +
                             std::hash<std::string>{}(m.name + point.routing);
  const std::vector<std::int16_t> drawn = draw_picks(m, point.routing, repeats, point.tokens, seed);
  std::string kind = point.routing;
  std::replace(kind.begin(), kind.end(), ':', '-');
  s.trace =
      report_.routed_trace(m.name + "-" + kind + "-T" + std::to_string(point.tokens) + "-R" + std::to_string(repeats),
                           drawn, repeats, point.tokens, m.topk);
  for (int r = 0; r < repeats; ++r) {
    s.routings.push_back(make_routing(drawn.data() + static_cast<std::ptrdiff_t>(r) * picks, point.tokens, m.topk,
                                      seed + static_cast<std::uint64_t>(r)));
    s.active += static_cast<double>(s.routings.back().active) / repeats;
  }
  fill_bf16(timer_.stream(), buffers_.x, static_cast<std::int64_t>(point.tokens) * m.hidden, 1.7f, ++seed_);
  CUDA_CHECK(cudaStreamSynchronize(timer_.stream()));
  return true;
}

void Runner::tear_down(Setting& s) {
  for (Routing& r : s.routings) release(r);
  for (Cublas::Grouped* g : grouped_) cublas_.release(g);
  grouped_.clear();
}

bool Runner::correct(const Point& point, const Setting& s, const Candidate& candidate) {
  const std::size_t count = static_cast<std::size_t>(point.tokens) * static_cast<std::size_t>(s.shape.hidden);
  const std::size_t picks = static_cast<std::size_t>(point.tokens) * static_cast<std::size_t>(s.shape.topk);
  cudaStream_t stream = timer_.stream();
  // 0xff is a NaN in every type here: what is not written shows.
  CUDA_CHECK(cudaMemsetAsync(buffers_.out, 0xff, count * 2, stream));
  CUDA_CHECK(cudaMemsetAsync(buffers_.h, 0xff, picks * static_cast<std::size_t>(s.shape.intermediate) * 2, stream));
  CUDA_CHECK(
      cudaMemsetAsync(buffers_.gate_up, 0xff, picks * static_cast<std::size_t>(s.shape.intermediate) * 4, stream));
  CUDA_CHECK(cudaMemsetAsync(buffers_.y, 0xff, picks * static_cast<std::size_t>(s.shape.hidden) * 2, stream));
  CUDA_CHECK(cudaMemsetAsync(buffers_.y_float, 0xff, picks * static_cast<std::size_t>(s.shape.hidden) * 4, stream));
  candidate.sequence.launch(stream, 0);
  CUDA_CHECK(cudaGetLastError());
  std::vector<__nv_bfloat16> out(count);
  std::vector<float> reference(count);
  CUDA_CHECK(cudaMemcpyAsync(out.data(), buffers_.out, count * 2, cudaMemcpyDeviceToHost, stream));
  CUDA_CHECK(cudaMemcpyAsync(reference.data(), buffers_.reference_out, count * 4, cudaMemcpyDeviceToHost, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double r = reference[i], d = static_cast<double>(__bfloat162float(out[i])) - r;
    difference += d * d;
    norm += r * r;
  }
  const double error = std::sqrt(difference / norm);
  const double tolerance = point.weights == Weights::kBf16 ? kToleranceBf16 : kToleranceFp8;
  char text[200];
  std::snprintf(text, sizeof text, "%s %s %s: relative error %.2e", point_name(point).c_str(),
                candidate.strategy.c_str(), candidate.launch.c_str(), error);
  if (error <= tolerance) {  // a NaN fails
    if (point.tokens == 1) report_.note(text);
    return true;
  }
  report_.refuse(text);
  return false;
}

Json gemv_json(const GemvPlan& plan, const Shape& shape, Weights weights, bool up) {
  const int bytes = weights == Weights::kBf16 ? 2 : 1, row = (up ? shape.hidden : shape.intermediate) * bytes;
  const int steps = (row + 511) / 512;
  Json j;
  j.integer("block_n", up ? 4 : 8).integer("block_k", 512 / bytes);
  j.integer("num_warps", plan.variant.warps).integer("num_stages", plan.variant.stages).integer("split_k", steps);
  j.integer("rows", plan.rows).integer("bytes_in_flight", plan.variant.warps * plan.variant.stages * 4096);
  if (up) j.flag("interleaved", plan.variant.interleave);
  if (weights != Weights::kBf16) j.text("convert", "cvt");
  return j;
}

void Runner::add_stream(const Point& point, const Setting& s, std::vector<Candidate>& all) {
  const bool fp8 = point.weights == Weights::kFp8Block128;
  const Routing& wide = widest(s);
  const GemvPlan up = plan_gemv(wide, variant_[fp8]);
  const GemvPlan down = up;
  const int rotation = static_cast<int>(s.routings.size());
  const auto launch_up = [this, &s, up](cudaStream_t stream, int i, bool programmatic) {
    const Routing& r = s.routings[static_cast<std::size_t>(i) % s.routings.size()];
    stream_up(stream, device_, s.shape, s.layers[static_cast<std::size_t>(i) % s.layers.size()], r, r.of(up.rows), up,
              buffers_, programmatic);
  };
  const auto launch_down = [this, &s, down](cudaStream_t stream, int i, bool fuse, bool programmatic) {
    const Routing& r = s.routings[static_cast<std::size_t>(i) % s.routings.size()];
    stream_down(stream, device_, s.shape, s.layers[static_cast<std::size_t>(i) % s.layers.size()], r, r.of(down.rows),
                down, buffers_, fuse, programmatic);
  };
  const auto named = [&](const char* combined) {
    Json down_json = gemv_json(down, s.shape, point.weights, false);
    down_json.text("per", "pick").text("combine", combined);
    return Json()
        .text("name", "cuda-stream-gemv")
        .flag("persistent", true)
        .raw("up", gemv_json(up, s.shape, point.weights, true).str())
        .raw("down", down_json.str())
        .str();
  };
  const std::string fused = named("fused"), apart = named("kernel");
  all.push_back(
      {"stream_gemv",
       fused,
       "graph",
       "total",
       {"", [=](cudaStream_t st, int i) { launch_up(st, i, false), launch_down(st, i, true, false); }, rotation, 2}});
  all.push_back(
      {"stream_gemv",
       fused,
       "programmatic",
       "total",
       {"", [=](cudaStream_t st, int i) { launch_up(st, i, false), launch_down(st, i, true, true); }, rotation, 2}});
  Json down_json = gemv_json(down, s.shape, point.weights, false);
  down_json.text("per", "pick").text("combine", "fused");
  all.push_back({"stream_gemv",
                 Json()
                     .text("name", "cuda-stream-block")
                     .flag("persistent", true)
                     .raw("up", gemv_json(up, s.shape, point.weights, true).str())
                     .raw("down", down_json.str())
                     .str(),
                 "graph",
                 "total",
                 {"",
                  [this, &s, up](cudaStream_t st, int i) {
                    stream_block(st, device_, s.shape, s.layers[static_cast<std::size_t>(i) % s.layers.size()],
                                 s.routings[static_cast<std::size_t>(i) % s.routings.size()], up, buffers_);
                  },
                  rotation, 1}});
  if (!point.stages) return;
  all.push_back({"stream_gemv",
                 fused,
                 "graph",
                 "gemm1",
                 {"", [=](cudaStream_t st, int i) { launch_up(st, i, false); }, rotation, 1},
                 false});
  all.push_back({"stream_gemv",
                 fused,
                 "graph",
                 "gemm2",
                 {"", [=](cudaStream_t st, int i) { launch_down(st, i, true, false); }, rotation, 1},
                 false});
  all.push_back({"stream_gemv",
                 apart,
                 "graph",
                 "gemm2",
                 {"", [=](cudaStream_t st, int i) { launch_down(st, i, false, false); }, rotation, 1},
                 false});
  all.push_back({"stream_gemv",
                 apart,
                 "graph",
                 "combine",
                 {"",
                  [this, &s](cudaStream_t st, int i) {
                    combine_float(st, s.shape, s.routings[static_cast<std::size_t>(i) % s.routings.size()],
                                  buffers_.y_float, buffers_.out);
                  },
                  rotation, 1},
                 false});
}

void Runner::add_grouped(const Point& point, const Setting& s, std::vector<Candidate>& all) {
  if (point.weights != Weights::kBf16) return;
  const GroupedTile tile = choose_tile(s.routings[0]);
  const int rotation = static_cast<int>(s.routings.size());
  const std::string implementation = Json()
                                         .text("name", "cuda-grouped")
                                         .integer("block_m", tile.m)
                                         .integer("block_n", tile.n)
                                         .integer("block_k", tile.k)
                                         .integer("num_warps", tile.warps)
                                         .integer("num_stages", tile.stages)
                                         .text("instruction", "mma.sync")
                                         .str();
  const auto routing = [&s](int i) -> const Routing& {
    return s.routings[static_cast<std::size_t>(i) % s.routings.size()];
  };
  const auto layer = [&s](int i) -> const Layer& { return s.layers[static_cast<std::size_t>(i) % s.layers.size()]; };
  const auto gemm1 = [=, this, &s](cudaStream_t st, int i) {
    grouped_gemm(st, tile, layer(i), true, s.shape, routing(i), buffers_.x, buffers_.gate_up);
  };
  const auto act = [=, this, &s](cudaStream_t st, int i) {
    activate(st, routing(i).picks_count(), s.shape.intermediate, buffers_.gate_up, buffers_.h);
  };
  const auto gemm2 = [=, this, &s](cudaStream_t st, int i) {
    grouped_gemm(st, tile, layer(i), false, s.shape, routing(i), buffers_.h, buffers_.y);
  };
  const auto sum = [=, this, &s](cudaStream_t st, int i) {
    combine(st, s.shape, routing(i), buffers_.y, buffers_.out);
  };
  all.push_back(
      {"grouped_gemm",
       implementation,
       "graph",
       "total",
       {"", [=](cudaStream_t st, int i) { gemm1(st, i), act(st, i), gemm2(st, i), sum(st, i); }, rotation, 4}});
  if (!point.stages) return;
  all.push_back({"grouped_gemm", implementation, "graph", "gemm1", {"", gemm1, rotation, 1}, false});
  all.push_back({"grouped_gemm", implementation, "graph", "act", {"", act, rotation, 1}, false});
  all.push_back({"grouped_gemm", implementation, "graph", "gemm2", {"", gemm2, rotation, 1}, false});
  all.push_back({"grouped_gemm", implementation, "graph", "combine", {"", sum, rotation, 1}, false});
}

void Runner::add_gather(const Point& point, const Setting& s, std::vector<Candidate>& all) {
  const std::int64_t picks = static_cast<std::int64_t>(point.tokens) * s.shape.topk;
  if (!point.gather || point.weights != Weights::kBf16 || picks * s.expert_bytes > pool_.copies_bytes) return;
  const int rotation = static_cast<int>(s.routings.size());
  const std::int64_t matrix = s.expert_bytes / 3;
  Layer copies;
  copies.up = pool_.copies;
  copies.down = pool_.copies + picks * 2 * matrix;
  GemvPlan up, down;
  {  // as many groups as picks
    Routing alone = s.routings[0];
    alone.groups[0] = alone.singles;
    alone.groups[0].rows = 8;
    alone.rows.assign(1, 1);
    up = down = plan_gemv(alone, variant_[0]);
  }
  const std::string implementation = Json()
                                         .text("name", "cuda-gather-gemv")
                                         .raw("up", gemv_json(up, s.shape, point.weights, true).str())
                                         .raw("down", gemv_json(down, s.shape, point.weights, false).str())
                                         .text("act", "fused in gemm1")
                                         .str();
  const auto routing = [&s](int i) -> const Routing& {
    return s.routings[static_cast<std::size_t>(i) % s.routings.size()];
  };
  const auto layer = [&s](int i) -> const Layer& { return s.layers[static_cast<std::size_t>(i) % s.layers.size()]; };
  const auto gather1 = [=](cudaStream_t st, int i) {
    gather_weights(st, routing(i), layer(i).up, 2 * matrix, const_cast<std::uint8_t*>(copies.up));
  };
  const auto gemm1 = [=, this, &s](cudaStream_t st, int i) {
    stream_up(st, device_, s.shape, copies, routing(i), routing(i).singles, up, buffers_, false);
  };
  const auto gather2 = [=](cudaStream_t st, int i) {
    gather_weights(st, routing(i), layer(i).down, matrix, const_cast<std::uint8_t*>(copies.down));
  };
  const auto gemm2 = [=, this, &s](cudaStream_t st, int i) {
    stream_down(st, device_, s.shape, copies, routing(i), routing(i).singles, down, buffers_, false, false);
  };
  const auto sum = [=, this, &s](cudaStream_t st, int i) {
    combine_float(st, s.shape, routing(i), buffers_.y_float, buffers_.out);
  };
  all.push_back(
      {"gather_gemv",
       implementation,
       "graph",
       "total",
       {"", [=](cudaStream_t st, int i) { gather1(st, i), gemm1(st, i), gather2(st, i), gemm2(st, i), sum(st, i); },
        rotation, 5}});
  if (!point.stages) return;
  all.push_back({"gather_gemv", implementation, "graph", "gather1", {"", gather1, rotation, 1}, false});
  all.push_back({"gather_gemv", implementation, "graph", "gather2", {"", gather2, rotation, 1}, false});
}

void Runner::add_loop(const Point& point, const Setting& s, std::vector<Candidate>& all) {
  if (!point.loop || !cublas_.available() || point.weights != Weights::kBf16) return;
  const int rotation = static_cast<int>(s.routings.size());
  const std::string implementation = Json().text("name", "cublas-loop").str();
  const auto routing = [&s](int i) -> const Routing& {
    return s.routings[static_cast<std::size_t>(i) % s.routings.size()];
  };
  const auto layer = [&s](int i) -> const Layer& { return s.layers[static_cast<std::size_t>(i) % s.layers.size()]; };
  const auto gemm1 = [=, this, &s](cudaStream_t st, int i) {
    cublas_.loop(st, s.shape, layer(i), true, routing(i), buffers_.x_sorted, buffers_.gate_up);
  };
  const auto gemm2 = [=, this, &s](cudaStream_t st, int i) {
    cublas_.loop(st, s.shape, layer(i), false, routing(i), buffers_.h, buffers_.y);
  };
  const int nodes = static_cast<int>(s.active) + 1;
  all.push_back({"expert_loop",
                 implementation,
                 "graph",
                 "total",
                 {"",
                  [=, this, &s](cudaStream_t st, int i) {
                    permute(st, s.shape, routing(i), buffers_.x, buffers_.x_sorted);
                    gemm1(st, i);
                    activate(st, routing(i).picks_count(), s.shape.intermediate, buffers_.gate_up, buffers_.h);
                    gemm2(st, i);
                    combine(st, s.shape, routing(i), buffers_.y, buffers_.out);
                  },
                  rotation, 2 * nodes + 3}});
  if (!point.stages) return;
  all.push_back(
      {"expert_loop",
       implementation,
       "graph",
       "permute",
       {"", [=, this, &s](cudaStream_t st, int i) { permute(st, s.shape, routing(i), buffers_.x, buffers_.x_sorted); },
        rotation, 1},
       false});
  all.push_back({"expert_loop", implementation, "graph", "gemm1", {"", gemm1, rotation, nodes}, false});
  all.push_back({"expert_loop", implementation, "graph", "gemm2", {"", gemm2, rotation, nodes}, false});
}

// cuBLAS's grouped call counts as grouped_gemm_persistent only if it can be captured and launches about one CTA an SM.
void Runner::add_cublas_grouped(const Point& point, const Setting& s, std::vector<Candidate>& all) {
  if (!point.cublas_grouped || !cublas_.available() || point.weights != Weights::kBf16) return;
  static bool usable = true;
  if (!usable) return;
  const int rotation = static_cast<int>(s.routings.size());
  const std::size_t at = grouped_.size();
  for (int i = 0; i < rotation; ++i) {
    const Routing& r = s.routings[static_cast<std::size_t>(i)];
    const Layer& l = s.layers[static_cast<std::size_t>(i) % s.layers.size()];
    grouped_.push_back(cublas_.prepare(s.shape, l, true, r, buffers_.x_sorted, buffers_.gate_up));
    grouped_.push_back(cublas_.prepare(s.shape, l, false, r, buffers_.h, buffers_.y));
  }
  // Eager first: a failure inside a capture would end it.
  cudaStream_t stream = timer_.stream();
  usable = cublas_.grouped(stream, *grouped_[at]);
  usable = cudaStreamSynchronize(stream) == cudaSuccess && usable;
  if (usable) {
    cudaGraph_t graph = nullptr;
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    usable = cublas_.grouped(stream, *grouped_[at]);
    usable = cudaStreamEndCapture(stream, &graph) == cudaSuccess && graph && usable;
    std::size_t nodes = 0;
    if (usable) CUDA_CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
    usable = usable && nodes <= 4;
    if (graph) cudaGraphDestroy(graph);
  }
  (void)cudaGetLastError();
  if (!usable) {
    report_.note("cublasGemmGroupedBatchedEx cannot be captured as one grouped kernel here: left out");
    return;
  }
  const auto routing = [&s](int i) -> const Routing& {
    return s.routings[static_cast<std::size_t>(i) % s.routings.size()];
  };
  const auto call = [=, this](cudaStream_t st, int i, int down) {
    const std::size_t index = at + 2 * static_cast<std::size_t>(i % rotation) + static_cast<std::size_t>(down);
    if (!cublas_.grouped(st, *grouped_[index])) report_.note("cublasGemmGroupedBatchedEx failed");
  };
  all.push_back({"grouped_gemm_persistent",
                 Json().text("name", "cublas-grouped").str(),
                 "graph",
                 "total",
                 {"",
                  [=, this, &s](cudaStream_t st, int i) {
                    permute(st, s.shape, routing(i), buffers_.x, buffers_.x_sorted);
                    call(st, i, 0);
                    activate(st, routing(i).picks_count(), s.shape.intermediate, buffers_.gate_up, buffers_.h);
                    call(st, i, 1);
                    combine(st, s.shape, routing(i), buffers_.y, buffers_.out);
                  },
                  rotation, 5}});
}

std::vector<Candidate> Runner::candidates(const Point& point, const Setting& s) {
  std::vector<Candidate> all;
  if (point.cublas_grouped) {
    add_cublas_grouped(point, s, all);
    return all;
  }
  if (point.tokens <= 64) add_stream(point, s, all);
  add_grouped(point, s, all);
  add_gather(point, s, all);
  add_loop(point, s, all);
  return all;
}

void Runner::emit(const Point& point, const Setting& s, const Candidate& c, const Timing& t) {
  Json row;
  row.text("schema", "moesim.measurement/2").text("kind", "moe").text("device", device_.label());
  row.raw("model", Json()
                       .text("name", point.model.name)
                       .integer("hidden", point.model.hidden)
                       .integer("intermediate", point.model.intermediate)
                       .integer("experts", point.model.experts)
                       .integer("topk", point.model.topk)
                       .flag("gated", true)
                       .str());
  row.integer("tp", point.tp).integer("ep", 1).text("weights", name_of(point.weights)).text("activations", "bf16");
  row.integer("tokens", point.tokens)
      .text("routing", point.routing)
      .text("routed_trace", s.trace)
      .number("mean_active_experts", s.active, 3);
  row.text("strategy", c.strategy)
      .raw("implementation", c.implementation)
      .text("launch", c.launch)
      .text("scope", "expert_ffn")
      .text("stage", c.stage);
  row.number("us", t.us, 3)
      .number("median_us", t.median_us, 3)
      .number("min_us", t.min_us, 3)
      .number("p90_us", t.p90_us, 3)
      .integer("samples", t.samples);
  row.raw("timing", Json()
                        .text("method", "graph_slope")
                        .text("weights", "cold")
                        .text("order", "random")
                        .integer("chains", t.chains)
                        .str());
  if (t.sm_mhz > 0) row.integer("sm_mhz", std::llround(t.sm_mhz)).flag("power_capped", t.power_capped());
  row.text("source", report_.source()).raw("kernels", to_json(t.kernels));
  report_.line(row);
}

void Runner::run(const Point& point) {
  if (report_.out_of_time() || (point.tokens > 64 && point.weights != Weights::kBf16)) return;
  Setting s;
  if (!set_up(point, s)) {
    report_.note(point_name(point) + ": does not fit or is not a multiple of 128; skipped");
    tear_down(s);
    return;
  }
  reference_ffn(timer_.stream(), s.shape, s.layers[0], s.routings[0], buffers_);
  std::vector<Candidate> good;
  std::string refused;  // stages of a strategy whose whole block is wrong are left out as well
  for (Candidate& c : candidates(point, s)) {
    if (c.checked && !correct(point, s, c)) refused += c.strategy + ";";
    if (refused.find(c.strategy + ";") == std::string::npos) good.push_back(std::move(c));
  }
  std::vector<Sequence> sequences;
  for (const Candidate& c : good) sequences.push_back(c.sequence);

  // The same bytes read plainly, in the same visit.
  const std::int64_t bytes = static_cast<std::int64_t>(s.active * static_cast<double>(s.expert_bytes)) / 16384 * 16384;
  const bool compare = point.tokens <= 4 && point.routing == "uniform";
  if (compare) {
    const bool fp8 = point.weights == Weights::kFp8Block128;
    const std::uint8_t* const base = fp8 ? pool_.e4m3 : pool_.bf16;
    const std::int64_t places = std::max<std::int64_t>(
        1, std::min((fp8 ? pool_.e4m3_bytes : pool_.bf16_bytes) / bytes, 1 + 4 * device_.l2_bytes() / bytes));
    sequences.push_back({"plain", [=](cudaStream_t st, int i) { plain_read(st, base + (i % places) * bytes, bytes); },
                         static_cast<int>(places), 1});
  }
  TimingOptions timing;
  timing.samples = options_.quick ? 7 : 10;
  timing.long_us = 2500;
  if (good.empty()) return tear_down(s);
  const std::vector<Timing> times = timer_.run(sequences, timing);
  for (std::size_t i = 0; i < good.size(); ++i) {
    const Candidate& c = good[i];
    if (c.strategy == "grouped_gemm_persistent") {
      bool persistent = false;
      for (const KernelFact& k : times[i].kernels)
        persistent = persistent || (k.grid[0] * k.grid[1] * k.grid[2] == static_cast<unsigned>(device_.sms()));
      if (!persistent) {
        report_.note("cublasGemmGroupedBatchedEx is not persistent here: row left out");
        continue;
      }
    }
    emit(point, s, c, times[i]);
    if (c.stage != "total" || !(point.tokens <= 4 || point.tokens == 64)) continue;
    char text[240];
    const double rate = static_cast<double>(bytes) / times[i].us / 1e6;
    int used = std::snprintf(
        text, sizeof text, "%-44s %-24s %-12s %9.2f us %6.2f TB/s", point_name(point).c_str(), c.strategy.c_str(),
        c.implementation.find("cuda-stream-block") == std::string::npos ? c.launch.c_str() : "one kernel", times[i].us,
        rate);
    if (compare)
      std::snprintf(text + used, sizeof text - static_cast<std::size_t>(used), "  %5.1f %% of a plain read",
                    100 * times.back().us / times[i].us);
    report_.summary(text);
  }
  if (compare) {
    report_.micro("cold_read_size",
                  Json().integer("bytes", bytes).integer("ctas", bytes / 16384).text("visit", point_name(point)),
                  times.back());
  }
  report_.note(point_name(point) + ": " + std::to_string(good.size()) + " rows");
  tear_down(s);
}

// One variant of the streaming kernel per weights for the whole run: the best over five points and both projections.
void Runner::tune() {
  const auto& all = models();
  for (const Weights weights : {Weights::kBf16, Weights::kFp8Block128}) {
    const auto& variants = gemv_variants(weights);
    const bool fp8 = weights == Weights::kFp8Block128;
    std::vector<double> score(variants.size(), 0);
    for (const auto& [model, tokens] : {std::pair<int, int>{0, 1}, {2, 1}, {3, 1}, {3, 4}, {1, 4}}) {
      Point point;
      point.model = all[static_cast<std::size_t>(model)];
      point.weights = weights;
      point.tokens = tokens;
      Setting s;
      if (!set_up(point, s)) {
        tear_down(s);
        continue;
      }
      reference_ffn(timer_.stream(), s.shape, s.layers[0], s.routings[0], buffers_);
      std::vector<Sequence> sequences;
      std::vector<std::pair<std::size_t, bool>> which;
      for (std::size_t v = 0; v < variants.size(); ++v) {
        variant_[fp8] = variants[v];
        std::vector<Candidate> stream_only;
        point.stages = true;
        add_stream(point, s, stream_only);
        if (!correct(point, s, stream_only[0])) {
          score[v] = 1e9;
          continue;
        }
        for (const Candidate& c : stream_only) {
          if (c.stage == "gemm1" || (c.stage == "gemm2" && c.implementation == stream_only[0].implementation)) {
            sequences.push_back(c.sequence);
            which.emplace_back(v, c.stage == "gemm1");
          }
        }
      }
      TimingOptions timing;
      timing.samples = 7;
      const std::vector<Timing> times = timer_.run(sequences, timing);
      for (std::size_t i = 0; i < times.size(); ++i) {
        const auto [v, up] = which[i];
        score[v] += std::log(std::max(1e-3, times[i].us));
        report_.micro("stream_gemv_variant",
                      Json()
                          .text("visit", point_name(point))
                          .text("stage", up ? "gemm1" : "gemm2")
                          .text("variant", variants[v].str())
                          .raw("kernels", to_json(times[i].kernels)),
                      times[i]);
      }
      tear_down(s);
    }
    variant_[fp8] = variants[static_cast<std::size_t>(std::min_element(score.begin(), score.end()) - score.begin())];
    report_.summary(std::string("stream_gemv ") + name_of(weights) + ": " + variant_[fp8].str());
  }
}

}  // namespace

Pool make_pool(cudaStream_t stream, std::uint64_t seed) {
  std::size_t free_bytes = 0, total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total));
  const auto share = [&](double wanted_gb, double part) {
    return static_cast<std::int64_t>(std::min(wanted_gb * 1e9, part * static_cast<double>(free_bytes))) / (1 << 20) *
           (1 << 20);
  };
  Pool pool;
  pool.bf16_bytes = share(27, 0.4);
  pool.e4m3_bytes = share(13, 0.2);
  pool.copies_bytes = share(6, 0.1);
  pool.scale_count = 8 << 20;
  pool.bf16 = allocate<std::uint8_t>(pool.bf16_bytes);
  pool.e4m3 = allocate<std::uint8_t>(pool.e4m3_bytes);
  pool.copies = allocate<std::uint8_t>(pool.copies_bytes);
  pool.scales = allocate<float>(pool.scale_count);
  fill_bf16(stream, reinterpret_cast<__nv_bfloat16*>(pool.bf16), pool.bf16_bytes / 2, 0.03f, seed + 1);
  fill_e4m3(stream, pool.e4m3, pool.e4m3_bytes, seed + 2);
  fill_scale(stream, pool.scales, pool.scale_count, 5.8e-4f, seed + 3);
  CUDA_CHECK(cudaStreamSynchronize(stream));
  return pool;
}

void run_moe(const Options& options, const Device& device, Timer& timer, const Pool& pool, Report& report) {
  Runner runner(options, device, timer, pool, report);
  runner.tune();
  const auto& all = models();
  const std::vector<int> few = options.quick ? std::vector<int>{1, 4, 16} : std::vector<int>{1, 2, 4, 8, 16, 32, 64};
  const auto sweep = [&](const std::vector<Model>& some, int tp, const std::string& routing,
                         const std::vector<int>& tokens, bool details) {
    for (const int t : tokens)
      for (const Model& model : some)
        for (const Weights weights : {Weights::kBf16, Weights::kFp8Block128}) {
          Point p;
          p.model = model;
          p.tp = tp;
          p.weights = weights;
          p.routing = routing;
          p.tokens = t;
          const bool chosen = t == 1 || t == 4 || t == 16 || t == 64;
          p.stages = chosen && (details || tp > 1);
          p.gather = details && t <= 4;
          p.loop = details && chosen && !options.quick;
          runner.run(p);
        }
  };
  const std::vector<Model> key = {all[0], all[1], all[2], all[3]};
  const std::vector<Model> sharded = {all[0], all[1], all[2]};
  sweep(options.quick ? key : all, 1, "uniform", few, true);
  sweep(sharded, 8, "uniform", options.quick ? std::vector<int>{1, 16} : few, false);
  if (options.quick) return;
  sweep(all, 1, "zipf:1.0", {4, 16, 64}, false);
  sweep({all[1], all[3]}, 1, "uniform", {128, 256, 512, 1024}, false);
  sweep(all, 1, "same", {4, 16}, false);
  sweep({all[3]}, 8, "uniform", few, false);
  // Last, since a library's failure there must not cost the rest.
  for (const Model& model : {all[1], all[3], all[5]})
    for (const int t : {4, 16, 64}) {
      Point p;
      p.model = model;
      p.tokens = t;
      p.cublas_grouped = true;
      runner.run(p);
    }
}

}  // namespace harness
