#!/usr/bin/env python3
"""Memory of `moesim compare` on a large profiler trace does not grow with the events that are not kept.

    large_trace_test.py MOESIM FOLDER [EVENTS]

Writes a trace of so many events (default 300,000; 10,000,000 takes a minute or two and 2 GB of FOLDER), of which 1 in 1000 is a
kernel of a MoE layer, runs the program on it and on its gzip, and checks peak memory. Prints what it took.
"""
import gzip
import os
import resource
import subprocess
import sys
import time

LAYER = ["topkGatingSoftmax", "moe_align_block_size_kernel", "fused_moe_kernel", "act_and_mul_kernel", "fused_moe_kernel",
         "moe_sum_kernel", "rms_norm_kernel"]
MOST_KIB = 128 * 1024  # 2,000,000 kept events would be about 300 MiB


def write_trace(path, events):
    opener = gzip.open(path, "wt", compresslevel=1) if path.endswith(".gz") else open(path, "w")
    with opener as out:
        out.write('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132}],\n'
                  '"traceEvents": [\n')
        block = []
        for i in range(events):
            at = 5104956882513858 + i * 1000
            ts = f"{at // 1000}.{at % 1000:03d}"
            if i % 1000 == 0:
                name = LAYER[(i // 1000) % len(LAYER)]
                block.append(f'{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": 7, "ts": {ts}, "dur": 0.900, '
                             f'"args": {{"device": 0, "stream": 7, "correlation": {i}, "grid": [132, 1, 1], "block": [128, 1, 1]}}}}')
            else:
                block.append(f'{{"ph": "X", "cat": "python_function", "name": "module.py({i}): forward", "pid": 1, "tid": 1, '
                             f'"ts": {ts}, "dur": 0.5, "args": {{"Python id": {i}, "Python parent id": {i - 1}, "Ev Idx": {i}}}}}')
            if len(block) == 10000 or i + 1 == events:
                out.write(",\n".join(block) + ("" if i + 1 == events else ",\n"))
                block = []
        out.write("]}\n")


def check(moesim, path, events):
    begin = time.time()
    run = subprocess.run([moesim, "compare", "--measured", path, "--model", "qwen3-30b-a3b", "--concurrency", "4",
                          "--format", "csv"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert ",gemm1," in run.stdout, run.stdout
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"{os.path.basename(path)}: {events} events, {os.path.getsize(path) >> 20} MiB, {time.time() - begin:.1f} s, peak {peak >> 10} MiB")
    assert peak < MOST_KIB, f"peak {peak} KiB"


def main():
    moesim, folder = sys.argv[1], sys.argv[2]
    events = int(sys.argv[3]) if len(sys.argv) > 3 else 300_000
    os.makedirs(folder, exist_ok=True)
    for name in ("large_trace.json.gz", "large_trace.json"):
        path = os.path.join(folder, name)
        write_trace(path, events)
        try:
            check(moesim, path, events)
        finally:
            os.remove(path)


if __name__ == "__main__":
    main()
