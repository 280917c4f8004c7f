"""Fields: arrays that come with the images of a batch."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError

if TYPE_CHECKING:
    from gpufeed.records import Manifest
    from gpufeed.transforms import Frame

__all__ = ["BATCH_KEYS", "Field", "batch_dtype", "check_fields", "narrowed", "values_of"]

BATCH_KEYS = (
    *("image", "label", "record_key", "epoch", "label_b", "lam", "soft_label", "valid"),
    *("boxes", "box_labels", "box_valid", "box_points", "box_point_visible"),
    *("points", "point_visible"),
)
"""Keys of a batch that no field or column may have."""

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1

Values = Callable[["npt.NDArray[np.int64]", "Frame"], "npt.NDArray[Any]"]
"""Takes record keys, int64 (n,), and the frame of one view, and returns values (n, ...).

Values are numbers or booleans; the batch has them as float32, bool, or integers as classes are.
"""


class Field(abc.ABC):
    """An array in each batch, with a row for each image; subclass it and pass it as a target.

    A state does not depend on the targets, so they may change on resume.

    Attributes:
        name: the array's key in the batch.
        moves: whether geometry moves the values. If so, there is an array for each view, and
            transforms that boxes and points cannot follow are rejected.
    """

    name: str
    moves: ClassVar[bool] = False

    @abc.abstractmethod
    def bind(self, manifest: Manifest) -> Values:
        """Return a function that looks up the values of a manifest's records.

        It is called with record keys and a `Frame`, whose `map_points`, `map_boxes` and `shows` map
        coordinates of the encoded images to those of the view. If `moves` is False, it should
        ignore the frame.

        Raises:
            ConfigError: the manifest does not have what the field needs.
        """


class _Named(Protocol):
    name: str


def check_fields(fields: Sequence[_Named]) -> None:
    """Check the names of fields and of other targets.

    Raises:
        ConfigError: a name occurs twice, or is the name of another key of a batch.
    """
    names = [field.name for field in fields]
    for place, name in enumerate(names):
        if not isinstance(name, str) or name in BATCH_KEYS or name in names[:place]:
            raise ConfigError(
                f"targets has a field with the name {short(name)}; names must be text, different "
                f"from each other and from {', '.join(BATCH_KEYS)}"
            )


def values_of(
    field: Field,
    values: Values,
    keys: npt.NDArray[np.int64],
    frames: Sequence[Frame],
    blank: npt.NDArray[np.bool_],
) -> list[npt.NDArray[Any]]:
    """Return a field's values for each view, or once if geometry does not move them.

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
        found.append(narrowed(given, f"field {field.name!r} returned"))
        found[-1][blank] = 0
    return found


def batch_dtype(values: pl.Series, said: str, *, wide: bool) -> np.dtype[Any]:
    """Return the dtype of numbers or booleans in batches; arguments and errors as `narrowed`."""
    extremes = pl.Series([values.min(), values.max()], dtype=values.dtype)
    return narrowed(extremes.drop_nulls().to_numpy(), said, wide=wide).dtype


def narrowed(values: npt.NDArray[Any], said: str, *, wide: bool = False) -> npt.NDArray[Any]:
    """Return a copy of numbers or booleans in the dtype of batches: float32, int32 or bool.

    Args:
        values: numbers or booleans.
        said: the beginning of the error's message.
        wide: whether integers become int64 where some do not fit in int32.

    Raises:
        ConfigError: an integer does not fit in int32, or int64 if `wide`.
    """
    if values.dtype.kind in "iu" and values.size:
        for extreme in (int(values.min()), int(values.max())):
            if -_INT32_MAX - 1 <= extreme <= _INT32_MAX:
                continue
            if wide and extreme <= _INT64_MAX:
                return values.astype(np.int64)
            raise ConfigError(
                f"{said} {extreme}, which does not fit in {'int64' if wide else 'int32'}; number "
                "the values from 0, or pass text in columns"
            )
    return values.astype({"f": np.float32, "b": np.bool_}.get(values.dtype.kind, np.int32))
