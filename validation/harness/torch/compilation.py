"""Triton's kernels compiled ahead of their use, by as many processes as there are cores: through Triton's cache on disk."""

import concurrent.futures
import multiprocessing
import os

import torch

import kernels
from report import told

SIZE = 2048  # of N and K: as in every model a multiple of 16, which is what kernels are specialised on


def compile_tile(fp8, tile):
    """The grouped kernel of one tile, as `moe.Runner.grouped` launches it. None, or what went wrong."""
    t = dict(tile)
    value = torch.float8_e4m3fn if fp8 else torch.bfloat16
    scale = torch.float32 if fp8 else value
    try:
        kernels.gg_kernel.warmup(
            value, value, torch.bfloat16, scale, scale, torch.int32, torch.int32, SIZE, SIZE, SIZE, SIZE,
            FP8=fp8, BLOCK_M=t["block_m"], BLOCK_N=t["block_n"], BLOCK_K=t["block_k"], GROUP_M=t.get("group_m", 1),
            num_warps=t["num_warps"], num_stages=t["num_stages"], grid=(1,),
        )  # fmt: skip
    except Exception as problem:  # the launch itself will tell
        return told(problem)
    return None


def compile_tiles(tiles):
    """Compiles (fp8, tile) pairs and says how that went. Not needed for a right result: what is missing is compiled at
    its first launch."""
    tiles = sorted(tiles)
    context = multiprocessing.get_context("spawn")  # a forked process has no use of its parent's CUDA context
    with concurrent.futures.ProcessPoolExecutor(min(len(tiles), os.cpu_count() or 1), context) as pool:
        try:
            failures = [f for f in pool.map(compile_tile, *zip(*tiles)) if f is not None]
        except concurrent.futures.process.BrokenProcessPool as problem:
            return f"tiles are compiled as they are launched: {told(problem)}"
    first = f", {len(failures)} not: {failures[0]}" if failures else ""
    return f"{len(tiles)} tiles compiled{first}"
