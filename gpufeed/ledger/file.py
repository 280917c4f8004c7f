"""The file format of ledgers: NumPy's .npz, with compressed counts for each epoch."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from gpufeed._util.atomic_write import atomic_write
from gpufeed._util.open_regular import open_regular
from gpufeed._util.sanitize import sanitize
from gpufeed.errors import LedgerError
from gpufeed.ledger.counts import EpochCounts, Run

__all__ = ["read_file", "write_file"]

_FORMAT = 1


def write_file(path: str | os.PathLike[str], run: Run, epochs: Mapping[int, EpochCounts]) -> None:
    """Write a ledger's file atomically.

    Raises:
        OSError: it cannot be written; the error names `path`.
    """
    digests = {epoch: counts.digest for epoch, counts in epochs.items()}
    about = {"format": _FORMAT, "run": asdict(run), "digests": digests}
    arrays: dict[str, Any] = {"about": np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)}
    for epoch, counts in epochs.items():
        arrays[f"counts-{epoch}"] = np.frombuffer(counts.packed(), np.uint8)
        arrays[f"pixels-{epoch}"] = counts.pixels
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    atomic_write(path, buffer.getvalue())


def read_file(path: str | os.PathLike[str]) -> tuple[Run, dict[int, EpochCounts]]:
    """Read a file that `write_file` wrote.

    Raises:
        LedgerError: it is not such a file.
        OSError: it cannot be read.
    """
    message = f"{path} is not a gpufeed ledger, as written by loader.ledger.save()"
    try:
        file = open_regular(path)
    except OSError as error:
        if error.errno is not None:
            raise
        raise LedgerError(f"{message}: {error}") from None
    try:
        with file, np.load(file, allow_pickle=False) as arrays:
            about = json.loads(arrays["about"].tobytes())
            if about["format"] != _FORMAT:
                raise LedgerError(
                    f"{path} has format {sanitize(repr(about['format']), 40)}; this version of "
                    f"gpufeed reads format {_FORMAT}"
                )
            run = Run(**about["run"])
            epochs = {
                int(epoch): EpochCounts.restore(
                    run,
                    arrays[f"counts-{epoch}"].tobytes(),
                    arrays[f"pixels-{epoch}"],
                    int(digest, 16),
                )
                for epoch, digest in about["digests"].items()
            }
    except LedgerError:
        raise
    except Exception as error:  # NumPy, zipfile and zlib raise many kinds
        raise LedgerError(f"{message}, or is damaged") from error
    return run, epochs
