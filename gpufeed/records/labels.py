"""Reads labels of every kind: classes, which it numbers, several of them, numbers and vectors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from gpufeed._util.rows import RowName, first_true
from gpufeed._util.sanitize import sanitize
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.lists import ragged

__all__ = ["RENUMBER", "check_unique", "number_labels", "read_labels"]

RENUMBER = "renumber"
"""Value of `classes` that numbers the distinct labels of a table from 0."""
_INTEGER = re.compile(r"[+-]?\d+")
_ANY_SIZE = 100_000
"""Integer labels below this are kept, however few of them occur."""
_PER_DISTINCT = 10
"""Larger ones are kept if at least one in so many occurs."""
_DECIMAL = r"^([+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:nan))$"
"""Matches numbers in text files, and NaN, which is no class beside numbers."""
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
    """Return the labels of a table, as in a manifest; the class names; and the repairs.

    Args:
        values: the column of labels.
        classes: the names of the labels; "renumber"; or None for the column's own numbers.
        table: name of the table for error messages.
        row_name: names a row.
        from_text: whether numbers may have been read as text, as from CSV.

    Raises:
        ManifestError: as `read_table`.
        ConfigError: a name occurs twice in `classes`.
    """
    dtype = values.dtype
    absent = values.is_null()
    if dtype.is_float():
        absent |= values.is_nan()
    if (row := first_true(absent)) is not None:
        raise ManifestError(
            f"{row_name(row)}: {values.name} is {'missing' if values[row] is None else 'NaN'}; "
            "give each image a label, or leave it out"
        )
    if isinstance(dtype, pl.List | pl.Array):
        inner: pl.DataType = dtype.inner  # type: ignore[assignment]
        integers = isinstance(dtype, pl.Array) and inner.is_integer()
        if inner.is_float() or inner == pl.Boolean or integers:
            return *_read_vectors(values, classes, table, row_name), {}
        if inner.is_integer() and _are_multi_hot(values, classes, table):
            return *_read_vectors(values, classes, table, row_name), {}
        return _read_several(values, classes, table, row_name)
    if dtype == pl.String and from_text and classes is None and _are_decimal(values):
        values = values.cast(pl.Float64)
    if values.dtype.is_float():
        if classes is not None:
            raise ManifestError(
                f"{table}: column {values.name!r} contains {dtype} numbers, which have no classes; "
                "leave out classes to predict numbers, or cast the column to integers or text"
            )
        return values.alias("label"), (), {}
    return _read_classes(values, classes, table, row_name, from_text=from_text)


def _are_decimal(texts: pl.Series) -> bool:
    """Return whether texts are numbers, not all of them integers."""
    return bool(texts.str.contains(_DECIMAL).all() and not texts.str.contains(r"^[+-]?\d+$").all())


def _are_multi_hot(values: pl.Series, classes: Sequence[str] | None, table: str) -> bool:
    """Return whether lists of integers have a 0 or 1 for each class, instead of class numbers.

    They do if they have one length, hold only 0 and 1, and one of them repeats a number.

    Raises:
        ManifestError: they may be either.
    """
    size: Any = values.list.len().max() or 0
    flat = values.explode()
    if (
        size < 2
        or (values.list.len() != size).any()
        or not flat.is_between(0, 1).all(ignore_nulls=False)
    ):
        return False
    if (values.list.n_unique() < size).any():
        return True
    if classes is not None and (classes == RENUMBER or len(classes) != size):
        return False
    raise ManifestError(
        f"{table}: all lists of column {values.name!r} are [0, 1] or [1, 0], which may be the "
        "numbers of two classes or a 0 or 1 for each of them; cast the column to "
        "pl.List(pl.Boolean) if they are 0 or 1 for each class, or pass "
        f'classes="{RENUMBER}" if they are class numbers'
    )


def _read_vectors(
    values: pl.Series, classes: Sequence[str] | None, table: str, row_name: RowName
) -> tuple[pl.Series, Sequence[str]]:
    """Return a column of lists or arrays of numbers, all of one length, and the entries' names."""
    name = values.name
    lists = values.arr.to_list() if isinstance(values.dtype, pl.Array) else values
    lengths = lists.list.len()
    size = int(lengths[0])
    if (row := first_true(lengths != size)) is not None:
        raise ManifestError(
            f"{row_name(row)}: {name} has {lengths[row]} numbers, but {size} in the first row; "
            "vectors have one length, and the classes of an image are integers or text"
        )
    if classes is None or classes == RENUMBER:
        classes = [str(place) for place in range(size)]
    if not size or len(classes) != size:
        raise ManifestError(
            f"{table}: column {name!r} contains vectors of {size} numbers, but there are "
            f"{len(classes)} classes, which name their entries"
        )
    check_unique(classes)
    inner: pl.DataType = lists.dtype.inner  # type: ignore[attr-defined]
    kept = inner if inner.is_float() else pl.Float32()
    return lists.cast(pl.List(kept)).cast(pl.Array(kept, size)).alias("label"), classes


def _read_several(
    values: pl.Series, classes: Sequence[str] | None, table: str, row_name: RowName
) -> tuple[pl.Series, Sequence[str], dict[str, int]]:
    """Return a column of lists of classes, List(Int32); the class names; and the repairs."""
    name = values.name
    if isinstance(values.dtype, pl.Array):
        values = values.arr.to_list()
    counts = values.list.len().to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(values)), counts).tolist()
    flat = values.filter(pl.Series(counts > 0)).explode().alias(name)
    if not len(flat):
        if classes is None or classes == RENUMBER:
            raise ManifestError(
                f"{table}: all lists of column {name!r} are empty, so that the classes are "
                "unknown; pass the names of all classes"
            )
        flat = flat.cast(pl.Int32)
    labels, classes, repairs = _read_classes(
        flat, classes, table, lambda item: row_name(rows[item]), from_text=False
    )
    placed = pl.DataFrame({"row": rows, "label": labels})
    if (item := first_true(placed.is_duplicated())) is not None:
        raise ManifestError(
            f"{row_name(rows[item])}: {name} lists {sanitize(repr(flat[item]))} more than once; "
            "list each class of an image once, or cast vectors of numbers to pl.Array"
        )
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return ragged(labels, offsets).alias("label"), classes, repairs


def _read_classes(
    values: pl.Series,
    classes: Sequence[str] | None,
    table: str,
    row_name: RowName,
    *,
    from_text: bool,
) -> tuple[pl.Series, Sequence[str], dict[str, int]]:
    """Return classes, numbered as Int32; their names; and the repairs."""
    if (row := first_true(values.is_null())) is not None:
        raise ManifestError(f"{row_name(row)}: {values.name} is missing")
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
            f"{table}: column {values.name!r} must contain integers, text, booleans, floats, or "
            f"lists of them, not {sanitize(str(values.dtype))}"
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
