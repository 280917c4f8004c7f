"""A simulation of one node's tier: what its records cost the store, epoch after epoch.

The order of use is that of gpufeed's own sampler, and what is given up is decided by the code that
a loader runs (`gpufeed.tiers`). Only the images, which have one size, and the store are left out.

A sample of the records stands for all of them (Waldspurger et al., "Efficient MRC construction
with SHARDS", FAST 2015), with a tier that is smaller in the same proportion: the sampler's
permutation is inverted for these records alone, so that a billion records take no longer than a
million. Nodes differ by chance only, so one stands for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import gpufeed
from benchmarks.storage.bound import fewest_misses
from gpufeed.order.permutation import Key, unpermute
from gpufeed.tiers.future import Future, UsesOf, foresee
from gpufeed.tiers.order import Uses
from gpufeed.tiers.policy import Kept

__all__ = ["Case", "simulate"]

Int64 = npt.NDArray[np.int64]

BATCH = 64
"""Records of a batch and node."""


@dataclass(frozen=True)
class Case:
    """What is simulated, and what was found.

    Attributes:
        local: whether each node has records of its own (`NodeLocalSampler`).
        records: number of records.
        nodes: number of nodes, each with a tier of its own.
        share: the share of all records that a tier has room for.
        epochs: epochs of the run.
        sampled: records that stand for all of them.
        clairvoyant: share of an epoch's reads that go to the store, after the first epoch.
        lru: the same with "least recently used".
        bound: the same of the best that any cache in the node could do, which knows the whole run.
    """

    local: bool
    records: int
    nodes: int
    share: float
    epochs: int
    sampled: int
    clairvoyant: float
    lru: float
    bound: float


def listed(keys: Int64) -> UsesOf:
    """Return an order of use in which each use is a step."""

    def uses(first: int, steps: int) -> Uses:
        here = keys[first : first + steps]
        return Uses(first, np.arange(len(here) + 1), here)

    return uses


def shuffled(
    records: int, nodes: int, epochs: int, sampled: int, seed: int = 0
) -> tuple[Int64, int]:
    """Return the uses of sampled records in node 0, and how many of them are in the first epoch.

    Returns:
        int64 (n,), indices of the sampled records, in the order of use; and a number.
    """
    sampler = gpufeed.IndexSampler(records, shuffle=True, seed=seed)
    keys = np.random.default_rng(seed).choice(records, sampled, replace=False).astype(np.int64)
    together = BATCH * nodes
    uses, first = [], 0
    for epoch in range(epochs):
        positions = unpermute(keys, records, Key(seed, epoch))
        visited = sampler.visits(epoch * records + positions[:8]).record_key
        if (visited != keys[:8]).any():
            raise AssertionError("the sampler's order is not the inverted permutation")
        in_batch = positions % together
        here = np.flatnonzero((in_batch < BATCH) & (positions < records // together * together))
        uses.append(here[np.argsort(positions[here])])
        first = first or len(here)
    return np.concatenate(uses), first


def node_local(
    records: int, nodes: int, epochs: int, sampled: int, seed: int = 0
) -> tuple[Int64, int]:
    """Return the same for a sample of node 0's own records, all of which it reads in each epoch."""
    sampler = gpufeed.NodeLocalSampler(records, nodes=nodes, global_batch=BATCH * nodes, seed=seed)
    own = sampler.records(0)
    keys = np.random.default_rng(seed).choice(len(own), sampled, replace=False).astype(np.int64)
    uses = []
    for epoch in range(epochs):
        places = unpermute(keys, len(own), Key(seed, epoch))
        few = np.flatnonzero(places < len(own) // BATCH * BATCH)[:8]
        step, place = np.divmod(places[few], BATCH)
        positions = epoch * sampler.epoch_size + step * BATCH * nodes + place
        if (sampler.visits(positions).record_key != own[keys[few]]).any():
            raise AssertionError("the sampler's order is not the inverted permutation")
        uses.append(np.argsort(places))
    return np.concatenate(uses), sampled


def misses(uses: Int64, sampled: int, room: int, *, clairvoyant: bool) -> int:
    """Return how many uses the tier does not have."""
    future, order, found = Future(sampled), listed(uses), 0
    kept = Kept(future)
    for step, key in enumerate(uses.tolist()):
        if clairvoyant and step % sampled == 0:
            future.enter(foresee(order, step, sampled, sampled))
        kept.moved(future.touch(uses[step : step + 1]))
        if not kept.sizes[key]:
            found += 1
            given_up = kept.victims(future.rank_after(key, step), kept.total + 1 - room)
            if given_up is not None:
                for each in given_up:
                    kept.put(each, 0)
                kept.put(key, 1)
        kept.moved(future.end(step))
    return found


def simulate(
    records: int,
    nodes: int,
    shares: Sequence[float],
    epochs: int,
    sampled: int,
    *,
    local: bool = False,
) -> list[Case]:
    """Simulate tiers of several sizes."""
    read = -(-records // nodes) if local else records
    sampled = min(sampled, read)
    uses, first = (node_local if local else shuffled)(records, nodes, epochs, sampled)
    later = len(uses) - first
    cases = []
    for share in shares:
        room = max(1, round(share * records * sampled / read))
        # Every use in the first epoch is a record's first.
        clairvoyant, lru, bound = (
            (count - first) / later
            for count in (
                misses(uses, sampled, room, clairvoyant=True),
                misses(uses, sampled, room, clairvoyant=False),
                fewest_misses(uses.tolist(), room),
            )
        )
        cases.append(Case(local, records, nodes, share, epochs, sampled, clairvoyant, lru, bound))
    return cases
