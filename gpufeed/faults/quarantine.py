"""The quarantine: the list of records with bad images."""

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

_COLUMNS = {
    "record_key": pl.Int64,
    "path": pl.String,
    "reason": pl.String,
    "step": pl.Int64,
    "target_file": pl.String,
}


@dataclass(frozen=True)
class Failure:
    """One record whose image, or mask or depth map, could not be read or decoded.

    Attributes:
        record_key: row number of the record in its manifest.
        path: `path` of the record in its manifest.
        reason: why it failed, in words.
        step: batch in which it failed first.
        target_file: name of the mask or depth map that failed; "" if it was the image.
    """

    record_key: int
    path: str
    reason: str
    step: int
    target_file: str = ""


class Quarantine:
    """The records whose images could not be read or decoded, in the order they were found.

    It is a live view of the failures that a loader has found so far.

    Args:
        failures: failures by record key.
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
        """The sorted record keys, int64 (k,)."""
        return np.array(sorted(self._failures), dtype=np.int64)

    def frame(self) -> pl.DataFrame:
        """Return a frame with the attributes of `Failure` as columns, of Int64 and String."""
        rows = [asdict(failure) for failure in self]
        return pl.DataFrame(rows, schema=_COLUMNS)

    def save(self, path: str | Path) -> None:
        """Write the list atomically as a Parquet file, for `Manifest.without`.

        Raises:
            OSError: the file cannot be written; the error names `path`.
        """
        buffer = io.BytesIO()
        self.frame().write_parquet(buffer)
        atomic_write(path, buffer.getvalue())
