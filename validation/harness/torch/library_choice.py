"""What the library behind torch.mm chooses by shape, and how long it takes: one expert's product, x[rows, k] @ w[n, k].T.

    library_choice.py OUTPUT

A row for each projection of the models, whole and cut in 2 and 8, and each number of rows: the kernels that ran (their names tell tile,
cluster, order and split of K) and, of whole projections, the time over cold weights. Writes OUTPUT/measurements.jsonl and
OUTPUT/provenance.json. Exit status 1: an output was wrong, 3: no CUDA device.
"""

import sys

import torch

from card import Card
from micro import MicroRows, run
from report import quantile
from shapes import CACHES_TOUCHED, MODELS
from timing import Sequence, Timer

ROWS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 512)
TIMED_ROWS = (1, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
SHARDS = (1, 2, 8)
POOL = 1 << 31  # elements of the weights
SAMPLES, LONG_US = 7, 1500
WRONG = 0.02


def projections():
    """(n, k) of all models, whole ones first."""
    known = []
    for tp in SHARDS:
        for m in MODELS:
            width = m.intermediate // tp
            for shape in ((2 * width, m.hidden), (m.hidden, width)):
                if shape not in [s for s, _ in known]:
                    known.append((shape, tp))
    return known


class Nothing:
    facts = ()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def main(output):
    if not torch.cuda.is_available():
        print("no CUDA device", file=sys.stderr)
        return 3
    card, seed = Card(), 20260101
    torch.manual_seed(seed)
    pool = torch.empty(POOL, dtype=torch.bfloat16, device="cuda")
    for part in pool.split(1 << 28):
        part.normal_()
    timer = Timer(card, seed, Nothing())
    wrong = 0
    with MicroRows(output, card) as micro:
        for (n, k), tp in projections():
            copies = min(POOL // (n * k), max(2, round(CACHES_TOUCHED * card.cache_bytes() / (2 * n * k)) + 1))
            weights = pool[: copies * n * k].view(copies, n, k)
            sequences = []
            for rows in ROWS:
                x = torch.empty(rows, k, dtype=torch.bfloat16, device="cuda").normal_()
                out = torch.full((rows, n), float("nan"), dtype=torch.bfloat16, device="cuda")
                torch.mm(x, weights[0].T, out=out)
                expected = x.double() @ weights[0].double().T
                error = ((out.double() - expected).norm() / expected.norm()).item()
                wrong += not error <= WRONG

                def launch(i, x=x, out=out):
                    torch.mm(x, weights[i % copies].T, out=out)

                sequences.append((rows, error, Sequence(launch, copies, 2)))
            timed = [s for s in sequences if tp == 1 and s[0] in TIMED_ROWS]
            results = dict(zip([s[0] for s in timed], timer.run([s[2] for s in timed], SAMPLES, LONG_US)))
            for rows, error, sequence in sequences:
                row = {"benchmark": "library_choice", "n": n, "k": k, "rows": rows, "tp": tp}
                if rows in results:
                    timing = results[rows]
                    row |= {"us": round(timing.us, 3), "p90_us": round(quantile(timing.slopes, 0.9), 3)}
                    row |= {"samples": SAMPLES, "sm_mhz": timing.sm_mhz, "kernels": timing.kernels}
                else:
                    graph = timer._capture(sequence.launch, 1)
                    row["kernels"] = timer.reader.kernels(graph.raw_cuda_graph())
                    graph.reset()
                micro.write(row | {"relative_error": float(f"{error:.2g}")})
            print(f"{n} x {k}", file=sys.stderr, flush=True)
    micro.provenance("library_choice.py", seed)
    return 1 if wrong else 0


if __name__ == "__main__":
    run(main, __doc__)
