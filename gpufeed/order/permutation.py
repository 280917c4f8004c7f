"""Keyed permutations of [0, size): any place of an order, without the order.

A Feistel network over a rectangle of rows x columns cells, just large enough for `size`, with a
keyed hash as its round function (Black and Rogaway, "Ciphers with arbitrary finite domains",
CT-RSA 2002: the generalised Feistel cipher, and walking on from cells past the end).
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpufeed import rng
from gpufeed.errors import ConfigError

__all__ = ["MAX_SIZE", "Key", "derive_keys", "permute", "permute_each", "unpermute"]

Int64 = npt.NDArray[np.int64]
UInt64 = npt.NDArray[np.uint64]

MAX_SIZE = 1 << 40
"""The most places of an order."""

# Large orders need no more than 8; with 20, orders of a few records are uniform too, as far as a
# chi-square over all of them can tell.
_ROUNDS = 20
_HALF = np.uint64(32)
# MurmurHash3's finalizer (Appleby), but for its first shift, which does not stir small numbers.
_SHIFT = np.uint64(33)
_FIRST, _SECOND = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


class Key(NamedTuple):
    """Which permutation: another one for each combination of the three.

    Attributes:
        seed: 0 to 2**64 - 1.
        epoch: 0 to 2**32 - 1.
        purpose: tells apart what one epoch of one seed permutes, 0 to 2**63 - 1.
    """

    seed: int
    epoch: int
    purpose: int = 0


def derive_keys(seed: int, epoch: Int64, purpose: Int64) -> UInt64:
    """Return the round keys of many permutations, from int64 (n,) each: uint64 (rounds, n).

    Equal pairs are worked out once. The keys are Philox's output at an address of their own, so
    no two of (seed, epoch, purpose) share them as sums of a seed and an epoch would.
    """
    epochs, at_epoch = np.unique(epoch, return_inverse=True)
    purposes, at_purpose = np.unique(purpose, return_inverse=True)
    pairs, at = np.unique(at_epoch * len(purposes) + at_purpose, return_inverse=True)
    chosen = np.divmod(pairs, len(purposes))
    drawn = rng.words(
        seed, epochs[chosen[0]], purposes[chosen[1]], rng.ORDER_STREAM, 0, _ROUNDS // 2
    )
    words = drawn.astype(np.uint64)
    keys = np.ascontiguousarray((words[:, ::2] << _HALF | words[:, 1::2]).T)
    return keys if len(pairs) == 1 else keys[:, at]


@functools.lru_cache(maxsize=64)
def _keys_of(key: Key) -> UInt64:
    return derive_keys(key.seed, np.array([key.epoch]), np.array([key.purpose]))


def permute(indices: Int64, size: int | Int64, key: Key | UInt64) -> Int64:
    """Return where a keyed permutation of [0, size) sends `indices`.

    Args:
        indices: int64 (n,), each 0 to size - 1.
        size: 1 to 2**40; one for all, or int64 (n,).
        key: one for all, or round keys from `derive_keys`.

    Returns:
        int64 (n,).

    Raises:
        ConfigError: a size or an index is out of range.
    """
    return _walk(indices, size, key, forward=True)


def permute_each(
    indices: Int64, size: int | Int64, seed: int, epoch: Int64, purpose: Int64
) -> Int64:
    """Permute each index by the key of its own (seed, epoch, purpose), int64 (n,) each."""
    if len(indices) and (epoch == epoch[0]).all() and (purpose == purpose[0]).all():
        return permute(indices, size, Key(seed, int(epoch[0]), int(purpose[0])))
    return permute(indices, size, derive_keys(seed, epoch, purpose))


def unpermute(places: Int64, size: int | Int64, key: Key | UInt64) -> Int64:
    """Return the indices that `permute` sends to `places`: its inverse, with its arguments."""
    return _walk(places, size, key, forward=False)


def _walk(indices: Int64, size: int | Int64, key: Key | UInt64, *, forward: bool) -> Int64:
    indices, sizes = np.asarray(indices, dtype=np.int64), np.atleast_1d(np.int64(size))
    if not indices.size:
        return np.empty(0, dtype=np.int64)
    if sizes.min() < 1 or sizes.max() > MAX_SIZE:
        raise ConfigError(f"size is {size}; an order has 1 to 2**40 places")
    if indices.min() < 0 or (indices >= sizes).any():
        raise ConfigError(f"indices go from {indices.min()} to {indices.max()}, beyond [0, {size})")
    keys = _keys_of(key) if isinstance(key, Key) else key
    rows = np.ceil(np.sqrt(sizes)).astype(np.int64)
    columns = -(-sizes // rows)
    # Not both odd: a shift along an odd side is an even permutation, and so were all of them.
    columns += rows & columns & 1
    shape = np.stack([rows, columns]).astype(np.uint64)
    ends = sizes.astype(np.uint64)
    network = _forth if forward else _back
    cells = network(indices.astype(np.uint64), shape, keys)
    # Cells past the end, fewer than two rows, are sent on until they come to rest.
    while (beyond := np.flatnonzero(cells >= ends)).size:
        cells[beyond] = network(cells[beyond], _of(shape, beyond), _of(keys, beyond))
    return cells.astype(np.int64)


def _of(values: UInt64, chosen: npt.NDArray[np.intp]) -> UInt64:
    """The columns of some indices; one column is for all."""
    return values if values.shape[1] == 1 else values[:, chosen]


def _forth(cells: UInt64, shape: UInt64, keys: UInt64) -> UInt64:
    halves = list(np.divmod(cells, shape[1]))
    for turn in range(len(keys)):
        moved, other = turn % 2, 1 - turn % 2
        total = halves[moved] + _hash(halves[other], keys[turn], shape[moved])
        # The remainder: where nothing is to be taken off, the difference wraps round and is huge.
        halves[moved] = np.minimum(total, total - shape[moved])
    return np.asarray(halves[0] * shape[1] + halves[1])


def _back(cells: UInt64, shape: UInt64, keys: UInt64) -> UInt64:
    halves = list(np.divmod(cells, shape[1]))
    for turn in reversed(range(len(keys))):
        moved, other = turn % 2, 1 - turn % 2
        difference = halves[moved] - _hash(halves[other], keys[turn], shape[moved])
        halves[moved] = np.minimum(difference, difference + shape[moved])
    return np.asarray(halves[0] * shape[1] + halves[1])


def _hash(half: UInt64, key: UInt64, count: UInt64) -> UInt64:
    """A number in [0, count) from the other half: the top 32 bits of its hash, scaled."""
    mixed = half ^ key
    mixed *= _FIRST
    mixed ^= mixed >> _SHIFT
    mixed *= _SECOND
    mixed >>= _HALF
    mixed *= count
    mixed >>= _HALF
    return mixed
