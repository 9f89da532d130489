"""What the harness knows of a chip before a kernel has run on it."""

from dataclasses import dataclass

from jax.experimental.pallas import tpu as pltpu


@dataclass(frozen=True)
class Chip:
    label: str  # moesim's name of the device
    kinds: tuple  # JAX's `device_kind`
    version: str  # of pltpu.ChipVersion
    cores: int  # TensorCores of a JAX device
    topology: str  # the smallest that libtpu compiles for without a TPU


CHIPS = (
    Chip("tpu-v4", ("TPU v4",), "TPU_V4", 2, "v4:2x2x1"),
    Chip("tpu-v5e", ("TPU v5 lite", "TPU v5e"), "TPU_V5E", 1, "v5e:2x2"),
    Chip("tpu-v5p", ("TPU v5", "TPU v5p"), "TPU_V5P", 2, "v5p:2x2x1"),
    Chip("tpu-v6e", ("TPU v6 lite", "TPU v6e"), "TPU_V6E", 1, "v6e:2x2"),
    Chip("tpu7x", ("TPU7x",), "TPU_7X", 1, "tpu7x:2x2x1"),
)


def chip_of_kind(kind):
    return next((chip for chip in CHIPS if kind in chip.kinds), None)


def chip_of_label(label):
    return next((chip for chip in CHIPS if chip.label == label), None)


def info_of(chip):
    """JAX's table of the chip: capacities in bytes, per TensorCore."""
    return pltpu.get_tpu_info_for_chip(getattr(pltpu.ChipVersion, chip.version), chip.cores)


def cache_bytes(info):
    """What could keep weights from one repetition to the next: VMEM, or CMEM where there is one, of all cores."""
    return max(info.vmem_capacity_bytes, info.cmem_capacity_bytes) * info.num_cores
