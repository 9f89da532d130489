// The kernels' host side: what a routed batch is on the device, and one launcher per kernel.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <string>
#include <vector>

#include "harness.cuh"

namespace harness {

enum class Weights { kBf16, kFp8Block128 };
inline const char* name_of(Weights w) { return w == Weights::kBf16 ? "bf16" : "fp8_block128"; }

// One shard as it runs: `intermediate` is already divided by the tensor-parallel degree.
struct Shape {
  int hidden = 0, intermediate = 0, experts = 0, topk = 0;
};

// Weights of one layer.
struct Layer {
  Weights weights = Weights::kBf16;
  const std::uint8_t* up = nullptr;    // [experts][2 * intermediate][hidden], gate rows first
  const std::uint8_t* down = nullptr;  // [experts][hidden][intermediate]
  const float* up_scale = nullptr;     // [experts][2 * intermediate / 128][hidden / 128]
  const float* down_scale = nullptr;   // [experts][hidden / 128][intermediate / 128]
};

// One routing, sorted by expert. Host arrays for library calls, device arrays for kernels.
struct Routing {
  int tokens = 0, topk = 0, active = 0;
  std::vector<int> experts, first, rows;  // per active expert
  int* picks = nullptr;                   // device: [tokens * topk], sorted by expert
  int* position = nullptr;                // device: place of a pick in `picks`
  int* expert_of_pick = nullptr;          // device
  float* pick_weights = nullptr;          // device
  struct Groups {                         // of at most `rows` picks of one expert
    int rows = 0, count = 0;
    int4* groups = nullptr;  // {expert, first pick, picks, place among its expert's groups | their number << 16}
  };
  std::vector<Groups> groups;
  Groups singles;  // one group a pick, "expert" = place of the pick: for gathered copies
  const Groups& of(int rows_of_group) const;
  int picks_count() const { return tokens * topk; }
  int most_rows() const;
};

// Scratch of one layer's run.
struct Buffers {
  __nv_bfloat16 *x = nullptr, *x_sorted = nullptr, *gate_up = nullptr, *h = nullptr, *out = nullptr, *y = nullptr;
  float* y_float = nullptr;
  int* counters = nullptr;
  float* reference_h = nullptr;
  float* reference_out = nullptr;
};

// ---- stream_gemv ----
struct GemvVariant {
  int stages = 2, warps = 12;  // stages of 4 KiB a warp
  bool interleave = true;      // up: neighbouring tiles go to neighbouring CTAs
  std::string str() const;
};
const std::vector<GemvVariant>& gemv_variants(Weights weights);
struct GemvPlan {
  int rows = 8;  // picks of a group at most
  GemvVariant variant;
};
GemvPlan plan_gemv(const Routing& routing, GemvVariant variant);
void stream_up(cudaStream_t stream, const Device& device, const Shape& shape, const Layer& layer,
               const Routing& routing, const Routing::Groups& groups, const GemvPlan& plan, const Buffers& buffers,
               bool programmatic);
void stream_down(cudaStream_t stream, const Device& device, const Shape& shape, const Layer& layer,
                 const Routing& routing, const Routing::Groups& groups, const GemvPlan& plan, const Buffers& buffers,
                 bool fuse_combine, bool programmatic);

// Both projections and the combine in one kernel.
void stream_block(cudaStream_t stream, const Device& device, const Shape& shape, const Layer& layer,
                  const Routing& routing, const GemvPlan& plan, const Buffers& buffers);

// ---- grouped_gemm ----
struct GroupedTile {
  int m = 16, n = 64, k = 64, warps = 4, stages = 6;
};
const std::vector<GroupedTile>& grouped_tiles();
GroupedTile choose_tile(const Routing& routing);
// up: `input` has a row per token, gathered; down: rows in sorted order. Output rows in sorted order.
void grouped_gemm(cudaStream_t stream, const GroupedTile& tile, const Layer& layer, bool up, const Shape& shape,
                  const Routing& routing, const __nv_bfloat16* input, __nv_bfloat16* output);

// ---- helpers ----
void permute(cudaStream_t stream, const Shape& shape, const Routing& routing, const __nv_bfloat16* x,
             __nv_bfloat16* sorted);
void activate(cudaStream_t stream, int rows, int intermediate, const __nv_bfloat16* gate_up, __nv_bfloat16* h);
// Weighted sum over a token's picks; rows of y in sorted order.
void combine(cudaStream_t stream, const Shape& shape, const Routing& routing, const __nv_bfloat16* y,
             __nv_bfloat16* out);
// Sum over a token's picks of already weighted float rows in pick order.
void combine_float(cudaStream_t stream, const Shape& shape, const Routing& routing, const float* y, __nv_bfloat16* out);
// Copies each pick's matrix of `bytes` to its place in sorted order.
void gather_weights(cudaStream_t stream, const Routing& routing, const std::uint8_t* weights, std::int64_t bytes,
                    std::uint8_t* copies);

// ---- data and reference ----
void fill_bf16(cudaStream_t stream, __nv_bfloat16* p, std::int64_t count, float scale, std::uint64_t seed);
void fill_e4m3(cudaStream_t stream, std::uint8_t* p, std::int64_t count, std::uint64_t seed);
void fill_scale(cudaStream_t stream, float* p, std::int64_t count, float scale, std::uint64_t seed);
void reference_ffn(cudaStream_t stream, const Shape& shape, const Layer& layer, const Routing& routing,
                   const Buffers& buffers);

// ---- libraries ----
// cuBLAS, one product per active expert; or all in one grouped call (prepared per repetition, since it takes pointer
// arrays).
class Cublas {
 public:
  Cublas();
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;
  bool available() const;
  void loop(cudaStream_t stream, const Shape& shape, const Layer& layer, bool up, const Routing& routing,
            const __nv_bfloat16* input, __nv_bfloat16* output);
  struct Grouped;
  Grouped* prepare(const Shape& shape, const Layer& layer, bool up, const Routing& routing, const __nv_bfloat16* input,
                   __nv_bfloat16* output);
  void release(Grouped* grouped);
  bool grouped(cudaStream_t stream, const Grouped& grouped);  // false: this library cannot
  void square(cudaStream_t stream, int m, int n, int k, const __nv_bfloat16* a, const __nv_bfloat16* b,
              __nv_bfloat16* c);

 private:
  void* handle_ = nullptr;
  void* workspace_ = nullptr;
};

// Reads `bytes` once, 16 KiB a CTA: the ceiling that a streaming kernel is compared with.
void plain_read(cudaStream_t stream, const std::uint8_t* p, std::int64_t bytes);

// Random weights, allocated and filled once; every model is a view of them.
struct Pool {
  std::uint8_t* bf16 = nullptr;
  std::int64_t bf16_bytes = 0;
  std::uint8_t* e4m3 = nullptr;
  std::int64_t e4m3_bytes = 0;
  float* scales = nullptr;
  std::int64_t scale_count = 0;
  std::uint8_t* copies = nullptr;  // for gathered weights
  std::int64_t copies_bytes = 0;
};
Pool make_pool(cudaStream_t stream, std::uint64_t seed);

void run_micro(const Options& options, const Device& device, Timer& timer, const Pool& pool, Report& report);
void run_moe(const Options& options, const Device& device, Timer& timer, const Pool& pool, Report& report);

}  // namespace harness
