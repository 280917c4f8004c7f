"""A table of pictures and labels of your own."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from gpufeed.errors import ManifestError
from gpufeed.records.checks import Where, first_true
from gpufeed.records.files import read_csv, read_parquet
from gpufeed.records.manifest import Manifest
from gpufeed.records.paths import check_links, check_names
from gpufeed.records.sizes import read_sizes

__all__ = ["read_table"]


def read_table(
    table: pl.DataFrame | str | Path,
    *,
    path: str = "path",
    label: str = "label",
    root: str | Path | None = None,
    progress: bool | None = None,
) -> Manifest:
    """Make a manifest of a polars frame, a CSV file with a header, or a Parquet file.

    Labels may be integers, text or booleans; the sorted different ones become 0, 1, 2 and so on,
    and their text `classes`. In a CSV file they are numbers only where that loses nothing: "007"
    stays text. All other columns are kept, the labels' own too unless it is called `label`.
    `width` and `height` are taken where the table has them, else read from the pictures' headers
    and kept for the next time; boxes are taken where it has `box_x`, `box_y`, `box_width` and
    `box_height`.

    Args:
        table: the frame, or a file that ends in .csv, .parquet or .pq.
        path: the column of the pictures' paths, relative to the root; it becomes `path`.
        label: the column of the labels.
        root: the folder of the pictures; by default that of the file, or the current one.
        progress: whether to show a progress bar; None on a terminal only.

    Raises:
        ManifestError: the file can not be read, a column is missing or of a wrong dtype, or a row
            is wrong; the message names the file and the row (from 0, without the header).
    """
    frame, source, is_text = _frame(table, path, label)
    if root is None:
        root = Path() if isinstance(table, pl.DataFrame) else Path(table).parent
    root = Path(root)
    for asked in (path, label):
        if asked not in frame.columns:
            raise ManifestError(
                f"{source}: there is no column {asked!r}; there are {frame.columns}"
            )
    if path == label:
        raise ManifestError(f"{source}: column {path!r} can not be both the path and the label")
    for asked, ours in ((path, "path"), (label, "label")):
        if asked != ours and ours in frame.columns:
            raise ManifestError(
                f"{source}: the column {asked!r} is to be {ours!r}, but there is a column of this "
                "name already; rename or drop it"
            )
    if frame.is_empty():
        raise ManifestError(f"{source}: the table has no row")

    def at(row: int) -> str:
        return f"{source}, row {row}"

    paths = frame[path].alias("path")
    if paths.dtype != pl.String:
        raise ManifestError(f"{source}: column {path!r} must be text, not {paths.dtype}")
    if (row := first_true(paths.is_null())) is not None:
        raise ManifestError(f"{at(row)}: {path} is null")
    check_names(paths, at)
    check_links(root, paths, at)
    labels, classes = _labels(frame[label], source, at, is_text=is_text)
    frame = frame.drop(path, *(["label"] if label == "label" else []))
    frame = frame.with_columns(paths, labels)

    sized = [name for name in ("width", "height") if name in frame.columns]
    if len(sized) == 1:
        raise ManifestError(f"{source}: there is a column {sized[0]!r} but not its counterpart")
    if not sized:
        frame = frame.with_columns(read_sizes(root, paths, show=progress))
    first = ["path", "label", "width", "height"]
    frame = frame.select(*first, pl.exclude(first))
    try:
        return Manifest(frame, root, classes)
    except ManifestError as error:
        raise ManifestError(f"{source}: {error}") from None


def _frame(table: object, path: str, label: str) -> tuple[pl.DataFrame, str, bool]:
    """The table, what to call it in a message, and whether its labels are text at first."""
    if isinstance(table, pl.DataFrame):
        return table, "the table", False
    if not isinstance(table, str | Path):
        hint = "; call its collect()" if isinstance(table, pl.LazyFrame) else ""
        raise ManifestError(
            f"a table is a polars DataFrame or a file, not {type(table).__qualname__}{hint}"
        )
    file = Path(table)
    ending = file.suffix.lower()
    if ending == ".csv":
        return read_csv(file, {path: pl.String, label: pl.String}), str(file), True
    if ending in (".parquet", ".pq"):
        return read_parquet(file), str(file), False
    raise ManifestError(f"{file} ends in {ending!r}; a table ends in .csv, .parquet or .pq")


def _labels(
    values: pl.Series, source: str, at: Where, *, is_text: bool
) -> tuple[pl.Series, list[str]]:
    """The labels from 0, Int32, and their names."""
    if values.dtype == pl.Boolean or values.dtype.is_integer():
        keys = values
    elif values.dtype == pl.String or isinstance(values.dtype, pl.Categorical | pl.Enum):
        keys = values.cast(pl.String)
        numbers = keys.cast(pl.Int64, strict=False)
        if is_text and (numbers.cast(pl.String) == keys).all(ignore_nulls=False):
            keys = numbers
    else:
        raise ManifestError(
            f"{source}: column {values.name!r} must hold integers, text or booleans, "
            f"not {values.dtype}"
        )
    if (row := first_true(keys.is_null())) is not None:
        raise ManifestError(f"{at(row)}: {values.name} is null")
    ranks = (keys.rank("dense").cast(pl.Int32) - 1).alias("label")
    return ranks, keys.unique().sort().cast(pl.String).to_list()
