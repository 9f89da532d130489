"""Compiles what would be measured with the TPU's compiler, which runs on any machine and needs no TPU."""

import os

os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # no question to a cloud's metadata server
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")  # no lock: no TPU is used

import jax
from jax.experimental import topologies

import chips
import measure
import points
import shapes
from report import told

SEED = 1


def abstract_setting(point):
    """Two repetitions of a point, its large arrays as shapes."""
    drawn = shapes.draw_picks(point.model, point.routing, 2, point.tokens, SEED)
    x = jax.ShapeDtypeStruct((point.tokens, point.model.hidden), "bfloat16")
    picks = measure.picks_of(point, drawn, SEED)
    return measure.setting_of(point, picks, [measure.abstract_layer(point)], x, abstract=True)


def as_shapes(arguments):
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), arguments)


def copied_weights(text, layer):
    """Shapes of weights that a program copies as a whole, before the kernel that was to read them where they are."""
    shapes_of_weights = {f"[{','.join(map(str, array.shape))}]" for array in layer}
    copies = [line for line in text.splitlines() if " copy(" in line or " copy-start(" in line]
    return sorted(shape for shape in shapes_of_weights if any(shape in line for line in copies))


def compile_all(chip, quick, names, rings, note):
    """The number of programs that do not compile."""
    info = chips.info_of(chip)
    topology = topologies.get_topology_desc(topology_name=chip.topology, platform="tpu")
    sharding = jax.sharding.SingleDeviceSharding(topology.devices[0])
    failed = done = 0
    for point in points.points(quick, names):
        if point.routing != "uniform" or shapes.fits(point):
            continue
        if points.repeats_and_layers(point, chips.cache_bytes(info), info.hbm_capacity_bytes * info.num_cores) is None:
            note(f"{point}: its weights do not fit")
            continue
        s = abstract_setting(point)
        for block in measure.candidates(s, rings, info.vmem_capacity_bytes):
            for c in block:
                name = f"{point} {c.implementation} {c.stage}"
                try:
                    program = jax.jit(c.function, in_shardings=sharding, out_shardings=sharding)
                    compiled = program.trace(*as_shapes(c.arguments(0))).lower(lowering_platforms=("tpu",)).compile()
                    done += 1
                    copied = copied_weights(compiled.as_text(), s.layers[0]) if c.strategy == "tpu_stream" else []
                    if copied:
                        failed += 1
                        note(f"FAILED {name}: weights {', '.join(copied)} are copied before the kernel")
                except Exception as problem:
                    failed += 1
                    note(f"FAILED {name}: {told(problem)}")
        note(f"{point}: {done} programs compiled, {failed} failed")
    return failed
