"""Columns of the manifest that come with batches."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.rows import gather
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.plan.fields import narrowed

if TYPE_CHECKING:
    from gpufeed.adapters import Adapter
    from gpufeed.records import Manifest

__all__ = ["Columns"]


class Columns:
    """Looks up the columns of a batch's records; see `Loader`.

    Args:
        manifest: has the columns.
        names: their names.
        taken: the other keys that a batch may have.

    Raises:
        ConfigError: there is no such column, its name is taken, or it holds numbers that no array
            can have.
    """

    def __init__(
        self, manifest: Manifest, names: Collection[str], taken: Collection[str] = ()
    ) -> None:
        frame = manifest.frame
        if isinstance(names, str):
            raise ConfigError(
                f"columns is {short(names)}; it must be a list of names, as {short([names])}"
            )
        self._arrays: dict[str, pl.Series] = {}
        self._lists: dict[str, pl.Series] = {}
        for name in names:
            if name not in frame.columns:
                raise ConfigError(
                    f"columns has {short(name)}, but the manifest has only {frame.columns}"
                )
            if name in taken or name in self._arrays or name in self._lists:
                raise ConfigError(
                    f"columns has {short(name)}, which a batch has already, or may have; leave it "
                    "out, or rename the column"
                )
            kind = self._arrays if _is_array(frame[name]) else self._lists
            kind[name] = frame[name]

    def of(self, keys: npt.NDArray[np.int64], adapter: Adapter) -> dict[str, Any]:
        """Return the values of records by column: arrays of the framework, or lists."""
        made: dict[str, Any] = {}
        for name, column in self._arrays.items():
            values = narrowed(gather(column, keys), name)
            put = adapter.labels if values.dtype == np.int32 else adapter.arrays
            made[name] = put(values)
        return made | {name: series[keys].to_list() for name, series in self._lists.items()}


def _is_array(series: pl.Series) -> bool:
    """Return whether a column is one of numbers or booleans, or of fixed-size arrays of them.

    Raises:
        ConfigError: there are nulls, or integers that do not fit in int32.
    """
    flat = series.reshape((-1,)) if isinstance(series.dtype, pl.Array) else series
    if not (flat.dtype.is_integer() or flat.dtype.is_float() or flat.dtype == pl.Boolean):
        return False
    if nulls := flat.null_count():
        raise ConfigError(
            f"column {series.name!r} has {nulls} nulls; numbers and booleans come as arrays, which "
            "have none: fill or filter them, or cast the column to text"
        )
    if flat.dtype.is_integer():
        for extreme in (flat.min(), flat.max()):
            narrowed(np.asarray(extreme), f"column {series.name!r} has")
    return True
