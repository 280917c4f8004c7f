"""Which records turned out bad, and why."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.atomic_write import atomic_write

__all__ = ["Failure", "Quarantine"]

_COLUMNS = {"record_key": pl.Int64, "path": pl.String, "reason": pl.String, "step": pl.Int64}


@dataclass(frozen=True)
class Failure:
    """One record whose image could not be read or decoded.

    Attributes:
        record_key: the record's number in its manifest.
        path: its file, below the manifest's root.
        reason: what was found wrong, in words.
        step: the batch in which it was found.
    """

    record_key: int
    path: str
    reason: str
    step: int


class Quarantine:
    """The records whose images could not be read or decoded, in the order they were found in.

    It shows what a loader has found so far, and goes on showing it.

    Args:
        failures: by their record keys.
    """

    def __init__(self, failures: Mapping[int, Failure]) -> None:
        self._failures = failures

    def __len__(self) -> int:
        return len(self._failures)

    def __iter__(self) -> Iterator[Failure]:
        return iter(list(self._failures.values()))

    def __contains__(self, record_key: object) -> bool:
        return record_key in self._failures

    def __repr__(self) -> str:
        return f"<Quarantine: {len(self)} records>"

    @property
    def record_keys(self) -> npt.NDArray[np.int64]:
        """The records' keys, ascending, int64 (k,)."""
        return np.array(sorted(self._failures), dtype=np.int64)

    def frame(self) -> pl.DataFrame:
        """Return the list as `record_key` (Int64), `path`, `reason` (String), `step` (Int64)."""
        rows = [asdict(failure) for failure in self]
        return pl.DataFrame(rows, schema=_COLUMNS)

    def save(self, path: str | Path) -> None:
        """Write the list as Parquet, whole or not at all, for `Manifest.without`.

        Raises:
            OSError: the file cannot be written; the error names `path`.
        """
        buffer = io.BytesIO()
        self.frame().write_parquet(buffer)
        atomic_write(path, buffer.getvalue())
