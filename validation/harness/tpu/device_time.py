"""Device times of compiled programs from JAX's profiler (what XProf shows on the device's line "XLA Modules")."""

import bisect
import re
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import jax

PLANE = re.compile(r"/device:TPU:\d+")  # the others are the host's and the SparseCores'
MODULES, OPS = "XLA Modules", "XLA Ops"
MODULE_NAME = re.compile(r"jit_(\w+?)(?:\(\d+\))?$")  # of jax.jit(f): "jit_f(1234567890)", the number a fingerprint
OP_NAME = re.compile(r"%?([\w.\-]+)")  # "%fusion.3 = bf16[…] fusion(…)" or "fusion.3"


class TraceError(Exception):
    """The trace is not what this module can read, or events are missing."""


def record(work):
    """Runs `work` under the profiler and returns its trace. `work` waits for all that it started."""
    options = jax.profiler.ProfileOptions()
    options.host_tracer_level = 0
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            work()
        files = list(Path(folder).glob("plugins/profile/*/*.xplane.pb"))
        if len(files) != 1:
            raise TraceError(f"{len(files)} traces where one was expected")
        return jax.profiler.ProfileData.from_file(str(files[0]))


def events_of(trace, line_name):
    """(start_ns, duration_ns, name) in order of time, of all TPU devices; only one of them is used."""
    planes = [plane for plane in trace.planes if PLANE.fullmatch(plane.name)]
    lines = [line for plane in planes for line in plane.lines if line.name == line_name]
    if not lines:
        found = [f"{plane.name} [{', '.join(line.name for line in plane.lines)}]" for plane in trace.planes]
        raise TraceError(f"no line '{line_name}' of a TPU in the trace, but {'; '.join(found) or 'nothing'}")
    return sorted((e.start_ns, e.duration_ns, e.name) for line in lines for e in line.events)


def module_times(trace, expected):
    """µs of every execution of each function in `expected` ({name: executions}), in order."""
    times = defaultdict(list)
    for _, duration, name in events_of(trace, MODULES):
        found = MODULE_NAME.match(name)
        if found and found[1] in expected:
            times[found[1]].append(duration / 1000)
    for name, count in expected.items():
        if len(times[name]) != count:
            raise TraceError(f"{len(times[name])} executions of {name} in the trace, {count} were started")
    return times


def operations(trace, names):
    """For each function: [{"name", "count", "us"}] of the operations of one execution on average, in order of first
    start; a loop's own span is among them beside its body's. Empty where the trace has no such line."""
    modules = []
    for start, duration, name in events_of(trace, MODULES):
        found = MODULE_NAME.match(name)
        modules.append((start, start + duration, found[1] if found else None))
    starts = [start for start, _, _ in modules]
    executions = Counter(name for _, _, name in modules)
    totals = {name: {} for name in names}
    try:
        events = events_of(trace, OPS)
    except TraceError:
        return {name: [] for name in names}
    for start, duration, text in events:
        at = bisect.bisect_right(starts, start) - 1
        if at < 0 or start >= modules[at][1] or modules[at][2] not in totals:
            continue
        found = OP_NAME.match(text)
        entry = totals[modules[at][2]].setdefault(found[1] if found else text, [0, 0.0])
        entry[0] += 1
        entry[1] += duration / 1000

    def averages(name):
        n = executions[name]
        return [{"name": op, "count": round(c / n, 3), "us": round(us / n, 3)} for op, (c, us) in totals[name].items()]

    return {name: averages(name) for name in names}
