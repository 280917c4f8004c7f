"""The ledger of delivered records: how often each was delivered in each epoch, and digests.

The digest of an epoch is a sum over its deliveries, each with its place in the epoch's order. So it
does not depend on the time of delivery, and the digests of all processes add up to the run's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gpufeed._util.sanitize import sanitize
from gpufeed.errors import LedgerError
from gpufeed.ledger.counts import Counts, Digests, EpochCounts, Run
from gpufeed.ledger.file import read_file, write_file

__all__ = ["Differences", "EpochReport", "Ledger", "merge"]

_MAX_NAMES = 20
"""Maximum number of records or places that a report lists."""

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EpochReport:
    """Report of the deliveries in one epoch.

    Attributes:
        epoch: number of the epoch.
        deliveries: number of deliveries.
        expected: number of deliveries in a complete epoch.
        records: number of distinct records delivered.
        missing: number of places in the epoch's order that were not delivered.
        double: number of places that were delivered more than once.
        named: what `missing_names` and `double_names` contain: keys of a "record" if each record
            has exactly one place in an epoch and none is left out, otherwise a "place" in the
            epoch's order.
        missing_names: the first that were not delivered.
        double_names: the first that were delivered more than once.
        digest: digest of the epoch, 32 hex digits.
        right: whether every place was delivered exactly once.
    """

    epoch: int
    deliveries: int
    expected: int
    records: int
    missing: int
    double: int
    named: Literal["record", "place"]
    missing_names: tuple[int, ...]
    double_names: tuple[int, ...]
    digest: str
    right: bool


@dataclass(frozen=True)
class Differences:
    """Differences between two runs in one epoch.

    Attributes:
        epoch: number of the epoch.
        counts: number of records that were not delivered equally often.
        pixels: number of records that were delivered equally often, but with different pixels.
        keys: the first keys of either kind.
        same: whether there is no difference, including the order.
    """

    epoch: int
    counts: int
    pixels: int
    keys: tuple[int, ...]
    same: bool


class Ledger:
    """Counts deliveries of records; `Loader(ledger=True)` keeps one.

    A run that resumes from a checkpoint includes the ledger that was saved with it:
    `loader.ledger.include(Ledger.load(path))`.

    The counts of the current epoch take four bytes per record, and those of other epochs almost
    nothing. Pixels add eight bytes per record and epoch.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._epochs: dict[int, EpochCounts] = {}

    def add(
        self,
        epochs: Int64,
        places: Int64,
        record_keys: Int64,
        images: npt.NDArray[Any] | None = None,
    ) -> None:
        """Record deliveries.

        Args:
            epochs: int64 (n,).
            places: int64 (n,), places in the order of their epoch.
            record_keys: int64 (n,).
            images: (n, ...), required if the run's digests include the pixels.

        Raises:
            ValueError: the images are missing.
            LedgerError: a record was delivered more than 65,535 times in an epoch.
        """
        pixels: Sequence[bytes] = [b""] * len(record_keys)
        if self.run.pixels:
            if images is None:
                raise ValueError("this ledger includes pixels; pass the images")
            pixels = [hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in images]
        delivered = zip(epochs.tolist(), places.tolist(), record_keys.tolist(), pixels, strict=True)
        for epoch, place, key, digest in delivered:
            self._epoch(epoch).add(epoch, place, key, digest)

    def _epoch(self, epoch: int) -> EpochCounts:
        if epoch not in self._epochs:
            for other in self._epochs.values():
                other.pack()
            self._epochs[epoch] = EpochCounts(self.run)
        return self._epochs[epoch]

    def include(self, other: Ledger) -> None:
        """Add the deliveries of another ledger of this run: another process, or an earlier part.

        Raises:
            LedgerError: it belongs to another run.
        """
        _check_same_run(self.run, other.run, tuple(asdict(self.run)))
        for epoch in other.epochs:
            self._epoch(epoch).include(other._epochs[epoch])

    @property
    def epochs(self) -> list[int]:
        """The epochs with deliveries, in order."""
        return sorted(self._epochs)

    def digest(self, epoch: int) -> str:
        """Return the digest of an epoch's deliveries, 32 hex digits; zeros if there are none."""
        return self._epochs[epoch].digest if epoch in self._epochs else f"{0:032x}"

    def counts(self, epoch: int) -> Counts:
        """Return how often each record was delivered in an epoch: uint16 (num_records,)."""
        if epoch not in self._epochs:
            return np.zeros(self.run.num_records, dtype=np.uint16)
        return self._epochs[epoch].counts()

    def report(self, epoch: int) -> EpochReport:
        """Return a report of an epoch: what was delivered, and what is missing or repeated."""
        counts = self.counts(epoch)
        places = self._epochs[epoch].places() if epoch in self._epochs else np.zeros(0, np.uint16)
        missing = np.flatnonzero(places[: self.run.per_epoch] == 0)
        double = np.flatnonzero(places > 1)
        by_record = not self.run.repeats and self.run.per_epoch == self.run.num_records
        names = missing, double
        if by_record:
            names = np.flatnonzero(counts == 0), np.flatnonzero(counts > 1)
        return EpochReport(
            epoch=epoch,
            deliveries=int(counts.sum(dtype=np.int64)),
            expected=self.run.per_epoch,
            records=int((counts > 0).sum()),
            missing=len(missing),
            double=len(double),
            named="record" if by_record else "place",
            missing_names=tuple(names[0][:_MAX_NAMES].tolist()),
            double_names=tuple(names[1][:_MAX_NAMES].tolist()),
            digest=self.digest(epoch),
            # Only the first `per_epoch` places may be delivered.
            right=bool((places[: self.run.per_epoch] == 1).all())
            and not places[self.run.per_epoch :].any()
            and len(places) > 0,
        )

    def compare(self, other: Ledger) -> list[Differences]:
        """Return the differences from another run, for each epoch of either.

        Raises:
            LedgerError: the manifests differ, or only one of the ledgers includes pixels.
        """
        _check_same_run(self.run, other.run, ("manifest", "num_records", "pixels"))
        differences = []
        for epoch in sorted({*self._epochs, *other._epochs}):
            counts = self.counts(epoch) != other.counts(epoch)
            pixels = np.zeros_like(counts)
            if self.run.pixels:
                pixels = (self._pixels(epoch) != other._pixels(epoch)) & ~counts
            differences.append(
                Differences(
                    epoch=epoch,
                    counts=int(counts.sum()),
                    pixels=int(pixels.sum()),
                    keys=tuple(np.flatnonzero(counts | pixels)[:_MAX_NAMES].tolist()),
                    same=self.digest(epoch) == other.digest(epoch),
                )
            )
        return differences

    def _pixels(self, epoch: int) -> Digests:
        if epoch not in self._epochs:
            return np.zeros(self.run.num_records, dtype=np.uint64)
        return self._epochs[epoch].pixels

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ledger to a file, replacing an existing one atomically.

        Raises:
            OSError: it cannot be written; the error names `path`.
        """
        write_file(path, self.run, {epoch: self._epochs[epoch] for epoch in self.epochs})

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Ledger:
        """Read a ledger from a file that `save` wrote.

        Raises:
            LedgerError: it is not such a file.
            OSError: it cannot be read.
        """
        run, epochs = read_file(path)
        ledger = Ledger(run)
        ledger._epochs = epochs
        return ledger


def merge(ledgers: Iterable[Ledger]) -> Ledger:
    """Return the ledger of a run, merged from those of its processes or consecutive parts.

    Raises:
        LedgerError: there is no ledger, or they belong to different runs.
    """
    parts = list(ledgers)
    if not parts:
        raise LedgerError("there is no ledger to merge; pass at least one")
    merged = Ledger(parts[0].run)
    for part in parts:
        merged.include(part)
    return merged


def _check_same_run(run: Run, other: Run, names: Sequence[str]) -> None:
    for name in names:
        ours, theirs = getattr(run, name), getattr(other, name)
        if ours != theirs:
            raise LedgerError(
                f"the ledgers belong to different runs: {name} is {sanitize(repr(ours))} in one "
                f"and {sanitize(repr(theirs))} in another"
            )
