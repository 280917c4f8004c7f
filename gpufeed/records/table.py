"""Reads a table of images and labels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from gpufeed._util.rows import RowName, first_true
from gpufeed._util.sanitize import sanitize, short
from gpufeed._util.urls import location
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
from gpufeed.records.any_table import AnyTable, load_table
from gpufeed.records.bad_images import OnBadImage, check_on_bad_image, drop_links
from gpufeed.records.bounding_box import BOX_COLUMNS
from gpufeed.records.labels import RENUMBER, read_labels
from gpufeed.records.manifest import Manifest, class_names
from gpufeed.records.probe import probe
from gpufeed.records.sizes import with_sizes
from gpufeed.source.base import Source, check_source
from gpufeed.source.files import FileSource, PathSource
from gpufeed.source.locate import Root, source_of
from gpufeed.source.paths import make_relative
from gpufeed.source.remote.storage import RemoteStorage
from gpufeed.source.storage import LocalStorage

__all__ = ["TableListing", "list_table", "read_table"]

_NUMBER = "row number in gpufeed"


def read_table(
    table: AnyTable,
    *,
    path: str = "path",
    label: str | None = "label",
    classes: Sequence[str] | Manifest | Literal["renumber"] | None = None,
    boxes: str | None = None,
    box_format: BoxFormat = "xyxy",
    box_labels: str | None = None,
    box_classes: Sequence[str] | None = None,
    points: str | None = None,
    root: Root | None = None,
    source: Source | None = None,
    follow_links: bool = False,
    on_bad_image: OnBadImage = "raise",
    reduce_depth: bool = False,
    progress: bool | None = None,
) -> Manifest:
    """Make a manifest from a table of images and labels.

    The table is a polars or pandas DataFrame, a polars LazyFrame, a pyarrow Table, a
    `datasets.Dataset` with a column of paths, any other object with `__arrow_c_stream__` or
    `to_polars`, a dict of columns, or a list of dicts; or a file of CSV or TSV with a header, JSON
    Lines, Parquet, or Arrow IPC. The index of a pandas DataFrame is ignored.

    Labels may be integers, text or booleans. Integers from 0 are kept, and the classes are then
    "0", "1" and so on up to the largest. Text is numbered in sorted order, and false and true are 0
    and 1. An Enum, a categorical column of pandas, and a `ClassLabel` of datasets keep their own
    classes, in their order. In a CSV or TSV file, labels are integers only if that loses nothing:
    "007" stays text. To number the text of a second table as in the first, pass `classes`.

    All other columns are kept, including that of the labels unless it is called `label`. `width`
    and `height` are taken from the table if it has them, and compared with the headers of eight
    images; otherwise they are read from all headers and cached. The columns `box_x`, `box_y`,
    `box_width` and `box_height`, if present, are the images' boxes.

    A column of lists gives several boxes per image, as for detection. Boxes that extend beyond
    their image are clamped to it, and boxes without area are dropped; `repairs` counts both, as
    `boxes_clamped` and `boxes_dropped`.

    Args:
        table: the table, or a file that ends in .csv, .tsv, .jsonl, .ndjson, .parquet, .pq,
            .feather, .arrow or .ipc.
        path: column of the images' paths, relative to the root or absolute; becomes `path`, always
            relative to the root.
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
        root: folder of the images, its URL, or a `RemoteStorage`; absolute paths and URLs must be
            below it. By default, it is the folder that all paths have in common if they are
            absolute or URLs; otherwise the folder of the table's file, or the current one.
        source: source of the images, if they are not files: key i is the image of row i. The table
            then needs no column of paths; if it has none, `path` is the source's name of the image.
        follow_links: whether symbolic links may lead out of the root. Pass True only if you trust
            whoever made them: a link may lead to any file.
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
    wanted = {boxes: BOXES, box_labels: BOX_LABELS, points: POINTS}
    listing = list_table(
        table,
        path=path,
        label=label,
        classes=given_names,
        root=root,
        source=source,
        annotations=[(given, ours) for given, ours in wanted.items() if given is not None],
    )
    frame, source, name, repairs = listing.frame, listing.source, listing.name, listing.repairs
    numbers: Sequence[int] = range(frame.height)

    def row_name(row: int) -> str:
        return listing.row_name(numbers[row])

    sized = "width" in frame.columns
    numbered = frame.with_row_index(_NUMBER)
    if isinstance(source, FileSource) and not follow_links:
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
            frame,
            source,
            listing.classes,
            repairs=repairs,
            reduce_depth=reduce_depth,
            numbers=numbers,
        )
        if sized:
            probe(manifest, on_bad_image=on_bad_image)
    except ManifestError as error:
        raise ManifestError(f"{name}: {error}") from None
    return manifest


@dataclass(frozen=True)
class TableListing:
    """The images that a table lists, before any of them has been opened.

    Attributes:
        frame: the table's columns, with `path` and `label` as in a manifest.
        source: the images, one for each row.
        classes: names of the labels.
        repairs: number of repairs of each kind.
        name: the table's name in error messages.
        row_name: names a row.
    """

    frame: pl.DataFrame
    source: Source
    classes: Sequence[str]
    repairs: dict[str, int]
    name: str
    row_name: RowName

    def unopened(self) -> pl.DataFrame:
        """Return the part of the manifest's frame that needs no image to be opened.

        It has boxes only if it has sizes, and it includes symbolic links that leave the root.

        Raises:
            ManifestError: a column or a row is not as in a manifest.
        """
        if "width" not in self.frame.columns:
            return self.frame.drop(BOX_COLUMNS, strict=False)
        try:
            return Manifest(self.frame, self.source, self.classes).frame
        except ManifestError as error:
            raise ManifestError(f"{self.name}: {error}") from None


def list_table(
    table: AnyTable,
    *,
    path: str = "path",
    label: str | None = "label",
    classes: Sequence[str] | None = None,
    root: Root | None = None,
    source: Source | None = None,
    annotations: Sequence[tuple[str, str]] = (),
) -> TableListing:
    """List the images of a table; arguments and errors as for `read_table`.

    Args:
        table: the table.
        path: column of the paths.
        label: column of the labels, or None.
        classes: the names of the labels; "renumber"; or None for the column's own.
        root: folder of the images.
        source: source of the images.
        annotations: other columns that must be there, with the names they will have.
    """
    loaded = load_table(table, [path, label or path])
    frame, name = loaded.frame, loaded.name
    if source is not None:
        check_source(source, frame.height)
    if source is not None and path not in frame.columns:
        if isinstance(source, PathSource):
            found = source.paths.to_list()
        else:
            found = [source.name(key) for key in range(frame.height)]
        frame = frame.with_columns(pl.Series(path, found, dtype=pl.String))
    if label is None:
        label = "label"
        if label in frame.columns:
            raise ManifestError(f"{name}: label is None, but there is a column {label!r}")
        frame = frame.with_columns(pl.lit("image").alias(label))
    for given in (path, label, *(given for given, _ in annotations)):
        if given not in frame.columns:
            raise ManifestError(
                f"{name}: there is no column {short(given)}; the columns are "
                f"{sanitize(str(frame.columns))}{_advice(given, path, label)}"
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

    def row_name(row: int) -> str:
        return f"{name}, row {row}"

    paths = _check_text(frame[path], name).alias("path")
    if (row := first_true(paths.is_null())) is not None:
        raise ManifestError(f"{row_name(row)}: {path} is null")
    if source is None:
        storage = root if isinstance(root, LocalStorage | RemoteStorage) else None
        above = storage.root if storage else None
        if isinstance(root, str | os.PathLike):
            above = location(root)
        folder, paths = make_relative(paths, above, loaded.folder, row_name)
        source = source_of(storage or folder, paths, where=row_name)
        # Those of a web server have no query strings any more.
        paths = source.paths.alias("path")
    labels, names, repairs = read_labels(
        frame[label], classes, name, row_name, from_text=loaded.from_text
    )
    frame = frame.drop(path, *(["label"] if label == "label" else []))
    frame = frame.with_columns(paths, labels)
    sizes = [size for size in ("width", "height") if size in frame.columns]
    if len(sizes) == 1:
        raise ManifestError(
            f"{name}: width and height must be given together; there is only {sizes[0]!r}"
        )
    return TableListing(frame, source, names, repairs, name, row_name)


def _advice(missing: str, path: str, label: str) -> str:
    """Return what to do if a column is missing."""
    if missing == path:
        return "; pass path= with the name of the column of paths"
    if missing == label:
        return "; pass label= with the name of the column of labels, or None if there is none"
    return ""


def _check_text(paths: pl.Series, name: str) -> pl.Series:
    """Return a column of paths as text.

    Raises:
        ManifestError: it is something else.
    """
    if paths.dtype == pl.Object and all(isinstance(each, os.PathLike) for each in paths):
        paths = pl.Series(paths.name, [os.fspath(each) for each in paths])
    if paths.dtype == pl.Binary or isinstance(paths.dtype, pl.Struct):
        raise ManifestError(
            f"{name}: column {paths.name!r} holds images rather than their paths; leave it out, "
            "and pass the encoded images as source=MemorySource(images)"
        )
    if paths.dtype != pl.String:
        raise ManifestError(
            f"{name}: column {paths.name!r} must be text, not {sanitize(str(paths.dtype))}"
        )
    return paths
