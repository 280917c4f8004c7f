"""What was delivered: how often each record came in each epoch, and a digest of it all.

The digest of an epoch is a sum over its deliveries, so it does not depend on their order, and the
digests of several processes add up to that of the run.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.errors import LedgerError

__all__ = ["Differences", "EpochReport", "Ledger", "Run", "merge"]

_FORMAT = 1
_MODULUS = 1 << 128
_NAMED = 20
"""Records that a report names of each kind."""

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
        per_epoch: how many deliveries a whole epoch has, in all processes together.
        repeats: whether a record may come more than once in an epoch.
        pixels: whether the digests are also of the pixels.
    """

    manifest: str
    sampler: str
    transforms: str
    num_records: int
    per_epoch: int
    repeats: bool
    pixels: bool


@dataclass(frozen=True)
class EpochReport:
    """What came in one epoch.

    Attributes:
        epoch: its number.
        deliveries: how many there were.
        expected: how many a whole epoch has.
        missing: how many records did not come.
        double: how many records came more than once.
        missing_keys: the first of those that did not come.
        double_keys: the first of those that came more than once.
        digest: 32 hex digits.
        right: whether the epoch is whole, and no record came twice that must not.
    """

    epoch: int
    deliveries: int
    expected: int
    missing: int
    double: int
    missing_keys: tuple[int, ...]
    double_keys: tuple[int, ...]
    digest: str
    right: bool


@dataclass(frozen=True)
class Differences:
    """How one epoch differs between two runs.

    Attributes:
        epoch: its number.
        counts: how many records came another number of times.
        pixels: how many came as often, but not with the same pixels.
        keys: the first of both.
        same: whether there is no difference.
    """

    epoch: int
    counts: int
    pixels: int
    keys: tuple[int, ...]
    same: bool


class Ledger:
    """Counts what is delivered. `Loader(ledger=True)` keeps one.

    A run that goes on from a checkpoint takes the ledger along that was saved with it:
    `loader.ledger.include(Ledger.load(path))`.

    Counts of up to 65,535 deliveries take two bytes a record while their epoch is under way, and
    next to nothing after it. With pixels, eight bytes a record and epoch are added.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._epochs: dict[int, _Epoch] = {}

    def add(
        self,
        epochs: npt.NDArray[np.int64],
        record_keys: npt.NDArray[np.int64],
        pictures: npt.NDArray[Any] | None = None,
    ) -> None:
        """Write down deliveries.

        Args:
            epochs: int64 (n,).
            record_keys: int64 (n,).
            pictures: (n, ...), needed where the run's digests are of the pixels.
        """
        pixels: Sequence[bytes] = [b""] * len(record_keys)
        if self.run.pixels:
            if pictures is None:
                raise ValueError("this ledger also digests pixels")
            pixels = [hashlib.blake2b(each.tobytes(), digest_size=16).digest() for each in pictures]
        for epoch, key, seen in zip(epochs.tolist(), record_keys.tolist(), pixels, strict=True):
            self._epoch(epoch).add(epoch, key, seen)

    def _epoch(self, epoch: int) -> _Epoch:
        if epoch not in self._epochs:
            for other in self._epochs.values():
                other.pack()
            self._epochs[epoch] = _Epoch(self.run.num_records, self.run.pixels)
        return self._epochs[epoch]

    def include(self, other: Ledger) -> None:
        """Add what another ledger of this run has: of another process, or of an earlier part.

        Raises:
            LedgerError: it is not of this run.
        """
        _check_alike(self.run, other.run, tuple(asdict(self.run)))
        for epoch in other.epochs:
            self._epoch(epoch).include(other._epochs[epoch])

    @property
    def epochs(self) -> list[int]:
        """The epochs of which something was delivered, in order."""
        return sorted(self._epochs)

    def digest(self, epoch: int) -> str:
        """Return the digest of an epoch's deliveries, 32 hex digits; zeros where there are none."""
        return f"{self._epochs[epoch].total if epoch in self._epochs else 0:032x}"

    def counts(self, epoch: int) -> Counts:
        """Return how often each record came in an epoch: uint16 (num_records,)."""
        if epoch not in self._epochs:
            return np.zeros(self.run.num_records, dtype=np.uint16)
        return self._epochs[epoch].counts()

    def report(self, epoch: int) -> EpochReport:
        """Return what came in an epoch, and what is missing or double."""
        counts = self.counts(epoch)
        missing, double = np.flatnonzero(counts == 0), np.flatnonzero(counts > 1)
        deliveries = int(counts.sum(dtype=np.int64))
        whole = deliveries == self.run.per_epoch
        return EpochReport(
            epoch=epoch,
            deliveries=deliveries,
            expected=self.run.per_epoch,
            missing=len(missing),
            double=len(double),
            missing_keys=tuple(missing[:_NAMED].tolist()),
            double_keys=tuple(double[:_NAMED].tolist()),
            digest=self.digest(epoch),
            right=whole and (self.run.repeats or not len(double)),
        )

    def compare(self, other: Ledger) -> list[Differences]:
        """Return how each epoch of either run differs from the other's.

        Raises:
            LedgerError: they are of other manifests, or pixels were digested in one of them only.
        """
        _check_alike(self.run, other.run, ("manifest", "num_records", "pixels"))
        found = []
        for epoch in sorted({*self._epochs, *other._epochs}):
            counts = self.counts(epoch) != other.counts(epoch)
            pixels = np.zeros_like(counts)
            if self.run.pixels:
                pixels = (self._pixels(epoch) != other._pixels(epoch)) & ~counts
            found.append(
                Differences(
                    epoch=epoch,
                    counts=int(counts.sum()),
                    pixels=int(pixels.sum()),
                    keys=tuple(np.flatnonzero(counts | pixels)[:_NAMED].tolist()),
                    same=self.digest(epoch) == other.digest(epoch),
                )
            )
        return found

    def _pixels(self, epoch: int) -> Digests:
        if epoch not in self._epochs:
            return np.zeros(self.run.num_records, dtype=np.uint64)
        return self._epochs[epoch].pixels

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ledger to a file, which replaces an older one at once and whole.

        Raises:
            OSError: it can not be written.
        """
        target = Path(path)
        digests = {str(epoch): self.digest(epoch) for epoch in self.epochs}
        about = {"format": _FORMAT, "run": asdict(self.run), "digests": digests}
        arrays: dict[str, Any] = {}
        for epoch in self.epochs:
            arrays[f"counts-{epoch}"] = self.counts(epoch)
            if self.run.pixels:
                arrays[f"pixels-{epoch}"] = self._pixels(epoch)
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
        unfinished = target.with_name(f".{target.name}.{os.getpid()}.unfinished")
        try:
            with unfinished.open("wb") as file:
                np.savez_compressed(file, **arrays)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Ledger:
        """Read a ledger from a file that `save` wrote.

        Raises:
            LedgerError: it is no such file.
            OSError: it can not be read.
        """
        try:
            with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                about = json.loads(arrays["about"].tobytes())
                if about["format"] != _FORMAT:
                    raise LedgerError(
                        f"{path} has format {about['format']}, this gpufeed reads {_FORMAT}"
                    )
                ledger = Ledger(Run(**about["run"]))
                for epoch, digest in about["digests"].items():
                    one = _Epoch(ledger.run.num_records, ledger.run.pixels)
                    one.fill(
                        arrays[f"counts-{epoch}"],
                        arrays[f"pixels-{epoch}"] if ledger.run.pixels else None,
                        int(digest, 16),
                    )
                    ledger._epochs[int(epoch)] = one
                return ledger
        except (ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError, zlib.error) as error:
            raise LedgerError(f"{path} is no ledger of gpufeed: {error}") from error


def merge(ledgers: Iterable[Ledger]) -> Ledger:
    """Return the ledger of a run from those of its processes, or of its parts one after the other.

    Raises:
        LedgerError: there is none, or they are not of one run.
    """
    listed = list(ledgers)
    if not listed:
        raise LedgerError("there is no ledger to look at")
    whole = Ledger(listed[0].run)
    for ledger in listed:
        whole.include(ledger)
    return whole


def _check_alike(one: Run, other: Run, names: Sequence[str]) -> None:
    for name in names:
        ours, theirs = getattr(one, name), getattr(other, name)
        if ours != theirs:
            raise LedgerError(
                f"the ledgers are not of one run: {name} is {ours!r} in one and {theirs!r} in "
                "another"
            )


class _Epoch:
    """One epoch's counts, its records' pixels and the sum of its deliveries' digests."""

    def __init__(self, num_records: int, with_pixels: bool) -> None:
        self._counts: Counts | None = np.zeros(num_records, dtype=np.uint16)
        self._packed = b""
        self.pixels: Digests = np.zeros(num_records if with_pixels else 0, dtype=np.uint64)
        self.total = 0

    def counts(self) -> Counts:
        if self._counts is None:
            return np.frombuffer(zlib.decompress(self._packed), dtype=np.uint16).copy()
        return self._counts

    def pack(self) -> None:
        """Keep the counts small, now that others come."""
        if self._counts is not None:
            self._packed, self._counts = zlib.compress(self._counts.tobytes(), 1), None

    def _open(self) -> Counts:
        self._counts = self.counts()
        return self._counts

    def add(self, epoch: int, key: int, pixels: bytes) -> None:
        counts = self._counts if self._counts is not None else self._open()
        if counts[key] == np.iinfo(np.uint16).max:
            raise LedgerError(f"record {key} came more than 65,535 times in epoch {epoch}")
        counts[key] += 1
        delivery = struct.pack("<QQ", epoch, key) + pixels
        digest = hashlib.blake2b(delivery, digest_size=16).digest()
        self.total = (self.total + int.from_bytes(digest, "little")) % _MODULUS
        if pixels:
            # A sum, which wraps round: the order of a record's deliveries does not count.
            self.pixels[key : key + 1] += np.frombuffer(pixels[:8], dtype="<u8")

    def include(self, other: _Epoch) -> None:
        counts = self._open()
        together = counts.astype(np.int64) + other.counts()
        if together.max() > np.iinfo(np.uint16).max:
            raise LedgerError("together the ledgers have a record more than 65,535 times an epoch")
        counts[:] = together
        self.pixels += other.pixels
        self.total = (self.total + other.total) % _MODULUS

    def fill(self, counts: Counts, pixels: Digests | None, total: int) -> None:
        own = self._open()
        if counts.shape != own.shape or counts.dtype != own.dtype:
            raise ValueError(f"counts are {counts.dtype} {counts.shape}")
        if pixels is not None and (pixels.shape, pixels.dtype) != (
            self.pixels.shape,
            self.pixels.dtype,
        ):
            raise ValueError(f"pixels are {pixels.dtype} {pixels.shape}")
        own[:] = counts
        if pixels is not None:
            self.pixels[:] = pixels
        self.total = total
        self.pack()
