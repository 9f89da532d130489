"""Measures Pallas kernels of an expert FFN on the first TPU device; never run on a TPU yet (README.md)."""

import argparse
import datetime
import importlib.metadata
import platform
import shlex
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "torch"))  # shapes and report, which need no PyTorch

EXIT_WRONG, EXIT_INPUT = 1, 2
DEFAULT_SEED = 20260101
DEFAULT_BUDGET_S = 1800.0
DEFAULT_RINGS = "4,2"
SAMPLES, QUICK_SAMPLES = 10, 7
UNTRIED = "the timing path has not been run on a TPU by its authors"


def arguments(argv):
    parser = argparse.ArgumentParser(prog="run", description=__doc__, allow_abbrev=False)
    parser.add_argument("output", metavar="OUTPUT", nargs="?")
    parser.add_argument("--quick", action="store_true", help="fewer models, 1, 4 and 16 tokens")
    parser.add_argument("--models", metavar="LIST", help="comma-separated names")
    parser.add_argument("--rings", metavar="LIST", default=DEFAULT_RINGS, help="ring depths of tpu_stream (4,2)")
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    parser.add_argument("--budget", type=float, default=DEFAULT_BUDGET_S, metavar="SECONDS", help="no new point then")
    parser.add_argument("--interpret", action="store_true", help="check both kernels on the CPU, no TPU")
    parser.add_argument("--cases", type=int, metavar="N", help="of --interpret (20)")
    parser.add_argument("--compile", metavar="CHIP", help="compile every point's programs for CHIP with libtpu, no TPU")
    options = parser.parse_args(argv)
    if sum((options.output is not None, options.interpret, options.compile is not None)) != 1:
        parser.error("one of OUTPUT, --interpret and --compile CHIP is wanted")
    try:
        options.ring_depths = tuple(int(text) for text in options.rings.split(","))
    except ValueError:
        parser.error(f"--rings: found '{options.rings}', expected numbers with commas between")
    if min(options.ring_depths) < 1:
        parser.error(f"--rings: found {min(options.ring_depths)}, expected 1 or more")
    if options.cases is not None and options.cases < 1:
        parser.error(f"--cases: found {options.cases}, expected 1 or more")
    import shapes

    options.names = None
    if options.models is not None:
        options.names = options.models.split(",")
        known = [m.name for m in shapes.MODELS]
        for name in options.names:
            if name not in known:
                parser.error(f"no model '{name}'; there are {', '.join(known)}")
    return options


def note(text):
    print(text, file=sys.stderr, flush=True)


def version_of(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def check_in_interpreter(options):
    import interpret

    count = interpret.CASES if options.cases is None else options.cases
    wrong = interpret.check(count, options.seed, lambda text: print(text, flush=True))
    print(f"{count} cases, {wrong} wrong results")
    return EXIT_WRONG if wrong else 0


def compile_for(options):
    import chips
    import compilation

    chip = chips.chip_of_label(options.compile)
    if chip is None:
        note(f"--compile: no chip '{options.compile}'; there are {', '.join(c.label for c in chips.CHIPS)}")
        return EXIT_INPUT
    if version_of("libtpu") == "none":
        note("--compile: the package libtpu is missing (pip install 'jax[tpu]'); it needs no TPU")
        return EXIT_INPUT
    failed = compilation.compile_all(chip, options.quick, options.names, options.ring_depths, note)
    return EXIT_WRONG if failed else 0


def first_tpu():
    """The device, or None."""
    import jax

    try:
        return next((device for device in jax.local_devices() if device.platform == "tpu"), None)
    except RuntimeError:  # a TPU that cannot be initialised, or none where JAX_PLATFORMS asks for one
        return None


def measure(options, argv):
    device = first_tpu()
    if device is None:
        note("no TPU device; --interpret checks the kernels without one, --compile CHIP compiles them")
        return EXIT_INPUT
    import jax

    import chips
    import points
    from measure import Runner
    from report import Report, told

    chip = chips.chip_of_kind(device.device_kind)
    if chip is None:
        known = ", ".join(kind for c in chips.CHIPS for kind in c.kinds)
        note(f"a device of kind '{device.device_kind}', expected one of {known}")
        return EXIT_INPUT
    info = chips.info_of(chip)
    report = Report(options.output, options.budget, append=False)
    versions = {package: version_of(package) for package in ("jax", "jaxlib", "libtpu")}
    report.note(f"{device.device_kind}, jax {versions['jax']}, libtpu {versions['libtpu']}; {UNTRIED}")
    now = datetime.datetime.now(datetime.timezone.utc)
    source = f"{chip.label}-{now:%Y-%m-%d}, jax {versions['jax']}, libtpu {versions['libtpu']}, tpu harness"
    fields = {
        "command": shlex.join(["validation/harness/tpu/run", *argv]),
        "device": device.device_kind,
        "devices_of_host": jax.local_device_count(),
        "device_cores": info.num_cores,
        "cores_used": 1,
        "python": platform.python_version(),
        **versions,
        "runtime": device.client.platform_version,
        "vmem_bytes": info.vmem_capacity_bytes,
        "memory_bytes": device.memory_stats()["bytes_limit"],
        "clock": "unknown: not readable, so rows carry none",
        "time": "device time of JAX's profiler, one program a call",
        "note": UNTRIED,
        "seed": options.seed,
        "quick": options.quick,
    }
    report.provenance(fields, append=False)  # again at the end; so that an interrupted run has one
    samples = QUICK_SAMPLES if options.quick else SAMPLES
    runner = Runner(device, chip.label, info, report, options.seed, samples, options.ring_depths, source)
    chosen = points.points(options.quick, options.names)
    for number, point in enumerate(chosen):
        if report.out_of_time():
            report.summary.append(f"out of time: {len(chosen) - number} of {len(chosen)} points left out")
            break
        try:
            runner.run(point)
        except Exception as problem:  # one point must not cost the others
            report.refuse(f"{point}: {told(problem)}")
    report.provenance(fields, append=False)
    report.print_summary()
    return EXIT_WRONG if report.wrong else 0


def main(argv):
    options = arguments(argv)
    if version_of("jax") == "none":
        note("the package jax is missing: pip install 'jax[tpu]' on a TPU VM, 'jax[cpu]' elsewhere")
        return EXIT_INPUT
    if options.interpret:
        return check_in_interpreter(options)
    if options.compile is not None:
        return compile_for(options)
    return measure(options, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
