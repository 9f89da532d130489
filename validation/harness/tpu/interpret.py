"""Both kernels on the CPU against the reference: random shapes, rings, tiles, shards and routings.

Pallas' TPU interpreter simulates memories, DMAs and semaphores. Buffers start as NaN, and a copy arrives only when its
semaphore is waited for, so that a missing wait is a wrong result; races of copies and the kernel are looked for."""

import functools
import random
import sys
from dataclasses import dataclass

import jax
import ml_dtypes
import numpy as np
from jax._src.pallas.mosaic.interpret import interpret_pallas_call as interpreter  # `races` has no public name
from jax.experimental.pallas import tpu as pltpu

import grouped
import routing
import stream
import weights as layer

CASES = 20
# x and weights are exact, sums float32; act and out are rounded to bf16 (8 bits), for gmm both products too.
TOLERANCE = {("tpu_stream", "bf16"): 0.005, ("tpu_stream", "fp8_block128"): 0.005, ("tpu_gmm", "bf16"): 0.008}
PARAMETERS = pltpu.InterpretParams(detect_races=True, dma_execution_mode="on_wait", uninitialized_memory="nan")
ROUTINGS = ("uniform", "same", "few", "masked", "nothing")


@dataclass(frozen=True)
class Case:
    tokens: int
    topk: int
    experts: int
    hidden: int
    intermediate: int  # of the whole model
    fp8: bool
    ring: int
    tiles: int
    tp: int
    ep: int
    rank: int
    routing: str
    gmm_tile: tuple

    def __str__(self):
        shard = f"tp{self.tp} ep{self.ep} rank {self.rank}"
        sizes = f"T{self.tokens} top-{self.topk} of {self.experts}, {self.hidden}x{self.intermediate}"
        return f"{sizes} {'fp8' if self.fp8 else 'bf16'}, ring {self.ring} tiles {self.tiles}, {shard}, {self.routing}"


def random_case(rng, number):
    """Numbers 0, 1, … go through weight formats, rings and routings; the rest is drawn."""
    topk = rng.choice((1, 2, 3, 4))
    tp, ep = rng.choice(((1, 1), (1, 1), (2, 1), (1, 2), (1, 4), (2, 2)))
    tiles = rng.choice((1, 1, 2, 3))
    return Case(
        tokens=1 + number % 8,
        topk=topk,
        experts=rng.choice((4, 8, 12)),
        hidden=128 * rng.choice((1, 2, 3, 4)),
        intermediate=128 * tp * tiles * rng.choice((1, 1, 2)),
        fp8=number % 2 == 1,
        ring=1 + number // 2 % 4,
        tiles=tiles,
        tp=tp,
        ep=ep,
        rank=rng.randrange(tp * ep),
        routing=ROUTINGS[number % 4 if number != 4 else 4],
        gmm_tile=(16, 128, rng.choice((128, 256))),
    )


def cases(count, seed):
    rng = random.Random(seed)
    return [random_case(rng, number) for number in range(count)]


def draw_picks(case, rng):
    def some(experts):
        return np.stack([rng.choice(experts, case.topk, replace=False) for _ in range(case.tokens)]).astype(np.int32)

    # "few": all tokens choose among topk or topk + 1 experts, so that most are empty and the others have many rows.
    chosen = rng.permutation(case.experts)
    experts = some(chosen[: min(case.topk + 1, case.experts)] if case.routing == "few" else case.experts)
    if case.routing == "same":
        experts[:] = chosen[: case.topk]
    pick_weights = rng.uniform(0.05, 0.35, experts.shape).astype(np.float32)
    if case.routing == "masked":
        pick_weights[rng.random(experts.shape) < 0.4] = 0
    if case.routing == "nothing":
        pick_weights[:] = 0
    return routing.Picks(experts, pick_weights)


@dataclass
class Problem:
    """A case with its numbers."""

    case: Case
    picks: routing.Picks
    x: np.ndarray
    weights: tuple  # the device's

    @property
    def ep_rank(self):
        return self.case.rank // self.case.tp

    @property
    def local_experts(self):
        return self.case.experts // self.case.ep

    def expected(self):
        return layer.reference(self.picks, self.ep_rank, self.local_experts, self.x, self.weights)


def problem_of(case, fp8, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.7, 1.7, (case.tokens, case.hidden)).astype(ml_dtypes.bfloat16)
    whole = layer.on_host(rng, case.experts, case.hidden, case.intermediate, fp8)
    return Problem(case, draw_picks(case, rng), x, layer.shard(whole, case.tp, case.ep, case.rank))


def run_stream(problem):
    case = problem.case
    slots, width = case.tokens * case.topk, case.intermediate // case.tp
    plan = stream.Plan(case.tokens, slots, case.hidden, width, case.fp8, case.ring, case.tiles)
    runs = routing.runs_of(problem.picks, problem.ep_rank, problem.local_experts)
    kernel = jax.jit(functools.partial(stream.stream, plan, interpret=PARAMETERS))
    return kernel(runs.arrays(), problem.x, problem.weights)


def run_gmm(problem):
    case, tile = problem.case, problem.case.gmm_tile
    groups = routing.groups_of(problem.picks, problem.ep_rank, problem.local_experts, case.experts, tile[0])
    block = jax.jit(functools.partial(grouped.block, (tile, tile), interpret=PARAMETERS))
    return block(groups.arrays(), problem.x, problem.weights)


def error_of(run, problem):
    """Of a kernel's result; a race or an error of the interpreter's is one without bound."""
    try:
        result = np.asarray(run(problem))
    except Exception as failure:
        pltpu.reset_tpu_interpret_mode_state()
        print(f"{type(failure).__name__}: {' '.join(str(failure).split())[:240]}", file=sys.stderr)
        return np.inf
    if interpreter.races is not None and interpreter.races.races_found:
        return np.inf
    return layer.relative_error(result, problem.expected())


def check(count, seed, note):
    """The number of wrong results; the largest error of each kernel and format goes to `note`."""
    worst, wrong = {key: 0.0 for key in TOLERANCE}, 0
    for number, case in enumerate(cases(count, seed)):
        for strategy, run, fp8 in (("tpu_stream", run_stream, case.fp8), ("tpu_gmm", run_gmm, False)):
            key = (strategy, "fp8_block128" if fp8 else "bf16")
            error = error_of(run, problem_of(case, fp8, seed + number))
            good = error <= TOLERANCE[key]  # a NaN is not
            worst[key] = max(worst[key], error) if error == error else np.inf
            if not good:
                wrong += 1
                note(f"WRONG {strategy}: {case}: relative error {error:.2e}, at most {TOLERANCE[key]:.0e}")
    for (strategy, fmt), error in worst.items():
        note(f"{strategy} {fmt}: largest relative error {error:.2e} of at most {TOLERANCE[strategy, fmt]:.0e}")
    return wrong
