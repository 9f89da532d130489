"""python3 self_test.py: what needs neither PyTorch nor a GPU."""

import json
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import report
import shapes

SMALL = shapes.Model("small", 256, 128, 8, 2)
CUDA_ROWS = Path(__file__).parents[2] / "measured/h200-2026-11-30/measurements.jsonl"
H200_CACHE_BYTES = 62_914_560


class Routing(unittest.TestCase):
    def test_same_seed_same_picks(self):
        for routing in ("uniform", "zipf:1.0", "same"):
            first = shapes.draw_picks(SMALL, routing, 3, 5, 7)
            self.assertEqual(first, shapes.draw_picks(SMALL, routing, 3, 5, 7))
            self.assertNotEqual(first, shapes.draw_picks(SMALL, routing, 3, 5, 8))

    def test_a_token_picks_distinct_experts(self):
        for routing in ("uniform", "zipf:1.0", "same"):
            for picks in shapes.draw_picks(SMALL, routing, 4, 50, 1):
                for token in range(50):
                    pair = picks[2 * token : 2 * token + 2]
                    self.assertEqual(len(set(pair)), 2)
                    self.assertTrue(all(0 <= e < SMALL.experts for e in pair))

    def test_same_has_topk_active_experts(self):
        for picks in shapes.draw_picks(SMALL, "same", 4, 9, 1):
            self.assertEqual(len(set(picks)), SMALL.topk)

    def test_zipf_follows_popularity(self):
        one = shapes.Model("one", 256, 128, 4, 1)
        (picks,) = shapes.draw_picks(one, "zipf:1.0", 1, 20_000, 3)
        shares = sorted((n / 20_000 for n in Counter(picks).values()), reverse=True)
        total = 1 + 1 / 2 + 1 / 3 + 1 / 4
        for rank, share in enumerate(shares):
            self.assertAlmostEqual(share, 1 / (rank + 1) / total, delta=0.015)

    def test_trace_is_written_once_and_reused(self):
        point = shapes.Point(SMALL, 1, "bf16", "zipf:1.0", 3)
        with tempfile.TemporaryDirectory() as folder:
            picks, path = shapes.routed_picks(folder, point, 4, seed=1, reuse=True)
            self.assertEqual(path.name, "small-zipf-1.0-T3-R4.npy")
            self.assertEqual(shapes.read_npy(path)[0], (4, 3, 2))
            self.assertEqual(shapes.routed_picks(folder, point, 4, seed=2, reuse=True)[0], picks)
            self.assertNotEqual(shapes.routed_picks(folder, point, 4, seed=2, reuse=False)[0], picks)
            shapes.write_npy(path, [[0, 99] * 3] * 4, 3, 2)
            with self.assertRaises(ValueError):
                shapes.routed_picks(folder, point, 4, seed=1, reuse=True)

    def test_traces_of_the_cuda_harness_are_found(self):
        """Both harnesses choose the same repeats for a point, so that a cell of `validate` pairs their rows."""
        models = {m.name: m for m in shapes.MODELS}
        rows = [json.loads(line) for line in CUDA_ROWS.read_text(encoding="utf-8").splitlines()]
        rows = [row for row in rows if row["kind"] == "moe"]
        pools = {"bf16": shapes.BF16_POOL_BYTES, "fp8_block128": shapes.E4M3_POOL_BYTES}
        self.assertTrue(rows)
        for row in rows:
            point = shapes.Point(models[row["model"]["name"]], row["tp"], row["weights"], row["routing"], row["tokens"])
            repeats, _ = shapes.repeats_and_layers(point, H200_CACHE_BYTES, pools[row["weights"]])
            self.assertEqual(row["routed_trace"], "routes/" + shapes.trace_name(point, repeats))

    def test_the_same_points_as_the_cuda_harness(self):
        measured = {(p.model.name, p.tp, p.weights, p.routing, p.tokens) for p in shapes.points(quick=False)}
        for line in CUDA_ROWS.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row["kind"] == "moe" and row["tokens"] not in (128, 512):
                key = (row["model"]["name"], row["tp"], row["weights"], row["routing"], row["tokens"])
                self.assertIn(key, measured)


class Rows(unittest.TestCase):
    def test_padding_keeps_every_pick_once(self):
        (picks,) = shapes.draw_picks(SMALL, "zipf:1.0", 1, 40, 5)
        order, place, groups = shapes.sort_by_expert(picks)
        self.assertEqual([order[place[p]] for p in range(len(picks))], list(range(len(picks))))
        for block_m in (16, 32):
            rows, block_expert = shapes.pad_rows(order, groups, block_m)
            self.assertEqual(len(rows), block_m * len(block_expert))
            self.assertEqual(sorted(p for p in rows if p < len(picks)), list(range(len(picks))))
            for i, pick in enumerate(rows):
                if pick < len(picks):
                    self.assertEqual(picks[pick], block_expert[i // block_m])

    def test_offsets_count_empty_experts(self):
        _, _, groups = shapes.sort_by_expert([3, 1, 3, 5])
        self.assertEqual(shapes.expert_offsets(groups, 7), [0, 1, 1, 3, 3, 4, 4])

    def test_tiles(self):
        self.assertEqual(shapes.grouped_tile(16, False)["block_m"], 16)
        self.assertEqual(shapes.grouped_tile(16.1, False)["block_m"], 32)
        wide = dict(block_m=128, block_n=128, block_k=128, num_warps=8, num_stages=3)
        self.assertEqual(shapes.grouped_tile(500, True), wide)


class TileSpaces(unittest.TestCase):
    def test_distinct_and_feasible(self):
        for fp8 in (False, True):
            space = shapes.tile_space(fp8)
            self.assertEqual(len({tuple(t.items()) for t in space}), len(space))
            self.assertGreaterEqual(len(space), 50)
            for t in space:
                self.assertLessEqual(shapes.shared_bytes(t, fp8), shapes.MOST_SHARED_BYTES)
                if fp8:
                    self.assertEqual((t["block_k"], 128 % t["block_n"]), (128, 0))

    def test_what_the_stacks_take_without_a_file_is_in_it(self):
        wide, narrow = shapes.tile_space(False), shapes.tile_space(True)
        for t in ((16, 64, 128, 4, 4), (32, 64, 128, 4, 3), (64, 128, 64, 8, 3), (16, 32, 64, 4, 3)):
            self.assertIn(shapes.tile(*t), wide)
        self.assertIn(shapes.tile(64, 64, 32, 4, 3, 8), wide)
        for t in ((16, 128, 128, 4, 3), (16, 128, 128, 4, 3, 32), (64, 128, 128, 4, 3, 32)):
            self.assertIn(shapes.tile(*t), narrow)

    def test_shared_bytes_as_compiled(self):
        self.assertEqual(shapes.shared_bytes(shapes.tile(16, 64, 128, 4, 4), False), 61_440)
        self.assertEqual(shapes.shared_bytes(shapes.tile(128, 128, 64, 8, 4), False), 131_072)

    def test_points_of_named_models(self):
        points = shapes.tuning_points(["mixtral-8x7b"])
        self.assertEqual([p.tokens for p in points], [1, 4, 16, 64, 256])
        self.assertTrue(all(p.tiles and not p.stream for p in points))
        self.assertEqual(len(shapes.tuning_points()), 15)


class Slopes(unittest.TestCase):
    def test_replay_cost_is_not_in_the_slope(self):
        timing = report.Timing()
        for cost in (3.0, 50.0):
            timing.add(cost + 10 * 7.5, cost + 40 * 7.5, 10, 40, 1980)
        self.assertAlmostEqual(timing.us, 7.5)

    def test_the_clock_is_that_of_the_time(self):
        timing = report.Timing()
        for us, mhz in ((9, 1500), (7, 1900), (8, 1700)):
            timing.add(0, us, 0, 1, mhz)
        self.assertAlmostEqual(timing.us, 7.2)
        self.assertEqual(timing.sm_mhz, 1860)

    def test_lengths_are_whole_rotations(self):
        for rough, rotation, nodes in ((0.1, 4, 1), (5000, 2, 700), (60, 13, 4), (1.5, 64, 1)):
            short, long = report.graph_lengths(rough, rotation, nodes, 2500, 1200)
            self.assertEqual((short % rotation, long % rotation), (0, 0))
            self.assertLess(short, long)

    def test_quantile(self):
        self.assertEqual(report.quantile([3, 1, 2], 0.5), 2)
        self.assertAlmostEqual(report.quantile([0, 10], 0.1), 1)


class Reports(unittest.TestCase):
    def row(self, us):
        candidate = SimpleNamespace(activations="bf16", strategy="s", implementation={"name": "i"}, stage="total")
        timing = report.Timing(slopes=[us, us], clocks=[1980, 1980], chains=8, reasons=4)
        point = shapes.Point(SMALL, 1, "bf16", "same", 1)
        return report.row_of("h200", point, "routes/t.npy", 2.0, candidate, timing, "x")

    def test_rows_are_appended_and_torn_lines_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "measurements.jsonl"
            path.write_text('{"schema"', encoding="utf-8")
            written = report.Report(folder, 1, append=True)
            written.line(self.row(12.5))
            lines = path.read_text(encoding="utf-8").splitlines()
            self.assertEqual(len(lines), 2)
            self.assertTrue(json.loads(lines[1])["power_capped"])
            report.Report(folder, 1, append=False)
            self.assertEqual(path.read_text(encoding="utf-8"), "")

    def test_a_time_that_is_none_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            written = report.Report(folder, 1, append=False)
            written.note = lambda text: None
            written.line(self.row(-0.1))
            self.assertEqual((written.rows, written.wrong), (0, 1))

    def test_provenance_of_both_harnesses(self):
        with tempfile.TemporaryDirectory() as folder:
            written = report.Report(folder, 1, append=False)
            path = Path(folder) / "provenance.json"
            path.write_text('{"command": "cuda"}', encoding="utf-8")
            written.provenance({"command": "torch"}, append=True)
            whole = json.loads(path.read_text(encoding="utf-8"))
            self.assertEqual((whole["command"], whole["torch"]["command"]), ("cuda", "torch"))


if __name__ == "__main__":
    unittest.main()
