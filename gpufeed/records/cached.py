"""Tables of what takes long to find out about files, cached beside them or in the user's folder."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from gpufeed._util.atomic_write import atomic_write
from gpufeed._util.cache_folder import cache_folder
from gpufeed._util.held_folder import HeldFolder
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.table_files import read_parquet
from gpufeed.source.storage import LocalStorage, Stamp, Storage

__all__ = ["CachedTable", "FileFacts"]

T = TypeVar("T")

_VERSION = 1
"""Of the facts about one file: those of another version are not read."""
_STAMP = {"bytes": pl.Int64, "version": pl.String}


class CachedTable:
    """A table in a Parquet file, which may be lost at any time.

    It lies in the folder `.gpufeed` beside the files that it is about, if there is one, for all who
    share them; otherwise in the user's cache folder. Anyone may have written the former, so a table
    is ignored that is damaged or has other columns, and what reads it checks the values.

    Args:
        kind: what the table is about.
        folder: the folder of the files, or its URL.
        key: what tells the table from others of its kind.
    """

    def __init__(self, kind: str, folder: Path | str, *key: str) -> None:
        self._files: list[Path] = []
        self._beside: Path | None = None
        real = folder
        if isinstance(folder, Path):
            real = os.path.realpath(folder)
            shared = folder / ".gpufeed" / f"{kind}{f'-{_hash(*key)}' if key else ''}.parquet"
            with contextlib.suppress(OSError):  # no permission to access the folder
                if shared.parent.is_dir() and not _is_link_or_special(shared):
                    self._beside = shared
                    self._files.append(shared)
        with contextlib.suppress(ConfigError):  # a user without a home folder
            self._files.append(cache_folder() / f"{kind}-{_hash(str(real), *key)}.parquet")

    def read(
        self, schema: Mapping[str, Any], most: int, more: tuple[str, ...] = ()
    ) -> Iterator[pl.DataFrame]:
        """Yield the tables that there are, that beside the files first: see `FileFacts.read`."""
        for file in self._files:
            yield from _read(file, schema, most, more)

    def write(self, table: pl.DataFrame, beside: str | None = None, most: int = 0) -> None:
        """Write the table where that is possible, if anywhere.

        Args:
            table: its rows.
            beside: a column; rows that the file has with other values of it are kept.
            most: the number of rows above which the file's are not.
        """
        for file in self._files:
            whole = table
            for known in () if beside is None else _read(file, table.schema, most, ()):
                whole = pl.concat([known.join(table, on=beside, how="anti"), table])
            buffer = io.BytesIO()
            whole.write_parquet(buffer)
            with contextlib.suppress(OSError):
                if file is self._beside:
                    # Others may have put links there meanwhile.
                    held = HeldFolder(file.parent, shared=True)
                    path = f"/proc/self/fd/{held.descriptor}/{file.name}"
                    atomic_write(path, buffer.getvalue(), follow_links=False)
                else:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    atomic_write(file, buffer.getvalue())
                return


class FileFacts:
    """A cached table of facts about one file, which holds while the file has the same stamp.

    Args:
        kind: what the table is about.
        storage: has the file.
        path: of the file.
        stamp: of the file.
        wanted: what of the file the table is about.
    """

    def __init__(self, kind: str, storage: Storage, path: str, stamp: Stamp, *wanted: str) -> None:
        folder: Path | str = storage.name("")
        if isinstance(storage, LocalStorage):
            folder, path = os.path.split(storage.name(path))
            folder = Path(folder)
        self._table = CachedTable(kind, folder, path, str(_VERSION), *wanted)
        self._stamp = stamp

    def read(
        self,
        schema: Mapping[str, Any],
        most: int,
        parse: Callable[[pl.DataFrame], T | None],
        more: tuple[str, ...] = (),
    ) -> T | None:
        """Return what is made of the table, or None.

        Args:
            schema: the columns.
            most: the number of rows above which a table is ignored.
            parse: returns what is made of a table; None if its values are impossible.
            more: beginnings of the names of further columns of text.
        """
        for table in self._table.read({**_STAMP, **schema}, most, more):
            if table.height and table.row(0)[: len(_STAMP)] == self._stamp:
                facts = parse(table.drop(_STAMP))
                if facts is not None:
                    return facts
        return None

    def write(self, table: pl.DataFrame) -> None:
        """Write the table where that is possible, if anywhere."""
        stamp = zip(_STAMP.items(), self._stamp, strict=True)
        columns = [pl.lit(value, dtype).alias(name) for (name, dtype), value in stamp]
        self._table.write(table.select(*columns, pl.all()))


def _read(
    file: Path, schema: Mapping[str, Any], most: int, more: tuple[str, ...]
) -> Iterator[pl.DataFrame]:
    """Yield the table in a file, if there is one with these columns and not too many rows."""

    def taken(name: str, dtype: pl.DataType) -> bool:
        return name in schema or (name.startswith(more) and dtype == pl.String)

    with contextlib.suppress(ManifestError):
        table = read_parquet(file, taken, most + 1)
        fits = all(table.schema.get(name) == dtype for name, dtype in schema.items())
        if fits and table.height <= most:
            yield table


def _hash(*parts: str) -> str:
    """Return a hash of texts for a file's name, as 32 hex digits."""
    return hashlib.sha256(os.fsencode("\0".join(parts))).hexdigest()[:32]


def _is_link_or_special(file: Path) -> bool:
    """Return whether a shared cache is a link, which the data's author may have set, or no file."""
    linked = file.is_symlink() or file.parent.is_symlink()
    return linked or (file.exists() and not file.is_file())
