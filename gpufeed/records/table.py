"""Reads a table of images and labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import polars as pl

from gpufeed._util.rows import first_true
from gpufeed._util.sanitize import sanitize, short
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.annotations import (
    BOX_LABELS,
    BOXES,
    POINTS,
    BoxFormat,
    check_box_format,
    read_boxes,
    read_points,
)
from gpufeed.records.bad_images import OnBadImage, check_on_bad_image, drop_links
from gpufeed.records.labels import RENUMBER, read_labels
from gpufeed.records.manifest import Manifest, class_names
from gpufeed.records.probe import probe
from gpufeed.records.sizes import with_sizes
from gpufeed.records.table_files import read_csv, read_parquet
from gpufeed.source.base import Source, check_source
from gpufeed.source.files import FileSource

__all__ = ["read_table"]

_NUMBER = "row number in gpufeed"


def read_table(
    table: pl.DataFrame | str | Path,
    *,
    path: str = "path",
    label: str | None = "label",
    classes: Sequence[str] | Manifest | Literal["renumber"] | None = None,
    boxes: str | None = None,
    box_format: BoxFormat = "xyxy",
    box_labels: str | None = None,
    box_classes: Sequence[str] | None = None,
    points: str | None = None,
    root: str | Path | None = None,
    source: Source | None = None,
    on_bad_image: OnBadImage = "raise",
    reduce_depth: bool = False,
    progress: bool | None = None,
) -> Manifest:
    """Make a manifest from a polars frame, a CSV file with a header, or a Parquet file.

    Labels may be integers, text or booleans. Integers from 0 are kept, and the classes are then
    "0", "1" and so on up to the largest. Text is numbered in sorted order, an Enum in its own, and
    false and true are 0 and 1. In a CSV file, labels are integers only if that loses nothing: "007"
    stays text. To number the text of a second table as in the first, pass `classes`.

    All other columns are kept, including that of the labels unless it is called `label`. `width`
    and `height` are taken from the table if it has them, and compared with the headers of eight
    images; otherwise they are read from all headers and cached. The columns `box_x`, `box_y`,
    `box_width` and `box_height`, if present, are the images' boxes.

    A column of lists gives several boxes per image, as for detection. Boxes that extend beyond
    their image are clamped to it, and boxes without area are dropped; `repairs` counts both, as
    `boxes_clamped` and `boxes_dropped`.

    Args:
        table: the frame, or a file that ends in .csv, .parquet or .pq.
        path: column of the images' paths, relative to the root; becomes `path`.
        label: column of the labels; None gives every image the label 0 of a single class, "image".
        classes: the names of the labels, in the order of their numbers; or a manifest, whose
            `classes`, and `box_classes` if it has any, are taken. Classes may be without images.
            Integer labels index the names, but are looked up like text if a name is an integer.
            "renumber" numbers the distinct labels, sorted, from 0. `repairs` counts the images
            whose integer label becomes another number, as `labels_renumbered`.
        boxes: column of lists of four numbers, in pixels; becomes `boxes`. Null and an empty list
            mean no boxes.
        box_format: "xyxy" for (x0, y0, x1, y1), or "xywh" for (x, y, width, height) as in COCO.
        box_labels: column of lists, with a label for each box; becomes `box_labels`. Integers of 0
            or more are kept, and text is numbered like labels: see `Manifest.box_classes`. By
            default, boxes have their image's label.
        box_classes: the names of the boxes' labels, as `classes` gives those of the images.
        points: column of lists of (x, y) or (x, y, visible), all of one length; becomes `points`.
        root: folder of the images; by default the folder of the table's file, or the current one.
        source: source of the images, if they are not files: key i is the image of row i. The table
            then needs no column of paths; if it has none, `path` is the source's name of the image.
        on_bad_image: "raise", or "drop" to leave out images outside the root that a symbolic link
            leads to and, if sizes are read from headers, images whose header cannot be read or that
            are too deep. They are counted in `repairs` as `links_dropped` and `images_dropped`. If
            the table gives the sizes, "drop" tolerates bad images among the eight, but not eight.
        reduce_depth: whether to reduce images of 16 bits per channel to 8: see `Manifest`. By
            default they are bad images.
        progress: whether to show a progress bar; None shows it on a terminal only.

    Raises:
        ManifestError: the file cannot be read, a column is missing or has a wrong dtype, or a row
            is invalid; the message names the file and the row (from 0, without the header). A
            label is not in `classes`; or, without `classes`, an integer label is negative, or is
            100,000 or more and also at least ten times the number of distinct ones. An image is
            bad, or the root looks wrong.
        ConfigError: `box_format` or `on_bad_image` is not one of its values, `classes` or
            `box_classes` is not a list of names, `box_labels` is given without `boxes`,
            `box_classes` without `box_labels`, or `root` together with `source`.
    """
    check_box_format(box_format)
    check_on_bad_image(on_bad_image)
    if box_labels is not None and boxes is None:
        raise ConfigError(f"box_labels is {short(box_labels)}, but boxes is not given")
    if box_classes is not None and box_labels is None:
        raise ConfigError("box_classes is given, but box_labels is not")
    if box_classes is None and isinstance(classes, Manifest):
        box_classes = classes.box_classes or None
    box_names = class_names(box_classes, "box_classes")
    renumber = isinstance(classes, str) and classes == RENUMBER
    given_names = RENUMBER if renumber else class_names(classes)
    if source is not None and root is not None:
        raise ConfigError(f"root is {short(root)}, but source is given too; pass only one of them")
    frame, name, labels_are_text = _load(table, path, label)
    if source is not None:
        check_source(source, frame.height)
    if source is not None and path not in frame.columns:
        if isinstance(source, FileSource):
            names = source.paths.to_list()
        else:
            names = [source.name(key) for key in range(frame.height)]
        frame = frame.with_columns(pl.Series(path, names, dtype=pl.String))
    if label is None:
        label = "label"
        if label in frame.columns:
            raise ManifestError(f"{name}: label is None, but there is a column {label!r}")
        frame = frame.with_columns(pl.lit("image").alias(label))
    wanted = {boxes: BOXES, box_labels: BOX_LABELS, points: POINTS}
    annotations = [(given, ours) for given, ours in wanted.items() if given is not None]
    for given in (path, label, *(given for given, _ in annotations)):
        if given not in frame.columns:
            raise ManifestError(
                f"{name}: there is no column {short(given)}; the columns are "
                f"{sanitize(str(frame.columns))}"
            )
    if path == label:
        raise ManifestError(f"{name}: column {path!r} cannot be both the path and the label")
    for given, ours in ((path, "path"), (label, "label"), *annotations):
        if given != ours and ours in frame.columns:
            raise ManifestError(
                f"{name}: the column {given!r} becomes {ours!r}, but there already is a column of "
                "that name; rename or drop it"
            )
    if frame.is_empty():
        raise ManifestError(f"{name}: the table is empty")

    numbers: Sequence[int] = range(frame.height)

    def row_name(row: int) -> str:
        return f"{name}, row {numbers[row]}"

    paths = frame[path].alias("path")
    if paths.dtype != pl.String:
        raise ManifestError(
            f"{name}: column {path!r} must be text, not {sanitize(str(paths.dtype))}"
        )
    if (row := first_true(paths.is_null())) is not None:
        raise ManifestError(f"{row_name(row)}: {path} is null")
    if source is None:
        if root is None:
            root = Path() if isinstance(table, pl.DataFrame) else Path(table).parent
        source = FileSource(root, paths, where=row_name)
    labels, all_classes, repairs = read_labels(
        frame[label], given_names, name, row_name, from_text=labels_are_text
    )
    frame = frame.drop(path, *(["label"] if label == "label" else []))
    frame = frame.with_columns(paths, labels)

    sized = [name for name in ("width", "height") if name in frame.columns]
    if len(sized) == 1:
        raise ManifestError(
            f"{name}: width and height must be given together; there is only {sized[0]!r}"
        )
    numbered = frame.with_row_index(_NUMBER)
    if isinstance(source, FileSource):
        numbered, source, dropped = drop_links(numbered, source, row_name, on_bad_image)
        repairs |= dropped
    if not sized:
        numbered, source, dropped = with_sizes(
            numbered, source, show=progress, on_bad_image=on_bad_image, reduce_depth=reduce_depth
        )
        repairs |= dropped
    numbers, frame = numbered[_NUMBER].to_list(), numbered.drop(_NUMBER)
    if boxes is not None:
        frame, repaired = read_boxes(
            frame, boxes, box_labels, box_format, row_name, classes=box_names
        )
        repairs |= repaired
    if points is not None:
        frame = read_points(frame, points, row_name)
    first = ["path", "label", "width", "height"]
    frame = frame.select(*first, pl.exclude(first))
    try:
        manifest = Manifest(
            frame, source, all_classes, repairs=repairs, reduce_depth=reduce_depth, numbers=numbers
        )
        if sized:
            probe(manifest, on_bad_image=on_bad_image)
    except ManifestError as error:
        raise ManifestError(f"{name}: {error}") from None
    return manifest


def _load(table: object, path: str, label: str | None) -> tuple[pl.DataFrame, str, bool]:
    """Return the table, its name in messages, and whether its labels were read as text."""
    if isinstance(table, pl.DataFrame):
        return table, "the table", False
    if not isinstance(table, str | Path):
        hint = "; call its collect()" if isinstance(table, pl.LazyFrame) else ""
        raise ManifestError(
            f"a table must be a polars DataFrame or a file, not {type(table).__qualname__}{hint}"
        )
    file = Path(table)
    suffix = file.suffix.lower()
    if suffix == ".csv":
        return read_csv(file, dict.fromkeys([path, label or path], pl.String)), str(file), True
    if suffix in (".parquet", ".pq"):
        return read_parquet(file), str(file), False
    raise ManifestError(f"{file} ends in {suffix!r}; a table must end in .csv, .parquet or .pq")
