"""`tpu_stream`: one Pallas call that streams the selected experts' weights through a ring in VMEM; see README.md.

A *run* is one active expert and its picks. The ring is filled per *unit*: a run's expert whole, or one of `tiles`
slices of its intermediate width where an expert does not fit. Each unit's weights are copied once, whatever the picks
of the run.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

SCALE_BLOCK = 128
LANES = 128
BF16_STEP = 512  # rows of weights of one product, where they divide K
VMEM_SHARE = 0.9  # of the capacity that a plan may use
SPARE_BYTES = 3 << 20  # what the compiler may need beside the scratch buffers


@dataclass(frozen=True)
class Plan:
    """Sizes of one device's shard, and how the kernel goes about them."""

    tokens: int
    slots: int  # picks of all tokens: the most that a run or all runs can have
    hidden: int
    intermediate: int  # of the shard
    fp8: bool
    ring: int  # units in VMEM
    tiles: int = 1  # units of an expert
    vmem_limit: int | None = None  # bytes that the compiler may use; None: its default

    @property
    def tile(self):
        return self.intermediate // self.tiles

    @property
    def up_step(self):
        return product_step(self.hidden, self.fp8)

    @property
    def down_step(self):
        return product_step(self.tile, self.fp8)

    @property
    def unit_bytes(self):
        """Of a unit in VMEM: weights, and a float32 scale per 128 rows and column."""
        elements = 3 * self.hidden * self.tile
        return elements + 4 * elements // SCALE_BLOCK if self.fp8 else 2 * elements

    @property
    def vmem_bytes(self):
        rows = padded(self.tokens, 8)
        fixed = 4 * rows * self.hidden  # accumulators
        fixed += 4 * self.tokens * padded(self.hidden // self.up_step, 8) * padded(self.up_step, LANES)  # x by rows
        fixed += 4 * self.slots * padded(self.tile // self.down_step, 8) * padded(self.down_step, LANES)  # h
        fixed += 2 * 2 * padded(self.tokens, 16) * self.hidden  # x and out as they are given
        return fixed + self.ring * self.unit_bytes + SPARE_BYTES


def padded(value, multiple):
    return -(-value // multiple) * multiple


def product_step(k, fp8):
    """Rows of weights of one product: a scale's rows for fp8, so that the product can be scaled after it."""
    if fp8:
        return SCALE_BLOCK
    return next(step for step in (BF16_STEP, 256, 128, k) if k % step == 0)


def plan_for(tokens, slots, hidden, intermediate, fp8, ring, vmem_bytes):
    """Whole experts where `ring` of them fit, else the widest slices of which `ring` fit; None: not even those."""
    for tiles in range(1, intermediate // LANES + 1):
        if intermediate % tiles == 0 and intermediate // tiles % LANES == 0:
            plan = Plan(tokens, slots, hidden, intermediate, fp8, ring, tiles, int(VMEM_SHARE * vmem_bytes))
            if plan.vmem_bytes <= plan.vmem_limit:
                return plan
    return None


def start(copies):
    for copy in copies:
        copy.start()


def wait(copies):
    for copy in copies:
        copy.wait()


def ring_slot(unit, plan):
    return lax.rem(unit, plan.ring)


def unit_copies(plan, unit, run_expert, weights, buffers, semaphores):
    """(copies of gate and up, copies of down) that bring a unit's weights into its place in the ring."""
    expert, tile, slot = run_expert[lax.div(unit, plan.tiles)], lax.rem(unit, plan.tiles), ring_slot(unit, plan)
    up, down, up_scale, down_scale = weights
    up_buffer, down_buffer, up_scale_buffer, down_scale_buffer = buffers
    up_semaphores, down_semaphores = semaphores
    width, first = plan.tile, pl.multiple_of(tile * plan.tile, LANES)

    def gate_and_up(source, target, number):
        if plan.tiles == 1:
            return [pltpu.make_async_copy(source.at[expert], target.at[slot], up_semaphores.at[slot, number])]
        rows = (slice(None),) * (len(source.shape) - 2)
        halves = ((first, 0), (pl.multiple_of(plan.intermediate + first, LANES), width))
        return [
            pltpu.make_async_copy(
                source.at[expert, *rows, pl.ds(at, width)],
                target.at[slot, *rows, pl.ds(to, width)],
                up_semaphores.at[slot, 2 * number + half],
            )
            for half, (at, to) in enumerate(halves)
        ]

    def rows_of_down(source, target, number, block):
        rows = width // block
        part = source.at[expert]
        if plan.tiles > 1:
            part = source.at[expert, pl.ds(tile * rows, rows)]
        return pltpu.make_async_copy(part, target.at[slot], down_semaphores.at[slot, number])

    ups, downs = gate_and_up(up, up_buffer, 0), [rows_of_down(down, down_buffer, 0, 1)]
    if plan.fp8:
        ups += gate_and_up(up_scale, up_scale_buffer, 1)
        downs.append(rows_of_down(down_scale, down_scale_buffer, 1, SCALE_BLOCK))
    return ups, downs


def row_product(row_of, weights, scale, slot, steps, step, width):
    """[1, steps * step] x [steps * step, width] in float32, step by step; e4m3 becomes bf16 before a product, and the
    product is scaled after it."""

    def body(k, total):
        block = weights[slot, pl.ds(pl.multiple_of(k * step, step), step), :].astype(jnp.bfloat16)
        product = jnp.dot(row_of(k).astype(jnp.bfloat16), block, preferred_element_type=jnp.float32)
        if scale is not None:
            product = product * scale[slot, k]
        return total + product

    return lax.fori_loop(0, steps, body, jnp.zeros((1, width), jnp.float32))


def kernel(plan, *refs):
    run_count, run_expert, run_first, slot_token, slot_weight, x = refs[:6]
    weight_count = 4 if plan.fp8 else 2
    weights, out = refs[6 : 6 + weight_count], refs[6 + weight_count]
    scratch = refs[7 + weight_count :]
    buffers, (x_rows, h, totals), semaphores = scratch[:weight_count], scratch[weight_count:-2], scratch[-2:]
    if not plan.fp8:
        weights, buffers = (*weights, None, None), (*buffers, None, None)
    up_buffer, down_buffer, up_scale, down_scale = buffers
    units = run_count[0] * plan.tiles

    def copies(unit):
        return unit_copies(plan, unit, run_expert, weights, buffers, semaphores)

    def fetch(unit):
        @pl.when(unit < units)
        def _():
            for group in copies(unit):
                start(group)

    for unit in range(plan.ring):
        fetch(unit)
    totals[...] = jnp.zeros_like(totals)
    for k in range(plan.hidden // plan.up_step):  # a token's step becomes a row, which can be indexed
        x_rows[:, k, :] = x[:, k * plan.up_step : (k + 1) * plan.up_step].astype(jnp.float32)

    def one_unit(unit, _):
        run, slot = lax.div(unit, plan.tiles), ring_slot(unit, plan)
        first, end = run_first[run], run_first[run + 1]
        for_up, for_down = copies(unit)
        wait(for_up)

        def up_and_act(pick, _):
            token, steps, step, width = slot_token[pick], plan.hidden // plan.up_step, plan.up_step, 2 * plan.tile
            row = row_product(lambda k: x_rows[token, pl.ds(k, 1), :], up_buffer, up_scale, slot, steps, step, width)
            gate, up = row[:, : plan.tile], row[:, plan.tile :]
            act = gate * (1 / (1 + jnp.exp(-gate))) * up
            for k in range(plan.tile // plan.down_step):
                h[pick - first, k : k + 1, :] = act[:, k * plan.down_step : (k + 1) * plan.down_step]
            return 0

        lax.fori_loop(first, end, up_and_act, 0)
        wait(for_down)  # it had all of the above to arrive

        def down_and_add(pick, _):
            at, steps, step = pick - first, plan.tile // plan.down_step, plan.down_step
            row = row_product(lambda k: h[at, pl.ds(k, 1), :], down_buffer, down_scale, slot, steps, step, plan.hidden)
            token = pl.ds(slot_token[pick], 1)
            totals[token, :] += slot_weight[pick] * row
            return 0

        lax.fori_loop(first, end, down_and_add, 0)
        fetch(unit + plan.ring)  # into the place that this unit leaves
        return 0

    lax.fori_loop(0, units, one_unit, 0)
    out[...] = totals[...].astype(out.dtype)


def scratch_shapes(plan):
    kind = jnp.float8_e4m3fn if plan.fp8 else jnp.bfloat16
    n, hidden, tile = plan.ring, plan.hidden, plan.tile
    shapes = [pltpu.VMEM((n, hidden, 2 * tile), kind), pltpu.VMEM((n, tile, hidden), kind)]
    if plan.fp8:
        shapes.append(pltpu.VMEM((n, hidden // SCALE_BLOCK, 1, 2 * tile), jnp.float32))
        shapes.append(pltpu.VMEM((n, tile // SCALE_BLOCK, 1, hidden), jnp.float32))
    shapes.append(pltpu.VMEM((plan.tokens, hidden // plan.up_step, plan.up_step), jnp.float32))
    shapes.append(pltpu.VMEM((plan.slots, tile // plan.down_step, plan.down_step), jnp.float32))
    shapes.append(pltpu.VMEM((plan.tokens, hidden), jnp.float32))
    return shapes + [pltpu.SemaphoreType.DMA((n, 4)), pltpu.SemaphoreType.DMA((n, 2))]


def stream(plan, runs, x, weights, interpret=False):
    """The expert FFN of one shard: bf16 [tokens, hidden]. `runs`: a routing.Runs's arrays; `x` [tokens, hidden] bf16;
    `weights`: as in weights.py."""
    call = pl.pallas_call(
        lambda *refs: kernel(plan, *refs),
        out_shape=jax.ShapeDtypeStruct((plan.tokens, plan.hidden), jnp.bfloat16),
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=5,
            grid=(1,),
            in_specs=[pl.BlockSpec(memory_space=pltpu.VMEM)] + [pl.BlockSpec(memory_space=pltpu.HBM)] * len(weights),
            out_specs=pl.BlockSpec(memory_space=pltpu.VMEM),
            scratch_shapes=scratch_shapes(plan),
        ),
        # Bounds are checked by the interpreter.
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=plan.vmem_limit, disable_bounds_checks=True),
        name="tpu_stream",
        interpret=interpret,
    )
    # Without this XLA may copy whole arrays to VMEM before the call (seen with the scales).
    weights = [pltpu.with_memory_space_constraint(array, pltpu.HBM) for array in weights]
    return call(*runs, x, *weights)
