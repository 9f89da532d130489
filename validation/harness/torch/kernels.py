"""The Triton kernels. Sizes are runtime integers, so that few variants are compiled: K and N are multiples of 16 in
every model, and what depends on the batch is never specialised on."""

import os

import triton
import triton.language as tl

# The interpreter multiplies the bit patterns of bf16: there products are taken in float32.
INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")
BATCH = ["picks", "topk", "rows_of_input"]


@triton.jit(do_not_specialize=BATCH)
def gg_kernel(
    a, b, c, a_scale, b_scale, rows, block_expert, n, k, picks, rows_of_input,
    FP8: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    """c[pick] = a[pick // rows_of_input] @ b[expert].T for padded row blocks of one expert each; N fastest, or of
    GROUP_M row blocks each the same N block, one after another."""
    pid = tl.program_id(0)
    n_blocks = tl.cdiv(n, BLOCK_N)
    if GROUP_M == 1:
        block = pid // n_blocks
        n0 = (pid % n_blocks) * BLOCK_N
    else:
        first = pid // (GROUP_M * n_blocks) * GROUP_M
        height = tl.minimum(tl.num_programs(0) // n_blocks - first, GROUP_M)
        within = pid % (GROUP_M * n_blocks)
        block = first + within % height
        n0 = within // height * BLOCK_N
    pick = tl.load(rows + block * BLOCK_M + tl.arange(0, BLOCK_M))
    valid = pick < picks
    row = pick // rows_of_input
    expert = tl.load(block_expert + block).to(tl.int64)
    offs_n = n0 + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_at = a + row[:, None] * k + offs_k[None, :]
    b_at = b + expert * n * k + (offs_n % n)[None, :] * k + offs_k[:, None]
    if FP8:
        k_blocks = k // 128
        a_scale_at = a_scale + row * k_blocks
        b_scale_at = b_scale + (expert * (n // 128) + n0 // 128) * k_blocks
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, k, BLOCK_K):
        left = k - k0
        a_tile = tl.load(a_at, mask=valid[:, None] & (offs_k[None, :] < left), other=0.0)
        b_tile = tl.load(b_at, mask=offs_k[:, None] < left, other=0.0)
        if FP8:
            a_s = tl.load(a_scale_at + k0 // 128, mask=valid, other=0.0)
            b_s = tl.load(b_scale_at + k0 // 128)
            acc += tl.dot(a_tile, b_tile) * (a_s * b_s)[:, None]
        elif INTERPRETED:
            acc = tl.dot(a_tile.to(tl.float32), b_tile.to(tl.float32), acc)
        else:
            acc = tl.dot(a_tile, b_tile, acc)
        a_at += BLOCK_K
        b_at += BLOCK_K
    c_at = c + pick[:, None] * n + offs_n[None, :]
    tl.store(c_at, acc.to(tl.bfloat16), mask=valid[:, None] & (offs_n[None, :] < n))


@triton.jit
def silu_mul(gate_up, h, h_scale, n, FP8: tl.constexpr, BLOCK: tl.constexpr):
    """h = silu(gate) * up, one row of [gate, up] a program row; to e4m3 with a scale per 128 (FP8), else bf16."""
    row = tl.program_id(0)
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = offs < n
    gate = tl.load(gate_up + row * 2 * n + offs, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * n + n + offs, mask=inside, other=0.0).to(tl.float32)
    value = gate / (1.0 + tl.exp(-gate)) * up
    if FP8:
        groups = tl.reshape(value, (BLOCK // 128, 128))
        scale = tl.maximum(tl.max(tl.abs(groups), axis=1) / 448.0, 1e-12)
        value = tl.reshape(groups / scale[:, None], (BLOCK,))
        block = tl.program_id(1) * (BLOCK // 128) + tl.arange(0, BLOCK // 128)
        tl.store(h_scale + row * (n // 128) + block, scale, mask=block < n // 128)
        tl.store(h + row * n + offs, value.to(tl.float8e4nv), mask=inside)
    else:
        tl.store(h + row * n + offs, value.to(tl.bfloat16), mask=inside)


@triton.jit(do_not_specialize=BATCH)
def combine(y, out, place, pick_weights, n, topk, BLOCK: tl.constexpr):
    """out[token] = sum over its picks of weight * y[place of the pick]."""
    token = tl.program_id(0)
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = offs < n
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for slot in range(topk):
        pick = token * topk + slot
        row = tl.load(place + pick)
        weight = tl.load(pick_weights + pick)
        acc += weight * tl.load(y + row * n + offs, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + token * n + offs, acc.to(tl.bfloat16), mask=inside)


@triton.jit(do_not_specialize=BATCH)
def gemv_up(
    x, w, h, w_scale, expert_of_pick, n, k, topk,
    FP8: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """h[pick] = silu(gate) * up of the pick's expert: BLOCK_N rows of gate and of up a program."""
    pick = tl.program_id(0)
    n0 = tl.program_id(1) * BLOCK_N
    expert = tl.load(expert_of_pick + pick).to(tl.int64)
    offs_n = n0 + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    gate_at = w + expert * 2 * n * k + offs_n[:, None] * k + offs_k[None, :]
    up_at = gate_at + n * k
    x_at = x + (pick // topk) * k + offs_k
    gate = tl.zeros((BLOCK_N, BLOCK_K), dtype=tl.float32)
    up = tl.zeros((BLOCK_N, BLOCK_K), dtype=tl.float32)
    if FP8:
        k_blocks = k // 128
        gate_scale_at = w_scale + (expert * (2 * n // 128) + n0 // 128) * k_blocks
        up_scale_at = gate_scale_at + (n // 128) * k_blocks
    for k0 in range(0, k, BLOCK_K):
        inside = offs_k < k - k0
        xv = tl.load(x_at + k0, mask=inside, other=0.0).to(tl.float32)
        g = tl.load(gate_at + k0, mask=inside[None, :], other=0.0).to(tl.float32)
        u = tl.load(up_at + k0, mask=inside[None, :], other=0.0).to(tl.float32)
        if FP8:
            gate += g * (xv * tl.load(gate_scale_at + k0 // 128))[None, :]
            up += u * (xv * tl.load(up_scale_at + k0 // 128))[None, :]
        else:
            gate += g * xv[None, :]
            up += u * xv[None, :]
    g_sum = tl.sum(gate, axis=1)
    value = g_sum / (1.0 + tl.exp(-g_sum)) * tl.sum(up, axis=1)
    tl.store(h + pick * n + offs_n, value.to(tl.bfloat16))


@triton.jit(do_not_specialize=BATCH)
def gemv_down(
    h, w, y, w_scale, expert_of_pick, pick_weights, n, k, topk,
    FP8: tl.constexpr, PER_TOKEN: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """BLOCK_N rows of down a program: y[token] summed over its picks with their weights (PER_TOKEN), or y[pick]."""
    at = tl.program_id(0)
    n0 = tl.program_id(1) * BLOCK_N
    offs_n = n0 + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    first = at * topk if PER_TOKEN else at
    slots = topk if PER_TOKEN else 1
    acc = tl.zeros((BLOCK_N, BLOCK_K), dtype=tl.float32)
    for slot in range(slots):
        pick = first + slot
        expert = tl.load(expert_of_pick + pick).to(tl.int64)
        w_at = w + expert * n * k + offs_n[:, None] * k + offs_k[None, :]
        h_at = h + pick * k + offs_k
        factor = 1.0
        if PER_TOKEN:
            factor = tl.load(pick_weights + pick)
        if FP8:
            scale_at = w_scale + (expert * (n // 128) + n0 // 128) * (k // 128)
        for k0 in range(0, k, BLOCK_K):
            inside = offs_k < k - k0
            hv = tl.load(h_at + k0, mask=inside, other=0.0).to(tl.float32) * factor
            if FP8:
                hv *= tl.load(scale_at + k0 // 128)
            acc += tl.load(w_at + k0, mask=inside[None, :], other=0.0).to(tl.float32) * hv[None, :]
    tl.store(y + at * n + offs_n, tl.sum(acc, axis=1).to(tl.bfloat16))
