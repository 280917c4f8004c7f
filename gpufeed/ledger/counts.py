"""How often each record, and each place of the order, came in one epoch."""

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
_MOST = 2**16 - 1

Counts = npt.NDArray[np.uint16]
Digests = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Run:
    """What a ledger is of; that of all processes of a run is the same.

    Attributes:
        manifest: fingerprint.
        sampler: fingerprint.
        transforms: fingerprint.
        num_records: length of the manifest.
        epoch_size: positions of an epoch.
        per_epoch: how many of them are delivered, in all processes together: the first ones.
        repeats: whether a record may come more than once in an epoch.
        pixels: whether the digests are also of the pixels.
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
    """One epoch's counts, its records' pixels and the sum of its deliveries' digests."""

    def __init__(self, run: Run) -> None:
        self._records = run.num_records
        # Of records, and after them of places.
        self._all: Counts | None = np.zeros(run.num_records + run.epoch_size, dtype=np.uint16)
        self._packed = b""
        self.pixels: Digests = np.zeros(run.num_records if run.pixels else 0, dtype=np.uint64)
        self.total = 0

    @property
    def digest(self) -> str:
        """The sum of its deliveries' digests, 32 hex digits."""
        return f"{self.total:032x}"

    def counts(self) -> Counts:
        """How often each record came."""
        return self._read()[: self._records]

    def places(self) -> Counts:
        """How often each place of the order was delivered."""
        return self._read()[self._records :]

    def _read(self) -> Counts:
        if self._all is None:
            return np.frombuffer(zlib.decompress(self._packed), dtype=np.uint16)
        return self._all

    def _open(self) -> Counts:
        if self._all is None:
            self._all = self._read().copy()
        return self._all

    def packed(self) -> bytes:
        """Return the counts, compressed."""
        return self._packed if self._all is None else zlib.compress(self._all.data, 1)

    def pack(self) -> None:
        """Keep the counts compressed, now that others come."""
        self._packed, self._all = self.packed(), None

    @staticmethod
    def restore(run: Run, packed: bytes, pixels: Digests, total: int) -> EpochCounts:
        """Return an epoch of which `packed()`, `pixels` and `total` were written down.

        Raises:
            ValueError: they are not of such a run.
        """
        one = EpochCounts(run)
        one._packed, one._all, one.total = packed, None, total
        if pixels.shape != one.pixels.shape or pixels.dtype != one.pixels.dtype:
            raise ValueError(f"pixels are {pixels.dtype} {pixels.shape}")
        if len(one._read()) != run.num_records + run.epoch_size:
            raise ValueError(f"there are {len(one._read())} counts")
        one.pixels = pixels
        return one

    def add(self, epoch: int, place: int, key: int, pixels: bytes) -> None:
        """Count a delivery."""
        counts = self._open()
        if counts[key] == _MOST:
            raise LedgerError(f"record {key} came more than {_MOST:,} times in epoch {epoch}")
        counts[key] += 1
        counts[self._records + place] += 1
        delivery = struct.pack("<QQQ", epoch, place, key) + pixels
        digest = hashlib.blake2b(delivery, digest_size=16).digest()
        self.total = (self.total + int.from_bytes(digest, "little")) % _MODULUS
        if pixels:
            # A sum, which wraps round: the order of a record's deliveries does not count.
            self.pixels[key : key + 1] += np.frombuffer(pixels[:8], dtype="<u8")

    def include(self, other: EpochCounts) -> None:
        """Add another part's counts."""
        counts = self._open()
        together = counts.astype(np.int64) + other._read()
        if together.max() > _MOST:
            raise LedgerError(f"together the ledgers have a record more than {_MOST:,} times")
        counts[:] = together
        self.pixels += other.pixels
        self.total = (self.total + other.total) % _MODULUS
        self.pack()
