"""Keyed permutations of [0, size), computed for single indices.

A Feistel network over a grid of rows x columns cells, just large enough for `size`, with a keyed
hash as its round function (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002:
the generalised Feistel cipher, with cycle walking).
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
"""Maximum size of a permutation."""

# Large sizes need no more than 8. With 20, permutations of a few records are uniform too, as far as
# a chi-squared test over all of them can tell.
_ROUNDS = 20
_HALF = np.uint64(32)
# MurmurHash3's finalizer (Appleby) without its first shift, which does not mix small numbers.
_SHIFT = np.uint64(33)
_FIRST, _SECOND = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


class Key(NamedTuple):
    """The key of a permutation.

    Attributes:
        seed: 0 to 2**64 - 1.
        epoch: 0 to 2**32 - 1.
        purpose: distinguishes permutations of one seed and epoch, 0 to 2**63 - 1.
    """

    seed: int
    epoch: int
    purpose: int = 0


def derive_keys(seed: int, epoch: Int64, purpose: Int64) -> UInt64:
    """Return the round keys of many permutations, uint64 (rounds, n).

    They are Philox's output at an address of (seed, epoch, purpose), so distinct triples have
    independent keys; sums of a seed and an epoch would collide. Equal pairs are computed once.

    Args:
        seed: 0 to 2**64 - 1.
        epoch: int64 (n,).
        purpose: int64 (n,).
    """
    epochs, epoch_index = np.unique(epoch, return_inverse=True)
    purposes, purpose_index = np.unique(purpose, return_inverse=True)
    pairs, pair_index = np.unique(epoch_index * len(purposes) + purpose_index, return_inverse=True)
    epoch_index, purpose_index = np.divmod(pairs, len(purposes))
    words = rng.words(
        seed, epochs[epoch_index], purposes[purpose_index], rng.ORDER_STREAM, 0, _ROUNDS // 2
    ).astype(np.uint64)
    keys = np.ascontiguousarray((words[:, ::2] << _HALF | words[:, 1::2]).T)
    return keys if len(pairs) == 1 else keys[:, pair_index]


@functools.lru_cache(maxsize=64)
def _keys_of(key: Key) -> UInt64:
    return derive_keys(key.seed, np.array([key.epoch]), np.array([key.purpose]))


def permute(indices: Int64, size: int | Int64, key: Key | UInt64) -> Int64:
    """Return the images of `indices` under a keyed permutation of [0, size).

    Args:
        indices: int64 (n,), each 0 to size - 1.
        size: 1 to 2**40; one for all indices, or int64 (n,).
        key: one for all indices, or round keys from `derive_keys`.

    Returns:
        int64 (n,).

    Raises:
        ConfigError: a size or an index is out of range.
    """
    return _walk(indices, size, key, forward=True)


def permute_each(
    indices: Int64, size: int | Int64, seed: int, epoch: Int64, purpose: Int64
) -> Int64:
    """Permute each index with the key (seed, epoch, purpose); epoch and purpose int64 (n,)."""
    if len(indices) and (epoch == epoch[0]).all() and (purpose == purpose[0]).all():
        return permute(indices, size, Key(seed, int(epoch[0]), int(purpose[0])))
    return permute(indices, size, derive_keys(seed, epoch, purpose))


def unpermute(places: Int64, size: int | Int64, key: Key | UInt64) -> Int64:
    """Return the indices that `permute` maps to `places`: its inverse."""
    return _walk(places, size, key, forward=False)


def _walk(indices: Int64, size: int | Int64, key: Key | UInt64, *, forward: bool) -> Int64:
    indices, sizes = np.asarray(indices, dtype=np.int64), np.atleast_1d(np.int64(size))
    if not indices.size:
        return np.empty(0, dtype=np.int64)
    if sizes.min() < 1 or sizes.max() > MAX_SIZE:
        raise ConfigError(f"size is {size}; it must be from 1 to 2**40")
    if indices.min() < 0 or (indices >= sizes).any():
        raise ConfigError(
            f"indices range from {indices.min()} to {indices.max()}; they must be in [0, {size})"
        )
    keys = _keys_of(key) if isinstance(key, Key) else key
    rows = np.ceil(np.sqrt(sizes)).astype(np.int64)
    columns = -(-sizes // rows)
    # At least one side is even. Cyclic shifts of odd length are even permutations, so otherwise
    # all results would be even permutations.
    columns += rows & columns & 1
    shape = np.stack([rows, columns]).astype(np.uint64)
    ends = sizes.astype(np.uint64)
    network = _encrypt if forward else _decrypt
    cells = network(indices.astype(np.uint64), shape, keys)
    # Cycle walking: cells past the end, fewer than two rows, are mapped again until none is left.
    while (beyond := np.flatnonzero(cells >= ends)).size:
        cells[beyond] = network(cells[beyond], _columns(shape, beyond), _columns(keys, beyond))
    return cells.astype(np.int64)


def _columns(values: UInt64, indices: npt.NDArray[np.intp]) -> UInt64:
    """Return the columns of some indices; a single column is shared by all."""
    return values if values.shape[1] == 1 else values[:, indices]


def _encrypt(cells: UInt64, shape: UInt64, keys: UInt64) -> UInt64:
    halves = list(np.divmod(cells, shape[1]))
    for number, key in enumerate(keys):
        moved, other = number % 2, 1 - number % 2
        total = halves[moved] + _hash(halves[other], key, shape[moved])
        # The remainder: if `total` is smaller than the divisor, the difference wraps to a huge one.
        halves[moved] = np.minimum(total, total - shape[moved])
    return np.asarray(halves[0] * shape[1] + halves[1])


def _decrypt(cells: UInt64, shape: UInt64, keys: UInt64) -> UInt64:
    halves = list(np.divmod(cells, shape[1]))
    for number in reversed(range(len(keys))):
        moved, other = number % 2, 1 - number % 2
        difference = halves[moved] - _hash(halves[other], keys[number], shape[moved])
        halves[moved] = np.minimum(difference, difference + shape[moved])
    return np.asarray(halves[0] * shape[1] + halves[1])


def _hash(half: UInt64, key: UInt64, count: UInt64) -> UInt64:
    """Return a number in [0, count): the top 32 bits of the hash of a half, scaled."""
    mixed = half ^ key
    mixed *= _FIRST
    mixed ^= mixed >> _SHIFT
    mixed *= _SECOND
    mixed >>= _HALF
    mixed *= count
    mixed >>= _HALF
    return mixed
