"""python3 self_test.py: what needs no TPU. Needs JAX; MOESIM_BINARY names the moesim that reads the rows (optional)."""

import contextlib
import io
import json
import os
import subprocess
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
from jax.experimental.pallas import tpu as pltpu

import main  # first: it finds the modules that the PyTorch harness shares
import chips
import device_time
import interpret
import measure
import points
import routing
import shapes
import stream
import weights as layer
from report import Report

CASE = interpret.Case(
    tokens=3, topk=2, experts=4, hidden=256, intermediate=256, fp8=True, ring=2, tiles=2, tp=1, ep=1, rank=0,
    routing="same", gmm_tile=(16, 128, 128),
)  # fmt: skip
MASK = 0.0


def picks(experts, weights=None):
    experts = np.array(experts, np.int32)
    weights = np.full(experts.shape, 0.25) if weights is None else np.array(weights)
    return routing.Picks(experts, weights.astype(np.float32))


class Routing(unittest.TestCase):
    def test_runs_are_sorted_and_leave_out_masked_and_other_devices_picks(self):
        runs = routing.runs_of(picks([[5, 1], [4, 5], [5, 7]], [[0.1, 0.2], [MASK, 0.3], [0.4, 0.5]]), 1, 4)
        self.assertEqual(runs.count[0], 2)  # experts 5 and 7: 4 is masked, 1 another device's
        self.assertEqual(runs.expert[:2].tolist(), [1, 3])
        self.assertEqual(runs.first[:3].tolist(), [0, 3, 4])
        self.assertEqual(runs.token[:4].tolist(), [0, 1, 2, 2])
        np.testing.assert_allclose(runs.weight[:4], [0.1, 0.3, 0.4, 0.5])

    def test_a_device_without_picks_has_no_runs(self):
        runs = routing.runs_of(picks([[0, 1]]), 1, 2)
        self.assertEqual((runs.count[0], runs.first.tolist()), (0, [0, 0, 0]))

    def test_groups_hold_every_unmasked_row_once(self):
        given = picks([[5, 1], [4, 5], [5, 7]], [[0.1, 0.2], [MASK, 0.3], [0.4, 0.5]])
        groups = routing.groups_of(given, 1, 4, 8, 16)
        self.assertEqual(groups.sizes.tolist(), [0, 1, 0, 0, 0, 3, 0, 1])
        self.assertEqual((len(groups.token), int(groups.first)), (16, 4))
        self.assertEqual(groups.token[:6].tolist(), [0, 0, 1, 2, 2, 1])  # 1, 5, 5, 5, 7, the masked one
        self.assertEqual(groups.place.tolist(), [[1, 0], [5, 2], [3, 4]])
        np.testing.assert_allclose(groups.weight, [[0.1, 0], [0, 0.3], [0.4, 0.5]])

    def test_the_most_loaded_device_has_the_most_experts_then_the_most_picks(self):
        self.assertEqual(routing.most_loaded(picks([[0, 4], [0, 5]]), 2, 4), 1)
        self.assertEqual(routing.most_loaded(picks([[0, 4], [1, 5], [1, 2]], [[1, 1], [1, 1], [1, MASK]]), 2, 4), 0)
        self.assertEqual(routing.active_experts(picks([[0, 4], [0, 5]]), 1, 4), 2)


class Sizes(unittest.TestCase):
    def test_a_plan_is_whole_experts_where_they_fit_and_stays_below_the_capacity(self):
        vmem = 64 << 20
        whole = stream.plan_for(1, 10, 4096, 1024, True, 4, vmem)
        self.assertEqual((whole.ring, whole.tiles), (4, 1))
        cut = stream.plan_for(1, 10, 4096, 1024, False, 4, vmem)
        self.assertGreater(cut.tiles, 1)
        for plan in (whole, cut):
            self.assertLess(plan.vmem_bytes, vmem)
        self.assertIsNone(stream.plan_for(1, 2, 4096, 14336, True, 4, 1 << 20))

    def test_a_point_is_cold(self):
        for chip in chips.CHIPS:
            cache = chips.cache_bytes(chips.info_of(chip))
            for point in points.points(quick=False):
                chosen = points.repeats_and_layers(point, cache, 500e9)
                repeats, layers = chosen
                self.assertEqual(repeats % layers, 0)
                fewest = point.model.topk * point.expert_bytes // point.ep  # one token's
                if repeats < points.MOST_REPEATS and point.routing == "same":
                    self.assertGreater(repeats * fewest, 3 * cache)

    def test_every_gmm_tile_fits_the_default_limit(self):
        for point in points.points(quick=False):
            for rows, k, n in points.gmm_tiles(point, point.picks / point.model.experts):
                self.assertTrue(rows % 16 == k % 128 == n % 128 == 0)
                self.assertLessEqual(4 * (k * n + rows * (k + n)) + 4 * rows * n, points.GMM_BLOCK_BYTES)

    def test_shards_of_experts_are_measured_beside_the_common_points(self):
        found = {(p.model.name, p.tp, p.ep, p.weights, p.tokens) for p in points.points(quick=False)}
        for tokens in (1, 2, 3, 4, 8, 16, 32, 64):
            for tp, ep in ((8, 1), (1, 8)):
                self.assertIn(("qwen3.5-397b", tp, ep, "fp8_block128", tokens), found)


class References(unittest.TestCase):
    def test_shards_sum_to_the_whole(self):
        for fp8 in (False, True):
            case = replace(CASE, tp=2, ep=2, fp8=fp8, routing="uniform")
            parts = [interpret.problem_of(replace(case, rank=rank), fp8, 5) for rank in range(4)]
            whole = interpret.problem_of(replace(case, tp=1, ep=1), fp8, 5)
            np.testing.assert_allclose(sum(part.expected() for part in parts), whole.expected(), rtol=1e-9, atol=1e-12)

    def test_the_device_s_reference_is_the_host_s(self):
        for fp8, kind in ((False, "uniform"), (True, "masked"), (True, "nothing")):
            problem = interpret.problem_of(replace(CASE, ep=2, rank=1, routing=kind), fp8, 6)
            of_experts = routing.expert_weights(problem.picks, 1, 2)
            result = layer.reference_on_device(of_experts, problem.x, problem.weights)
            self.assertLess(layer.relative_error(result, problem.expected()), 1e-5)

    def test_weights_of_the_device_are_like_those_of_the_host(self):
        for fp8 in (False, True):
            made = layer.on_device(jax.random.key(1), 3, 256, 128, fp8)
            host = layer.on_host(np.random.default_rng(1), 3, 256, 128, fp8)
            for a, b in zip(made, host, strict=True):
                self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
                wide_a, wide_b = np.asarray(a).astype(np.float32), b.astype(np.float32)
                self.assertTrue(np.isfinite(wide_a).all())
                if a.dtype == np.float32:  # few scales
                    self.assertTrue((0.5 * layer.SCALE <= wide_a).all() and (wide_a <= 1.5 * layer.SCALE).all())
                else:
                    self.assertAlmostEqual(np.abs(wide_a).mean() / np.abs(wide_b).mean(), 1, delta=0.05)

    def test_no_picks_give_zero_and_nothing_else(self):
        self.assertEqual(layer.relative_error(np.zeros(3), np.zeros(3)), 0)
        self.assertEqual(layer.relative_error(np.ones(3), np.zeros(3)), np.inf)
        self.assertTrue(np.isnan(layer.relative_error(np.full(3, np.nan), np.ones(3))))


class PlantedErrors(unittest.TestCase):
    """A wrong kernel is caught; the same case is right without the error."""

    def setUp(self):
        self.problem = interpret.problem_of(CASE, True, 7)
        self.tolerance = interpret.TOLERANCE["tpu_stream", "fp8_block128"]

    def error(self):
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            return interpret.error_of(interpret.run_stream, self.problem)

    def caught(self):
        self.assertFalse(self.error() <= self.tolerance)

    def with_runs(self, change):
        true_runs = routing.runs_of
        return mock.patch.object(routing, "runs_of", lambda *a: change(true_runs(*a)))

    def test_none(self):
        self.assertLessEqual(self.error(), self.tolerance)

    def test_a_wrong_expert(self):
        with self.with_runs(lambda runs: replace(runs, expert=(runs.expert + 1) % 4)):
            self.caught()

    def test_a_dropped_duplicate(self):
        def drop(runs):  # the last pick of the first run
            return replace(runs, count=np.minimum(runs.count, 1), first=np.where(runs.first > 0, runs.first[1] - 1, 0))

        with self.with_runs(drop):
            self.caught()

    def test_a_missing_wait(self):
        with mock.patch.object(stream, "wait", lambda copies: None):
            self.caught()

    def test_a_wait_for_one_copy_of_two(self):
        with mock.patch.object(stream, "wait", lambda copies: copies[0].wait()):
            self.caught()

    def test_the_same_place_for_two_units(self):
        with mock.patch.object(stream, "ring_slot", lambda unit, plan: 0 * unit):
            self.caught()

    def test_an_error_of_gmm_s_groups(self):
        true_groups = routing.groups_of
        wrong = lambda *a: replace(true_groups(*a), token=np.roll(true_groups(*a).token, 1))  # noqa: E731
        problem = interpret.problem_of(replace(CASE, fp8=False), False, 7)
        with mock.patch.object(routing, "groups_of", wrong):
            self.assertGreater(interpret.error_of(interpret.run_gmm, problem), interpret.TOLERANCE["tpu_gmm", "bf16"])

    def test_wrong_results_are_counted(self):
        with mock.patch.object(layer, "reference", lambda *a: np.ones((1, 1))):
            notes = []
            with mock.patch.object(interpret, "run_gmm", lambda problem: 1.0):
                wrong = interpret.check(1, 1, notes.append)
        self.assertEqual(wrong, 1)
        self.assertTrue(notes[0].startswith("WRONG tpu_stream"))


def trace_of(lines, plane="/device:TPU:0"):
    """A profile with these {line: [(name, start ns, duration ns)]}."""
    names = list(dict.fromkeys(name for events in lines.values() for name, _, _ in events))
    text = f'planes {{ name: "{plane}"\n'
    for number, name in enumerate(names, 1):
        text += f'event_metadata {{ key: {number} value {{ id: {number} name: "{name}" }} }}\n'
    for line, events in lines.items():
        text += f'lines {{ name: "{line}"\n'
        for name, start, duration in events:
            at = f"offset_ps: {round(start * 1000)} duration_ps: {round(duration * 1000)}"
            text += f"events {{ metadata_id: {names.index(name) + 1} {at} }}\n"
        text += "}\n"
    profile = jax.profiler.ProfileData
    return profile.from_serialized_xspace(profile.text_proto_to_serialized_xspace(text + "}"))


class Traces(unittest.TestCase):
    LINES = {
        "XLA Modules": [
            ("jit_b(77)", 9000, 2500),
            ("jit_a(12)", 100, 1500),
            ("jit_a(12)", 2000, 1700),
            ("jit_x(1)", 5000, 1),
        ],
        "XLA Ops": [
            ("%fusion.1 = f32[2] fusion(x)", 150, 400),
            ("%fusion.1 = f32[2] fusion(x)", 2100, 600),
            ("y", 7000, 9),
        ],
    }

    def test_times_are_in_order_and_by_function(self):
        times = device_time.module_times(trace_of(self.LINES), {"a": 2, "b": 1})
        self.assertEqual(dict(times), {"a": [1.5, 1.7], "b": [2.5]})

    def test_missing_events_are_an_error(self):
        with self.assertRaisesRegex(device_time.TraceError, "2 executions of a in the trace, 3 were started"):
            device_time.module_times(trace_of(self.LINES), {"a": 3})

    def test_a_trace_without_a_tpu_says_what_it_has(self):
        with self.assertRaisesRegex(device_time.TraceError, r"/host:CPU \[XLA Modules"):
            device_time.module_times(trace_of(self.LINES, "/host:CPU"), {"a": 2})

    def test_operations_are_averages_of_an_execution(self):
        found = device_time.operations(trace_of(self.LINES), ["a", "b"])
        self.assertEqual(found, {"a": [{"name": "fusion.1", "count": 1.0, "us": 0.5}], "b": []})

    def test_the_profiler_s_trace_is_found_and_read(self):
        trace = device_time.record(lambda: jax.block_until_ready(jax.jit(lambda x: x + 1)(np.ones(8))))
        self.assertIn("/host:CPU", [plane.name for plane in trace.planes])


class Programs(unittest.TestCase):
    def test_a_program_has_its_candidate_s_name(self):
        candidate = measure.Candidate("s", {"name": "i"}, "total", lambda x: x + 1, lambda i: (np.ones(2),))
        text = candidate.program.lower(*candidate.arguments(0)).as_text()
        self.assertRegex(text, rf"module @jit_{candidate.name}\b")


class Measured(unittest.TestCase):
    """The whole way from a point to its rows, kernels interpreted and the profile made up."""

    MODEL = shapes.Model("tiny", 256, 128, 8, 2)
    US = 20.0

    def run_point(self, folder, point, us=US):
        """(report, rows). Every execution of a program takes `us`."""
        started, true_program = [], measure.Candidate.program

        def program(candidate):
            def call(*arguments):
                started.append(candidate.name)
                return compiled.setdefault(candidate.name, true_program.func(candidate))(*arguments)

            return call

        def record(work):
            del started[:]
            work()
            return trace_of({"XLA Modules": [(f"jit_{n}(5)", 1e6 * i, 1e3 * us) for i, n in enumerate(started)]})

        compiled, device = {}, SimpleNamespace(memory_stats=lambda: {"bytes_limit": 16e9})
        with contextlib.ExitStack() as stack, contextlib.redirect_stderr(io.StringIO()):
            stack.enter_context(pltpu.force_tpu_interpret_mode(pltpu.InterpretParams()))
            stack.enter_context(mock.patch.object(measure.Candidate, "program", property(program)))
            stack.enter_context(mock.patch.object(device_time, "record", record))
            stack.enter_context(mock.patch.object(chips, "cache_bytes", lambda info: 1))
            report = Report(folder, 100, append=False)
            info = chips.info_of(chips.chip_of_label("tpu7x"))
            measure.Runner(device, "tpu7x", info, report, 1, 2, (2,), "a test").run(point)
        return report, [json.loads(line) for line in report.path.read_text(encoding="utf-8").splitlines()]

    def with_kernel(self, function):
        """One candidate that computes `function` of the setting from x."""

        def only(s, rings, vmem_bytes):
            implementation = {"name": "pallas-stream", "ring": 2}
            return [[measure.Candidate("tpu_stream", implementation, "total", lambda x: function(s), lambda i: (s.x,))]]

        return mock.patch.object(measure, "candidates", only)

    def test_rows_of_both_kernels_and_of_a_shard(self):
        with tempfile.TemporaryDirectory() as folder:
            point = points.Point(self.MODEL, 1, "bf16", "uniform", 2, stages=True, ep=2)
            report, rows = self.run_point(folder, point)
            self.assertEqual(report.wrong, 0, report.summary)
            totals = {(r["strategy"], r["implementation"]["name"]) for r in rows if r["stage"] == "total"}
            wanted = {("tpu_stream", "pallas-stream"), ("tpu_gmm", "megablox"), ("tpu_gmm", "megablox-default")}
            self.assertEqual(totals, wanted)
            stages = [r["stage"] for r in rows if r["implementation"]["name"] == "megablox"]
            self.assertEqual(stages, ["total", "permute", "gemm1", "act", "gemm2", "combine"])
            for row in rows:
                self.assertEqual((row["us"], row["p90_us"], row["samples"], row["ep"]), (self.US, self.US, 2, 2))
                self.assertEqual(row["timing"]["method"], "profiler_device_time")
                self.assertNotIn("sm_mhz", row)
                shape, _ = shapes.read_npy(Path(folder) / row["routed_trace"])
                self.assertEqual(tuple(shape), (4, 2, 2))
            self.read_by_moesim(folder, rows)

    def read_by_moesim(self, folder, rows):
        """moesim reads every field; under a device and strategies that it has whatever its version."""
        if "MOESIM_BINARY" not in os.environ:
            return
        path = Path(folder) / "renamed.jsonl"
        names = {"tpu_stream": "stream_gemv", "tpu_gmm": "grouped_gemm"}
        whole = [r for r in rows if r["stage"] == "total" and r["implementation"]["name"] != "megablox-default"]
        for row in whole:
            row.update(device="h200", strategy=names[row["strategy"]], implementation={"name": "renamed"})
        path.write_text("".join(json.dumps(row) + "\n" for row in whole), encoding="utf-8")
        command = [
            os.environ["MOESIM_BINARY"],
            "validate",
            "--measurements",
            str(path),
            "--uncalibrated",
            "--format",
            "json",
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["overall"]["count"], 2)

    def test_fp8_has_rows_of_the_streaming_kernel_only(self):
        with tempfile.TemporaryDirectory() as folder:
            report, rows = self.run_point(folder, points.Point(self.MODEL, 1, "fp8_block128", "same", 3))
            self.assertEqual((report.wrong, [r["strategy"] for r in rows]), (0, ["tpu_stream"]))

    def right(self, s):
        of_experts = routing.expert_weights(s.picks[0], s.shards[0], s.point.local_experts)
        return layer.reference_on_device(of_experts, s.x, s.layers[0])

    def refused(self, function, us=US):
        with tempfile.TemporaryDirectory() as folder, self.with_kernel(function):
            report, rows = self.run_point(folder, points.Point(self.MODEL, 1, "bf16", "uniform", 1), us)
            return report.wrong, len(rows)

    def test_a_wrong_kernel_is_refused_and_not_timed(self):
        self.assertEqual(self.refused(self.right), (0, 1))
        self.assertEqual(self.refused(lambda s: 1.05 * self.right(s)), (1, 0))
        self.assertEqual(self.refused(lambda s: np.nan * self.right(s)), (1, 0))
        self.assertEqual(self.refused(lambda s: 1 / 0), (1, 0))

    def test_a_time_beyond_the_clock_s_is_refused(self):
        self.assertEqual(self.refused(self.right, us=1e9), (1, 0))


class CommandLine(unittest.TestCase):
    def run_main(self, *arguments):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors):
            try:
                status = main.main(list(arguments))
            except SystemExit as stop:
                status = stop.code
        return status, errors.getvalue()

    def test_wrong_input(self):
        for arguments, text in (
            ([], "one of OUTPUT, --interpret and --compile CHIP"),
            (["out", "--interpret"], "one of OUTPUT, --interpret and --compile CHIP"),
            (["out", "--rings", "4,x"], "found '4,x', expected numbers"),
            (["out", "--rings", "0"], "found 0, expected 1 or more"),
            (["--interpret", "--cases", "0"], "found 0, expected 1 or more"),
            (["out", "--models", "mixtral"], "no model 'mixtral'"),
            (["--compile", "tpu9"], "no chip 'tpu9'"),
        ):
            status, errors = self.run_main(*arguments)
            self.assertEqual(status, 2, arguments)
            self.assertIn(text, errors)

    def test_no_tpu_is_one_clear_error(self):
        with tempfile.TemporaryDirectory() as folder:
            status, errors = self.run_main(str(Path(folder) / "out"))
            self.assertEqual((status, errors.count("\n")), (2, 1))
            self.assertIn("no TPU device; --interpret checks the kernels without one", errors)
            self.assertFalse((Path(folder) / "out").exists())

    def test_a_wrong_kernel_is_in_the_exit_status(self):
        for wrong, status in ((0, 0), (2, 1)):
            with mock.patch.object(interpret, "check", lambda *a, wrong=wrong: wrong):
                with contextlib.redirect_stdout(io.StringIO()):
                    self.assertEqual(self.run_main("--interpret")[0], status)

    def test_help_says_that_it_has_not_run_on_a_tpu(self):
        run = Path(__file__).with_name("run")
        self.assertIn("Not yet run on a TPU", subprocess.run([run, "--help"], capture_output=True, text=True).stdout)


if __name__ == "__main__":
    unittest.main()
