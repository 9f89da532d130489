"""Times sequences of kernels by the slope between a long and a short CUDA graph."""

import random
from dataclasses import dataclass
from typing import Callable

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import globaltimer, smid

from card import GraphReader, merged
from report import Timing, graph_lengths, told

MOST_NODES = 1200
WAIT_CLOCKS, CLOCKS_A_NODE = 60_000, 500  # the device spins while the host queues a graph


@triton.jit
def clock_mark_kernel(marks):
    """[clocks, nanoseconds] of the SM to which this CTA came."""
    at = marks + 2 * smid()
    clocks = tl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l", [], dtype=tl.int64, is_pure=False, pack=1)
    tl.store(at, clocks)
    tl.store(at + 1, globaltimer())


def mhz_between(marks):
    """Mean clock of the SMs that were marked before and after, by int64 marks [before | after, SM, clocks | ns]; 0 without one."""
    seen = (marks[:, :, 1] > 0).all(0)
    clocks, ns = (marks[1] - marks[0])[seen].double().unbind(1)
    return (1000 * clocks / ns).mean().item() if seen.any() else 0.0


@dataclass
class Sequence:
    launch: Callable  # launch(repetition) queues one repetition on the current stream
    rotation: int  # repetitions that touch distinct buffers
    nodes: int  # kernels of a repetition, about


class Timer:
    """Everything runs on its stream."""

    def __init__(self, card, seed, recorder):
        """`recorder` notes the Triton kernels that are started: the facts where a graph cannot be read."""
        self.nvml = card.nvml
        self.random = random.Random(seed)
        self.stream = torch.cuda.Stream()
        torch.cuda.set_stream(self.stream)
        self.begin = torch.cuda.Event(enable_timing=True)
        self.end = torch.cuda.Event(enable_timing=True)
        self.reader = GraphReader()
        self.recorder = recorder
        self.marks = torch.zeros(2, card.properties.multi_processor_count, 2, dtype=torch.int64, device="cuda")
        self.pool = torch.cuda.graph_pool_handle()
        # Lives as long as the timer, and with it the pool that all graphs share.
        self.keeper = self._capture(lambda i, x=torch.zeros(1, device="cuda"): x.zero_(), 1)

    def _capture(self, launch, repetitions):
        graph = torch.cuda.CUDAGraph(keep_graph=True)
        graph.capture_begin(pool=self.pool, capture_error_mode="relaxed")
        try:
            for i in range(repetitions):
                launch(i)
        except BaseException:
            try:
                graph.capture_end()
            except RuntimeError:
                pass
            raise
        graph.capture_end()
        graph.instantiate()
        return graph

    def _facts(self, sequence, timing):
        graph = self._capture(sequence.launch, 1)
        try:
            timing.kernels = self.reader.kernels(graph.raw_cuda_graph())
        except Exception as error:  # facts are not worth a row
            timing.kernels_from = f"Triton, without library kernels ({told(error)})"
            with self.recorder as recorder:
                self._capture(sequence.launch, 1).reset()
                timing.kernels = merged(recorder.facts)
        finally:
            graph.reset()

    def _once(self, graph, nodes, timing=None):
        """Microseconds of the graph, and an SM's clock meanwhile in MHz: marked outside of what is timed."""
        self.marks.zero_()
        torch.cuda._sleep(WAIT_CLOCKS + CLOCKS_A_NODE * nodes)
        clock_mark_kernel[(self.marks.shape[1],)](self.marks[0], num_warps=1)
        self.begin.record(self.stream)
        graph.replay()
        self.end.record(self.stream)
        clock_mark_kernel[(self.marks.shape[1],)](self.marks[1], num_warps=1)
        if timing is not None:  # under load: the work is queued and running
            timing.reasons |= self.nvml.throttle_reasons()
        self.stream.synchronize()
        return self.begin.elapsed_time(self.end) * 1000, mhz_between(self.marks.cpu())

    def _prepare(self, sequence, timing, long_us):
        """The short and the long graph, and their repetitions."""
        for i in range(sequence.rotation):  # what libraries load or choose on first use is not captured
            sequence.launch(i)
        self._facts(sequence, timing)
        # A rough time a repetition, replay cost included: enough to choose the lengths.
        probe = self._capture(sequence.launch, sequence.rotation)
        nodes = sequence.rotation * sequence.nodes
        self._once(probe, nodes)
        rough = self._once(probe, nodes)[0] / sequence.rotation
        probe.reset()
        lengths = graph_lengths(rough, sequence.rotation, sequence.nodes, long_us, MOST_NODES)
        graphs = [self._capture(sequence.launch, n) for n in lengths]
        self._once(graphs[0], lengths[0] * sequence.nodes)
        return graphs, lengths

    def run(self, sequences, samples, long_us):
        """All in one visit: in each round every sequence's long and short graph once, all in random order. A Timing
        for each, or the error that kept it from being captured."""
        results, ready = [], []
        try:
            for sequence in sequences:
                timing = Timing()
                try:
                    graphs, lengths = self._prepare(sequence, timing, long_us)
                except Exception as error:  # one sequence must not cost the others
                    torch.cuda.synchronize()  # an error that stays with the device is raised here
                    results.append(error)
                    continue
                results.append(timing)
                ready.append((sequence, timing, graphs, lengths))
            order = [(i, k) for i in range(len(ready)) for k in range(2)]
            for sample in range(samples):
                self.random.shuffle(order)
                laps = {}
                for i, k in order:
                    sequence, timing, graphs, lengths = ready[i]
                    asked = timing if k == 1 and sample % 3 == 1 else None
                    laps[i, k] = self._once(graphs[k], lengths[k] * sequence.nodes, asked)
                for i, (_, timing, _, lengths) in enumerate(ready):
                    (short_us, _), (long_us, mhz) = laps[i, 0], laps[i, 1]
                    timing.add(short_us, long_us, *lengths, mhz)
        finally:
            for _, _, graphs, _ in ready:
                for graph in graphs:
                    graph.reset()
        return results
