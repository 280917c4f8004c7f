"""What was delivered: how often each record came in each epoch, and a digest of it all.

The digest of an epoch is a sum over its deliveries, each with its place in the epoch's order, so it
does not depend on when they came, and the digests of several processes add up to that of the run.
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

_NAMED = 20
"""Records that a report names of each kind."""

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EpochReport:
    """What came in one epoch.

    Attributes:
        epoch: its number.
        deliveries: how many there were.
        expected: how many a whole epoch has.
        records: how many different records came.
        missing: how many places of the epoch's order were not delivered.
        double: how many were delivered more than once.
        named: what the following are: "record" keys where each record has one place in an epoch
            and none is left out, else "place"s in the epoch's order.
        missing_names: the first of those that did not come.
        double_names: the first of those that came more than once.
        digest: 32 hex digits.
        right: whether every place was delivered, and none twice.
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
    """How one epoch differs between two runs.

    Attributes:
        epoch: its number.
        counts: how many records came another number of times.
        pixels: how many came as often, but not with the same pixels.
        keys: the first of both.
        same: whether there is no difference, in the order neither.
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

    Its counts take four bytes a record while their epoch is under way, and next to nothing after
    it. With pixels, eight bytes a record and epoch are added.
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
        """Write down deliveries.

        Args:
            epochs: int64 (n,).
            places: int64 (n,), in their epoch's order.
            record_keys: int64 (n,).
            images: (n, ...), needed where the run's digests are of the pixels.
        """
        pixels: Sequence[bytes] = [b""] * len(record_keys)
        if self.run.pixels:
            if images is None:
                raise ValueError("this ledger also digests pixels")
            pixels = [hashlib.blake2b(each.tobytes(), digest_size=16).digest() for each in images]
        delivered = zip(epochs.tolist(), places.tolist(), record_keys.tolist(), pixels, strict=True)
        for epoch, place, key, seen in delivered:
            self._epoch(epoch).add(epoch, place, key, seen)

    def _epoch(self, epoch: int) -> EpochCounts:
        if epoch not in self._epochs:
            for other in self._epochs.values():
                other.pack()
            self._epochs[epoch] = EpochCounts(self.run)
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
        return self._epochs[epoch].digest if epoch in self._epochs else f"{0:032x}"

    def counts(self, epoch: int) -> Counts:
        """Return how often each record came in an epoch: uint16 (num_records,)."""
        if epoch not in self._epochs:
            return np.zeros(self.run.num_records, dtype=np.uint16)
        return self._epochs[epoch].counts()

    def report(self, epoch: int) -> EpochReport:
        """Return what came in an epoch, and what is missing or double."""
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
            missing_names=tuple(names[0][:_NAMED].tolist()),
            double_names=tuple(names[1][:_NAMED].tolist()),
            digest=self.digest(epoch),
            # Other places than the first are never delivered: they are too many, then.
            right=bool((places[: self.run.per_epoch] == 1).all())
            and not places[self.run.per_epoch :].any()
            and len(places) > 0,
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
            OSError: it cannot be written; the error names `path`.
        """
        write_file(path, self.run, {epoch: self._epochs[epoch] for epoch in self.epochs})

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Ledger:
        """Read a ledger from a file that `save` wrote.

        Raises:
            LedgerError: it is no such file.
            OSError: it cannot be read.
        """
        run, epochs = read_file(path)
        ledger = Ledger(run)
        ledger._epochs = epochs
        return ledger


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
                f"the ledgers are not of one run: {name} is {sanitize(repr(ours))} in one and "
                f"{sanitize(repr(theirs))} in another"
            )
