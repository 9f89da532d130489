"""What is measured: the points of the other harnesses that one TPU device can run, and shards of experts."""

import dataclasses
import math
import zlib
from dataclasses import dataclass

import shapes  # of the PyTorch harness: models, points, routed batches and their traces
import stream

LANES = 128
MOST_REPEATS = 64
MOST_DEFAULT_TILE_TOKENS = 16  # the library's default tile takes one short step per 128 x 128 weights
LAYER_SHARE = 0.7  # of the device's memory
GMM_BLOCK_BYTES = 12 << 20  # of a step's buffers in VMEM: below the compiler's default limit on every chip


@dataclass(frozen=True)
class Point(shapes.Point):
    ep: int = 1

    @property
    def local_experts(self):
        return self.model.experts // self.ep

    @property
    def layer_bytes(self):
        return self.expert_bytes * self.local_experts

    def __str__(self):
        return f"{super().__str__()} ep{self.ep}" if self.ep > 1 else super().__str__()


def points(quick, names=None):
    """Those of shapes.points, then experts over 8 devices; by weights on the device, which are made once."""
    common = [Point(**{f.name: getattr(p, f.name) for f in dataclasses.fields(p)}) for p in shapes.points(quick, names)]
    qwen35, _, deepseek, qwen3, *_ = shapes.MODELS
    result = [p for p in common if p.tokens <= 64]
    for tokens in (1, 4, 16) if quick else (1, 2, 3, 4, 8, 16, 32, 64):
        for model in (qwen35,) if quick else (qwen35, deepseek, qwen3):
            if names is None or model.name in names:
                for weights in ("fp8_block128", "bf16"):
                    result.append(Point(model, 1, weights, "uniform", tokens, stages=tokens in (1, 4, 16, 64), ep=8))
    if not quick and (names is None or qwen35.name in names):
        result += [Point(qwen35, 8, weights, "uniform", 3) for weights in ("fp8_block128", "bf16")]
    order = list(dict.fromkeys(same_weights(p) for p in result))
    return sorted(result, key=lambda p: order.index(same_weights(p)))


def same_weights(point):
    return point.model.name, point.tp, point.ep, point.weights


def repeats_and_layers(point, cache_bytes, memory_bytes):
    """(distinct routings, copies of the layer) so that more than three times the cache is touched before a weight comes
    again; None where one layer does not fit."""
    most_layers = int(LAYER_SHARE * memory_bytes // point.layer_bytes)
    if most_layers < 1:
        return None
    m, drawn = point.model, 1 if point.routing == "same" else point.tokens
    touched = point.local_experts * (1 - (1 - m.topk / m.experts) ** drawn) * point.expert_bytes
    fewest = 2 if touched > shapes.LONG_RUN_BYTES else 4
    repeats = min(max(math.ceil(shapes.CACHES_TOUCHED * cache_bytes / touched), fewest), MOST_REPEATS)
    layers = min(most_layers, repeats)
    return -(-repeats // layers) * layers, layers


def stream_plan(point, ring, vmem_bytes):
    """None where no width of slice fits, or a width is not one of whole lanes."""
    if point.model.hidden % LANES or point.intermediate % LANES:
        return None
    return stream.plan_for(
        point.tokens, point.picks, point.model.hidden, point.intermediate, point.fp8, ring, vmem_bytes
    )


def widest(size, most):
    """The widest block of whole lanes up to `most` that divides `size`; `most` where none does (the last is masked)."""
    return next((block for block in range(most, 0, -LANES) if size % block == 0), most)


def gmm_tiles(point, mean_rows):
    """(rows, K, N) of a step of each product: rows by the mean of an active expert, weights as wide as fit."""
    rows = next((tile for most, tile in ((16, 16), (48, 32), (96, 64)) if mean_rows <= most), 128)

    def tile(k, n):
        block_k, block_n = widest(k, 2048), widest(n, 1024)
        while 2 * 2 * (block_k * block_n + rows * (block_k + block_n)) + 4 * rows * block_n > GMM_BLOCK_BYTES:
            block_n = widest(n, block_n - LANES)
        return rows, block_k, block_n

    m = point.model
    return tile(m.hidden, 2 * point.intermediate), tile(point.intermediate, m.hidden)


def pick_seed(point, seed):
    return zlib.crc32(f"picks {seed} {point.model.name} {point.routing} {point.tokens}".encode())
