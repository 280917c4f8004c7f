"""A table of images and labels of your own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from gpufeed._util.rows import RowName, first_true
from gpufeed._util.sanitize import sanitize
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.files import read_csv, read_parquet
from gpufeed.records.manifest import Manifest
from gpufeed.records.sizes import OnBadImage, check_on_bad_image, drop_links, with_sizes
from gpufeed.records.targets import (
    BOX_LABELS,
    BOXES,
    POINTS,
    BoxFormat,
    check_box_format,
    read_boxes,
    read_points,
)
from gpufeed.source.base import Source, check_source
from gpufeed.source.files import FileSource

__all__ = ["read_table"]

_NUMBER = "row number in gpufeed"


def read_table(
    table: pl.DataFrame | str | Path,
    *,
    path: str = "path",
    label: str | None = "label",
    boxes: str | None = None,
    box_format: BoxFormat = "xyxy",
    box_labels: str | None = None,
    points: str | None = None,
    root: str | Path | None = None,
    source: Source | None = None,
    on_bad_image: OnBadImage = "raise",
    progress: bool | None = None,
) -> Manifest:
    """Make a manifest of a polars frame, a CSV file with a header, or a Parquet file.

    Labels may be integers, text or booleans; the sorted different ones become 0, 1, 2 and so on,
    and their text `classes`. In a CSV file they are numbers only where that loses nothing: "007"
    stays text. All other columns are kept, the labels' own too unless it is called `label`.
    `width` and `height` are taken where the table has them, else read from the images' headers
    and kept for the next time; boxes are taken where it has `box_x`, `box_y`, `box_width` and
    `box_height`.

    Several boxes of an image, as detectors learn them, come from a column of lists. Those that
    overrun their image are cut to it, those without area are dropped; both are counted in
    `repairs`, `boxes_clamped` and `boxes_dropped`.

    Args:
        table: the frame, or a file that ends in .csv, .parquet or .pq.
        path: the column of the images' paths, relative to the root; it becomes `path`.
        label: the column of the labels; None where the images have none, which gives all of
            them the label 0 of one class, "image".
        boxes: a column of lists of four numbers, in pixels; it becomes `boxes`. Null and an empty
            list are an image without boxes.
        box_format: "xyxy" for (x0, y0, x1, y1), "xywh" for (x, y, width, height), as COCO has it.
        box_labels: a column of lists, a label for each box; it becomes `box_labels`. Integers of 0
            or more are kept, text is numbered as labels are: `Manifest.box_classes`. Boxes have
            their image's label where none is given.
        points: a column of lists of (x, y) or (x, y, visible), equally long; it becomes `points`.
        root: the folder of the images; by default that of the table's file, or the current one.
        source: where the images are, if they are not files: key i is the image of row i. The table
            then needs no column of paths; where it has none, `path` is what the source calls the
            images.
        on_bad_image: "raise", or "drop" to leave out images whose size must be read from their
            header and cannot be, and those that a symbolic link leads out of the root, and to
            count them in `repairs`, `images_dropped` and `links_dropped`.
        progress: whether to show a progress bar; None on a terminal only.

    Raises:
        ManifestError: the file cannot be read, a column is missing or of a wrong dtype, or a row
            is wrong; the message names the file and the row (from 0, without the header).
        ConfigError: `box_format` or `on_bad_image` is none of the above, `box_labels` comes without
            `boxes`, or `root` with `source`.
    """
    check_box_format(box_format)
    check_on_bad_image(on_bad_image)
    if box_labels is not None and boxes is None:
        raise ConfigError(f"box_labels is {box_labels!r}, but boxes is not given")
    if source is not None and root is not None:
        raise ConfigError(f"root is {root!r}, but source has the images; give one of them")
    frame, name, is_text = _frame(table, path, label)
    if source is not None:
        check_source(source, frame.height)
    if source is not None and path not in frame.columns:
        names = [source.name(key) for key in range(frame.height)]
        frame = frame.with_columns(pl.Series(path, names, dtype=pl.String))
    repairs: dict[str, int] = {}
    if label is None:
        label = "label"
        if label in frame.columns:
            raise ManifestError(f"{name}: label is None, but there is a column {label!r}")
        frame = frame.with_columns(pl.lit("image").alias(label))
    wanted = {boxes: BOXES, box_labels: BOX_LABELS, points: POINTS}
    targets = [(asked, ours) for asked, ours in wanted.items() if asked is not None]
    for asked in (path, label, *(asked for asked, _ in targets)):
        if asked not in frame.columns:
            raise ManifestError(
                f"{name}: there is no column {asked!r}; there are {sanitize(str(frame.columns))}"
            )
    if path == label:
        raise ManifestError(f"{name}: column {path!r} cannot be both the path and the label")
    for asked, ours in ((path, "path"), (label, "label"), *targets):
        if asked != ours and ours in frame.columns:
            raise ManifestError(
                f"{name}: the column {asked!r} is to be {ours!r}, but there is a column of this "
                "name already; rename or drop it"
            )
    if frame.is_empty():
        raise ManifestError(f"{name}: the table has no row")

    numbers: Sequence[int] = range(frame.height)

    def at(row: int) -> str:
        return f"{name}, row {numbers[row]}"

    paths = frame[path].alias("path")
    if paths.dtype != pl.String:
        raise ManifestError(
            f"{name}: column {path!r} must be text, not {sanitize(str(paths.dtype))}"
        )
    if (row := first_true(paths.is_null())) is not None:
        raise ManifestError(f"{at(row)}: {path} is null")
    if source is None:
        if root is None:
            root = Path() if isinstance(table, pl.DataFrame) else Path(table).parent
        source = FileSource(root, paths, where=at)
    labels, classes = _labels(frame[label], name, at, is_text=is_text)
    frame = frame.drop(path, *(["label"] if label == "label" else []))
    frame = frame.with_columns(paths, labels)

    sized = [name for name in ("width", "height") if name in frame.columns]
    if len(sized) == 1:
        raise ManifestError(f"{name}: there is a column {sized[0]!r} but not its counterpart")
    numbered = frame.with_row_index(_NUMBER)
    if isinstance(source, FileSource):
        numbered, source, repairs = drop_links(numbered, source, at, on_bad_image)
    if not sized:
        numbered, source, dropped = with_sizes(
            numbered, source, show=progress, on_bad_image=on_bad_image
        )
        repairs |= dropped
    numbers, frame = numbered[_NUMBER].to_list(), numbered.drop(_NUMBER)
    if boxes is not None:
        frame, mended = read_boxes(frame, boxes, box_labels, box_format, at)
        repairs |= mended
    if points is not None:
        frame = read_points(frame, points, at)
    first = ["path", "label", "width", "height"]
    frame = frame.select(*first, pl.exclude(first))
    try:
        return Manifest(frame, source, classes, repairs=repairs, numbers=numbers)
    except ManifestError as error:
        raise ManifestError(f"{name}: {error}") from None


def _frame(table: object, path: str, label: str | None) -> tuple[pl.DataFrame, str, bool]:
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
        return read_csv(file, dict.fromkeys([path, label or path], pl.String)), str(file), True
    if ending in (".parquet", ".pq"):
        return read_parquet(file), str(file), False
    raise ManifestError(f"{file} ends in {ending!r}; a table ends in .csv, .parquet or .pq")


def _labels(
    values: pl.Series, source: str, at: RowName, *, is_text: bool
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
            f"not {sanitize(str(values.dtype))}"
        )
    if (row := first_true(keys.is_null())) is not None:
        raise ManifestError(f"{at(row)}: {values.name} is null")
    ranks = (keys.rank("dense").cast(pl.Int32) - 1).alias("label")
    return ranks, keys.unique().sort().cast(pl.String).to_list()
