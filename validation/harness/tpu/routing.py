"""Routed picks as the kernels take them, for one device of a group. NumPy only."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Picks:
    """[tokens, topk] experts and weights of one routed batch; a pick of weight 0 is masked: it is padding."""

    experts: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class Runs:
    """The device's unmasked picks, sorted by expert: run r is expert `expert[r]` with the picks from `first[r]` up to
    `first[r + 1]`. Masked picks are in no run, so that they neither cost a product nor change the expert. Arrays have
    the sizes of the worst case."""

    count: np.ndarray
    expert: np.ndarray
    first: np.ndarray
    token: np.ndarray
    weight: np.ndarray

    def arrays(self):
        return self.count, self.expert, self.first, self.token, self.weight


def local_picks(picks, shard, local_experts):
    """(picks that are this device's and not masked, in order; their experts, counted from the device's first)."""
    experts = picks.experts.reshape(-1) - shard * local_experts
    own = (experts >= 0) & (experts < local_experts) & (picks.weights.reshape(-1) != 0)
    return np.flatnonzero(own), experts


def runs_of(picks, shard, local_experts):
    chosen, experts = local_picks(picks, shard, local_experts)
    chosen = chosen[np.argsort(experts[chosen], kind="stable")]
    slots, topk = picks.experts.size, picks.experts.shape[1]
    active, firsts = np.unique(experts[chosen], return_index=True)
    expert, first = np.zeros(slots, np.int32), np.zeros(slots + 1, np.int32)
    token, weight = np.zeros(slots, np.int32), np.zeros(slots, np.float32)
    expert[: len(active)] = active
    first[: len(active)] = firsts
    first[len(active) :] = len(chosen)
    token[: len(chosen)] = chosen // topk
    weight[: len(chosen)] = picks.weights.reshape(-1)[chosen]
    return Runs(np.array([len(active)], np.int32), expert, first, token, weight)


@dataclass(frozen=True)
class Groups:
    """The same for grouped products: all rows sorted by expert, masked ones last and in no group, padded to whole row
    tiles. `sizes` are those of the whole model's experts; `first` is the device's first."""

    sizes: np.ndarray
    first: np.ndarray
    token: np.ndarray  # of each row
    place: np.ndarray  # [tokens, topk]: a pick's row
    weight: np.ndarray  # [tokens, topk]: 0 where the pick is masked or another device's

    def arrays(self):
        return self.sizes, self.first, self.token, self.place, self.weight


def groups_of(picks, shard, local_experts, experts, row_tile):
    flat, topk = picks.experts.reshape(-1), picks.experts.shape[1]
    masked = picks.weights.reshape(-1) == 0
    order = np.argsort(np.where(masked, experts, flat), kind="stable")
    rows = -(-len(order) // row_tile) * row_tile
    token = np.zeros(rows, np.int32)
    token[: len(order)] = order // topk
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    weight = np.zeros(len(order), np.float32)
    own, _ = local_picks(picks, shard, local_experts)
    weight[own] = picks.weights.reshape(-1)[own]
    return Groups(
        np.bincount(flat[~masked], minlength=experts).astype(np.int32),
        np.int32(shard * local_experts),
        token,
        place.reshape(picks.experts.shape),
        weight.reshape(picks.experts.shape),
    )


def active_experts(picks, shard, local_experts):
    chosen, experts = local_picks(picks, shard, local_experts)
    return len(np.unique(experts[chosen]))


def expert_weights(picks, shard, local_experts):
    """float32 [tokens, local_experts]: 0 where a token does not pick the expert."""
    chosen, experts = local_picks(picks, shard, local_experts)
    result = np.zeros((len(picks.experts), local_experts), np.float32)
    np.add.at(result, (chosen // picks.experts.shape[1], experts[chosen]), picks.weights.reshape(-1)[chosen])
    return result


def most_loaded(picks, shards, local_experts):
    """The device with the most active experts, of those the one with the most picks, of those the first."""

    def load(shard):
        chosen, experts = local_picks(picks, shard, local_experts)
        return len(np.unique(experts[chosen])), len(chosen), -shard

    return max(range(shards), key=load)
