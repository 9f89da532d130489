"""Every implementation of a point on a TPU: checked against a float64 reference, then timed in one visit."""

import functools
import itertools
import random
import time
from dataclasses import dataclass, field
from typing import Callable

import jax
import jax.numpy as jnp
import numpy as np

import chips
import device_time
import grouped
import points
import routing
import shapes
import stream
import weights as layer
from report import SCHEMA, Timing, quantile, told

# As interpret's, with room for exp and division that are approximate on the device.
TOLERANCE = {"bf16": 0.02, "fp8_block128": 0.02}
WALL_SLACK = 1.05  # of a device time above the wall time of the same calls
SERIAL = itertools.count()
PLAN_KEYS = ("ring", "tiles", "up_step", "down_step")


@dataclass
class Candidate:
    strategy: str
    implementation: dict
    stage: str
    function: Callable
    arguments: Callable  # of a repetition
    name: str = field(default_factory=lambda: f"moesim_{next(SERIAL)}")

    @functools.cached_property
    def program(self):
        """Compiled once; in a trace it is "jit_NAME", since jax.jit takes the function's name."""

        def call(*arguments):
            return self.function(*arguments)

        call.__name__ = call.__qualname__ = self.name
        return jax.jit(call)


@dataclass
class Setting:
    """A point's arrays on the device, or their shapes for a compilation without one (`abstract`)."""

    point: points.Point
    picks: list  # routing.Picks by repetition
    shards: list  # the device of the group that each repetition is measured on: the most loaded
    layers: list
    x: jax.Array
    trace: str = ""
    abstract: bool = False

    def __post_init__(self):
        p = self.point
        self.active = np.mean([routing.active_experts(*a, p.local_experts) for a in zip(self.picks, self.shards)])

    def routed(self, convert):
        """`convert(picks, shard)` of every repetition, on the device."""
        arrays = [convert(picks, shard).arrays() for picks, shard in zip(self.picks, self.shards)]
        return arrays if self.abstract else [jax.device_put(a) for a in arrays]

    def random(self, shape, kind=jnp.bfloat16):
        if self.abstract:
            return jax.ShapeDtypeStruct(shape, kind)
        return jax.random.uniform(jax.random.key(0), shape, kind, -1.7, 1.7)


def abstract_layer(point):
    shape = (point.local_experts, point.model.hidden, point.intermediate, point.fp8)
    return tuple(jax.ShapeDtypeStruct(s, layer.kind_of(point.fp8, scale)) for s, scale in layer.shapes_of(*shape))


def picks_of(point, drawn, seed):
    rng = np.random.default_rng(points.pick_seed(point, seed))
    shape = (point.tokens, point.model.topk)
    return [
        routing.Picks(np.array(p, np.int32).reshape(shape), rng.uniform(0.05, 0.35, shape).astype(np.float32))
        for p in drawn
    ]


def setting_of(point, picks, layers, x, **rest):
    shards = [routing.most_loaded(p, point.ep, point.local_experts) for p in picks]
    return Setting(point, picks, shards, layers, x, **rest)


def stream_candidates(s, rings, vmem_bytes):
    p = s.point
    if not p.stream:
        return []
    runs = s.routed(lambda picks, shard: routing.runs_of(picks, shard, p.local_experts))
    result = []
    for ring in rings:
        plan = points.stream_plan(p, ring, vmem_bytes)
        if plan is None:
            continue
        implementation = {"name": "pallas-stream", **{key: getattr(plan, key) for key in PLAN_KEYS}}
        result.append(
            Candidate(
                "tpu_stream",
                implementation,
                "total",
                functools.partial(stream.stream, plan),
                lambda i: (runs[i], s.x, s.layers[i % len(s.layers)]),
            )
        )
    return result


def gmm_candidates(s, name, tiles):
    """The whole block, then its stages where the point asks for them; bf16 only, as the library's kernel."""
    p = s.point
    groups = s.routed(
        lambda picks, shard: routing.groups_of(picks, shard, p.local_experts, p.model.experts, tiles[0][0])
    )
    implementation = {"name": name}
    for key, (m, k, n) in zip(("up", "down"), tiles):
        implementation[key] = {"block_m": m, "block_k": k, "block_n": n}

    def candidate(stage, function, arguments):
        return Candidate("tpu_gmm", implementation, stage, function, arguments)

    def weights(i):
        return s.layers[i % len(s.layers)]

    result = [candidate("total", functools.partial(grouped.block, tiles), lambda i: (groups[i], s.x, weights(i)))]
    if p.stages and name != "megablox-default":
        rows = len(groups[0][2])
        x_rows, gate_up = s.random((rows, p.model.hidden)), s.random((rows, 2 * p.intermediate))
        h, y = s.random((rows, p.intermediate)), s.random((rows, p.model.hidden))

        def product(tile, inputs, number):
            function = functools.partial(grouped.product, tile=tile)
            return function, lambda i: (inputs, weights(i)[number], *groups[i][:2])

        result += [
            candidate("permute", grouped.permute, lambda i: (s.x, groups[i][2])),
            candidate("gemm1", *product(tiles[0], x_rows, 0)),
            candidate("act", grouped.activation, lambda i: (gate_up,)),
            candidate("gemm2", *product(tiles[1], h, 1)),
            candidate("combine", grouped.combine, lambda i: (y, *groups[i][3:])),
        ]
    return result


def candidates(s, rings, vmem_bytes):
    """By implementation: the whole block first, then its stages."""
    result = [[c] for c in stream_candidates(s, rings, vmem_bytes)]
    if not s.point.fp8:
        tiles = points.gmm_tiles(s.point, s.point.picks / s.point.ep / max(s.active, 1))
        result.append(gmm_candidates(s, "megablox", tiles))
        if s.point.tokens <= points.MOST_DEFAULT_TILE_TOKENS:
            result.append(gmm_candidates(s, "megablox-default", (grouped.LIBRARY_TILE,) * 2))
    return result


def row_of(device, s, candidate, timing, wall_us, operations, source):
    m, p = s.point.model, s.point
    row = {
        "schema": SCHEMA,
        "kind": "moe",
        "device": device,
        "model": {
            "name": m.name,
            "hidden": m.hidden,
            "intermediate": m.intermediate,
            "experts": m.experts,
            "topk": m.topk,
            "gated": True,
        },
        "tp": p.tp,
        "ep": p.ep,
        "weights": p.weights,
        "activations": "bf16",
        "tokens": p.tokens,
        "routing": p.routing,
        "routed_trace": s.trace,
        "mean_active_experts": round(float(s.active), 3),
        "strategy": candidate.strategy,
        "implementation": candidate.implementation,
        "launch": "graph",  # operations of one compiled program: nothing is started by the host in between
        "scope": "expert_ffn",
        "stage": candidate.stage,
        "us": round(timing.us, 3),
        "median_us": round(quantile(timing.slopes, 0.5), 3),
        "min_us": round(min(timing.slopes), 3),
        "p90_us": round(quantile(timing.slopes, 0.9), 3),
        "samples": len(timing.slopes),
        "timing": {
            "method": "profiler_device_time",
            "weights": "cold",
            "order": "random",
            "chains": timing.chains,
            "wall_us": round(wall_us, 3),
        },
        "source": source,
    }
    if operations:
        row["operations"] = operations
    return row


class Timer:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def run(self, chosen, repeats, samples):
        """(Timing of rounds' means, wall µs of a call, operations) or the error of each candidate. All in one visit: in
        each round every candidate goes once through all repetitions, in random order."""

        def rotation(candidate):
            jax.block_until_ready([candidate.program(*candidate.arguments(i)) for i in range(repeats)])

        results, ready, walls = {}, [], {}
        for candidate in chosen:
            try:
                rotation(candidate)  # compiles
                begin = time.perf_counter()
                rotation(candidate)
                walls[candidate.name] = (time.perf_counter() - begin) * 1e6 / repeats
                ready.append(candidate)
            except Exception as problem:  # one candidate must not cost the others
                results[candidate.name] = problem

        def rounds():
            order = list(ready)
            for _ in range(samples):
                self.random.shuffle(order)
                for candidate in order:
                    rotation(candidate)

        trace = device_time.record(rounds)
        times = device_time.module_times(trace, {c.name: samples * repeats for c in ready})
        operations = device_time.operations(trace, walls)
        for name, wall_us in walls.items():
            of_rounds = [times[name][i * repeats : (i + 1) * repeats] for i in range(samples)]
            timing = Timing([sum(r) / repeats for r in of_rounds], repeats)
            results[name] = (timing, wall_us, operations[name])
            if timing.us > WALL_SLACK * wall_us:
                message = f"{timing.us:.1f} us on the device, {wall_us:.1f} by the clock"
                results[name] = device_time.TraceError(message)
        return [results[candidate.name] for candidate in chosen]


class Runner:
    def __init__(self, device, label, info, report, seed, samples, rings, source):
        self.label, self.info, self.report, self.seed = label, info, report, seed
        self.samples, self.rings, self.source = samples, rings, source
        self.timer = Timer(seed)
        self.memory_bytes = device.memory_stats()["bytes_limit"]
        self.layers, self.layers_of = [], None

    def layers_for(self, point, count):
        """Made once for the points that share them; more are added as a point needs them."""
        if self.layers_of != points.same_weights(point):
            self.layers, self.layers_of = [], points.same_weights(point)
        while len(self.layers) < count:
            key = jax.random.key(self.seed + len(self.layers))
            shape = (point.local_experts, point.model.hidden, point.intermediate, point.fp8)
            self.layers.append(layer.on_device(key, *shape))
        return self.layers[:count]

    def set_up(self, point):
        reason = shapes.fits(point)
        chosen = None if reason else points.repeats_and_layers(point, chips.cache_bytes(self.info), self.memory_bytes)
        if chosen is None:
            self.report.note(f"{point}: {reason or 'its weights do not fit'}; skipped")
            return None
        repeats, layers = chosen
        drawn, path = shapes.routed_picks(self.report.output / "routes", point, repeats, self.seed, reuse=False)
        x = jax.random.uniform(jax.random.key(points.pick_seed(point, self.seed)), (point.tokens, point.model.hidden))
        x = (3.4 * x - 1.7).astype(jnp.bfloat16)
        picks = picks_of(point, drawn, self.seed)
        return setting_of(point, picks, self.layers_for(point, layers), x, trace=f"routes/{path.name}")

    def checked(self, s):
        """Candidates whose whole block is right; the others are refused with their stages."""
        p, good = s.point, []
        of_experts = routing.expert_weights(s.picks[0], s.shards[0], p.local_experts)
        expected = np.asarray(layer.reference_on_device(of_experts, s.x, s.layers[0])).astype(np.float64)
        for block in candidates(s, self.rings, self.info.vmem_capacity_bytes):
            name = f"{p} {block[0].implementation['name']}"
            try:
                result = block[0].program(*block[0].arguments(0))
                error = layer.relative_error(result, expected)
            except Exception as problem:  # one implementation must not cost the others
                self.report.refuse(f"{name}: {told(problem)}")
                continue
            if error <= TOLERANCE[p.weights]:  # a NaN is not
                good += block
                self.report.note(f"{name}: relative error {error:.2e}")
            else:
                self.report.refuse(f"{name}: relative error {error:.2e}")
        return good

    def run(self, point):
        s = self.set_up(point)
        good = self.checked(s) if s else []
        if not good:
            return
        for candidate, result in zip(good, self.timer.run(good, len(s.picks), self.samples)):
            name = candidate.implementation["name"]
            if isinstance(result, Exception):
                self.report.refuse(f"{point} {name} {candidate.stage}: {told(result)}")
                continue
            timing, wall_us, operations = result
            self.report.line(row_of(self.label, s, candidate, timing, wall_us, operations, self.source))
            if candidate.stage == "total" and (point.tokens <= 4 or point.tokens >= 64):
                rate = s.active * point.expert_bytes / timing.us / 1e6
                detail = f"ring {candidate.implementation['ring']}" if "ring" in candidate.implementation else ""
                self.report.summary.append(
                    f"{str(point):<44} {name:<18} {detail:<7} {timing.us:>10.2f} us {rate:>6.2f} TB/s"
                )
