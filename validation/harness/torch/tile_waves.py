"""How the waves of a grouped product follow each other: its CTAs timed one by one, on their SMs.

    tile_waves.py OUTPUT

Each CTA multiplies one row of a group by 64 of its weight rows in steps of 128, as `kernels.gg_kernel` compiles it, and notes
its start, its end (globaltimer) and its SM. Groups are cold weights, others in each launch. A row has the time from the first
start to the last end and, where more waves follow, how far apart the CTAs of a first wave end: `cta_spread`, the standard deviation
of their times on usual SMs beside the mean, and `unit_share`, the part of its square that CTAs of one SM have in common; what the
CTAs after that wave take, `cta_us`, and how long their slots were empty before them, `gap_us`. Writes OUTPUT/measurements.jsonl and
OUTPUT/provenance.json. Exit status 1: an output was wrong, 3: no CUDA device.
"""

import statistics
import sys

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import globaltimer, smid

from card import Card
from micro import run, write_all

BLOCK_M, BLOCK_N, BLOCK_K, WARPS, STAGES = 16, 64, 128, 4, 4
POOL = 6 << 30  # weights of all groups
FAST = 0.93  # of the median SM's time; those below it share their port with fewer
SAMPLES = 8
CHECKED = 4  # groups
# (N, K) and numbers of groups: matrices of models, from a part of a wave to ten, and of shards of them, to forty.
PLAN = {
    (4096, 7168): (8, 32, 64),
    (7168, 2048): (8, 32),
    (5760, 2880): (4, 16),
    (2880, 2880): (4, 16),
    (1536, 2048): (8, 31, 120),
    (2048, 768): (8, 31, 120),
    (2048, 2048): (8, 26),
    (2048, 1024): (8, 26),
    (28672, 4096): (2, 6),
    (4096, 14336): (2, 6),
    (4096, 64): (256,),
    (4096, 128): (64, 256),
    (4096, 256): (64, 256),
    (4096, 512): (256,),
}


@triton.jit(do_not_specialize=["picks"])
def tile_kernel(
    a, b, c, times, rows, block_expert, n, k, picks, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    start = globaltimer()
    pid = tl.program_id(0)
    n_blocks = tl.cdiv(n, BLOCK_N)
    block = pid // n_blocks
    n0 = (pid % n_blocks) * BLOCK_N
    pick = tl.load(rows + block * BLOCK_M + tl.arange(0, BLOCK_M))
    valid = pick < picks
    expert = tl.load(block_expert + block).to(tl.int64)
    offs_n = n0 + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_at = a + pick[:, None] * k + offs_k[None, :]
    b_at = b + expert * n * k + (offs_n % n)[None, :] * k + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, k, BLOCK_K):
        left = k - k0
        a_tile = tl.load(a_at, mask=valid[:, None] & (offs_k[None, :] < left), other=0.0)
        b_tile = tl.load(b_at, mask=offs_k[:, None] < left, other=0.0)
        acc = tl.dot(a_tile, b_tile, acc)
        a_at += BLOCK_K
        b_at += BLOCK_K
    tl.store(c + pick[:, None] * n + offs_n[None, :], acc.to(tl.bfloat16), mask=valid[:, None] & (offs_n[None, :] < n))
    tl.store(times + pid * 3, start)
    tl.store(times + pid * 3 + 1, globaltimer())
    tl.store(times + pid * 3 + 2, smid().to(tl.int64))


class Experiment:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.weights = torch.empty(POOL, dtype=torch.bfloat16, device="cuda").normal_()
        self.clean = torch.zeros(1 << 27, device="cuda")  # several times the cache, never written again

    def launch(self, n, k, groups):
        """[start, end, SM] of each CTA, in microseconds, and how far off the outputs are."""
        experts = POOL // (n * k)
        weights = self.weights[: experts * n * k].view(experts, n, k)
        chosen = torch.randperm(experts, device="cuda")[:groups]
        rows = torch.full((groups, BLOCK_M), groups, dtype=torch.int32, device="cuda")
        rows[:, 0] = torch.arange(groups)
        inputs = torch.empty(groups, k, dtype=torch.bfloat16, device="cuda").normal_()
        out = torch.full((groups, n), float("nan"), dtype=torch.bfloat16, device="cuda")
        ctas = groups * triton.cdiv(n, BLOCK_N)
        times = torch.zeros(ctas, 3, dtype=torch.int64, device="cuda")
        self.clean.sum()  # else what others wrote would leave the cache beside the reads that are timed
        torch.cuda.synchronize()
        tile_kernel[(ctas,)](
            inputs, weights, out, times, rows.view(-1), chosen.to(torch.int32), n, k, groups,
            BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, num_warps=WARPS, num_stages=STAGES,
        )  # fmt: skip
        torch.cuda.synchronize()
        expected = torch.einsum("gnk,gk->gn", weights[chosen[:CHECKED]].double(), inputs[:CHECKED].double())
        error = ((out[:CHECKED].double() - expected).norm() / expected.norm()).item()
        error = error if bool(out.isfinite().all()) else float("inf")
        at = times.tolist()
        first = min(start for start, _, _ in at)
        return [((start - first) / 1e3, (end - first) / 1e3, sm) for start, end, sm in at], error

    def row(self, n, k, groups):
        self.launch(n, k, groups)
        launches, worst = [], 0.0
        for _ in range(SAMPLES):
            times, error = self.launch(n, k, groups)
            launches.append(times)
            worst = max(worst, error)
        us = statistics.median(max(end for _, end, _ in times) for times in launches)
        row = {"benchmark": "tile_waves", "us": round(us, 3), "ctas": groups * triton.cdiv(n, BLOCK_N), "groups": groups}
        row |= {"n": n, "k": k, "block_n": BLOCK_N, "block_k": BLOCK_K, "stages": STAGES, "samples": SAMPLES}
        return row | spread_of(launches) | turnaround_of(launches) | {"relative_error": float(f"{worst:.2g}")}


def spread_of(launches):
    """Of first waves that others follow, on SMs that are not behind a port of fewer."""
    ends = [max(end for _, end, _ in times) for times in launches]
    firsts = [[(sm, end - start) for start, end, sm in times if start < 0.05 * last] for times, last in zip(launches, ends)]
    if any(2 * len(first) > len(times) for first, times in zip(firsts, launches)):
        return {}
    of_sm = {}
    for first in firsts:
        for sm, us in first:
            of_sm.setdefault(sm, []).append(us)
    mean = {sm: statistics.fmean(us) for sm, us in of_sm.items()}
    usual = {sm for sm, us in mean.items() if us >= FAST * statistics.median(mean.values())}
    # What SMs differ by, always, is not in it.
    usual_mean = statistics.fmean(mean[sm] for sm in usual)
    always = {sm: mean[sm] / usual_mean for sm in usual}
    within, means, sizes = [], [], []
    for first in firsts:
        launch = statistics.fmean(us for sm, us in first if sm in usual)
        for sm in usual:
            relative = [us / launch / always[sm] for s, us in first if s == sm]
            if len(relative) < 2:
                continue
            within.append(statistics.variance(relative))
            means.append(statistics.fmean(relative))
            sizes.append(len(relative))
    own = statistics.fmean(within)
    shared = max(0.0, statistics.variance(means) - own / statistics.fmean(sizes))
    return {"cta_spread": round((own + shared) ** 0.5, 4), "unit_share": round(shared / (own + shared), 3)}


def turnaround_of(launches):
    """Of CTAs that follow others on their slots."""
    taken, gaps = [], []
    for times in launches:
        of_sm = {}
        for start, end, sm in times:
            of_sm.setdefault(sm, []).append((start, end))
        slots = max(sum(1 for other in ctas if other[0] <= start < other[1]) for ctas in of_sm.values() for start, _ in ctas[:16])
        for ctas in of_sm.values():
            # What the i-th end frees the (i + slots)-th start takes.
            ctas.sort()
            ends = sorted(end for _, end in ctas)
            gaps += [start - end for (start, _), end in zip(ctas[slots:], ends)]
            taken += [end - start for start, end in ctas[slots:]]
    if not gaps:
        return {}
    return {"cta_us": round(statistics.fmean(taken), 3), "gap_us": round(statistics.fmean(gaps), 3)}


def main(output):
    if not torch.cuda.is_available():
        print("no CUDA device", file=sys.stderr)
        return 3
    card, seed = Card(), 20260101
    experiment = Experiment(seed)
    rows = (experiment.row(n, k, groups) for (n, k), numbers in PLAN.items() for groups in numbers)
    return write_all(output, card, "tile_waves.py", seed, rows)


if __name__ == "__main__":
    run(main, __doc__)
