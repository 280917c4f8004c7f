"""Numbers labels: by a list of classes, by their own integers, or by sorting."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import polars as pl

from gpufeed._util.rows import RowName, first_true
from gpufeed._util.sanitize import sanitize
from gpufeed.errors import ConfigError, ManifestError

__all__ = ["RENUMBER", "check_unique", "number_labels", "read_labels"]

RENUMBER = "renumber"
"""Value of `classes` that numbers the distinct labels of a table from 0."""
_INTEGER = re.compile(r"[+-]?\d+")
_ANY_SIZE = 100_000
"""Integer labels below this are kept, however few of them occur."""
_PER_DISTINCT = 10
"""Larger ones are kept if at least one in so many occurs."""
_MAX_SHOWN = 5


def number_labels(keys: pl.Series, classes: Sequence[str], where: str, noun: str) -> pl.Series:
    """Return the number of each label in a list of classes, as Int32.

    Text is looked up in the list. So are integers if one of its names is an integer, as in the list
    of a table with integer labels; otherwise they index it.

    Args:
        keys: text or integers, without nulls.
        classes: names of the labels.
        where: name of the data for error messages.
        noun: name of a label for error messages.

    Raises:
        ManifestError: a label is not in the list; the message names the first few.
        ConfigError: a name that is looked up occurs twice in the list.
    """
    if keys.dtype.is_integer() and not any(_INTEGER.fullmatch(name) for name in classes):
        numbers = keys.cast(pl.Int32, strict=False)
        inside = numbers.is_between(0, len(classes) - 1).fill_null(False)
        if (row := first_true(~inside)) is not None:
            raise ManifestError(
                f"{where}: {noun} {keys[row]} is not in [0, {len(classes)}), the range of the "
                "classes given; integers index them, since none of their names is an integer; "
                "pass the names of all classes, in the order of their numbers"
            )
        return numbers
    check_unique(classes)
    number_of = {name: number for number, name in enumerate(classes)}
    text = keys.cast(pl.String)
    numbers = text.replace_strict(number_of, default=None, return_dtype=pl.Int32)
    missing = text.filter(numbers.is_null()).unique(maintain_order=True)
    if len(missing):
        shown = ", ".join(sanitize(repr(name)) for name in missing[:_MAX_SHOWN])
        more = f" and {len(missing) - _MAX_SHOWN:,} more" if len(missing) > _MAX_SHOWN else ""
        raise ManifestError(
            f"{where}: {len(missing):,} {noun}{'s are' if len(missing) > 1 else ' is'} not among "
            f"the {len(classes):,} classes given: {shown}{more}; pass classes that include them, "
            "or leave out their images"
        )
    return numbers


def check_unique(classes: Sequence[str]) -> None:
    """Check that no name occurs twice in a list of classes.

    Raises:
        ConfigError: one does.
    """
    repeated = [name for name, count in Counter(classes).items() if count > 1]
    if repeated:
        raise ConfigError(f"classes has the name {sanitize(repr(repeated[0]))} more than once")


def read_labels(
    values: pl.Series,
    classes: Sequence[str] | None,
    table: str,
    row_name: RowName,
    *,
    from_text: bool,
) -> tuple[pl.Series, Sequence[str], dict[str, int]]:
    """Return the labels of a table, Int32 from 0; the class names; and the repairs.

    Args:
        values: the column of labels.
        classes: the names of the labels; "renumber"; or None for the column's own numbers.
        table: name of the table for error messages.
        row_name: names a row.
        from_text: whether integers may have been read as text, as from CSV.

    Raises:
        ManifestError: as `read_table`.
        ConfigError: a name occurs twice in `classes`.
    """
    if values.dtype.is_float():
        values = values.fill_nan(None)
    if (row := first_true(values.is_null())) is not None:
        raise ManifestError(f"{row_name(row)}: {values.name} is null")
    fixed: Sequence[str] | None = None
    if values.dtype.is_integer():
        keys = values
    elif values.dtype in (pl.String, pl.Categorical, pl.Enum, pl.Boolean):
        keys = values.cast(pl.String)
        numbers = keys.cast(pl.Int64, strict=False)
        if from_text and (numbers.cast(pl.String) == keys).all(ignore_nulls=False):
            keys = numbers
        if values.dtype == pl.Boolean:
            fixed = ["false", "true"]
        elif isinstance(values.dtype, pl.Enum):
            fixed = values.dtype.categories.to_list()
    else:
        raise ManifestError(
            f"{table}: column {values.name!r} must contain integers, text or booleans, "
            f"not {sanitize(str(values.dtype))}"
        )
    repairs: dict[str, int] = {}
    if classes is None and fixed is not None:
        classes = fixed
    elif classes is None and keys.dtype.is_integer():
        classes = [str(number) for number in range(_check_integers(keys, row_name) + 1)]
        return keys.cast(pl.Int32).alias("label"), classes, {}
    elif classes in (None, RENUMBER):
        classes = keys.unique().sort().cast(pl.String).to_list()
    labels = number_labels(keys, classes, table, "label").alias("label")
    if keys.dtype.is_integer() and (changed := int((labels != keys).sum())):
        repairs["labels_renumbered"] = changed
    return labels, classes, repairs


def _check_integers(keys: pl.Series, row_name: RowName) -> int:
    """Return the largest of some integer labels that are to be kept as they are."""
    if keys.min() >= 0 and keys.max() < _ANY_SIZE:  # type: ignore[operator]
        return int(keys.max())  # type: ignore[arg-type]
    numbers = keys.cast(pl.Int64, strict=False)  # null above 2**63
    distinct = keys.n_unique()
    size = max(_ANY_SIZE, _PER_DISTINCT * distinct)
    if (row := first_true(~numbers.is_between(0, size - 1).fill_null(False))) is None:
        return int(keys.max())  # type: ignore[arg-type]
    problem = (
        "is negative"
        if keys[row] < 0
        else f"is out of proportion to the {distinct:,} distinct ones; as a label, it would make "
        f"{keys[row] + 1:,} classes"
    )
    raise ManifestError(
        f"{row_name(row)}: {keys.name} {keys[row]} {problem}; "
        f'classes="{RENUMBER}" numbers the distinct labels from 0, and classes=train as the '
        "manifest `train` does, or drop such rows"
    )
