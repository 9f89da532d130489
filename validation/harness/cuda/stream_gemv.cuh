// stream_gemv, implementation "cuda-stream-gemv": the expert FFN for few tokens as two passes over the chosen experts'
// weights, without copy and without padding of rows; both passes in one kernel, or each in its own.
//
// Layout: gate and up are [experts][2 * intermediate][hidden] (gate rows first), down is
// [experts][hidden][intermediate]; fp8_block128: e4m3 with one float scale per 128 x 128 block. Activations are bf16
// (fp8: f16 between the projections).
//
// Design
// - Memory: one CTA an SM; each warp has its own ring in shared memory, filled by cp.async past L1. A stage is 8 weight
//   rows (up: 4 of gate and the same 4 of up, so that SiLU(gate) * up needs no exchange) x 512 contiguous bytes. About
//   128 KiB an SM are in flight. Weights leave the cache first (evict_first): the same kernel without took 4 to
//   20 % longer (one clocked launch each).
// - Arithmetic: m16n8k16. A takes 16 bytes of a weight row a thread as they lie in memory (fp8: converted), without a
//   move: matrix rows g and g + 8 are one weight row's even and odd pairs. B's columns 0-3 are 4 picks' even pairs of x,
//   4-7 their odd ones; x and h are kept in that order. The two halves are added by a shuffle. Rows are padded by 64
//   bytes in the ring: no bank conflicts.
// - A stage's sums go to shared memory, one slot a stage; no barrier until a batch of tiles is full, then all threads add
//   the stages of a row. The batches alternate between two halves: one barrier a batch.
// - Up: an equal share of the tiles a CTA. Down: a CTA has all experts' parts of its rows of the output, so that the
//   combine is local: no atomics, no second kernel.
// - Both in one kernel (stream_block): the ring runs on from up to down, since weights do not depend on up; the wait for
//   all CTAs' up costs memory time only where it is longer than the ring. Needs all CTAs resident: one an SM.
// - fp8: cvt.rn.f16x2.e4m3x2 feeds f16 matrix instructions (x beyond 65504 saturates; it is converted once to shared
//   memory where it fits); each 128-wide block's sum is scaled and added in float32.
//
// - What the kernel before wrote (x or h) is sent for ahead of the weights; scales travel in the ring beside their
//   weights. Behind full rings (17 MB, 3.7 us of memory time) either held up the first products, or each stage's.
//
// Measured (H200), share of a plain read of the same bytes. One projection in bf16: gate and up 0.92 to 0.99 from 130 MB on
// (0.88 at 222 MB of 7168-wide rows), 0.82 to 0.87 at 59 to 67 MB. Whole block, at best: bf16 0.93 to 0.99 from 700 MB
// on, 0.89 at 250 MB, 0.76 at 75 MB; fp8 0.86 to 0.91 from 350 MB on, 0.78 at 126 MB. A block takes about 6 us more than the
// read: launch, routing and first loads, all CTAs' wait between up and down, sums and combine.
#pragma once

#include "device_math.cuh"

namespace harness {

struct StreamPhase {
  const std::uint8_t* weights;  // of all experts
  const float* scales;          // fp8 only: [experts][rows / 128][k / 128]
  const void* x;                // up: [tokens][k] bf16; down: [picks][k]
  int n, k, row_bytes, steps;   // outputs; steps of 512 bytes of a row
  unsigned steps_inverse;       // 2^32 / steps, rounded up
  int batch;                    // tiles between two barriers
  int run;
};
struct StreamArguments {
  StreamPhase phase[2];  // up, down
  const int4* groups;    // {expert, first pick, picks, place in its expert | groups of its expert << 16}
  const int* picks;      // sorted by expert: token * topk + slot
  const float* pick_weights;
  void* h;             // [picks][intermediate]
  float* y;            // [picks][hidden]: weighted, where the combine is not fused or does not fit in shared memory
  __nv_bfloat16* out;  // [tokens][hidden]
  unsigned* arrivals;  // for the wait of all CTAs; never reset
  int group_count, pick_count, tokens, topk;
  int up_share, up_share_rest, block_share,
      block_share_rest;  // tiles of up, row blocks of down: each CTA's, and one more
  unsigned group_count_inverse, up_tiles_inverse, topk_inverse;
  int stages;
  int most;        // picks of the largest group
  int half;        // floats of half the room for partial sums
  int x_elements;  // of x in shared memory (fp8: as f16), or 0
  int h_vectors;   // 16 bytes each, of h in shared memory, or 0
  int y_rows;      // rows of y in shared memory, or 0
  int fuse_combine;
  int early;       // the kernel before has ended: what it wrote may be read at once
  int interleave;  // up: neighbouring tiles go to neighbouring CTAs; otherwise to the same one
};

constexpr int kPieceBytes = 512, kPieceStride = kPieceBytes + 64, kTileRows = 8;
constexpr int kStageBytes = kTileRows * kPieceStride;
constexpr int kTagBytes = 16, kScaleBytes = 32;  // of a stage: where it belongs; fp8: scales of gate's and up's blocks
constexpr int kEarly = 4;  // vectors of x (or h) that a thread holds while the weights are sent for

// n / d where n * d < 2^32, by d's inverse (0 stands for d = 1).
__device__ __forceinline__ int quotient(int n, unsigned inverse) {
  return inverse == 0 ? n : static_cast<int>(__umulhi(static_cast<unsigned>(n), inverse));
}

__device__ __forceinline__ void wait_for_all_ctas(unsigned* arrivals) {
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned before, now;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(arrivals) : "memory");
    const unsigned target = before / gridDim.x * gridDim.x + gridDim.x;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(arrivals) : "memory");
    } while (static_cast<int>(now - target) < 0);
  }
  __syncthreads();
}

template <int kStages>
__device__ __forceinline__ void wait_for_stage(int stages) {
  if constexpr (kStages > 1) {
    if (stages < kStages) return wait_for_stage<kStages - 1>(stages);
  }
  copy_async_wait<kStages - 1>();
}

// Threads a CTA has at most: conversion needs registers.
template <bool kFp8>
__global__ void __launch_bounds__(kFp8 ? 384 : 512, 1) stream_gemv(const StreamArguments p) {
  extern __shared__ __align__(128) std::uint8_t shared[];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  const int g = lane >> 2, t = lane & 3;
  const int slots = warps * p.stages;
  std::uint8_t* at = shared + slots * kStageBytes;
  const auto take = [&](int bytes) {
    std::uint8_t* const here = at;
    at += (bytes + 15) / 16 * 16;
    return here;
  };
  int4* const groups = reinterpret_cast<int4*>(take(p.group_count * 16));
  int4* const tags = reinterpret_cast<int4*>(take(slots * kTagBytes)) + warp * p.stages;
  float* const scale_ring = reinterpret_cast<float*>(take(kFp8 ? slots * kScaleBytes : 0)) + warp * p.stages * 8;
  float* const partial = reinterpret_cast<float*>(take(p.half * 8));
  int* const picks = reinterpret_cast<int*>(take(p.pick_count * 4));
  float* const pick_weights = reinterpret_cast<float*>(take(p.pick_count * 4));
  std::uint8_t* const x_shared = take(max(p.x_elements * 2, p.h_vectors * 16));
  float* const y_shared = reinterpret_cast<float*>(take(p.pick_count * p.y_rows * 4));
  int* const rows_of_x = reinterpret_cast<int*>(take(p.pick_count * 4));
  const std::uint32_t ring = shared_address(shared) + warp * p.stages * kStageBytes;
  const std::uint8_t* const ring_pointer = shared + warp * p.stages * kStageBytes + g * kPieceStride + t * 16;

  launch_dependents();
  // What the kernel before wrote is on its way ahead of the weights, where it has ended: behind a full ring it would
  // come only after what all rings hold (17 MB, 3.7 us), and nobody could empty them meanwhile.
  const auto given_index = [&](int q) { return static_cast<int>(threadIdx.x + q * blockDim.x); };
  const uint4* const given = static_cast<const uint4*>(p.phase[p.phase[0].run ? 0 : 1].x);
  const int given_vectors = p.phase[0].run ? p.x_elements / 8 : p.h_vectors;
  uint4 early[kEarly];
  if (p.early) {
#pragma unroll
    for (int q = 0; q < kEarly; ++q)
      if (given_index(q) < given_vectors) early[q] = given[given_index(q)];
  }
  const int my_pick = threadIdx.x < p.pick_count ? p.picks[threadIdx.x] : 0;
  for (int i = threadIdx.x; i < p.group_count; i += blockDim.x) groups[i] = p.groups[i];
  const float my_weight = threadIdx.x < p.pick_count && p.phase[1].run ? p.pick_weights[my_pick] : 0;
  __syncthreads();

  // This CTA's tiles: up, a run of all tiles; down, all experts' tiles of a run of row blocks.
  const int up_row_tiles = p.phase[0].n / 4, cta = blockIdx.x;
  const int first_up = cta * p.up_share + min(cta, p.up_share_rest);
  const int first_block = cta * p.block_share + min(cta, p.block_share_rest);
  const int blocks = p.block_share + (cta < p.block_share_rest);
  const int tiles[2] = {p.phase[0].run ? p.up_share + (cta < p.up_share_rest) : 0,
                        p.phase[1].run ? blocks * p.group_count : 0};
  const auto locate = [&](bool down, int tile) {  // {group, first row}
    if (down) {
      const int block = quotient(tile, p.group_count_inverse);
      return make_int2(tile - block * p.group_count, (first_block + block) * kTileRows);
    }
    // Groups of one expert take its row tiles in turn, so that the copies of a read after the first hit the cache.
    const int of_all = p.interleave ? tile * static_cast<int>(gridDim.x) + cta : first_up + tile;
    const int any = quotient(of_all, p.up_tiles_inverse);
    const int place = groups[any].w, of_expert = place >> 16, first_group = any - (place & 0xffff);
    const int local = of_all - first_group * up_row_tiles;
    if (of_expert == 1) return make_int2(any, local * 4);
    return make_int2(first_group + local % of_expert, local / of_expert * 4);
  };

  // The loads run `stages` stages ahead, across tiles and from up to down.
  const std::uint64_t once = read_once_policy();
  const int units_up = tiles[0] * p.phase[0].steps, units_down = tiles[1] * p.phase[1].steps;
  int ahead_phase = 0, ahead = warp;
  const auto issue = [&](int slot) {
    while (ahead_phase < 2 && ahead >= (ahead_phase ? units_down : units_up)) ++ahead_phase, ahead = warp;
    if (ahead_phase < 2) {
      const StreamPhase& phase = p.phase[ahead_phase];
      const bool down = ahead_phase == 1;
      const int tile = quotient(ahead, phase.steps_inverse), step = ahead - tile * phase.steps;
      const int2 where = locate(down, tile);
      const int4 group = groups[where.x];
      if (lane == 0) tags[slot] = make_int4(group.x | group.z << 16, group.y, step | where.y << 8, tile);
      const int offset = step * kPieceBytes + lane * 16;
      const long long matrix_rows = down ? phase.n : 2LL * phase.n;
      const std::uint8_t* source = phase.weights + (group.x * matrix_rows + where.y) * phase.row_bytes + offset;
      const long long to_up = down ? 0 : static_cast<long long>(phase.n - 4) * phase.row_bytes;
      const std::uint32_t target = ring + slot * kStageBytes + lane * 16;
      if constexpr (kFp8) {
        const int block = step * 4 + (lane & 3), columns = phase.k / 128;
        if (lane < (down ? 4 : 8) && block < columns) {
          const int row = where.y + (lane >= 4 ? phase.n : 0);
          copy_async4(shared_address(scale_ring) + slot * kScaleBytes + lane * 4,
                      phase.scales + (group.x * (matrix_rows / 128) + row / 128) * columns + block);
        }
      }
      if (offset < phase.row_bytes) {
#pragma unroll
        for (int row = 0; row < kTileRows; ++row) {
          if (row == 4) source += to_up;
          copy_async16_once(target + row * kPieceStride, source, once);
          source += phase.row_bytes;
        }
      }
      ahead += warps;
    }
    copy_async_commit();
  };
  for (int s = 0; s < p.stages; ++s) issue(s);

  for (int i = threadIdx.x; i < p.pick_count; i += blockDim.x) {
    const int pick = i == threadIdx.x ? my_pick : p.picks[i];
    picks[i] = pick;
    rows_of_x[i] = quotient(pick, p.topk_inverse);
  }
  wait_for_previous();  // everything above is weights and routing, or early
  // x in the order in which the B fragments take it: of the pairs of 8 (fp8: 16) elements first the even, then the odd.
  // A vector's place: bf16, its own; fp8, two neighbours' even pairs, then their odd ones. h is written in order.
  std::uint8_t* const ordered = x_shared;
  const auto put = [&](int i, uint4 v) {
    if (!p.phase[0].run) {
      reinterpret_cast<uint4*>(ordered)[i] = v;
    } else if constexpr (kFp8) {
      uint2* const pair = reinterpret_cast<uint2*>(ordered) + (i >> 1) * 4 + (i & 1);
      pair[0] = make_uint2(bf16x2_to_f16x2(v.x), bf16x2_to_f16x2(v.z));
      pair[2] = make_uint2(bf16x2_to_f16x2(v.y), bf16x2_to_f16x2(v.w));
    } else {
      reinterpret_cast<uint4*>(ordered)[i] = make_uint4(v.x, v.z, v.y, v.w);
    }
  };
#pragma unroll
  for (int q = 0; q < kEarly; ++q)
    if (given_index(q) < given_vectors) put(given_index(q), p.early ? early[q] : given[given_index(q)]);
  for (int i = given_index(kEarly); i < given_vectors; i += blockDim.x) put(i, given[i]);
  __syncthreads();

  int slot = 0, turn = 0;
#pragma unroll
  for (int which = 0; which < 2; ++which) {
    const StreamPhase& phase = p.phase[which];
    const bool down = which == 1;
    if (!phase.run) continue;
    if (down && p.phase[0].run) wait_for_all_ctas(p.arrivals);
    const bool as_given = !down && p.x_elements == 0;
    if (down) {
      for (int i = threadIdx.x; i < p.pick_count; i += blockDim.x)
        pick_weights[i] = i == threadIdx.x ? my_weight : p.pick_weights[picks[i]];
    }
    if (down && p.h_vectors > 0 && p.phase[0].run) {
      for (int i = threadIdx.x; i < p.h_vectors; i += 4 * blockDim.x) {
        uint4 v[4];
#pragma unroll
        for (int q = 0; q < 4; ++q)
          if (i + q * blockDim.x < p.h_vectors) v[q] = static_cast<const uint4*>(phase.x)[i + q * blockDim.x];
#pragma unroll
        for (int q = 0; q < 4; ++q)
          if (i + q * blockDim.x < p.h_vectors) reinterpret_cast<uint4*>(ordered)[i + q * blockDim.x] = v[q];
      }
      __syncthreads();
    }
    const std::uint8_t* const x_all =
        (down && p.h_vectors == 0) || as_given ? static_cast<const std::uint8_t*>(phase.x) : x_shared;
    int unit = warp;
    for (int first_tile = 0; first_tile < tiles[which]; first_tile += phase.batch, ++turn) {
      const int last_tile = min(first_tile + phase.batch, tiles[which]);
      float* const sums = partial + (turn & 1) * p.half;
      for (; unit < last_tile * phase.steps; unit += warps) {
        const int4 tag = tags[slot];
        const int rows = tag.x >> 16, first_pick = tag.y, step = tag.z & 0xff;
        const int blocks_here = min(kPieceBytes, phase.row_bytes - step * kPieceBytes) / 64;
        const std::uint8_t* const w = ring_pointer + slot * kStageBytes;
        float* const mine = sums + ((step * phase.batch + tag.w - first_tile) * p.most) * kTileRows + g;
        const float* const factors = scale_ring + slot * 8 + (!down && g >= 4 ? 4 : 0);
        // Sums of 4 * kSets picks. A takes 16 bytes a thread as they lie, so that matrix rows g and g + 8 are one weight
        // row's even and odd pairs; B's columns 0-3 are the picks' even pairs, 4-7 their odd ones.
        const auto multiply = [&]<int kSets, bool kFull, bool kAsGiven>(int first_row) {
          const std::uint8_t* x[kSets];
          constexpr int kChunk = kFp8 ? 4 : 8;  // blocks of which x is in registers
          uint4 v[kSets][kChunk];               // bf16 uses x and y
          constexpr int kBlockX = kFp8 ? 128 : 64;
#pragma unroll
          for (int i = 0; i < kSets; ++i) {
            // Beyond the group: any row, nobody looks.
            const int row = (down ? picks : rows_of_x)[first_pick + min(first_row + 4 * i + (g & 3), rows - 1)];
            x[i] = x_all + static_cast<long long>(row) * phase.k * 2 + step * 8 * kBlockX + t * (kBlockX / 4) +
                   (kAsGiven ? 0 : (g >> 2) * (kBlockX / 8));
          }
          float sum[kSets][4] = {}, other[kSets][4] = {};
#pragma unroll
          for (int chunk = 0; chunk < 8; chunk += kChunk) {
#pragma unroll
            for (int q = 0; q < kChunk; ++q) {
              const int b = chunk + q;
              if (kFull || b < blocks_here) {
#pragma unroll
                for (int i = 0; i < kSets; ++i) {
                  const std::uint8_t* const from = x[i] + b * kBlockX;
                  if constexpr (kAsGiven) {
                    const uint4 low = *reinterpret_cast<const uint4*>(from);
                    v[i][q].x = g < 4 ? low.x : low.y;
                    v[i][q].y = g < 4 ? low.z : low.w;
                    if constexpr (kFp8) {
                      const uint4 high = *reinterpret_cast<const uint4*>(from + 16);
                      v[i][q] = make_uint4(bf16x2_to_f16x2(v[i][q].x), bf16x2_to_f16x2(v[i][q].y),
                                           bf16x2_to_f16x2(g < 4 ? high.x : high.y),
                                           bf16x2_to_f16x2(g < 4 ? high.z : high.w));
                    }
                  } else if constexpr (kFp8) {
                    v[i][q] = *reinterpret_cast<const uint4*>(from);
                  } else {
                    const uint2 pairs = *reinterpret_cast<const uint2*>(from);
                    v[i][q].x = pairs.x, v[i][q].y = pairs.y;
                  }
                }
              }
            }
            if (chunk == 0) {
              wait_for_stage<6>(p.stages);
              __syncwarp();
            }
#pragma unroll
            for (int q = 0; q < kChunk; ++q) {
              const int b = chunk + q;
              if (!kFull && b >= blocks_here) break;
              const uint4 a = *reinterpret_cast<const uint4*>(w + b * 64);
              if constexpr (!kFp8) {
#pragma unroll
                for (int i = 0; i < kSets; ++i)
                  mma_bf16(b & 1 ? other[i] : sum[i], a.x, a.y, a.z, a.w, v[i][q].x, v[i][q].y);
              } else {
                const std::uint32_t p0 = e4m3x2_to_f16x2(a.x), p1 = e4m3x2_to_f16x2_high(a.x);
                const std::uint32_t p2 = e4m3x2_to_f16x2(a.y), p3 = e4m3x2_to_f16x2_high(a.y);
                const std::uint32_t p4 = e4m3x2_to_f16x2(a.z), p5 = e4m3x2_to_f16x2_high(a.z);
                const std::uint32_t p6 = e4m3x2_to_f16x2(a.w), p7 = e4m3x2_to_f16x2_high(a.w);
#pragma unroll
                for (int i = 0; i < kSets; ++i) {
                  mma_f16(other[i], p0, p1, p2, p3, v[i][q].x, v[i][q].y);
                  mma_f16(other[i], p4, p5, p6, p7, v[i][q].z, v[i][q].w);
                  if (b & 1) {  // the end of a 128-wide block
                    const float factor = factors[b / 2];
#pragma unroll
                    for (int c = 0; c < 4; ++c) sum[i][c] += other[i][c] * factor, other[i][c] = 0;
                  }
                }
              }
            }
          }
#pragma unroll
          for (int i = 0; i < kSets; ++i) {
#pragma unroll
            for (int c = 0; c < 4; ++c) sum[i][c] += other[i][c];
            const float first = sum[i][0] + __shfl_down_sync(~0u, sum[i][2], 2);
            const float second = sum[i][1] + __shfl_down_sync(~0u, sum[i][3], 2);
            const int r = first_row + 4 * i + 2 * t;
            if (t < 2 && r < rows) mine[r * kTileRows] = first;
            if (t < 2 && r + 1 < rows) mine[(r + 1) * kTileRows] = second;
          }
        };
        const auto choose = [&]<bool kFull, bool kAsGiven>() {
          if (rows <= 4)
            multiply.template operator()<1, kFull, kAsGiven>(0);
          else
            for (int first_row = 0; first_row < rows; first_row += 8)
              multiply.template operator()<2, kFull, kAsGiven>(first_row);
        };
        if (blocks_here == 8) {
          if (!down && as_given)
            choose.template operator()<true, true>();
          else
            choose.template operator()<true, false>();
        } else {
          if (!down && as_given)
            choose.template operator()<false, true>();
          else
            choose.template operator()<false, false>();
        }
        __syncwarp();
        issue(slot);
        if (++slot == p.stages) slot = 0;
      }
      __syncthreads();

      // The batch is complete: add each row's stages.
      const int outputs = down ? 8 : 4;
      const int pitch = phase.batch * p.most * kTileRows;
      for (int i = threadIdx.x; i < (last_tile - first_tile) * p.most * outputs; i += blockDim.x) {
        const int j = i % outputs, rest = i / outputs, r = rest % p.most, tile = rest / p.most;
        const int2 where = locate(down, first_tile + tile);
        const int4 group = groups[where.x];
        if (r >= group.z) continue;
        const float* const column = sums + rest * kTileRows + j;
        float value = 0, up = 0;
#pragma unroll 4
        for (int step = 0; step < phase.steps; ++step) {
          value += column[step * pitch];
          if (!down) up += column[step * pitch + 4];
        }
        const int pick = picks[group.y + r], row = where.y + j;
        if (!down) {
          const float h = silu(value) * up;
          const int pair = row / 2 % (kFp8 ? 8 : 4);  // ordered as x_shared is
          const int ordered_row = row - pair * 2 + (pair & 1 ? (kFp8 ? 8 : 4) : 0) + pair / 2 * 2;
          const long long to = static_cast<long long>(pick) * phase.n + ordered_row;
          if constexpr (kFp8)
            static_cast<__half*>(p.h)[to] = __float2half_rn(fminf(fmaxf(h, -65504.0f), 65504.0f));
          else
            static_cast<__nv_bfloat16*>(p.h)[to] = __float2bfloat16_rn(h);
        } else {
          value *= pick_weights[group.y + r];
          if (p.y_rows > 0)
            y_shared[pick * p.y_rows + row - first_block * kTileRows] = value;
          else
            p.y[static_cast<long long>(pick) * phase.n + row] = value;
        }
      }
    }
    if (down && p.fuse_combine) {
      __syncthreads();
      const int rows = blocks * kTileRows;
      for (int i = threadIdx.x; i < rows * p.tokens; i += blockDim.x) {
        const int token = i / rows, row = i - token * rows;
        float total = 0;
        for (int s = 0; s < p.topk; ++s) {
          const int pick = token * p.topk + s;
          total += p.y_rows > 0 ? y_shared[pick * p.y_rows + row]
                                : p.y[static_cast<long long>(pick) * phase.n + first_block * kTileRows + row];
        }
        p.out[static_cast<long long>(token) * phase.n + first_block * kTileRows + row] = __float2bfloat16_rn(total);
      }
    }
  }
}

}  // namespace harness
