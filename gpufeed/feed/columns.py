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
from gpufeed.plan.fields import batch_dtype

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
        wide: whether arrays may have int64.

    Raises:
        ConfigError: there is no such column, its name is taken, or it holds numbers that no array
            can have.
    """

    def __init__(
        self,
        manifest: Manifest,
        names: Collection[str],
        taken: Collection[str] = (),
        *,
        wide: bool = True,
    ) -> None:
        frame = manifest.frame
        if isinstance(names, str):
            raise ConfigError(
                f"columns is {short(names)}; it must be a list of names, as {short([names])}"
            )
        self._arrays: dict[str, tuple[pl.Series, np.dtype[Any]]] = {}
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
            flat = _flat(frame[name])
            if flat is None:
                self._lists[name] = frame[name]
            else:
                dtype = batch_dtype(flat, f"column {name!r} has", wide=wide)
                self._arrays[name] = frame[name], dtype

    def of(self, keys: npt.NDArray[np.int64], adapter: Adapter) -> dict[str, Any]:
        """Return the values of records by column: arrays of the framework, or lists."""
        made = {
            name: adapter.arrays(gather(column, keys).astype(dtype))
            for name, (column, dtype) in self._arrays.items()
        }
        return made | {name: series[keys].to_list() for name, series in self._lists.items()}


def _flat(series: pl.Series) -> pl.Series | None:
    """Return numbers, booleans and fixed-size arrays of them; None for what comes as a list.

    Raises:
        ConfigError: there are nulls.
    """
    flat = series.reshape((-1,)) if isinstance(series.dtype, pl.Array) else series
    if not (flat.dtype.is_integer() or flat.dtype.is_float() or flat.dtype == pl.Boolean):
        return None
    if nulls := flat.null_count():
        raise ConfigError(
            f"column {series.name!r} has {nulls} nulls; numbers and booleans come as arrays, which "
            "have none: fill or filter them, or cast the column to text"
        )
    return flat
