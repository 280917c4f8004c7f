"""What comes with each image of a batch, beside its label."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed.errors import ConfigError

if TYPE_CHECKING:
    from gpufeed.records import Manifest
    from gpufeed.transforms import Frame

__all__ = ["Column", "Field", "check_fields", "values_of"]

_TAKEN = (
    *("image", "label", "record_key", "epoch", "label_b", "lam", "soft_label", "valid"),
    *("boxes", "box_labels", "box_valid", "points", "point_visible"),
)


_INT32_MAX = 2**31 - 1


Values = Callable[["npt.NDArray[np.int64]", "Frame"], "npt.NDArray[Any]"]
"""From record keys, int64 (n,), and how one view's geometry moved each image, to (n, ...) values.

They are numbers or booleans, and are handed out as float32, bool, or the type of `label`.
"""


class Field(abc.ABC):
    """An array that comes with each batch, one row for each image; subclass it for your own.

    Pass it in `Loader(targets=[...])`. A state does not depend on it.

    Attributes:
        name: the array's key in the batch.
        moves: whether geometry moves the values. If so, there is an array for each view, and
            transforms that boxes and points cannot follow are refused.
    """

    name: str
    moves: ClassVar[bool] = False

    @abc.abstractmethod
    def bind(self, manifest: Manifest) -> Values:
        """Return the function that gives the values of records of a manifest.

        It is called with record keys and a `Frame`, whose `map_points`, `map_boxes` and `shows` say
        where coordinates come to lie. Where `moves` is False it should ignore the frame.

        Raises:
            ConfigError: the manifest does not have what the field needs.
        """


class Column(Field):
    """A column of the manifest: numbers, booleans, or fixed-size arrays of them.

    Args:
        column: its name in the manifest, and the array's key in the batch.
    """

    def __init__(self, column: str) -> None:
        self.name = column

    def bind(self, manifest: Manifest) -> Values:
        """Read the column: see `Field`."""
        frame = manifest.frame
        if self.name not in frame.columns:
            raise ConfigError(f"there is no column {self.name!r}; there are {frame.columns}")
        column = frame[self.name]
        inner = column.dtype.inner if isinstance(column.dtype, pl.Array) else column.dtype
        nulls = column.null_count()
        if isinstance(column.dtype, pl.Array):
            nulls += column.explode().null_count()
        if inner is None or not (inner.is_numeric() or inner == pl.Boolean) or nulls:
            raise ConfigError(
                f"column {self.name!r} is of dtype {column.dtype}, with {nulls} "
                "nulls; a field needs numbers or booleans, or fixed-size arrays of them, and no "
                "null"
            )
        values = column.to_numpy()
        return lambda keys, _: values[keys]


def check_fields(fields: Sequence[Field]) -> None:
    """Check the names of fields.

    Raises:
        ConfigError: two have one name, or one has that of something else in a batch.
    """
    names = [field.name for field in fields]
    for place, name in enumerate(names):
        if not isinstance(name, str) or name in _TAKEN or name in names[:place]:
            raise ConfigError(
                f"targets has a field with the name {name!r}; names must be text, different from "
                f"each other and from {', '.join(_TAKEN)}"
            )


def values_of(
    field: Field,
    values: Values,
    keys: npt.NDArray[np.int64],
    frames: Sequence[Frame],
    blank: npt.NDArray[np.bool_],
) -> list[npt.NDArray[Any]]:
    """Return a field's values for each view, or once where geometry does not move them.

    `values` is what `field.bind` returned. Floating-point numbers become float32 and integers
    int32. Blank images have zeros.

    Raises:
        ConfigError: the field does not return a row of numbers or booleans for each record, or an
            integer does not fit in int32.
    """
    found = []
    for frame in frames if field.moves else frames[:1]:
        try:
            given = np.asarray(values(keys, frame))
        except Exception as error:
            raise ConfigError(
                f"field {field.name!r} raised {type(error).__name__}: {error}"
            ) from error
        if given.shape[:1] != keys.shape or given.dtype.kind not in "biuf":
            raise ConfigError(
                f"field {field.name!r} returned {given.dtype} {given.shape} for {len(keys)} "
                "records; it must return numbers or booleans, with a row for each record"
            )
        if given.dtype.kind in "iu" and given.size:
            for extreme in (given.min(), given.max()):
                if not -_INT32_MAX - 1 <= extreme <= _INT32_MAX:
                    raise ConfigError(
                        f"field {field.name!r} returned {extreme}, which does not fit in int32"
                    )
        narrow: Any = {"f": np.float32, "b": np.bool_}.get(given.dtype.kind, np.int32)
        narrowed = given.astype(narrow)  # a copy, which may be changed
        narrowed[blank] = 0
        found.append(narrowed)
    return found
