"""What was delivered: how often each record came in each epoch, and a digest of it all.

The digest of an epoch is a sum over its deliveries, each with its place in the epoch's order, so it
does not depend on when they came, and the digests of several processes add up to that of the run.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from gpufeed.errors import LedgerError
from gpufeed.machine import quarter_of_memory
from gpufeed.regular import open_file
from gpufeed.shown import shown
from gpufeed.whole import write_whole

__all__ = ["Differences", "EpochReport", "Ledger", "Run", "merge"]

_FORMAT = 1
_HEADER = 1 << 14
"""Bytes that the header of an array in a file may have."""
_ABOUT = "about.npy"
_MOST_ABOUT = 1 << 24
_MOST_AT_ONCE = 1 << 24
"""Bytes of a file that are read at a time; a directory of 100,000 epochs has as many."""
_PIECE = 1 << 20
_TAIL = 1 << 17
_MODULUS = 1 << 128
_NAMED = 20
"""Records that a report names of each kind."""

_MOST = 2**16 - 1

Counts = npt.NDArray[np.uint16]
Int64 = npt.NDArray[np.int64]
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
        self._epochs: dict[int, _Epoch] = {}

    def add(
        self,
        epochs: Int64,
        places: Int64,
        record_keys: Int64,
        pictures: npt.NDArray[Any] | None = None,
    ) -> None:
        """Write down deliveries.

        Args:
            epochs: int64 (n,).
            places: int64 (n,), in their epoch's order.
            record_keys: int64 (n,).
            pictures: (n, ...), needed where the run's digests are of the pixels.
        """
        pixels: Sequence[bytes] = [b""] * len(record_keys)
        if self.run.pixels:
            if pictures is None:
                raise ValueError("this ledger also digests pixels")
            pixels = [hashlib.blake2b(each.tobytes(), digest_size=16).digest() for each in pictures]
        delivered = zip(epochs.tolist(), places.tolist(), record_keys.tolist(), pixels, strict=True)
        for epoch, place, key, seen in delivered:
            self._epoch(epoch).add(epoch, place, key, seen)

    def _epoch(self, epoch: int) -> _Epoch:
        if epoch not in self._epochs:
            for other in self._epochs.values():
                other.pack()
            self._epochs[epoch] = _Epoch(self.run)
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
            OSError: it can not be written; the error names `path`.
        """
        digests = {str(epoch): self.digest(epoch) for epoch in self.epochs}
        about = {"format": _FORMAT, "run": asdict(self.run), "digests": digests}
        arrays: dict[str, Any] = {}
        for epoch in self.epochs:
            arrays[f"counts-{epoch}"] = self.counts(epoch)
            arrays[f"places-{epoch}"] = self._epochs[epoch].places()
            if self.run.pixels:
                arrays[f"pixels-{epoch}"] = self._pixels(epoch)
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        write_whole(path, buffer.getvalue())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Ledger:
        """Read a ledger from a file that `save` wrote.

        Raises:
            LedgerError: it is no such file.
            OSError: it can not be read.
        """
        said = f"{path} is no ledger of gpufeed, as loader.ledger.save() writes it"
        try:
            file = open_file(path)
        except OSError as error:
            if error.errno is not None:
                raise
            raise LedgerError(f"{said}: {error}") from None
        try:
            with _Pieces(file.detach()) as pieces:
                return _read(pieces, path)
        except LedgerError:
            raise
        except Exception as error:  # whatever a file may hold that is none
            raise LedgerError(said) from error


class _Pieces(io.BufferedReader):
    """A file of which no more is read at once than a ledger needs.

    zipfile reads a directory whole, however long the file says it is.
    """

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _MOST_AT_ONCE:
            raise ValueError(f"{size:,} bytes would have to be read at once")
        # Without a size zipfile asks for the rest, of the last 64 KiB at most.
        return super().read(_TAIL if size is None or size < 0 else size)


def _read(file: BinaryIO, path: str | os.PathLike[str]) -> Ledger:
    with zipfile.ZipFile(file) as archive:
        lengths = _lengths(archive)
        # Before anything is unpacked, which may be a thousand times as long as the file.
        if lengths[_ABOUT] > _MOST_ABOUT:
            raise ValueError(f"{_ABOUT} has {lengths[_ABOUT]:,} bytes")
        packed = np.empty(lengths[_ABOUT], np.uint8)
        about = json.loads(packed[: _unpack(archive, _ABOUT, packed)].tobytes())
        if about["format"] != _FORMAT:
            raise LedgerError(
                f"{path} has format {shown(repr(about['format']), 40)}, this gpufeed reads "
                f"{_FORMAT}"
            )
        run = _checked_run(about["run"])
        digests = _checked_digests(about["digests"])
        parts = {"counts": 2 * run.num_records, "places": 2 * run.epoch_size}
        if run.pixels:
            parts["pixels"] = 8 * run.num_records
        wanted = {f"{part}-{epoch}.npy": size for epoch in digests for part, size in parts.items()}
        if set(lengths) != {_ABOUT, *wanted}:
            raise ValueError("it has other parts than it tells of")
        for name, size in wanted.items():
            if not size < lengths[name] <= size + _HEADER:
                raise ValueError(f"{name} has {lengths[name]:,} bytes, and should have {size:,}")
        # Each epoch keeps its pixels; one at a time is laid out, and twice packed at most.
        pixels = parts.get("pixels", 0)
        needed = len(digests) * pixels + 3 * (parts["counts"] + parts["places"])
        ledger = Ledger(run)
        for epoch, digest in digests.items():
            _check_memory(needed, run, len(digests), path)
            one = _Epoch(run)
            for part, array in one.parts().items():
                if _unpack(archive, f"{part}-{epoch}.npy", array) != len(array):
                    raise ValueError(f"{part}-{epoch} is too short")
            one.total = digest
            needed += one.pack()
            ledger._epochs[epoch] = one
    return ledger


def _lengths(archive: zipfile.ZipFile) -> dict[str, int]:
    """How many bytes each array of a file is unpacked to, with its header."""
    lengths = {}
    for member in archive.infolist():
        name = member.filename
        if name in lengths:
            raise ValueError(f"it has the part {shown(repr(name))} twice")
        # Others may ask for gigabytes to unpack a few bytes.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{shown(repr(name))} is compressed in another way")
        lengths[name] = member.file_size
    return lengths


def _unpack(archive: zipfile.ZipFile, name: str, array: npt.NDArray[Any]) -> int:
    """Read one array of a file into one that is at least as long; returns how long it is."""
    with archive.open(name) as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError(f"{name} has another version")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        if dtype != array.dtype or len(shape) != 1 or not 0 <= shape[0] <= len(array):
            raise ValueError(f"{name} is {shown(f'{dtype} {shape}')}")
        count = int(shape[0])
        into = array[:count].view(np.uint8)
        for start in range(0, len(into), _PIECE):
            piece = into[start : start + _PIECE]
            content = file.read(len(piece))
            if len(content) < len(piece):
                raise ValueError(f"{name} ends early")
            piece[:] = np.frombuffer(content, np.uint8)
        # At the end its checksum is looked at, too.
        if file.read(1):
            raise ValueError(f"{name} goes on")
    return count


def _check_memory(needed: int, run: Run, epochs: int, path: str | os.PathLike[str]) -> None:
    allowed = quarter_of_memory()
    if needed > allowed:
        raise LedgerError(
            f"{path} would take {needed:,} bytes of memory, with epochs ({epochs:,}) of "
            f"{run.num_records:,} records in {run.epoch_size:,} places; at most a quarter of this "
            f"machine's memory is given to a ledger, {allowed:,} bytes: if it is not damaged, read "
            "it on a machine that has more"
        )


def _checked_digests(told: Mapping[str, Any]) -> dict[int, int]:
    digests = {}
    for epoch, digest in told.items():
        if not re.fullmatch("[0-9]{1,19}", epoch):
            raise ValueError(f"an epoch is {shown(repr(epoch))}")
        if not re.fullmatch("[0-9a-f]{32}", digest):
            raise ValueError(f"epoch {epoch} has the digest {shown(repr(digest))}")
        digests[int(epoch)] = int(digest, 16)
    return digests


def _checked_run(told: Mapping[str, Any]) -> Run:
    for field in fields(Run):
        value = told[field.name]
        kind = {"str": str, "int": int, "bool": bool}[str(field.type)]
        if type(value) is not kind or (isinstance(value, int) and not 0 <= value < 1 << 48):
            raise ValueError(f"{field.name} is {shown(repr(value), 40)}")
    return Run(**told)


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
                f"the ledgers are not of one run: {name} is {shown(repr(ours))} in one and "
                f"{shown(repr(theirs))} in another"
            )


class _Epoch:
    """One epoch's counts, its records' pixels and the sum of its deliveries' digests."""

    def __init__(self, run: Run) -> None:
        self._records = run.num_records
        # Of records, and after them of places.
        self._all: Counts | None = np.zeros(run.num_records + run.epoch_size, dtype=np.uint16)
        self._packed = b""
        self.pixels: Digests = np.zeros(run.num_records if run.pixels else 0, dtype=np.uint64)
        self.total = 0

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

    def pack(self) -> int:
        """Keep the counts small, now that others come; returns how many bytes they take."""
        if self._all is not None:
            self._packed, self._all = zlib.compress(self._all.data, 1), None
        return len(self._packed)

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

    def include(self, other: _Epoch) -> None:
        """Add another part's counts."""
        counts = self._open()
        together = counts.astype(np.int64) + other._read()
        if together.max() > _MOST:
            raise LedgerError(f"together the ledgers have a record more than {_MOST:,} times")
        counts[:] = together
        self.pixels += other.pixels
        self.total = (self.total + other.total) % _MODULUS
        self.pack()

    def parts(self) -> dict[str, Counts | Digests]:
        """What a file holds of it, by name, to be filled in."""
        counts = self._open()
        parts: dict[str, Counts | Digests] = {
            "counts": counts[: self._records],
            "places": counts[self._records :],
        }
        return {**parts, "pixels": self.pixels} if len(self.pixels) else parts
