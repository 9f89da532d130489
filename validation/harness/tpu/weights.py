"""Random weights of one layer, on the host and on the device, and the reference.

Weights are (up, down) in bf16, or (up, down, up_scale, down_scale) in e4m3: up [experts, hidden, 2 * intermediate] with
the gate's columns first, down [experts, intermediate, hidden]; a float32 scale per 128 x 128 weights, written out over
its 128 columns: [experts, rows / 128, 1, columns], so that any rows of it can be copied."""

import functools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

SCALE_BLOCK = 128
BF16_RANGE = 0.03
SCALE = 5.8e-4
E4M3_EXPONENTS = 0x70  # any sign, exponents 0 to 13: no NaN, up to 224


def shapes_of(experts, hidden, intermediate, fp8):
    """(shape, is a scale) of each array."""
    matrices = ((hidden, 2 * intermediate), (intermediate, hidden))
    result = [((experts, *matrix), False) for matrix in matrices]
    if fp8:
        result += [((experts, rows // SCALE_BLOCK, 1, columns), True) for rows, columns in matrices]
    return result


def kind_of(fp8, scale):
    return jnp.float32 if scale else jnp.float8_e4m3fn if fp8 else jnp.bfloat16


def on_host(rng, experts, hidden, intermediate, fp8):
    arrays = []
    for shape, scale in shapes_of(experts, hidden, intermediate, fp8):
        if scale:
            blocks = rng.uniform(0.5 * SCALE, 1.5 * SCALE, (*shape[:-1], shape[-1] // SCALE_BLOCK))
            arrays.append(np.repeat(blocks.astype(np.float32), SCALE_BLOCK, axis=-1))
        elif fp8:
            bits = rng.integers(0, 256, shape, dtype=np.uint8)
            arrays.append(((bits & 0x7F) % E4M3_EXPONENTS | (bits & 0x80)).view(ml_dtypes.float8_e4m3fn))
        else:
            arrays.append(rng.uniform(-BF16_RANGE, BF16_RANGE, shape).astype(ml_dtypes.bfloat16))
    return tuple(arrays)


@functools.partial(jax.jit, static_argnames=("shape", "fp8", "scale"))
def array_on_device(keys, shape, fp8, scale):
    """[len(keys), *shape], expert by expert, so that no temporary is as large as a layer."""

    def one(key):
        if scale:
            blocks = jax.random.uniform(
                key, (*shape[:-1], shape[-1] // SCALE_BLOCK), jnp.float32, 0.5 * SCALE, 1.5 * SCALE
            )
            return jnp.repeat(blocks, SCALE_BLOCK, axis=-1)
        if fp8:
            bits = jax.random.bits(key, shape, jnp.uint8)
            return jax.lax.bitcast_convert_type((bits & 0x7F) % E4M3_EXPONENTS | (bits & 0x80), jnp.float8_e4m3fn)
        return jax.random.uniform(key, shape, jnp.bfloat16, -BF16_RANGE, BF16_RANGE)

    return jax.lax.map(one, keys)


def on_device(key, experts, hidden, intermediate, fp8):
    """As on_host."""
    arrays = []
    for number, (shape, scale) in enumerate(shapes_of(experts, hidden, intermediate, fp8)):
        keys = jax.random.split(jax.random.fold_in(key, number), experts)
        arrays.append(jax.block_until_ready(array_on_device(keys, shape[1:], fp8, scale)))
    return tuple(arrays)


def shard(weights, tp, ep, rank):
    """Device `rank` of tp * ep, of a layer on the host: `ep` cuts experts, `tp` the intermediate width."""
    ep_rank, tp_rank = divmod(rank, tp)
    experts, intermediate = len(weights[0]) // ep, weights[0].shape[2] // 2

    def columns(up):
        gate_and_up = up.reshape(*up.shape[:-1], 2, tp, intermediate // tp)
        return np.ascontiguousarray(gate_and_up[..., tp_rank, :]).reshape(*up.shape[:-1], -1)

    def rows(down):
        return down[:, tp_rank * (down.shape[1] // tp) : (tp_rank + 1) * (down.shape[1] // tp)]

    own = [a[ep_rank * experts : (ep_rank + 1) * experts] for a in weights]
    return tuple(columns(a) if number % 2 == 0 else rows(a) for number, a in enumerate(own))


def expert_in_float64(weights, expert):
    """(gate and up, down) of one expert."""
    wide = [np.asarray(array[expert]).astype(np.float64) for array in weights]
    if len(wide) == 2:
        return wide[0], wide[1]
    up, down, up_scale, down_scale = wide
    return up * np.repeat(up_scale[:, 0], SCALE_BLOCK, axis=0), down * np.repeat(down_scale[:, 0], SCALE_BLOCK, axis=0)


def reference(picks, shard_number, local_experts, x, weights):
    """float64 [tokens, hidden]: the device's part of the layer, pick by pick, from a device's own weights."""
    x = np.asarray(x).astype(np.float64)
    result = np.zeros_like(x)
    local = picks.experts - shard_number * local_experts
    for expert in range(local_experts):
        tokens, ranks = np.nonzero((local == expert) & (picks.weights != 0))
        if not len(tokens):
            continue
        up, down = expert_in_float64(weights, expert)
        for token, weight in zip(tokens, picks.weights[tokens, ranks].astype(np.float64)):
            gate, linear = np.split(x[token] @ up, 2)
            result[token] += weight * (gate / (1 + np.exp(-gate)) * linear) @ down
    return result


def reference_on_device(of_experts, x, weights):
    """The same in float32 by XLA, all tokens through each active expert, for layers that are too large for the host.
    `of_experts` [tokens, local experts]: the picks' weights."""
    active = np.flatnonzero(of_experts.any(axis=0)).astype(np.int32)
    if not len(active):
        return jnp.zeros(x.shape, jnp.float32)

    def matrix(weights, number, expert):
        wide = weights[number][expert].astype(jnp.float32)
        if len(weights) > 2:
            wide = wide * jnp.repeat(weights[number + 2][expert][:, 0], SCALE_BLOCK, axis=0)
        return wide

    def product(a, b):
        return jnp.dot(a, b, precision=jax.lax.Precision.HIGHEST)

    def one_expert(expert, x, weights, of_experts):
        gate, linear = jnp.split(product(x, matrix(weights, 0, expert)), 2, axis=1)
        return of_experts[:, expert][:, None] * product(jax.nn.silu(gate) * linear, matrix(weights, 1, expert))

    @jax.jit
    def all_experts(active, x, weights, of_experts):
        def body(number, total):
            return total + one_expert(active[number], x, weights, of_experts)

        return jax.lax.fori_loop(0, len(active), body, jnp.zeros(x.shape, jnp.float32))

    return all_experts(active, x.astype(jnp.float32), weights, of_experts)


def relative_error(result, expected):
    """|result - expected| / |expected|, both as vectors; where the expected is 0 (no pick at all), 0 or infinite."""
    difference = np.linalg.norm(np.asarray(result).astype(np.float64) - expected)
    size = np.linalg.norm(expected)
    if size == 0:
        return 0.0 if difference == 0 else np.inf
    return float(difference / size)
