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
    BOX_POINTS,
    BOXES,
    POINTS,
    BoxFormat,
    check_box_format,
    read_boxes,
    read_points,
)
from gpufeed.records.any_table import AnyTable, load_table, take_apart
from gpufeed.records.bad_images import OnBadImage, check_on_bad_image, drop_links
from gpufeed.records.bounding_box import BOX_COLUMNS
from gpufeed.records.embedded.images import take_images
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
from gpufeed.source.zipped import open_archive

__all__ = ["TableListing", "list_table", "read_table"]

_NUMBER = "row number in gpufeed"


def read_table(
    table: AnyTable,
    *,
    path: str = "path",
    image: str | None = None,
    label: str | None = "label",
    classes: Sequence[str] | Manifest | Literal["renumber"] | None = None,
    boxes: str | None = None,
    box_format: BoxFormat = "xyxy",
    box_labels: str | None = None,
    box_classes: Sequence[str] | None = None,
    box_points: str | None = None,
    box_columns: Sequence[str] = (),
    points: str | None = None,
    point_names: Sequence[str] = (),
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
    Lines, Parquet, or Arrow IPC; or several files with the same columns, as a list or a pattern
    such as "part-*.parquet". The index of a pandas DataFrame is ignored.

    A table may hold the images themselves: `image` names their column. The images of Parquet and
    Arrow files are read from there one by one, in any order, and those of a table in memory are not
    copied. Where they are in Parquet files is found once, and kept in the folder `.gpufeed` beside
    the file if there is one, otherwise in the user's cache folder.

    Labels that are integers, text or booleans are classes. Integers from 0 are kept, and the
    classes are then "0", "1" and so on up to the largest. Text is numbered in sorted order, and
    false and true are 0 and 1. An Enum, a categorical column of pandas, and a `ClassLabel` of
    datasets keep their own classes, in their order. In a CSV or TSV file, labels are integers only
    if that loses nothing: "007" stays text. To number the text of a second table as in the first,
    pass `classes`.

    Lists of integers or text are several classes for each image, or none. Floats are numbers to
    predict. Arrays of numbers, and lists of floats or booleans, are vectors of one length, such as
    the probabilities of the classes. So are lists with a 0 or 1 for each class, such as [0, 1, 0];
    lists of which all are [0, 1] or [1, 0] are an error that says how to decide.

    All other columns are kept, including that of the labels unless it is called `label`. `width`
    and `height` are taken from the table if it has them, and compared with the headers of eight
    images; otherwise they are read from all headers and cached. The columns `box_x`, `box_y`,
    `box_width` and `box_height`, if present, are the images' boxes.

    An uncompressed Arrow IPC file is mapped into memory if pyarrow is installed, and takes no
    memory of the process; replace such a file rather than write to it while it is in use. To open a
    long list again, or in many processes, `Manifest.save` it.

    A column of lists gives several boxes per image, as for detection. Boxes that extend beyond
    their image are clamped to it, and boxes without area are dropped; `repairs` counts both, as
    `boxes_clamped` and `boxes_dropped`.

    Args:
        table: the table, or files that end in .csv, .tsv, .jsonl, .ndjson, .parquet, .pq,
            .feather, .arrow or .ipc.
        path: column of the images' paths, relative to the root or absolute; becomes `path`, always
            relative to the root.
        image: column of encoded images: binary, or structs of `bytes` and `path` as Hugging Face
            writes them. It is not in the manifest, and neither are other columns of such structs.
            `path` is then the table's column `path` if it has one; otherwise the structs' `path`,
            if no two are the same; otherwise the file and the row, such as "train-0.parquet/17", or
            the row of a table in memory. Structs that only have paths are read as a column of
            paths.
        label: column of the labels; None for images without labels. Any other
            column called `label` is left out.
        classes: the names of the classes, in the order of their numbers, or of a vector's entries;
            or a manifest, whose `classes`, and `box_classes` if it has any, are taken. Classes may
            have no images. Integer labels index the names, but are looked up like text if a name is
            an integer. "renumber" numbers the distinct labels, sorted, from 0. `repairs` counts the
            images whose integer label becomes another number, as `labels_renumbered`.
        boxes: column of lists of four numbers, in pixels; becomes `boxes`. Null and an empty list
            mean no boxes. Here and below, a field of structs is named as "objects.bbox", as in
            datasets for detection of Hugging Face; the other fields then become columns too.
        box_format: "xyxy" for (x0, y0, x1, y1), or "xywh" for (x, y, width, height) as in COCO.
        box_labels: column of lists, with a label for each box; becomes `box_labels`. Integers of 0
            or more are kept, and text is numbered like labels: see `Manifest.box_classes`. By
            default, boxes have their image's label.
        box_classes: the names of the boxes' labels, as `classes` gives those of the images.
        box_points: column of lists, with a list of points for each box, all of one length: the
            corners of a rotated box, or a person's keypoints; becomes `box_points`. Points are as
            in `points`. Without `boxes`, a box is the upright one around its points.
        box_columns: other columns of lists, with a value for each box, such as scores. They keep
            their names, and lose the values of boxes that are dropped, here or by `prepare`.
        points: column of lists of (x, y) or (x, y, visible), all of one length; becomes `points`.
        point_names: the names of the points of an image, or else of a box.
        root: folder of the images, its URL, or a `RemoteStorage`; absolute paths and URLs must be
            below it. Or a zip archive of the images, "photos.zip", or a folder in one,
            "photos.zip/train". By default, it is the folder that all paths have in common if they
            are absolute or URLs; otherwise the folder of the table's files, or the current one.
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
            `box_classes` is not a list of names, `box_labels` or `box_columns` is given without
            boxes, `box_classes` without `box_labels`, or `source` together with `root` or `image`.
        MissingExtraError: `image` is given, and pyarrow is not installed.
    """
    check_box_format(box_format)
    check_on_bad_image(on_bad_image)
    if isinstance(box_columns, str):
        raise ConfigError(f"box_columns is {short(box_columns)}; it must be a list of names")
    for name, given in (("box_labels", box_labels), ("box_columns", box_columns or None)):
        if given is not None and boxes is None and box_points is None:
            raise ConfigError(f"{name} is {short(given)}, but boxes is not given")
    if box_classes is not None and box_labels is None:
        raise ConfigError("box_classes is given, but box_labels is not")
    if box_classes is None and isinstance(classes, Manifest):
        box_classes = classes.box_classes or None
    box_names = class_names(box_classes, "box_classes")
    renumber = isinstance(classes, str) and classes == RENUMBER
    given_names = RENUMBER if renumber else class_names(classes)
    if label is None and isinstance(classes, Manifest):
        given_names = None  # only its box_classes are needed
    if source is not None and root is not None:
        raise ConfigError(f"root is {short(root)}, but source is given too; pass only one of them")
    if source is not None and image is not None:
        raise ConfigError(
            f"image is {short(image)}, but source is given too; pass only one of them"
        )
    names_of_points = class_names(point_names, "point_names") or ()
    wanted = {boxes: BOXES, box_labels: BOX_LABELS, box_points: BOX_POINTS, points: POINTS}
    wanted |= {name: name for name in box_columns}
    listing = list_table(
        table,
        path=path,
        image=image,
        label=label,
        classes=given_names,
        root=root,
        source=source,
        progress=progress,
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
    if numbered.height < frame.height:
        numbers = numbered[_NUMBER].to_list()
    frame = numbered.drop(_NUMBER)
    if boxes is not None or box_points is not None:
        frame, repaired = read_boxes(
            frame,
            boxes,
            box_labels,
            box_format,
            row_name,
            classes=box_names,
            points=box_points,
            others=box_columns,
        )
        repairs |= repaired
    if points is not None:
        frame = read_points(frame, points, row_name)
    first = [*("path", "label")[: 1 + ("label" in frame.columns)], "width", "height"]
    frame = frame.select(*first, pl.exclude(first))
    try:
        manifest = Manifest(
            frame,
            source,
            listing.classes,
            repairs=repairs,
            reduce_depth=reduce_depth,
            numbers=numbers,
            point_names=names_of_points,
            box_columns=box_columns,
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
    image: str | None = None,
    label: str | None = "label",
    classes: Sequence[str] | None = None,
    root: Root | None = None,
    source: Source | None = None,
    progress: bool | None = None,
    annotations: Sequence[tuple[str, str]] = (),
) -> TableListing:
    """List the images of a table; arguments and errors as for `read_table`.

    Args:
        table: the table.
        path: column of the paths.
        image: column of the images, or None.
        label: column of the labels, or None.
        classes: the names of the labels; "renumber"; or None for the column's own.
        root: folder of the images.
        source: source of the images.
        progress: whether to show a progress bar.
        annotations: other columns that must be there, with the names they will have.
    """
    if image is None:
        loaded = load_table(table, [path, label or path])
    else:
        loaded, source = take_images(table, image, path, progress)
        path = image if source is None else path
    name, row_name = loaded.name, loaded.row_name
    dotted = [given for given, _ in annotations if "." in given and given not in loaded.frame]
    frame = take_apart(loaded.frame, dotted)
    if source is not None:
        check_source(source, frame.height)
    if source is not None and path not in frame.columns:
        if isinstance(source, PathSource):
            found = source.paths.to_list()
        else:
            found = [source.name(key) for key in range(frame.height)]
        frame = frame.with_columns(pl.Series(path, found, dtype=pl.String))
    if label is None and classes is not None:
        raise ConfigError("classes is given, but label is None, so that images have no classes")
    renamed = [(path, "path"), *([] if label is None else [(label, "label")]), *annotations]
    for given, _ in renamed:
        if given not in frame.columns:
            raise ManifestError(
                f"{name}: there is no column {short(given)}; the columns are "
                f"{sanitize(str(frame.columns))}{_advice(frame, given, path, label)}"
            )
    if path == label:
        raise ManifestError(f"{name}: column {path!r} cannot be both the path and the label")
    for given, ours in renamed:
        # A column `label` that is not the one is left out.
        if given != ours != "label" and ours in frame.columns:
            raise ManifestError(
                f"{name}: the column {given!r} becomes {ours!r}, but there already is a column of "
                "that name; rename or drop it"
            )
    if frame.is_empty():
        raise ManifestError(f"{name}: the table is empty")
    paths = _check_text(frame[path], name).alias("path")
    if (row := first_true(paths.is_null())) is not None:
        raise ManifestError(f"{row_name(row)}: {path} is null")
    if source is None:
        storage = root if isinstance(root, LocalStorage | RemoteStorage) else None
        above = storage.root if storage else None
        archive = None
        if isinstance(root, str | os.PathLike):
            above, archive = location(root), open_archive(root)
        folder, paths = make_relative(paths, above, loaded.folder, row_name)
        if archive is not None:
            source = archive.find(paths)
        else:
            source = source_of(storage or folder, paths, where=row_name)
            # Those of a web server have no query strings any more.
            paths = source.paths.alias("path")
    columns = [paths]
    names: Sequence[str] = ()
    repairs: dict[str, int] = {}
    if label is not None:
        labels, names, repairs = read_labels(
            frame[label], classes, name, row_name, from_text=loaded.from_text
        )
        columns.append(labels)
    frame = frame.drop(path, "label", strict=False).with_columns(columns)
    sizes = [size for size in ("width", "height") if size in frame.columns]
    if len(sizes) == 1:
        raise ManifestError(
            f"{name}: width and height must be given together; there is only {sizes[0]!r}"
        )
    return TableListing(frame, source, names, repairs, name, row_name)


def _advice(frame: pl.DataFrame, missing: str, path: str, label: str | None) -> str:
    """Return what to do if a column is missing."""
    if missing == path:
        images = [
            name
            for name, dtype in frame.schema.items()
            if dtype == pl.Binary
            or (isinstance(dtype, pl.Struct) and "bytes" in [field.name for field in dtype.fields])
        ]
        if images:
            return f"; pass image={images[0]!r} if that column holds the images"
        return "; pass path= with the name of the column of paths"
    inside = [
        f"{name}.{missing}"
        for name, dtype in frame.schema.items()
        if isinstance(item := getattr(dtype, "inner", dtype), pl.Struct)
        and missing in [field.name for field in item.fields]
    ]
    if inside and missing != label:
        return f"; pass {inside[0]!r}, which is a field of that column"
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
            f"{name}: column {paths.name!r} holds images rather than their paths; pass "
            f"image={paths.name!r}"
        )
    if paths.dtype != pl.String:
        raise ManifestError(
            f"{name}: column {paths.name!r} must be text, not {sanitize(str(paths.dtype))}"
        )
    return paths
