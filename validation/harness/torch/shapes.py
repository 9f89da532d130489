"""What is measured: models, points, routed batches, tile choices. No PyTorch here."""

import array
import ast
import heapq
import itertools
import math
import random
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

# Pools of random weights that all models cut theirs from, and the bounds of a point: as in the CUDA harness, so that
# both choose the same repeats for a point and hence share its routed trace.
BF16_POOL_BYTES = 27e9
E4M3_POOL_BYTES = 13e9
COPIES_POOL_BYTES = 6e9
SCALE_COUNT = 8 << 20
MOST_PICKS = 8192
MOST_ELEMENTS = 80 << 20  # picks * 2 * intermediate
CACHES_TOUCHED = 3.2  # last-level caches that a rotation touches
MOST_REPEATS = 64
LONG_RUN_BYTES = 2.5e9  # beyond this a rotation has two routings, else four or more
SCALE_BLOCK = 128


@dataclass(frozen=True)
class Model:
    name: str
    hidden: int
    intermediate: int
    experts: int
    topk: int


MODELS = (
    Model("qwen3.5-397b", 4096, 1024, 512, 10),
    Model("mixtral-8x7b", 4096, 14336, 8, 2),
    Model("deepseek-v3", 7168, 2048, 256, 8),
    Model("qwen3-30b", 2048, 768, 128, 8),
    Model("gpt-oss-120b", 2880, 2880, 128, 4),
    Model("olmoe", 2048, 1024, 64, 8),
)


@dataclass(frozen=True)
class Point:
    model: Model
    tp: int
    weights: str  # "bf16" | "fp8_block128"
    routing: str  # "uniform" | "zipf:S" | "same"
    tokens: int
    stages: bool = False
    stream: bool = True
    gather: bool = False
    loop: bool = False
    tiles: tuple = ()  # of the grouped kernel, which then runs alone; (): its own rule

    @property
    def fp8(self):
        return self.weights == "fp8_block128"

    @property
    def intermediate(self):  # of a shard
        return self.model.intermediate // self.tp

    @property
    def picks(self):
        return self.tokens * self.model.topk

    @property
    def expert_bytes(self):
        return 3 * self.model.hidden * self.intermediate * (1 if self.fp8 else 2)

    def __str__(self):
        shard = f" tp{self.tp}" if self.tp > 1 else ""
        return f"{self.model.name}{shard} {self.weights} {self.routing} T{self.tokens}"


def points(quick, names=None):
    """All points, the most wanted first."""
    qwen35, mixtral, deepseek, qwen3, gpt_oss, olmoe = MODELS
    few = (1, 4, 16) if quick else (1, 2, 4, 8, 16, 32, 64)
    chosen = (1, 4, 16, 64)  # with stages
    result = []

    def sweep(models, tp, routing, tokens, details):
        for t in tokens:
            for model in models:
                for weights in ("bf16", "fp8_block128"):
                    if names is not None and model.name not in names:
                        continue
                    result.append(
                        Point(
                            model,
                            tp,
                            weights,
                            routing,
                            t,
                            stages=t in chosen and (details or tp > 1),
                            stream=t <= 64,
                            gather=details and t <= 4,
                            loop=details and t in chosen and not quick,
                        )
                    )

    sweep((qwen35, mixtral, deepseek, qwen3) if quick else MODELS, 1, "uniform", few, True)
    sweep((qwen35, mixtral, deepseek), 8, "uniform", (1, 16) if quick else few, False)
    if not quick:
        sweep(MODELS, 1, "zipf:1.0", (4, 16, 64), False)
        sweep((mixtral, qwen3), 1, "uniform", (256, 1024), False)
        sweep(MODELS, 1, "same", (4, 16), False)
        sweep((qwen3,), 8, "uniform", few, False)
    return result


TUNED = (("qwen3-30b", "bf16"), ("mixtral-8x7b", "bf16"), ("qwen3.5-397b", "fp8_block128"))
TUNED_TOKENS = (1, 4, 16, 64, 256)
MOST_SHARED_BYTES = 232_448  # of a Hopper CTA
ASYNC_ROWS = 64  # row tiles from here on are multiplied by warp groups
ACCUMULATORS_OF_THREAD = 128


def tile(block_m, block_n, block_k, warps, stages, group_m=1):
    keys = ("block_m", "block_n", "block_k", "num_warps", "num_stages", "group_m")
    return dict(zip(keys, (block_m, block_n, block_k, warps, stages, group_m)))


def shared_bytes(t, fp8):
    """As Triton 3.6 compiles the grouped kernel for Hopper: tiles of warp groups hold a buffer more."""
    step = t["block_k"] * (t["block_m"] + t["block_n"]) * (1 if fp8 else 2)
    return step * (t["num_stages"] if t["block_m"] >= ASYNC_ROWS else t["num_stages"] - 1)


def tile_space(fp8):
    """Tiles of the grouped kernel to search: a regular part of the spaces that vLLM's and SGLang's benchmark_moe.py
    search, and what both take without a tuned file. fp8: one scale an N block and K-step, hence at most 128 of each."""
    result = []
    for m, n in itertools.product((16, 32, 64, 128), (32, 64, 128) if fp8 else (32, 64, 128, 256)):
        for k, warps, stages in itertools.product((SCALE_BLOCK,) if fp8 else (64, 128, 256), (4, 8), (2, 3, 4, 5)):
            outer = stages in (2, 5) and not (m == 16 and warps == 4 and k == 128 and n <= 128)
            idle = warps == 8 and m * n < (2048 if fp8 else 4096) and n < 128
            deep = m >= 32 and k > 128 or m >= 128 and k > 64 and not fp8
            if outer or idle or deep or m >= 32 and n == 32 and not fp8:
                continue
            if m * n / (32 * warps) <= ACCUMULATORS_OF_THREAD:
                result.append(tile(m, n, k, warps, stages))
    if fp8:
        grouped = (16, 128, 128, 4, 3), (64, 128, 128, 4, 3), (64, 64, 128, 4, 3), (128, 128, 128, 8, 3)
        result += [tile(*t, group_m) for t in grouped for group_m in (16, 32)]
    else:
        grouped = (16, 64, 128, 4, 4), (32, 64, 128, 4, 3), (64, 128, 64, 4, 3), (64, 128, 64, 8, 3), (128, 128, 64, 8, 3)
        result += [tile(*t, group_m) for t in grouped for group_m in (16, 64)]
        result += [tile(64, 64, 32, 4, 3), tile(64, 64, 32, 4, 3, 8)]
    return [t for t in result if shared_bytes(t, fp8) <= MOST_SHARED_BYTES]


def tuning_points(names=None):
    """The grouped kernel under every tile of its space, a model at a time."""
    models = {m.name: m for m in MODELS}
    result = []
    for name, weights in TUNED:
        space = tuple(tile_space(weights == "fp8_block128"))
        for tokens in TUNED_TOKENS if names is None or name in names else ():
            stages = tokens in (1, 16, 256)
            result.append(Point(models[name], 1, weights, "uniform", tokens, stages, stream=False, tiles=space))
    return result


def fits(point):
    """None, or why the point cannot run."""
    if point.fp8 and (point.model.hidden % SCALE_BLOCK or point.intermediate % SCALE_BLOCK):
        return "not a multiple of 128"
    if point.picks > MOST_PICKS or point.picks * 2 * point.intermediate > MOST_ELEMENTS:
        return "too many picks"
    return None


def scales(point):
    """Scales of one layer: of the up (gate and up) and of the down matrices."""
    m, blocks = point.model, point.intermediate // SCALE_BLOCK
    return m.experts * 2 * blocks * (m.hidden // SCALE_BLOCK), m.experts * blocks * (m.hidden // SCALE_BLOCK)


def repeats_and_layers(point, cache_bytes, pool_bytes):
    """Enough distinct routings and layers that more than three times the cache is touched before a weight comes again;
    None when one layer does not fit."""
    m = point.model
    layer_bytes = point.expert_bytes * m.experts
    if layer_bytes > pool_bytes:
        return None
    drawn = 1 if point.routing == "same" else point.tokens
    touched = m.experts * (1 - (1 - m.topk / m.experts) ** drawn) * point.expert_bytes
    fewest = 2 if touched > LONG_RUN_BYTES else 4
    repeats = min(max(math.ceil(CACHES_TOUCHED * cache_bytes / touched), fewest), MOST_REPEATS)
    layers = min(max(int(pool_bytes // layer_bytes), 1), repeats)
    repeats = (repeats + layers - 1) // layers * layers
    if point.fp8 and layers * sum(scales(point)) > SCALE_COUNT:
        return None
    return repeats, layers


def point_seed(point, seed):
    return zlib.crc32(f"{seed} {point.model.name} {point.routing} {point.tokens}".encode())


def draw_picks(model, routing, repeats, tokens, seed):
    """[repeats][tokens * topk] experts. Same seed, same picks."""
    rng = random.Random(seed)
    result = []
    for _ in range(repeats):
        order = list(range(model.experts))
        for i in range(model.experts - 1, 0, -1):
            j = int(rng.random() * (i + 1))
            order[i], order[j] = order[j], order[i]
        if routing == "same":
            result.append(order[: model.topk] * tokens)
            continue
        weight = [1.0] * model.experts
        if routing.startswith("zipf:"):  # popularity by rank; who is popular differs from repeat to repeat
            exponent = float(routing[5:])
            for rank, expert in enumerate(order):
                weight[expert] = (rank + 1.0) ** -exponent
        elif routing != "uniform":
            raise ValueError(f"no such routing: {routing}")
        picks = []
        for _ in range(tokens):
            # Without replacement, in proportion to popularity: the k smallest exponential variates of those rates.
            keys = ((-math.log(1.0 - rng.random()) / weight[e], e) for e in range(model.experts))
            picks.extend(e for _, e in heapq.nsmallest(model.topk, keys))
        result.append(picks)
    return result


def trace_name(point, repeats):
    return f"{point.model.name}-{point.routing.replace(':', '-')}-T{point.tokens}-R{repeats}.npy"


def write_npy(path, picks, tokens, topk):
    """int16 [repeats, tokens, topk], readable in one piece or not there at all."""
    header = f"{{'descr': '<i2', 'fortran_order': False, 'shape': ({len(picks)}, {tokens}, {topk}), }}"
    header += " " * ((64 - (10 + len(header) + 1) % 64) % 64) + "\n"
    body = array.array("h", [e for repeat in picks for e in repeat])
    if sys.byteorder == "big":
        body.byteswap()
    part = Path(str(path) + ".part")
    part.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + body.tobytes())
    part.replace(path)


def read_npy(path):
    """(shape, flat values) of an int16 array."""
    data = Path(path).read_bytes()
    if data[:8] != b"\x93NUMPY\x01\x00":
        raise ValueError(f"{path}: not a .npy file of version 1")
    end = 10 + int.from_bytes(data[8:10], "little")
    header = ast.literal_eval(data[10:end].decode())
    if header["descr"] != "<i2" or header["fortran_order"]:
        raise ValueError(f"{path}: not int16 in C order")
    values = array.array("h", data[end:])
    if sys.byteorder == "big":
        values.byteswap()
    if len(values) != math.prod(header["shape"]):
        raise ValueError(f"{path}: {len(values)} values for shape {header['shape']}")
    return header["shape"], values.tolist()


def routed_picks(folder, point, repeats, seed, reuse):
    """The point's picks and their trace under `folder`: the one that is there (`reuse`), else drawn and written."""
    path = Path(folder) / trace_name(point, repeats)
    if reuse and path.exists():
        shape, values = read_npy(path)
        if tuple(shape) != (repeats, point.tokens, point.model.topk):
            raise ValueError(f"{path}: shape {shape}, expected {(repeats, point.tokens, point.model.topk)}")
        if min(values) < 0 or max(values) >= point.model.experts:
            raise ValueError(f"{path}: an expert outside 0..{point.model.experts - 1}")
        return [values[r * point.picks : (r + 1) * point.picks] for r in range(repeats)], path
    picks = draw_picks(point.model, point.routing, repeats, point.tokens, point_seed(point, seed))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_npy(path, picks, point.tokens, point.model.topk)
    return picks, path


def sort_by_expert(experts_of_picks):
    """(picks by expert, place of each pick in it, [(expert, first, rows)] of the active experts)."""
    order = sorted(range(len(experts_of_picks)), key=lambda p: experts_of_picks[p])
    place = [0] * len(order)
    groups = []
    for i, pick in enumerate(order):
        place[pick] = i
        expert = experts_of_picks[pick]
        if groups and groups[-1][0] == expert:
            groups[-1][2] += 1
        else:
            groups.append([expert, i, 1])
    return order, place, [tuple(g) for g in groups]


def pad_rows(order, groups, block_m):
    """Rows of each expert padded to whole blocks with a pick that is none: (rows, expert of each block)."""
    nothing = len(order)
    rows, block_expert = [], []
    for expert, first, count in groups:
        blocks = (count + block_m - 1) // block_m
        rows += order[first : first + count] + [nothing] * (blocks * block_m - count)
        block_expert += [expert] * blocks
    return rows, block_expert


def expert_offsets(groups, experts):
    """End of each expert's rows, empty ones too."""
    rows = [0] * experts
    for expert, _, count in groups:
        rows[expert] = count
    ends, total = [], 0
    for count in rows:
        total += count
        ends.append(total)
    return ends


def grouped_tile(mean_rows, fp8):
    """Tile of the grouped kernel by mean rows of an active expert, with the keys of its rows."""
    for most, block_m, block_n, block_k, warps in (
        (16, 16, 64, 128, 4),
        (48, 32, 128, 64, 4),
        (96, 64, 128, 64, 4),
        (math.inf, 128, 128, 64, 8),
    ):
        if mean_rows <= most:
            return {
                "block_m": block_m,
                "block_n": block_n,
                "block_k": SCALE_BLOCK if fp8 else block_k,
                "num_warps": warps,
                "num_stages": 3 if fp8 else 4,
            }


STREAM_UP = {
    False: {"block_n": 2, "block_k": 1024, "num_warps": 1, "num_stages": 1},
    True: {"block_n": 8, "block_k": 128, "num_warps": 1, "num_stages": 3},
}
STREAM_DOWN = {
    False: {"block_n": 4, "block_k": 1024, "num_warps": 2, "per": "token"},
    True: {"block_n": 8, "block_k": 128, "per": "pick"},
}
