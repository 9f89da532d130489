"""Measures the PyTorch and Triton kernels of an expert FFN on the first card; see README.md."""

import argparse
import datetime
import os
import shlex
import sys
import tempfile

import shapes
from report import Report, told

EXIT_WRONG, EXIT_INPUT, EXIT_DEVICE = 1, 2, 3
DEFAULT_SEED = 20260101
DEFAULT_BUDGET_S = 330.0
SAMPLES, QUICK_SAMPLES = 10, 7


def arguments(argv):
    parser = argparse.ArgumentParser(prog="run", description=__doc__, allow_abbrev=False)
    parser.add_argument("output", metavar="OUTPUT", nargs="?")
    parser.add_argument("--quick", action="store_true", help="four models, 1, 4 and 16 tokens")
    parser.add_argument("--models", metavar="LIST", help="comma-separated names")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    parser.add_argument("--budget", type=float, default=DEFAULT_BUDGET_S, metavar="SECONDS", help="no new point then")
    parser.add_argument("--append", action="store_true", help="add to the rows of OUTPUT and reuse its routed traces")
    parser.add_argument("--tune", action="store_true", help="the grouped kernel under every tile of its space")
    parser.add_argument("--interpret", action="store_true", help="check all kernels on the CPU, no GPU")
    # A run that goes on in a new process after an error that stays with the device.
    parser.add_argument("--from-point", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--wrong", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--spent", type=float, default=0.0, help=argparse.SUPPRESS)
    parser.add_argument("--command", help=argparse.SUPPRESS)
    parser.add_argument("--provenance-key", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.output is None and not options.interpret:
        parser.error("OUTPUT is missing")
    options.names = None
    if options.models is not None:
        options.names = options.models.split(",")
        known = [m.name for m in shapes.MODELS]
        for name in options.names:
            if name not in known:
                parser.error(f"no model '{name}'; there are {', '.join(known)}")
    return options


def tiny_points():
    """Every kernel, tile and tail: widths that no block divides, one row an expert and many."""
    even, few = shapes.Model("tiny", 256, 128, 8, 2), shapes.Model("tiny-few", 256, 128, 2, 1)
    odd, half = shapes.Model("tiny-odd", 192, 96, 4, 2), shapes.Model("tiny-half", 128, 256, 4, 2)
    for weights in ("bf16", "fp8_block128"):
        yield shapes.Point(even, 1, weights, "uniform", 1)
        yield shapes.Point(even, 1, weights, "zipf:1.0", 3)
        for tokens in (60, 140, 220):  # row tiles of 32, 64 and 128
            yield shapes.Point(few, 1, weights, "uniform", tokens, stream=False)
        groups = tuple(shapes.tile(16, 64, 128, 4, 3, group_m) for group_m in (1, 4, 32))
        yield shapes.Point(few, 1, weights, "uniform", 60, tiles=groups)
    yield shapes.Point(odd, 1, "bf16", "same", 2)
    yield shapes.Point(half, 2, "fp8_block128", "uniform", 2)


def interpret(options):
    """The kernels under Triton's interpreter against the reference."""
    os.environ["TRITON_INTERPRET"] = "1"
    import moe

    with tempfile.TemporaryDirectory() as folder:
        report = Report(folder, options.budget, append=False)
        runner = moe.Runner(moe.Pool("cpu", 4e6, 2e6, 4096, options.seed), report, options.seed)
        for point in tiny_points():
            runner.run(moe.with_everything(point), cache_bytes=1)
        report.print_summary()
        return EXIT_WRONG if report.wrong else 0


def measure(options, argv):
    import torch

    if not torch.cuda.is_available():
        print("no CUDA device; --interpret checks the kernels without one", file=sys.stderr)
        return EXIT_DEVICE
    import moe
    from card import Card
    from compilation import compile_tiles
    from timing import Timer

    report = Report(options.output, options.budget, options.append, options.wrong, options.spent)
    card = Card()
    report.note(f"{card.properties.name}, driver {card.nvml.driver()}, PyTorch {torch.__version__}")
    command = options.command or shlex.join(["validation/harness/torch/run", *argv])
    fields = {"command": command, **card.provenance(), "seed": options.seed, "quick": options.quick}
    as_key = options.provenance_key or (options.append and options.from_point == 0)
    report.provenance(fields, as_key)  # again at the end; so that an interrupted run has one
    timer = Timer(card, options.seed + options.from_point, moe.Recorder())
    points = shapes.tuning_points(options.names) if options.tune else shapes.points(options.quick, options.names)
    if options.tune:  # before the pool: each compiling process takes memory of the card
        report.note(compile_tiles({(p.fp8, tuple(t.items())) for p in points[options.from_point :] for t in p.tiles}))
    pool = moe.device_pool(options.seed)
    report.note("weights filled")
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    samples = QUICK_SAMPLES if options.quick else SAMPLES
    runner = moe.Runner(
        pool, report, options.seed, samples, timer=timer, card=card, source=card.source(date), reuse=options.append
    )
    for number, point in enumerate(points):
        if number < options.from_point:
            continue
        if report.out_of_time():
            report.summary.append(f"out of time: {len(points) - number} of {len(points)} points left out")
            break
        try:
            runner.run(point, card.cache_bytes())
            torch.cuda.synchronize()
        except Exception as problem:
            report.refuse(f"{point}: {told(problem)}")
            try:
                torch.cuda.synchronize()
            except RuntimeError:
                go_on(argv, number + 1, report, command, as_key)
    report.provenance(fields, as_key)
    report.print_summary()
    return EXIT_WRONG if report.wrong else 0


def go_on(argv, number, report, command, as_key):
    """A new process with a sound device goes on at point `number`; rows are kept."""
    for text in report.summary:
        print(text, flush=True)
    given = [*argv, "--append", "--from-point", str(number), "--wrong", str(report.wrong), "--command", command]
    given += ["--spent", f"{report.elapsed_s():.1f}"] + (["--provenance-key"] if as_key else [])
    os.execv(sys.executable, [sys.executable, "-B", "-u", os.path.abspath(__file__), *given])


def main(argv):
    options = arguments(argv)
    return interpret(options) if options.interpret else measure(options, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
