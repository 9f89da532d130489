"""Every implementation of a point: checked against a float64 reference, then timed in one visit."""

import dataclasses
from dataclasses import dataclass
from typing import Callable

import torch

import kernels
import shapes
from report import Timing, row_of, told
from timing import Sequence

TOLERANCE = {"bf16": 0.02, "fp8_block128": 0.06}
INTERPRETED_FP8_TOLERANCE = 0.1  # Triton 3.6's interpreter loses the carry when it rounds to e4m3
E4M3_MAX = 448.0
ROW_BLOCK = 1024  # elements of a program of the SiLU and combine kernels


class Recorder:
    """Starts Triton kernels, and notes their facts within `with`."""

    def __init__(self):
        self.facts = None

    def __enter__(self):
        self.facts = []
        return self

    def __exit__(self, *_):
        self.facts = None

    def launch(self, kernel, grid, *arguments, **options):
        compiled = kernel[grid](*arguments, **options)
        if self.facts is not None and compiled is not None:  # none under the interpreter
            self.facts.append(
                {
                    "name": compiled.name,
                    "grid": [*grid, 1, 1][:3],
                    "block": [compiled.metadata.num_warps * 32, 1, 1],
                    "registers": compiled.n_regs,
                    "shared_bytes": compiled.metadata.shared,
                    "count": 1,
                }
            )


class Pool:
    """Random weights that every model cuts its layers from. e4m3: any sign, exponents 0 to 13 (up to 224)."""

    def __init__(self, device, bf16_bytes, e4m3_bytes, scale_count, seed):
        generator = torch.Generator(device).manual_seed(seed)
        self.bf16 = torch.empty(int(bf16_bytes) // 2, dtype=torch.bfloat16, device=device)
        self.e4m3 = torch.empty(int(e4m3_bytes), dtype=torch.uint8, device=device)
        chunk = 1 << 28
        for at in range(0, self.bf16.numel(), chunk):
            self.bf16[at : at + chunk].uniform_(-0.03, 0.03, generator=generator)
        for at in range(0, self.e4m3.numel(), chunk):
            part = self.e4m3[at : at + chunk]
            part.random_(0, 256, generator=generator)
            sign = part & 0x80
            part.bitwise_and_(0x7F).remainder_(0x70).bitwise_or_(sign)
        self.e4m3 = self.e4m3.view(torch.float8_e4m3fn)
        self.scales = torch.empty(scale_count, dtype=torch.float32, device=device)
        self.scales.uniform_(0.5 * 5.8e-4, 1.5 * 5.8e-4, generator=generator)

    def bytes_of(self, fp8):
        return self.e4m3.numel() if fp8 else 2 * self.bf16.numel()


def device_pool(seed):
    """As large as the CUDA harness's, so that both choose the same layers."""
    free, _ = torch.cuda.mem_get_info()
    mib = 1 << 20
    share = lambda wanted, part: int(min(wanted, part * free)) // mib * mib  # noqa: E731
    return Pool(
        "cuda",
        share(shapes.BF16_POOL_BYTES, 0.4),
        share(shapes.E4M3_POOL_BYTES, 0.2),
        shapes.SCALE_COUNT,
        seed,
    )


@dataclass
class Layer:
    up: torch.Tensor  # [experts, 2 * intermediate, hidden], gate rows first
    down: torch.Tensor  # [experts, hidden, intermediate]
    up_scale: torch.Tensor  # [experts, 2 * intermediate / 128, hidden / 128]; the weights themselves for bf16
    down_scale: torch.Tensor


def cut_layers(pool, point, count):
    e, h, i = point.model.experts, point.model.hidden, point.intermediate
    weights = pool.e4m3 if point.fp8 else pool.bf16
    layers = []
    for number in range(count):
        at = number * 3 * e * h * i
        up = weights[at : at + 2 * e * h * i].view(e, 2 * i, h)
        down = weights[at + 2 * e * h * i : at + 3 * e * h * i].view(e, h, i)
        up_scale, down_scale = up, down
        if point.fp8:
            ups, downs = shapes.scales(point)
            at = number * (ups + downs)
            up_scale = pool.scales[at : at + ups].view(e, 2 * i // 128, h // 128)
            down_scale = pool.scales[at + ups : at + ups + downs].view(e, h // 128, i // 128)
        layers.append(Layer(up, down, up_scale, down_scale))
    return layers


class Routing:
    """One routed batch on the device."""

    def __init__(self, picks, point, blocks_m, device, generator):
        order, place, self.groups = shapes.sort_by_expert(picks)
        topk = point.model.topk
        ints = lambda values, kind=torch.int32: torch.tensor(values, dtype=kind, device=device)  # noqa: E731
        self.padded = {}  # by block_m: rows, and the expert of each block of them
        for block_m in blocks_m:
            rows, block_expert = shapes.pad_rows(order, self.groups, block_m)
            self.padded[block_m] = ints(rows), ints(block_expert)
        self.expert_of_pick = ints(picks)
        self.expert_index = ints(picks, torch.int64)
        self.token_by_expert = ints([p // topk for p in order], torch.int64)
        self.place = ints(place)
        self.own_place = ints(list(range(len(picks))))
        self.ends = ints(shapes.expert_offsets(self.groups, point.model.experts))
        self.pick_weights = torch.empty(len(picks), device=device).uniform_(0.05, 0.35, generator=generator)


@dataclass
class Candidate:
    strategy: str
    implementation: dict
    stage: str
    launch: Callable
    nodes: int
    activations: str = "bf16"


def quantise(x):
    """e4m3 and a scale per 128 of a row."""
    groups = x.float().view(x.shape[0], -1, 128)
    scale = groups.abs().amax(-1) / E4M3_MAX
    return (groups / scale[..., None]).view(x.shape).to(torch.float8_e4m3fn), scale.contiguous()


def dequantised(weights, scale):
    """float64 of one expert's matrix."""
    wide = weights.to(torch.float64)
    if weights.dtype == torch.bfloat16:
        return wide
    rows, columns = wide.shape
    wide.view(rows // 128, 128, columns // 128, 128).mul_(scale.to(torch.float64)[:, None, :, None])
    return wide


class Setting:
    """A point on the device."""

    def __init__(self, point, picks, layers, device, generator):
        m, n = point.model, point.picks
        self.point, self.layers, self.device = point, layers, device
        active = [len(set(p)) for p in picks]
        self.active = sum(active) / len(active)
        self.tiles = point.tiles or (shapes.grouped_tile(n / self.active, point.fp8),)
        blocks_m = {t["block_m"] for t in self.tiles}
        self.routings = [Routing(p, point, blocks_m, device, generator) for p in picks]
        new = lambda *shape, kind=torch.bfloat16: torch.empty(shape, dtype=kind, device=device)  # noqa: E731
        self.x = new(point.tokens, m.hidden)
        self.x.uniform_(-1.7, 1.7, generator=generator)
        self.gate_up, self.h = new(n, 2 * point.intermediate), new(n, point.intermediate)
        self.y, self.out = new(n, m.hidden), new(point.tokens, m.hidden)
        self.scratch = [self.gate_up, self.h, self.y, self.out]
        if point.fp8:
            self.x8, self.x_scale = quantise(self.x)
            self.h8 = new(n, point.intermediate, kind=torch.float8_e4m3fn)
            self.h_scale = new(n, point.intermediate // 128, kind=torch.float32)
            self.scratch += [self.h8.view(torch.uint8), self.h_scale]
        else:
            self.x_sorted = new(n, m.hidden)
            self.scratch.append(self.x_sorted)
        self.copies_up = self.copies_down = None
        if point.gather and not point.fp8 and n * point.expert_bytes <= shapes.COPIES_POOL_BYTES:
            self.copies_up = new(n, 2 * point.intermediate, m.hidden)
            self.copies_down = new(n, m.hidden, point.intermediate)
            self.scratch += [self.copies_up, self.copies_down]
            self.x_of_pick = self.x.repeat_interleave(m.topk, 0)[:, :, None]

    def routing(self, i):
        return self.routings[i % len(self.routings)]

    def layer(self, i):
        return self.layers[i % len(self.layers)]

    def poison(self):
        for buffer in self.scratch:
            buffer.fill_(0x7F if buffer.dtype == torch.uint8 else float("nan"))  # 0x7f: e4m3's NaN

    def reference(self, activations):
        """Repetition 0 with float64 sums, from the inputs as the kernel is given them."""
        routing, layer, point = self.routing(0), self.layer(0), self.point
        topk, i = point.model.topk, point.intermediate
        out = torch.zeros(self.out.shape, dtype=torch.float64, device=self.device)
        x = self.x.to(torch.float64)
        if activations == "fp8_block128":
            x = (self.x8.to(torch.float64).view(len(x), -1, 128) * self.x_scale[..., None]).view(x.shape)
        picks = torch.argsort(routing.place.to(torch.int64))
        for expert, first, count in routing.groups:
            own = picks[first : first + count]
            gate_up = x[own // topk] @ dequantised(layer.up[expert], layer.up_scale[expert]).T
            h = torch.nn.functional.silu(gate_up[:, :i]) * gate_up[:, i:]
            y = h @ dequantised(layer.down[expert], layer.down_scale[expert]).T
            out.index_add_(0, own // topk, y * routing.pick_weights[own].to(torch.float64)[:, None])
        return out


class Runner:
    def __init__(self, pool, report, seed, samples=10, long_us=2500, timer=None, card=None, source="", reuse=False):
        self.pool, self.report, self.seed, self.timer, self.card, self.source = pool, report, seed, timer, card, source
        self.samples, self.long_us, self.reuse = samples, long_us, reuse
        self.device = pool.bf16.device
        self.recorder = timer.recorder if timer else Recorder()
        self.visits = 0

    def set_up(self, point, cache_bytes):
        reason = shapes.fits(point)
        if reason is None:
            chosen = shapes.repeats_and_layers(point, cache_bytes, self.pool.bytes_of(point.fp8))
            reason = None if chosen else "its weights do not fit"
        if reason:
            self.report.note(f"{point}: {reason}; skipped")
            return None
        repeats, layers = chosen
        picks, path = shapes.routed_picks(self.report.output / "routes", point, repeats, self.seed, self.reuse)
        self.visits += 1
        generator = torch.Generator(self.device).manual_seed(shapes.point_seed(point, self.seed + self.visits))
        setting = Setting(point, picks, cut_layers(self.pool, point, layers), self.device, generator)
        setting.trace = f"routes/{path.name}"
        return setting

    def candidates(self, s):
        """By implementation: the whole block first, then its stages."""
        result = [self.grouped(s, tile) for tile in s.tiles]
        if s.point.tiles:
            return result
        if s.point.stream:
            result.append(self.stream(s))
        if not s.point.fp8:
            result.append(self.grouped_mm(s))
            if s.copies_up is not None:
                result.append(self.gather(s))
            if s.point.loop:
                result.append(self.loop(s))
        return result

    # Each launch below queues one kernel (or one library call) of repetition i.

    def act(self, s, fp8=False):
        grid = (s.point.picks, -(-s.point.intermediate // ROW_BLOCK))
        h, scale = (s.h8, s.h_scale) if fp8 else (s.h, s.h)

        def launch(i, gate_up=s.gate_up):
            n = s.point.intermediate
            self.recorder.launch(kernels.silu_mul, grid, gate_up, h, scale, n, FP8=fp8, BLOCK=ROW_BLOCK, num_warps=4)

        return launch

    def combine(self, s, by_expert):
        m = s.point.model
        grid = (s.point.tokens, -(-m.hidden // ROW_BLOCK))

        def launch(i, y=s.y):
            r = s.routing(i)
            place = r.place if by_expert else r.own_place
            sizes = (m.hidden, m.topk)
            self.recorder.launch(
                kernels.combine, grid, y, s.out, place, r.pick_weights, *sizes, BLOCK=ROW_BLOCK, num_warps=4
            )

        return launch

    def grouped(self, s, t):
        point, m, fp8 = s.point, s.point.model, s.point.fp8

        def gemm(i, up):
            layer = s.layer(i)
            rows, block_expert = s.routing(i).padded[t["block_m"]]
            n, k = (2 * point.intermediate, m.hidden) if up else (m.hidden, point.intermediate)
            weights, scale = (layer.up, layer.up_scale) if up else (layer.down, layer.down_scale)
            inputs = (s.x8 if fp8 else s.x) if up else (s.h8 if fp8 else s.h)
            input_scale = (s.x_scale if up else s.h_scale) if fp8 else inputs
            self.recorder.launch(
                kernels.gg_kernel,
                (len(block_expert) * -(-n // t["block_n"]),),
                inputs,
                weights,
                s.gate_up if up else s.y,
                input_scale,
                scale,
                rows,
                block_expert,
                n,
                k,
                point.picks,
                m.topk if up else 1,
                FP8=fp8,
                BLOCK_M=t["block_m"],
                BLOCK_N=t["block_n"],
                BLOCK_K=t["block_k"],
                GROUP_M=t.get("group_m", 1),
                num_warps=t["num_warps"],
                num_stages=t["num_stages"],
            )

        stages = {
            "gemm1": lambda i: gemm(i, True),
            "act": self.act(s, fp8),
            "gemm2": lambda i: gemm(i, False),
            "combine": self.combine(s, by_expert=False),
        }
        wanted = ("gemm1", "gemm2") if point.tiles else None  # the others do not depend on the tile
        implementation = {"name": "triton-grouped", **t}
        return self.block(s, "grouped_gemm", implementation, stages, wanted=wanted, activations=point.weights)

    def stream(self, s):
        point, m, fp8 = s.point, s.point.model, s.point.fp8
        up, down = shapes.STREAM_UP[fp8], shapes.STREAM_DOWN[fp8]
        per_token = down["per"] == "token"

        def gemm1(i):
            r, layer = s.routing(i), s.layer(i)
            self.recorder.launch(
                kernels.gemv_up,
                (point.picks, point.intermediate // up["block_n"]),
                s.x,
                layer.up,
                s.h,
                layer.up_scale,
                r.expert_of_pick,
                point.intermediate,
                m.hidden,
                m.topk,
                FP8=fp8,
                BLOCK_N=up["block_n"],
                BLOCK_K=up["block_k"],
                num_warps=up["num_warps"],
                num_stages=up["num_stages"],
            )

        def gemm2(i):
            r, layer = s.routing(i), s.layer(i)
            self.recorder.launch(
                kernels.gemv_down,
                (point.tokens if per_token else point.picks, m.hidden // down["block_n"]),
                s.h,
                layer.down,
                s.out if per_token else s.y,
                layer.down_scale,
                r.expert_of_pick,
                r.pick_weights,
                m.hidden,
                point.intermediate,
                m.topk,
                FP8=fp8,
                PER_TOKEN=per_token,
                BLOCK_N=down["block_n"],
                BLOCK_K=down["block_k"],
                num_warps=down.get("num_warps", 1),
                num_stages=up["num_stages"],
            )

        stages = {"gemm1": gemm1, "gemm2": gemm2}
        if not per_token:
            stages["combine"] = self.combine(s, by_expert=False)
        return self.block(s, "stream_gemv", {"name": "triton-stream-gemv", "up": up, "down": down}, stages)

    def permute(self, s):
        return lambda i: torch.index_select(s.x, 0, s.routing(i).token_by_expert, out=s.x_sorted)

    def grouped_mm(self, s):
        """The library's call allocates its own output: the whole block hands it on, the helpers' own rows do not."""

        def gemm(i, up):
            inputs, weights = (s.x_sorted, s.layer(i).up) if up else (s.h, s.layer(i).down)
            return torch._grouped_mm(inputs, weights.transpose(-2, -1), offs=s.routing(i).ends)

        act, combine = self.act(s), self.combine(s, by_expert=True)
        stages = {
            "permute": self.permute(s),
            "gemm1": lambda i: gemm(i, True),
            "act": act,
            "gemm2": lambda i: gemm(i, False),
            "combine": combine,
        }

        def total(i):
            stages["permute"](i)
            act(i, gate_up=gemm(i, True))
            combine(i, y=gemm(i, False))

        nodes = {"gemm1": 2, "gemm2": 2}
        return self.block(s, "grouped_gemm_persistent", {"name": "torch-grouped-mm"}, stages, nodes, total=total)

    def gather(self, s):
        copies_up, copies_down = s.copies_up, s.copies_down
        stages = {
            "gather1": lambda i: torch.index_select(s.layer(i).up, 0, s.routing(i).expert_index, out=copies_up),
            "gemm1": lambda i: torch.bmm(copies_up, s.x_of_pick, out=s.gate_up[:, :, None]),
            "act": self.act(s),
            "gather2": lambda i: torch.index_select(s.layer(i).down, 0, s.routing(i).expert_index, out=copies_down),
            "gemm2": lambda i: torch.bmm(copies_down, s.h[:, :, None], out=s.y[:, :, None]),
            "combine": self.combine(s, by_expert=False),
        }
        return self.block(s, "gather_gemv", {"name": "torch-index-select-bmm"}, stages)

    def loop(self, s):
        def gemm(i, up):
            layer = s.layer(i)
            weights, inputs, outputs = (layer.up, s.x_sorted, s.gate_up) if up else (layer.down, s.h, s.y)
            for expert, first, count in s.routing(i).groups:
                torch.mm(inputs[first : first + count], weights[expert].T, out=outputs[first : first + count])

        stages = {
            "permute": self.permute(s),
            "gemm1": lambda i: gemm(i, True),
            "act": self.act(s),
            "gemm2": lambda i: gemm(i, False),
            "combine": self.combine(s, by_expert=True),
        }
        nodes = {"gemm1": round(s.active), "gemm2": round(s.active)}
        wanted = ("gemm1", "gemm2")  # the others repeat those of grouped_gemm_persistent
        return self.block(s, "expert_loop", {"name": "torch-mm-loop"}, stages, nodes, wanted)

    def block(self, s, strategy, implementation, stages, nodes=None, wanted=None, total=None, activations="bf16"):
        """The whole block (its stages in order, or `total`) and, where the point asks for them, the wanted stages."""
        nodes = {stage: (nodes or {}).get(stage, 1) for stage in stages}

        def in_order(i):
            for launch in stages.values():
                launch(i)

        result = [Candidate(strategy, implementation, "total", total or in_order, sum(nodes.values()), activations)]
        for stage, launch in stages.items() if s.point.stages else ():
            if wanted is None or stage in wanted:
                result.append(Candidate(strategy, implementation, stage, launch, nodes[stage], activations))
        return result

    def error_of(self, s, candidate, references):
        if candidate.activations not in references:
            references[candidate.activations] = s.reference(candidate.activations)
        reference = references[candidate.activations]
        s.poison()
        candidate.launch(0)
        difference = s.out.to(torch.float64) - reference
        return float(torch.linalg.vector_norm(difference) / torch.linalg.vector_norm(reference))

    def checked(self, s):
        """Candidates whose whole block is right; the others are refused with their stages."""
        references, good = {}, []
        for block in self.candidates(s):
            name = f"{s.point} {told_tile(block[0].implementation)}"
            try:
                error = self.error_of(s, block[0], references)
            except Exception as problem:  # one implementation must not cost the others
                self.report.refuse(f"{name}: {told(problem)}")
                self.synchronize()  # but an error that stays with the device is raised here
                continue
            interpreted_fp8 = s.point.fp8 and self.device.type == "cpu"
            if error <= (INTERPRETED_FP8_TOLERANCE if interpreted_fp8 else TOLERANCE[s.point.weights]):  # a NaN fails
                good += block
                if not self.timer or (s.point.tokens == 1 and not s.point.tiles):
                    self.report.note(f"{name}: relative error {error:.2e}")
            else:
                self.report.refuse(f"{name}: relative error {error:.2e}")
        return good

    def synchronize(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def run(self, point, cache_bytes):
        s = self.set_up(point, cache_bytes)
        if s is None:
            return
        good = self.checked(s)
        if not good or not self.timer:
            return
        before = self.report.rows
        sequences = [Sequence(c.launch, len(s.routings), c.nodes) for c in good]
        results = self.timer.run(sequences, self.samples, self.long_us)
        for candidate, timing in zip(good, results):
            name = told_tile(candidate.implementation)
            if isinstance(timing, Exception):
                self.report.refuse(f"{point} {name} {candidate.stage}: {told(timing)}")
                continue
            row = row_of(self.card.label(), point, s.trace, s.active, candidate, timing, self.source)
            self.report.line(row)
            if candidate.stage == "total" and not point.tiles and (point.tokens <= 4 or point.tokens >= 64):
                rate = s.active * point.expert_bytes / timing.us / 1e6
                self.report.summary.append(f"{str(point):<44} {name:<24} {timing.us:>10.2f} us {rate:>6.2f} TB/s")
        if point.tiles:
            self.sum_up_tiles(point, good, results)
        self.report.note(f"{point}: {self.report.rows - before} rows")

    def sum_up_tiles(self, point, good, results):
        timed = zip(good, results)
        totals = sorted(
            (t.us, told_tile(c.implementation)) for c, t in timed if isinstance(t, Timing) and c.stage == "total"
        )
        if totals:
            (least, best), (most, worst) = totals[0], totals[-1]
            self.report.summary.append(
                f"{point}: {len(totals)} tiles, {least:.2f} us ({best}) to {most:.2f} us ({worst})"
            )


def told_tile(implementation):
    """Its name, with the tile's numbers of a grouped kernel: BM/BN/BK, warps, stages, GROUP_M."""
    numbers = [str(v) for k, v in implementation.items() if k != "name" and isinstance(v, int)]
    return " ".join([implementation["name"], "/".join(numbers)]).strip()


def with_everything(point):
    return dataclasses.replace(point, stages=True, gather=not point.fp8, loop=not point.fp8)
