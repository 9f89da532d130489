"""How a card shares its memory among SMs: tiles of a grouped product, so many CTAs an SM, timed CTA by CTA.

    unit_shares.py OUTPUT

Each CTA multiplies one row by 64 weight rows in steps of 128, as `kernels.gg_kernel` compiles it, and notes the SM that it is
on, its start and its end (globaltimer); a row has the mean of their times and how far apart they are, too. A launch fills some SMs with so many CTAs each; those that come to others end at
once. Weights are cold. Writes OUTPUT/measurements.jsonl, a row a configuration, and OUTPUT/provenance.json. Exit status 1:
an output was wrong, 3: no CUDA device.
"""

import statistics
import sys

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import globaltimer, smid

from card import Card
from micro import run, write_all

BLOCK_M, BLOCK_N, BLOCK_K, WARPS = 16, 64, 128, 4
COLUMNS, K = 4096, 7168  # of an expert
EXPERTS = 160
FAST = 0.93  # of the median SM's time; those below it share their port with fewer
SAMPLES = 7


@triton.jit
def tile_kernel(
    a, b, c, times, most, taken, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    """c[pid] = a[0] @ b[rows of pid].T, on SMs that take as many as `most` says."""
    pid = tl.program_id(0)
    sm = smid()
    if tl.atomic_add(taken + sm, 1) >= tl.load(most + sm):
        return
    start = globaltimer()
    offs_m, offs_k = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_K)
    offs_n = pid.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    a_at = a + offs_m[:, None] * 0 + offs_k[None, :]
    b_at = b + offs_n[None, :] * k + offs_k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, k, BLOCK_K):
        a_tile = tl.load(a_at, mask=(offs_m[:, None] < 1) & (offs_k[None, :] < k - k0), other=0.0)
        b_tile = tl.load(b_at, mask=offs_k[:, None] < k - k0, other=0.0)
        acc = tl.dot(a_tile, b_tile, acc)
        a_at += BLOCK_K
        b_at += BLOCK_K
    tl.store(c + offs_m[:, None] * n + offs_n[None, :], acc, mask=offs_m[:, None] < 1)
    tl.store(times + pid * 3, start)
    tl.store(times + pid * 3 + 1, globaltimer())
    tl.store(times + pid * 3 + 2, sm.to(tl.int64))


class Experiment:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count
        self.weights = torch.empty(EXPERTS * COLUMNS, K, dtype=torch.bfloat16, device="cuda").normal_()
        self.input = torch.empty(K, dtype=torch.bfloat16, device="cuda").normal_()
        self.first = 0  # weight row of the next launch
        self.clean = torch.zeros(1 << 27, device="cuda")  # several times the cache, never written again

    def launch(self, most, stages, k):
        """[SM, microseconds] of each CTA, the launch's microseconds, and how far off the outputs are."""
        ctas = self.sms * max(most)
        rows = ctas * BLOCK_N
        if (self.first + rows) * k > self.weights.numel():
            self.first = 0
        weights = self.weights.view(-1)[self.first * k : (self.first + rows) * k].view(rows, k)
        inputs = self.input[:k]
        self.first += rows
        out = torch.full((rows,), float("nan"), device="cuda")
        times = torch.zeros(ctas, 3, dtype=torch.int64, device="cuda")
        limits = torch.tensor(most, dtype=torch.int32, device="cuda")
        taken = torch.zeros(self.sms, dtype=torch.int32, device="cuda")
        self.clean.sum()  # else what others wrote would leave the cache beside the reads that are timed
        torch.cuda.synchronize()
        tile_kernel[(ctas,)](
            inputs, weights, out, times, limits, taken, rows, k,
            BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, num_warps=WARPS, num_stages=stages,
        )  # fmt: skip
        torch.cuda.synchronize()
        done = times[:, 1] > 0
        columns = done.repeat_interleave(BLOCK_N)
        expected = weights[columns].double() @ inputs.double()
        error = ((out[columns].double() - expected).norm() / expected.norm()).item()
        at = times[done].tolist()
        span = (max(end for _, end, _ in at) - min(start for start, _, _ in at)) / 1e3
        return [(sm, (end - start) / 1e3) for start, end, sm in at], span, error

    def row(self, units, ctas, stages, k):
        """`ctas` on each of `units` SMs, evenly over the card's numbers."""
        used = {i * self.sms // units for i in range(units)}
        most = [ctas if sm in used else 0 for sm in range(self.sms)]
        self.first = 0  # rows of another k
        self.launch(most, stages, k)
        mean, relative, spans, worst, all_times = {}, {}, [], 0.0, []
        for _ in range(SAMPLES):
            times, span, error = self.launch(most, stages, k)
            worst = max(worst, error)
            spans.append(span)
            all_times += [us for _, us in times]
            launch_mean = statistics.fmean(us for _, us in times)
            for sm, us in times:
                mean.setdefault(sm, []).append(us)
                relative.setdefault(sm, []).append(us / launch_mean)
        mean = {sm: statistics.fmean(list_of_us) for sm, list_of_us in mean.items()}
        usual = statistics.median(mean.values())
        fast = [us for us in mean.values() if us < FAST * usual]
        row = {"benchmark": "tile_shares", "us": round(statistics.median(spans), 3)}
        row |= {"cta_us": round(statistics.median(all_times), 3), "usual_us": round(usual, 3)}
        if fast:
            row["fast_us"] = round(statistics.fmean(fast), 3)
        # Of alike CTAs on one SM, launch by launch: what SMs differ by, always, is not in it.
        row["cta_spread"] = round(statistics.fmean(statistics.variance(us) for us in relative.values()) ** 0.5, 4)
        row |= {"fast_units": len(fast), "units": units, "ctas": ctas, "stages": stages, "samples": SAMPLES}
        return row | {"block_n": BLOCK_N, "block_k": BLOCK_K, "n": COLUMNS, "k": k, "relative_error": float(f"{worst:.2g}")}


def main(output):
    if not torch.cuda.is_available():
        print("no CUDA device", file=sys.stderr)
        return 3
    card, seed = Card(), 20260101
    experiment = Experiment(seed)
    sms = experiment.sms
    some = [1, 2, sms // 8, sms // 4, sms // 2, 3 * sms // 4]
    plan = [(units, ctas, 4) for units in [*some, sms] for ctas in (1, 2, 3)]
    plan += [(sms, 3, 3), (sms, 2, 6), (sms, 1, 8), (1, 1, 3), (1, 1, 8)]
    plan = [(*p, K) for p in plan]
    plan += [(sms, 1, stages, k) for stages in (2, 3, 6) for k in (K, 2048)]
    plan += [(sms, ctas, 4, k) for ctas in (1, 2, 3) for k in (2048, 768)] + [(sms, 1, 8, 2048)]
    rows = (experiment.row(units, ctas, stages, k) for units, ctas, stages, k in plan)
    return write_all(output, card, "unit_shares.py", seed, rows)


if __name__ == "__main__":
    run(main, __doc__)
