"""Splits such as train and val: their names, and which images are in one."""

from __future__ import annotations

import polars as pl

from gpufeed._util.sanitize import sanitize, short
from gpufeed.errors import ConfigError, ManifestError

__all__ = ["canonical_split", "is_split", "rows_of_split"]

_SPLITS = ("train", "val", "test", "dev")
_SAME = {"training": "train", "valid": "val", "validation": "val", "testing": "test"}


def canonical_split(name: str) -> str:
    """Return the usual name of a split: "val" for "Validation"; other names as they are."""
    known = _SAME.get(name.lower(), name.lower())
    return known if known in _SPLITS else name


def is_split(name: str) -> bool:
    """Return whether a name, such as that of a folder, is one that splits usually have."""
    return canonical_split(name) in _SPLITS


def rows_of_split(frame: pl.DataFrame, name: str) -> pl.Series:
    """Return a mask of the rows in a split; arguments and errors as for `Manifest.split`."""
    if not isinstance(name, str):
        raise ConfigError(f"split must be a name such as 'train', not {short(name)}")
    wanted = canonical_split(name)
    if "split" in frame.columns and frame["split"].dtype in (pl.String, pl.Categorical, pl.Enum):
        column = frame["split"].cast(pl.String)
        found = column.drop_nulls().unique(maintain_order=True).to_list()
        same = [each for each in found if each == name]
        same = same or [each for each in found if canonical_split(each) == wanted]
        if not same:
            raise ConfigError(
                f"there is no split {short(name)}; the column 'split' has {sanitize(str(found))}"
            )
        return column.is_in(same)
    if "is_training_img" not in frame.columns:
        raise ManifestError(
            "there is no column to split by, neither 'is_training_img' nor 'split' with names as "
            f"text; the columns are {frame.columns}; random_split([0.9, 0.1]) divides at random, "
            "filter() by a condition of yours"
        )
    if wanted not in ("train", "test"):
        raise ConfigError(
            f"there is no split {short(name)}: 'is_training_img', which NABirds has, gives "
            '"train" and "test" only; random_split([0.9, 0.1]) divides train at random'
        )
    values = frame["is_training_img"]
    if values.dtype.is_integer() and values.is_in([0, 1]).all(ignore_nulls=False):
        values = values == 1
    if values.dtype != pl.Boolean or values.null_count():
        raise ManifestError("column 'is_training_img' must be boolean, or 0 and 1, in every row")
    return values if wanted == "train" else ~values
