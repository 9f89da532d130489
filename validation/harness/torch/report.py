"""Rows, provenance, summary, and the arithmetic of slopes. No PyTorch here."""

import datetime
import json
import math
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

SCHEMA = "moesim.measurement/2"
SOFTWARE_POWER_CAP = 0x4  # NVML's bit


def quantile(values, share, ordered=False):
    ordered = values if ordered else sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def graph_lengths(rough_us, rotation, nodes, long_us, most_nodes):
    """Repetitions of the short and of the long graph: whole rotations."""
    most = max(2 * rotation, most_nodes // max(1, nodes))
    wanted = min(max(int(long_us / max(0.3, rough_us)), 2 * rotation), most)
    rotations = max(2, wanted // rotation)
    return max(1, rotations // 4) * rotation, rotations * rotation


def told(problem):
    """An exception in one line."""
    return f"{type(problem).__name__}: {' '.join(str(problem).split())[:240]}"


@dataclass
class Timing:
    slopes: list = field(default_factory=list)
    clocks: list = field(default_factory=list)  # MHz of an SM during each slope's long graph
    chains: int = 0
    reasons: int = 0
    kernels: list = field(default_factory=list)
    kernels_from: str = ""

    def add(self, short_us, long_us, short_chains, long_chains, mhz):
        self.slopes.append((long_us - short_us) / (long_chains - short_chains))
        self.clocks.append(mhz)
        self.chains = long_chains

    @property
    def us(self):
        return quantile(self.slopes, 0.1)

    @property
    def sm_mhz(self):
        """The clock at which `us` was taken."""
        by_slope = [mhz for _, mhz in sorted(zip(self.slopes, self.clocks))]
        return round(quantile(by_slope, 0.1, ordered=True))


def row_of(device, point, trace, active, candidate, timing, source):
    m = point.model
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
        "tp": point.tp,
        "ep": 1,
        "weights": point.weights,
        "activations": candidate.activations,
        "tokens": point.tokens,
        "routing": point.routing,
        "routed_trace": trace,
        "mean_active_experts": round(active, 3),
        "strategy": candidate.strategy,
        "implementation": candidate.implementation,
        "launch": "graph",
        "scope": "expert_ffn",
        "stage": candidate.stage,
        "us": round(timing.us, 3),
        "median_us": round(quantile(timing.slopes, 0.5), 3),
        "min_us": round(min(timing.slopes), 3),
        "p90_us": round(quantile(timing.slopes, 0.9), 3),
        "samples": len(timing.slopes),
        "timing": {"method": "graph_slope", "weights": "cold", "order": "random", "chains": timing.chains},
    }
    if timing.sm_mhz > 0:
        row["sm_mhz"] = timing.sm_mhz
        row["power_capped"] = bool(timing.reasons & SOFTWARE_POWER_CAP)
    row["source"] = source
    if timing.kernels:
        row["kernels"] = timing.kernels
    if timing.kernels_from:
        row["kernels_from"] = timing.kernels_from
    return row


class Report:
    """Where rows go: written at once, so that an interrupted run keeps what it measured."""

    def __init__(self, output, budget_s, append, wrong=0, elapsed_s=0.0):
        self.output = Path(output)
        self.output.mkdir(parents=True, exist_ok=True)
        self.start = time.monotonic() - elapsed_s
        self.budget_s = budget_s
        self.wrong = wrong  # kernels refused, and implementations or points that failed
        self.rows = 0
        self.summary = []
        self.path = self.output / "measurements.jsonl"
        if not append or not self.path.exists():
            self.path.write_bytes(b"")
        elif self.path.stat().st_size and self.path.read_bytes()[-1:] != b"\n":  # stopped in a row
            self._write("\n")

    def elapsed_s(self):
        return time.monotonic() - self.start

    def out_of_time(self):
        return self.elapsed_s() > self.budget_s

    def note(self, text):
        print(f"[{self.elapsed_s():6.1f} s] {text}", file=sys.stderr, flush=True)

    def refuse(self, text):
        self.wrong += 1
        self.note(f"REFUSED {text}")
        self.summary.append(f"refused: {text}")

    def line(self, row):
        if not (math.isfinite(row["us"]) and row["us"] > 0 and row["p90_us"] > 0):
            self.refuse(f"{row['model']['name']} {row['strategy']} {row['stage']}: time {row['us']} us")
            return
        self._write(json.dumps(row) + "\n")
        self.rows += 1

    def _write(self, text):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(text)

    def provenance(self, fields, append):
        """OUTPUT/provenance.json; with `append` under the key "torch" of the one that is there."""
        path = self.output / "provenance.json"
        own = dict(fields)
        own["date"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        own["elapsed_s"] = round(self.elapsed_s(), 1)
        own["refused"] = self.wrong
        if append and path.exists():
            whole = json.loads(path.read_text(encoding="utf-8"))
            whole["torch"] = own
        else:
            whole = own
        part = Path(str(path) + ".part")
        part.write_text(json.dumps(whole) + "\n", encoding="utf-8")
        part.replace(path)

    def print_summary(self):
        for text in self.summary:
            print(text)
        print(f"{self.rows} rows; {self.wrong} refused or failed; {self.elapsed_s():.0f} s", flush=True)
