"""Counts of the deliveries of each record, and of each place of the order, in one epoch."""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpufeed.errors import LedgerError

__all__ = ["Counts", "Digests", "EpochCounts", "Run"]

_MODULUS = 1 << 128
_MAX_COUNT = 2**16 - 1

Counts = npt.NDArray[np.uint16]
Digests = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Run:
    """The run that a ledger belongs to; equal for all processes of the run.

    Attributes:
        manifest: fingerprint of the manifest.
        sampler: fingerprint of the sampler.
        transforms: fingerprint of the transforms.
        num_records: length of the manifest.
        epoch_size: number of positions in an epoch.
        per_epoch: number of positions delivered per epoch, by all processes together: the first
            ones.
        repeats: whether a record may occur more than once in an epoch.
        pixels: whether the digests include the pixels.
    """

    manifest: str
    sampler: str
    transforms: str
    num_records: int
    epoch_size: int
    per_epoch: int
    repeats: bool
    pixels: bool


class EpochCounts:
    """One epoch's counts, digests of its records' pixels, and the sum of its deliveries' digests.

    Attributes:
        pixels: uint64 (num_records,), sums of the pixels' digests of each record; empty without
            pixels.
        total: sum of the deliveries' digests, modulo 2**128.
    """

    def __init__(self, run: Run) -> None:
        self._num_records = run.num_records
        # Counts of the records, followed by those of the places; None while they are compressed.
        self._all: Counts | None = np.zeros(run.num_records + run.epoch_size, dtype=np.uint16)
        self._packed = b""
        self.pixels: Digests = np.zeros(run.num_records if run.pixels else 0, dtype=np.uint64)
        self.total = 0

    @property
    def digest(self) -> str:
        """The sum of the deliveries' digests, as 32 hex digits."""
        return f"{self.total:032x}"

    def counts(self) -> Counts:
        """Return how often each record was delivered."""
        return self._read()[: self._num_records]

    def places(self) -> Counts:
        """Return how often each place of the order was delivered."""
        return self._read()[self._num_records :]

    def _read(self) -> Counts:
        if self._all is None:
            return np.frombuffer(zlib.decompress(self._packed), dtype=np.uint16)
        return self._all

    def _unpack(self) -> Counts:
        if self._all is None:
            self._all = self._read().copy()
        return self._all

    def packed(self) -> bytes:
        """Return the compressed counts."""
        return self._packed if self._all is None else zlib.compress(self._all.data, 1)

    def pack(self) -> None:
        """Compress the counts, to save memory while other epochs are counted."""
        self._packed, self._all = self.packed(), None

    @staticmethod
    def restore(run: Run, packed: bytes, pixels: Digests, total: int) -> EpochCounts:
        """Return an epoch's counts from its saved `packed()`, `pixels` and `total`.

        Raises:
            ValueError: they do not fit the run.
        """
        restored = EpochCounts(run)
        restored._packed, restored._all, restored.total = packed, None, total
        if pixels.shape != restored.pixels.shape or pixels.dtype != restored.pixels.dtype:
            raise ValueError(f"pixels are {pixels.dtype} {pixels.shape}")
        if len(restored._read()) != run.num_records + run.epoch_size:
            raise ValueError(f"there are {len(restored._read())} counts")
        restored.pixels = pixels
        return restored

    def add(self, epoch: int, place: int, key: int, pixels: bytes) -> None:
        """Count a delivery.

        Raises:
            LedgerError: the record was delivered too often to count.
        """
        counts = self._unpack()
        if counts[key] == _MAX_COUNT:
            raise LedgerError(
                f"record {key} was delivered more than {_MAX_COUNT:,} times in epoch {epoch}"
            )
        counts[key] += 1
        counts[self._num_records + place] += 1
        delivery = struct.pack("<QQQ", epoch, place, key) + pixels
        digest = hashlib.blake2b(delivery, digest_size=16).digest()
        self.total = (self.total + int.from_bytes(digest, "little")) % _MODULUS
        if pixels:
            # A wrapping sum, which does not depend on the order of a record's deliveries.
            self.pixels[key : key + 1] += np.frombuffer(pixels[:8], dtype="<u8")

    def include(self, other: EpochCounts) -> None:
        """Add the counts of the same epoch in another ledger.

        Raises:
            LedgerError: a record was delivered too often to count.
        """
        counts = self._unpack()
        total = counts.astype(np.int64) + other._read()
        if total.max() > _MAX_COUNT:
            raise LedgerError(f"the merged ledgers contain a record more than {_MAX_COUNT:,} times")
        counts[:] = total
        self.pixels += other.pixels
        self.total = (self.total + other.total) % _MODULUS
        self.pack()
