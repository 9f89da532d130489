"""The page of `moesim report` in a real browser: report_test.py MOESIM CHROMIUM FOLDER [TEST...]

Screenshots and saved files stay in FOLDER, to be looked at.
"""

import base64
import csv
import io
import json
import pathlib
import subprocess
import sys
import time
import unittest
import xml.etree.ElementTree

from browser import Browser

MOESIM, CHROMIUM, FOLDER = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
PROBES = (pathlib.Path(__file__).parent / "probes.js").read_text()
HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
DRAWN = 12  # colours at least: antialiased text and marks
WHOLE = ["--model", "qwen3.5-397b-a17b-fp8", "--concurrency", "1,2,4,16", "--samples", "3", "--scope", "expert_ffn"]


def moesim(*arguments):
    return subprocess.run([MOESIM, *arguments], check=True, capture_output=True, text=True).stdout


def measured_rows():
    """Two rows of the model of WHOLE, and one of another."""
    model = {"name": "qwen3.5-397b", "hidden": 4096, "intermediate": 1024, "experts": 512, "topk": 10, "gated": True}
    row = {"schema": "moesim.measurement/2", "kind": "moe", "device": "h200", "model": model, "tp": 1, "ep": 1, "weights": "fp8_block128",
           "activations": "fp8_block128", "tokens": 2, "routing": "uniform", "mean_active_experts": 19.8, "strategy": "grouped_gemm",
           "implementation": {"name": "triton-grouped", "block_m": 16}, "launch": "graph", "scope": "expert_ffn", "stage": "total", "us": 61.5,
           "source": HOSTILE, "routed_trace": "none.npy"}
    other = {**row, "model": {**model, "hidden": 2048}}
    hostile = {**row, "tokens": 4, "us": 99.25, "implementation": {"name": HOSTILE}}
    return "".join(json.dumps(r) + "\n" for r in (row, hostile, other))


def make(name, arguments):
    path = FOLDER / name
    moesim("report", *arguments, "--out", str(path))
    return path


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        FOLDER.mkdir(parents=True, exist_ok=True)
        rows = FOLDER / "measured.jsonl"
        rows.write_text(measured_rows())
        cls.path = make("whole.html", [*WHOLE, "--measured", str(rows)])
        cls.browser = Browser(CHROMIUM)
        cls.addClassCleanup(cls.browser.__exit__)

    def open(self, path=None, width=1280, height=900):
        page = self.browser.page(width, height)
        self.addCleanup(page.close)
        page.open((path or self.path).as_uri())
        page.evaluate(PROBES)
        page.settle()
        return page

    def check_quiet(self, page, path):
        said = page.events("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        self.assertEqual([], said)
        asked = {e["request"]["url"] for e in page.events("Network.requestWillBeSent")}
        self.assertEqual(set(), {url for url in asked if not url.startswith(("data:", "blob:", "about:"))} - {path.as_uri()})

    def check_charts(self, page, least):
        charts = page.evaluate("probes.charts()")
        self.assertGreaterEqual(len(charts), least)
        for chart in charts:
            with self.subTest(chart["id"]):
                self.assertGreater(chart["marks"], 0)
                self.assertGreater(chart["groups"], 0)
                self.assertEqual(0, chart["unlabelled"])
                self.assertTrue(chart["title"])
                self.assertTrue(chart["reading"].endswith("."), chart["reading"])
                self.assertGreater(chart["clip"]["height"], 60)
                picture = page.screenshot(clip=chart["clip"])
                (FOLDER / f"{chart['id']}.png").write_bytes(picture)
                found = self.picture(picture)
                self.assertGreater(found["colours"], DRAWN)
                self.assertLess(found["commonest"], 0.98)
        return charts

    def picture(self, png):
        helper = self.browser.page(100, 100)
        helper.evaluate(PROBES)
        found = helper.evaluate(f"probes.picture('{base64.b64encode(png).decode()}')")
        helper.close()
        return found

    def downloads(self, page, selector):
        folder = FOLDER / "saved"
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        self.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        count = page.evaluate(f"document.querySelectorAll('{selector}').length")
        for i in range(count):
            page.evaluate(f"document.querySelectorAll('{selector}')[{i}].click()")
            deadline = time.monotonic() + 20
            while len([f for f in folder.iterdir() if f.suffix in (".svg", ".csv")]) <= i:
                self.assertLess(time.monotonic(), deadline, f"{selector} {i} saves nothing")
                time.sleep(0.02)
        return sorted(folder.iterdir())

    def test_draws_everything_and_asks_for_nothing(self):
        page = self.open()
        charts = self.check_charts(page, 5)
        self.assertEqual(["chart-time", "chart-effects", "chart-ladder", "chart-kernels", "chart-rows"], [c["id"] for c in charts])
        (FOLDER / "light.png").write_bytes(page.screenshot(full=True))
        self.check_quiet(page, self.path)

    def test_shows_error_bars_and_what_a_result_hangs_on(self):
        path = make("sure.html", ["--model", "qwen3-30b-a3b", "--concurrency", "1,8", "--samples", "1", "--scope", "expert_ffn", "--strategy",
                                  "grouped_gemm,stream_gemv", "--uncertainty", "--sensitivity", "--result", "time:stream_gemv"])
        page = self.open(path)
        self.assertIn("chart-sensitivity", [c["id"] for c in self.check_charts(page, 6)])
        self.assertEqual(2, page.evaluate("document.querySelectorAll('.interval').length"))
        self.assertIn("p5 to p95", page.evaluate("document.getElementById('accuracy').textContent"))
        effects = page.evaluate("data.sensitivity.effects.map((e) => Math.max(...[e.low, e.high].map((end) => Math.abs(Math.log(end.result / data.sensitivity.result.time_us)))))")
        self.assertEqual(sorted(effects, reverse=True), effects)
        self.assertTrue(page.evaluate("document.querySelector(\".bar a[href='#hangs']\") !== null"))
        self.check_quiet(page, path)
        plain = self.open()
        self.assertFalse(plain.evaluate("document.getElementById('hangs') !== null || document.querySelector(\".bar a[href='#hangs']\") !== null"))

    def test_follows_the_chosen_concurrency(self):
        page = self.open()
        before = [c["title"] for c in page.evaluate("probes.charts()")]
        page.evaluate("(() => { const s = document.getElementById('concurrency'); s.value = '3'; s.dispatchEvent(new Event('change')); })()")
        page.settle()
        after = [c["title"] for c in page.evaluate("probes.charts()")]
        self.assertTrue(all("16 tokens" in title for title in after[1:]), after)
        self.assertTrue(all("1 token" in title for title in before[1:]), before)
        self.check_charts(page, 5)
        self.check_quiet(page, self.path)

    def test_both_themes_can_be_read(self):
        page = self.open()
        grounds = {}
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        for theme in ("light", "dark"):
            page.emulate_colours(theme)
            page.settle()
            grounds[theme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
            found = page.evaluate("probes.faint(4.5)")
            self.assertGreater(found["count"], 200)
            self.assertEqual([], found["found"], theme)
        self.assertNotEqual(grounds["light"], grounds["dark"])
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = false; })")
        (FOLDER / "dark.png").write_bytes(page.screenshot(full=True))
        page.evaluate("document.querySelector('#theme [value=light]').click()")
        self.assertEqual(grounds["light"], page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.emulate_colours("light")
        page.evaluate("document.querySelector('#theme [value=dark]').click()")
        self.assertEqual(grounds["dark"], page.evaluate("getComputedStyle(document.body).backgroundColor"))
        self.check_charts(page, 5)

    def test_fits_a_phone(self):
        page = self.open(width=360, height=740)
        self.assertEqual(360, page.evaluate("document.documentElement.scrollWidth"))
        self.check_charts(page, 5)
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        page.settle()
        self.assertEqual(360, page.evaluate("document.documentElement.scrollWidth"))
        page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = false; })")
        (FOLDER / "phone.png").write_bytes(page.screenshot(full=True))
        self.check_quiet(page, self.path)

    def test_tab_reaches_everything(self):
        page = self.open()
        stops = page.evaluate("probes.mark()")
        self.assertGreater(stops, 40)
        seen = set()
        for _ in range(stops + 5):
            page.key("Tab")
            seen.add(page.evaluate("probes.focused()"))
        self.assertEqual([], page.evaluate(f"probes.missed({sorted(seen)})"))

    def test_arrows_go_through_points(self):
        page = self.open()
        page.evaluate("document.querySelector('#chart-time .mark[tabindex=\"0\"]').focus()")
        page.key("ArrowRight")
        label = page.evaluate("document.activeElement.getAttribute('aria-label')")
        self.assertIn("at 2 tokens", label)
        self.assertIn("median", label)
        page.evaluate("scrollBy({ top: 40, behavior: 'instant' })")
        page.settle()
        self.assertFalse(page.evaluate("document.getElementById('tip').hidden"))
        page.key("Escape")
        self.assertTrue(page.evaluate("document.getElementById('tip').hidden"))
        page.key("End")
        self.assertIn("at 16 tokens", page.evaluate("document.activeElement.getAttribute('aria-label')"))
        page.key("Enter", text="\r")
        page.settle()
        self.assertEqual("3", page.evaluate("document.getElementById('concurrency').value"))
        self.assertIn("at 16 tokens", page.evaluate("document.activeElement.getAttribute('aria-label')"))

    def test_zooms_by_keys(self):
        page = self.open()
        width = "document.querySelector('#chart-kernels .mark').getBoundingClientRect().width"
        page.evaluate("document.querySelector('#chart-kernels .mark[tabindex=\"0\"]').focus()")
        before = page.evaluate(width)
        page.key("+", text="+")
        page.settle()
        self.assertAlmostEqual(2, page.evaluate(width) / before, delta=0.3)
        self.assertTrue(page.evaluate("document.activeElement.matches('#chart-kernels .mark')"))
        page.key("0", text="0")
        page.settle()
        self.assertAlmostEqual(1, page.evaluate(width) / before, delta=0.05)

    def test_zooms_by_wheel_with_control_alone(self):
        page = self.open()
        width = "document.querySelector('#chart-kernels .mark').getBoundingClientRect().width"
        page.evaluate("document.querySelector('#chart-kernels').scrollIntoView({ behavior: 'instant', block: 'center' })")
        page.settle()
        x, y = page.evaluate("(() => { const b = document.querySelector('#chart-kernels .mark').getBoundingClientRect(); return [b.x + b.width / 2, b.y + 5]; })()")
        wide, top = page.evaluate(width), page.evaluate("scrollY")
        page.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=120)
        page.wait(f"scrollY > {top} + 60")
        self.assertEqual(wide, page.evaluate(width))
        page.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-300, modifiers=2)
        page.wait(f"{width} > {wide} * 1.2")

    def test_saves_charts_as_svg(self):
        page = self.open()
        files = self.downloads(page, '[aria-label^="Save as SVG"]')
        self.assertEqual(5, len(files))
        for file in files:
            with self.subTest(file.name):
                text = file.read_text()
                root = xml.etree.ElementTree.fromstring(text)
                self.assertEqual("{http://www.w3.org/2000/svg}svg", root.tag)
                self.assertNotRegex(text, r"var\(|light-dark|<script|tabindex|class=")
                self.assertIn("qwen3.5-397b-a17b-fp8", text)
                alone = self.open(file)
                alone.emulate_colours("dark")  # it keeps the colours that it was saved in
                size = [float(root.get(key)) for key in ("width", "height")]
                found = self.picture(alone.screenshot(clip={"x": 0, "y": 0, "width": size[0], "height": size[1]}))
                self.assertGreater(found["colours"], DRAWN)
                self.assertLess(found["commonest"], 0.97)

    def test_saves_numbers_as_csv(self):
        page = self.open()
        files = {f.name.split("-chart-")[1]: f for f in self.downloads(page, '[aria-label^="Save as CSV"]')}
        self.assertEqual({"time.csv", "effects.csv", "ladder.csv", "kernels.csv", "rows.csv"}, set(files))
        tables = {name: list(csv.DictReader(io.StringIO(file.read_bytes().decode(), newline=""))) for name, file in files.items()}
        study = json.loads(moesim("run", *WHOLE, "--format", "json", "--explain"))
        times = {(str(r["concurrency"]), r["strategy"]): r for r in study["rows"] if r["feasible"]}
        simulated = [r for r in tables["time.csv"] if r["winner"] != "measured"]
        self.assertEqual(set(times), {(r["tokens"], r["strategy"]) for r in simulated})
        for row in simulated:
            self.assertEqual(times[row["tokens"], row["strategy"]]["time_ps_median"], round(float(row["median_us"]) * 1e6))
        measured = [r for r in tables["time.csv"] if r["winner"] == "measured"]
        self.assertEqual([("2", 61.5, "triton-grouped"), ("4", 99.25, HOSTILE)], [(r["tokens"], float(r["median_us"]), r["implementation"]) for r in measured])
        for row in tables["effects.csv"]:
            pieces = [float(v) for k, v in row.items() if k.endswith("_us") and k != "mean_us"]
            self.assertAlmostEqual(float(row["mean_us"]), sum(pieces), places=5)
            self.assertAlmostEqual(times[row["tokens"], row["strategy"]]["time_ps_sum"] / 3e6, float(row["mean_us"]), places=5)
        ladder = study["ladder"]
        stated = [r for r in tables["ladder.csv"] if r["order"] == "stated" and r["tokens"] == "1"]
        gain = ladder["gain_ps"] / 1e6
        self.assertAlmostEqual(gain, sum(float(r["saved_us"]) for r in stated), places=5)
        self.assertEqual({"1"}, {r["tokens"] for r in tables["kernels.csv"]})
        self.assertEqual(sum(len(r.get("kernels_first_sample", [])) for r in study["rows"]), len(tables["kernels.csv"]))
        self.assertEqual(30, sum(int(r["rows"]) * int(r["experts_in_all_samples"]) for r in tables["rows.csv"] if r["tokens"] == "1"))

    def test_names_are_text(self):
        folder = FOLDER / "hostile"
        folder.mkdir(exist_ok=True)
        config = folder / "<img src=x onerror=window.hacked=1>{{data}}.json"
        config.write_text(json.dumps({"model_type": "mixtral", "hidden_size": 1024, "intermediate_size": 512, "num_local_experts": 8, "num_experts_per_tok": 2,
                                      "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1000, "torch_dtype": "bfloat16"}))
        page_file = make("hostile.html", ["--model", str(config), "--concurrency", "1", "--samples", "1"])
        for path in (self.path, page_file):
            page = self.open(path)
            page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
            page.settle()
            self.assertEqual("undefined", page.evaluate("typeof window.hacked"))
            self.assertEqual(0, page.evaluate("document.images.length"))
            self.assertTrue(page.evaluate("document.body.innerText.includes('<img src=x onerror=window.hacked=1>')"))
            self.check_quiet(page, path)
        self.assertIn("<img src=x onerror=window.hacked=1>{{data}}", self.open(page_file).evaluate("document.title"))

    def test_draws_a_step_of_one_strategy_at_one_concurrency(self):
        path = make("step.html", ["--model", "mixtral-8x7b", "--scope", "step", "--layers", "3", "--concurrency", "4", "--strategy", "grouped_gemm"])
        for width in (1280, 360):
            page = self.open(path, width=width)
            charts = self.check_charts(page, 5)
            self.assertIn("chart-parts", [c["id"] for c in charts])
            self.assertNotIn("chart-ladder", [c["id"] for c in charts])
            self.assertEqual(width, page.evaluate("document.documentElement.scrollWidth"))
            self.check_quiet(page, path)

    def test_says_what_is_not_feasible(self):
        too_big = "grouped_gemm:block_n=512,block_k=1024,num_stages=16"
        path = make("part.html", ["--model", "mixtral-8x7b", "--concurrency", "1,3", "--samples", "2", "--strategy", f"{too_big},stream_gemv,auto"])
        page = self.open(path)
        self.check_charts(page, 4)
        self.assertIn("do not fit", page.evaluate("document.getElementById('time').innerText"))
        self.assertEqual([], page.evaluate("probes.faint(4.5)")["found"])
        self.check_quiet(page, path)

    def test_draws_concurrencies_at_which_nothing_is_feasible(self):
        path = make("full.html", ["--model", "mixtral-8x7b", "--scope", "step", "--layers", "2", "--context", "2000000", "--concurrency", "1,64", "--strategy", "grouped_gemm"])
        page = self.open(path)
        self.assertIn("nothing is feasible at 64 tokens", page.evaluate("document.querySelector('h1').innerText"))
        self.check_charts(page, 5)
        for action in ("const s = document.getElementById('concurrency'); s.value = '1'; s.dispatchEvent(new Event('change'))",
                       "document.querySelector('[name=time-mode][value=relative]').click()"):
            page.evaluate(f"(() => {{ {action}; }})()")
            page.settle()
        self.check_quiet(page, path)

    def crossover(self, name, *more):
        path = FOLDER / name
        moesim("sweep", "--crossover", "concurrency=1..32", "--model", "qwen3-30b-a3b", "--strategy", "stream_gemv,grouped_gemm", "--samples", "2",
               "--scope", "expert_ffn", *more, "--html", str(path))
        return path

    def test_draws_a_map_of_winners(self):
        path = self.crossover("map.html", "--vary", "experts=32,64,128")
        for width in (1280, 360):
            page = self.open(path, width=width)
            charts = self.check_charts(page, 2)
            self.assertEqual(["chart-map", "chart-axis"], [c["id"] for c in charts])
            self.assertEqual(width, page.evaluate("document.documentElement.scrollWidth"))
            self.check_quiet(page, path)
        page = self.open(path)
        self.assertGreater(page.evaluate("document.querySelectorAll('#chart-map .border').length"), 1)
        page.evaluate("document.querySelectorAll('#chart-map .mark[tabindex=\"0\"]')[2].focus()")
        page.key("End")
        self.assertIn("experts 128", page.evaluate("document.activeElement.getAttribute('aria-label')"))
        page.key("Enter", text="\r")
        page.settle()
        self.assertEqual("2", page.evaluate("document.getElementById('line').value"))
        self.assertIn("experts 128", page.evaluate("document.querySelector('#chart-axis h3').innerText"))
        for theme in ("light", "dark"):
            page.emulate_colours(theme)
            page.settle()
            self.assertEqual([], page.evaluate("probes.faint(4.5)")["found"], theme)
            (FOLDER / f"map-{theme}.png").write_bytes(page.screenshot(full=True))
        for file in self.downloads(page, '[aria-label^="Save as SVG"]'):
            self.assertNotRegex(file.read_text(), r"var\(|light-dark|<script|tabindex|class=")
        files = {f.name.split("-chart-")[1]: f for f in self.downloads(page, '[aria-label^="Save as CSV"]')}
        rows = {name: list(csv.DictReader(io.StringIO(file.read_bytes().decode(), newline=""))) for name, file in files.items()}
        self.assertEqual({"32", "64", "128"}, {row["experts"] for row in rows["map.csv"]})
        self.assertEqual([row for row in rows["map.csv"] if row["experts"] == "128"], rows["axis.csv"])

    def test_draws_a_crossover_along_one_axis(self):
        path = self.crossover("axis.html")
        page = self.open(path)
        self.assertEqual(["chart-axis"], [c["id"] for c in self.check_charts(page, 1)])
        self.assertEqual(0, page.evaluate("document.querySelectorAll('.of-map').length"))
        self.assertGreater(page.evaluate("document.querySelectorAll('#chart-axis .crossover').length"), 0)
        self.assertGreater(page.evaluate("document.querySelectorAll('#chart-axis .zone').length"), 0)
        page.evaluate("document.querySelector('[name=axis-mode][value=relative]').click()")
        page.settle()
        self.check_charts(page, 1)
        self.check_quiet(page, path)
        (FOLDER / "axis.png").write_bytes(page.screenshot(full=True))

    def test_draws_streams(self):
        path = FOLDER / "serve.html"
        moesim("serve-sim", "--model", "qwen3-30b-a3b", "--layers", "2", "--sessions", "2,12", "--horizon", "2s", "--warm-up", "0s", "--report", str(path))
        for width in (1280, 360):
            page = self.open(path, width=width)
            charts = self.check_charts(page, 3)
            self.assertEqual(["chart-load", "chart-tail", "chart-sizes"], [c["id"] for c in charts])
            page.evaluate("document.querySelector('[name=load-mode][value=misses]').click()")
            page.settle()
            self.check_charts(page, 3)
            self.assertEqual([], page.evaluate("probes.faint(4.5)")["found"])
            self.assertEqual(width, page.evaluate("document.documentElement.scrollWidth"))
            self.check_quiet(page, path)
        saved = {f.name.split("-chart-")[1]: f for f in self.downloads(page, '[aria-label^="Save as CSV"]')}
        rows = list(csv.DictReader(io.StringIO(saved["load.csv"].read_bytes().decode(), newline="")))
        self.assertEqual({"2", "12"}, {r["sessions"] for r in rows})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
