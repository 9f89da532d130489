"""`tpu_gmm`: the library's megablox `gmm`, twice, with permute, activation and combine by XLA; see README.md."""

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.megablox import gmm as megablox_gmm

LIBRARY_TILE = (128, 128, 128)


def permute(x, token):
    return x[token]


def product(rows, weights, sizes, first, tile, interpret=False):
    """Rows of the device's experts times their weights; the library zeroes the rows of other devices' experts."""
    return megablox_gmm(
        rows,
        weights,
        sizes,
        preferred_element_type=jnp.bfloat16,
        tiling=tile,
        group_offset=first,
        interpret=interpret,
    )


def activation(gate_up):
    gate, up = jnp.split(gate_up.astype(jnp.float32), 2, axis=1)
    return (jax.nn.silu(gate) * up).astype(jnp.bfloat16)


def combine(y, place, weight):
    """Weighted sum of each token's rows. Rows of no group are not written by the products: left out, not times 0."""
    rows = jnp.where(weight[..., None] != 0, y[place].astype(jnp.float32), 0)
    return jnp.sum(rows * weight[..., None], axis=1).astype(jnp.bfloat16)


def block(tiles, groups, x, weights, interpret=False):
    """The expert FFN of one shard. `groups`: a routing.Groups's arrays; weights as in `stream`, bf16 only."""
    sizes, first, token, place, weight = groups
    up, down = weights
    gate_up = product(permute(x, token), up, sizes, first, tiles[0], interpret)
    y = product(activation(gate_up), down, sizes, first, tiles[1], interpret)
    return combine(y, place, weight)
