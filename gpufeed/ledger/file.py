"""Ledgers' files, which may hold anything: NumPy's .npz, read no further than a ledger needs."""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from gpufeed._util.atomic_write import atomic_write
from gpufeed._util.limits import quarter_of_memory
from gpufeed._util.open_regular import open_regular
from gpufeed._util.sanitize import sanitize
from gpufeed.errors import LedgerError
from gpufeed.ledger.counts import EpochCounts, Run

__all__ = ["read_file", "write_file"]

_FORMAT = 1
_HEADER = 1 << 14
"""Bytes that the header of an array in a file may have."""
_ABOUT = "about.npy"
_MOST_ABOUT = 1 << 24
_MOST_AT_ONCE = 1 << 24
"""Bytes of a file that are read at a time; a directory of 100,000 epochs has as many."""
_PIECE = 1 << 20
_TAIL = 1 << 17

Read = tuple[Run, dict[int, EpochCounts]]


def write_file(path: str | os.PathLike[str], run: Run, epochs: Mapping[int, EpochCounts]) -> None:
    """Write a file, which replaces an older one at once and whole.

    Raises:
        OSError: it can not be written; the error names `path`.
    """
    digests = {str(epoch): one.digest for epoch, one in epochs.items()}
    about = {"format": _FORMAT, "run": asdict(run), "digests": digests}
    buffer = io.BytesIO()
    # Not by np.savez_compressed, which is given all epochs unpacked.
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        _pack(archive, _ABOUT, np.frombuffer(json.dumps(about).encode(), dtype=np.uint8))
        for epoch, one in epochs.items():
            for part, array in one.parts().items():
                _pack(archive, f"{part}-{epoch}.npy", array)
    atomic_write(path, buffer.getvalue())


def _pack(archive: zipfile.ZipFile, name: str, array: npt.NDArray[Any]) -> None:
    with archive.open(name, "w", force_zip64=True) as file:
        np.lib.format.write_array(file, array, allow_pickle=False)


def read_file(path: str | os.PathLike[str]) -> Read:
    """Read a file that `write_file` wrote.

    Raises:
        LedgerError: it is no such file, or takes more memory than a ledger is given.
        OSError: it can not be read.
    """
    said = f"{path} is no ledger of gpufeed, as loader.ledger.save() writes it"
    try:
        file = open_regular(path)
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


def _read(file: BinaryIO, path: str | os.PathLike[str]) -> Read:
    with zipfile.ZipFile(file) as archive:
        lengths = _lengths(archive)
        # Before anything is unpacked, which may be a thousand times as long as the file.
        if lengths[_ABOUT] > _MOST_ABOUT:
            raise ValueError(f"{_ABOUT} has {lengths[_ABOUT]:,} bytes")
        packed = np.empty(lengths[_ABOUT], np.uint8)
        about = json.loads(packed[: _unpack(archive, _ABOUT, packed)].tobytes())
        if about["format"] != _FORMAT:
            raise LedgerError(
                f"{path} has format {sanitize(repr(about['format']), 40)}, this gpufeed reads "
                f"{_FORMAT}"
            )
        run = _checked_run(about["run"])
        totals = _checked_totals(about["digests"])
        parts = {"counts": 2 * run.num_records, "places": 2 * run.epoch_size}
        if run.pixels:
            parts["pixels"] = 8 * run.num_records
        wanted = {f"{part}-{epoch}.npy": size for epoch in totals for part, size in parts.items()}
        if set(lengths) != {_ABOUT, *wanted}:
            raise ValueError("it has other parts than it tells of")
        for name, size in wanted.items():
            if not size < lengths[name] <= size + _HEADER:
                raise ValueError(f"{name} has {lengths[name]:,} bytes, and should have {size:,}")
        # Each epoch keeps its pixels; one at a time is laid out, and twice packed at most.
        pixels = parts.get("pixels", 0)
        needed = len(totals) * pixels + 3 * (parts["counts"] + parts["places"])
        epochs: dict[int, EpochCounts] = {}
        for epoch, total in totals.items():
            _check_memory(needed, run, len(totals), path)
            one = EpochCounts(run)
            for part, array in one.parts().items():
                if _unpack(archive, f"{part}-{epoch}.npy", array) != len(array):
                    raise ValueError(f"{part}-{epoch} is too short")
            one.total = total
            needed += one.pack()
            epochs[epoch] = one
    return run, epochs


def _lengths(archive: zipfile.ZipFile) -> dict[str, int]:
    """How many bytes each array of a file is unpacked to, with its header."""
    lengths = {}
    for member in archive.infolist():
        name = member.filename
        if name in lengths:
            raise ValueError(f"it has the part {sanitize(repr(name))} twice")
        # Others may ask for gigabytes to unpack a few bytes.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{sanitize(repr(name))} is compressed in another way")
        lengths[name] = member.file_size
    return lengths


def _unpack(archive: zipfile.ZipFile, name: str, array: npt.NDArray[Any]) -> int:
    """Read one array of a file into one that is at least as long; returns how long it is."""
    with archive.open(name) as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError(f"{name} has another version")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        if dtype != array.dtype or len(shape) != 1 or not 0 <= shape[0] <= len(array):
            raise ValueError(f"{name} is {sanitize(f'{dtype} {shape}')}")
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


def _checked_totals(told: Mapping[str, Any]) -> dict[int, int]:
    totals = {}
    for epoch, digest in told.items():
        if not re.fullmatch("[0-9]{1,19}", epoch):
            raise ValueError(f"an epoch is {sanitize(repr(epoch))}")
        if not re.fullmatch("[0-9a-f]{32}", digest):
            raise ValueError(f"epoch {epoch} has the digest {sanitize(repr(digest))}")
        totals[int(epoch)] = int(digest, 16)
    return totals


def _checked_run(told: Mapping[str, Any]) -> Run:
    for field in fields(Run):
        value = told[field.name]
        kind = {"str": str, "int": int, "bool": bool}[str(field.type)]
        if type(value) is not kind or (isinstance(value, int) and not 0 <= value < 1 << 48):
            raise ValueError(f"{field.name} is {sanitize(repr(value), 40)}")
    return Run(**told)
