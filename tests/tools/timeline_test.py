"""Timelines as others read them: `moesim run --timeline` in both formats, opened by decoders that know nothing of moesim.

    python timeline_test.py MOESIM    (protobuf from PyPI)
"""

import collections
import decimal
import functools
import gzip
import json
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

import chrome_reader
import perfetto_reader

MOESIM = None

CASES = {
    "layer": ["--model", "qwen3-30b-a3b", "--device", "h200", "--concurrency", "5", "--routing", "zipf:0.8"],
    "step": "--model qwen3-30b-a3b --device b200 --concurrency 2 --scope step --layers 3 --strategy grouped_gemm".split(),
    "overlapped": "--model olmoe-1b-7b --device h200 --concurrency 3 --launch programmatic --units all "
    "--strategy stream_gemv,stream_gemv:persistent=1,grouped_gemm_persistent".split(),
}


def run(case, *flags):
    command = [MOESIM, "run", *CASES[case], "--samples", "1", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def rounded_ns(picoseconds):
    return (picoseconds + 500) // 1000


def written(case, extension):
    """The file, the report beside it, and what was said of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"{case}.{extension}"
        done = run(case, "--timeline", str(path), "--format", "json")
        data = path.read_bytes()
        assert list(path.parent.iterdir()) == [path]
        assert re.fullmatch(rf"moesim: .*: \d+ slices, \d+ counter values, {len(data)} bytes\n", done.stderr)
        return data, json.loads(done.stdout), done.stderr


@functools.cache
def read(case):
    chrome, report, stderr = written(case, "json")
    perfetto, again, _ = written(case, "perfetto-trace")
    assert report == again
    return chrome_reader.Reader(chrome.decode()), perfetto_reader.Reader(perfetto), report, stderr


class Timelines(unittest.TestCase):
    def test_both_formats_hold_the_same(self):
        for case in CASES:
            with self.subTest(case):
                chrome, perfetto, _, stderr = read(case)
                self.assertEqual(list(chrome.processes.values()), perfetto.groups)
                exact = collections.Counter()
                for s in chrome.slices:
                    start, length = s.arguments["start_ps"], s.arguments["duration_ps"]
                    self.assertEqual(s.start_us * 1_000_000, start)  # exact decimals
                    self.assertEqual(s.duration_us * 1_000_000, length)
                    exact[self.key(s)] += 1
                for s in perfetto.slices:
                    start, length = s.arguments["start_ps"], s.arguments["duration_ps"]
                    self.assertEqual(s.begin_ns, rounded_ns(start))
                    self.assertEqual(s.end_ns, rounded_ns(start + length))
                    exact[self.key(s)] -= 1
                self.assertEqual(set(exact.values()), {0})
                self.assertIn(f" {len(chrome.slices)} slices, {len(chrome.counts)} counter values", stderr)
                counts = collections.Counter(
                    (c.group, c.counter, rounded_ns(int(c.us * 1_000_000)), c.value) for c in chrome.counts
                )
                counts.subtract(
                    (c.group, f"{c.counter} ({c.unit})", c.ns, c.value) for c in perfetto.counts
                )
                self.assertEqual(set(counts.values()), {0})

    @staticmethod
    def key(s):
        arguments = tuple(
            (k, float(v) if isinstance(v, decimal.Decimal) else v) for k, v in sorted(s.arguments.items())
        )
        return s.group, s.track, s.name, s.category, s.depth, arguments

    def test_the_compressed_file_is_the_same(self):
        plain, _, _ = written("layer", "json")
        compressed, _, _ = written("layer", "json.gz")
        self.assertEqual(gzip.decompress(compressed), plain)
        self.assertLess(len(compressed), len(plain) / 5)

    def test_same_seed_same_bytes(self):
        for extension in ("json.gz", "pftrace"):
            self.assertEqual(written("layer", extension)[0], written("layer", extension)[0])

    def test_sums_equal_the_attribution(self):
        for case in CASES:
            _, perfetto, report, _ = read(case)
            for row in report["rows"]:
                with self.subTest(case, strategy=row["strategy"]):
                    self.check_sums(case, [s for s in perfetto.slices if s.group == row["strategy"]], row)

    def check_sums(self, case, slices, row):
        expected = {k: v for k, v in row["attribution_ps_sum"].items() if v}
        by_category = collections.defaultdict(list)
        for s in slices:
            by_category[s.category].append(s)
        queue = by_category["launch"] + by_category["kernel"] + by_category["helper"]
        for group in ("run", "layer", "queue"):
            sums = collections.Counter()
            for s in queue if group == "queue" else by_category[group]:
                for key, value in s.arguments.items():
                    if key.endswith("_ps") and key[:-3] in row["attribution_ps_sum"]:
                        sums[key[:-3]] += value
            if group != "layer" or case == "step":
                self.assertEqual({k: v for k, v in sums.items() if v}, expected, group)
        (whole,) = by_category["run"]
        self.assertEqual(whole.arguments["duration_ps"], row["time_ps_sum"])
        length = sum(s.arguments["duration_ps"] for s in queue)
        if case == "overlapped":
            self.assertEqual(max(s.arguments["start_ps"] + s.arguments["duration_ps"] for s in queue), row["time_ps_sum"])
        else:
            self.assertEqual(length, row["time_ps_sum"])
        memory = sum(s.arguments.get("bytes_from_memory", 0) for s in queue)
        self.assertEqual(memory, row["memory_read_bytes_mean"])

    def test_item_slices_account_for_their_time(self):
        for case in CASES:
            _, perfetto, _, _ = read(case)
            items = [s for s in perfetto.slices if s.category == "items"]
            self.assertTrue(items)
            for s in items:
                a = s.arguments
                parts = a["until_first_step_ps"] + a["steps_ps"] + a["epilogue_ps"]
                blamed = sum(
                    v
                    for k, v in a.items()
                    if k.endswith("_ps")
                    and k not in ("start_ps", "duration_ps", "until_first_step_ps", "steps_ps", "epilogue_ps")
                )
                self.assertEqual(parts, blamed)
                self.assertIn(a["duration_ps"], (parts, parts - a["epilogue_ps"]))

    def test_experts_are_those_of_the_routing(self):
        _, perfetto, report, _ = read("layer")
        for row in report["rows"]:
            mine = [s for s in perfetto.slices if s.category == "expert" and s.group.startswith(row["strategy"] + ":")]
            for stage in ("gemm1", "gemm2"):
                of_stage = [s for s in mine if s.arguments["stage"] == stage]
                experts = {s.track for s in of_stage}
                self.assertEqual(len(experts), row["distinct_experts_mean"], row["strategy"])
                rows = collections.defaultdict(int)
                for s in of_stage:
                    rows[s.track] += s.arguments["rows"]
                self.assertEqual(sum(rows.values()), 5 * 8, row["strategy"])

    def test_a_full_disk_leaves_nothing(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing fails instead
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for extension in ("json", "json.gz", "pftrace"):
            path = pathlib.Path(folder.name) / f"full.{extension}"
            command = [MOESIM, "run", *CASES["layer"], "--samples", "1", "--timeline", str(path)]
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, preexec_fn=limit, restore_signals=False
            )
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("cannot be written", done.stderr)
            self.assertEqual(list(path.parent.iterdir()), [])

    def test_the_file_says_what_it_is_of(self):
        _, perfetto, report, _ = read("step")
        (whole,) = [s for s in perfetto.slices if s.category == "run"]
        for key, value in (
            ("device_hash", report["device"]["hash"]),
            ("strategy", "grouped_gemm"),
            ("seed", "1"),
            ("routing", "uniform"),
            ("layers", "3 of 48"),
        ):
            self.assertEqual(whole.arguments[key], value)
        self.assertRegex(whole.arguments["tool"], r"^moesim \d")
        layers = [s.name for s in perfetto.slices if s.category == "layer"]
        self.assertEqual(layers, ["outside the layers", "layer 0", "layer 1", "layer 2", "outside the layers"])


if __name__ == "__main__":
    MOESIM = sys.argv.pop(1)
    unittest.main()
