"""NABirds as kept by WestDRI's course on the JAX AI stack: `metadata.parquet` next to the images.

The images are the original photos or the course's cleaned images. A cleaned image is cropped to the
bounding box with a margin, shrunk, and centred on a black square of 269 or 224 pixels a side.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from gpufeed._util.rows import first_true
from gpufeed.decode.headers import image_size
from gpufeed.errors import ManifestError
from gpufeed.records.bounding_box import BOX_COLUMNS
from gpufeed.records.nabirds.classes import (
    join_name,
    label_classes,
    normalize_spaces,
    rows_of_classes,
)
from gpufeed.records.nabirds.listing import Listing
from gpufeed.records.table_files import parquet_columns, read_parquet
from gpufeed.source.files import FileSource

__all__ = ["is_course", "list_course"]

_NUMBERS = {
    "width": "width",
    "height": "height",
    "bb_x": "box_x",
    "bb_y": "box_y",
    "bb_width": "box_width",
    "bb_height": "box_height",
    "class_id": "class_id",
    "species_id": "species_id",
    "is_training_img": "is_training_img",
}
_TEXTS = {
    "path": "path",
    "species_name": "species_name",
    "subcategory": "subcategory",
    "photographer": "photographer",
    "UUID": "uuid",
}
_NULLABLE = ("subcategory", "photographer")
_COLUMNS = [
    *("path", "label", "width", "height", *BOX_COLUMNS),
    *("class_id", "class_name", "species_name", "subcategory", "species_id"),
    *("photographer", "is_training_img", "uuid"),
]
_SAMPLE = 32
"""Images to open to determine whether the images are cleaned."""


def list_course(
    file: Path, labels: str, images: Path | None, *, follow_links: bool = False
) -> Listing:
    """List the images of the course's `metadata.parquet`; arguments and errors as `read_nabirds`.

    Its `species_id` is kept. It counts 405 species, since two of the file's species names end in a
    space; with their spaces removed, 404 names are left.
    """
    frame = _typed(file, read_parquet(file))

    def row_name(row: int) -> str:
        return f"{file}, row {row}"

    root = _default_images(file) if images is None else images
    files = FileSource(root, frame["path"], where=row_name)

    species = normalize_spaces(frame["species_name"])
    subcategory = normalize_spaces(frame["subcategory"])
    mended = species.ne_missing(frame["species_name"])
    mended |= subcategory.ne_missing(frame["subcategory"])
    repairs = {"names_mended": frame["class_id"].filter(mended).n_unique()}
    frame = frame.with_columns(species, subcategory)
    classes = frame.select("class_id", "species_name", "subcategory").unique().sort("class_id")
    if (row := first_true(~classes["class_id"].is_first_distinct())) is not None:
        raise ManifestError(f"{file}: class_id {classes['class_id'][row]} has more than one name")
    class_names = [join_name(*row[1:]) for row in classes.iter_rows()]
    classes, names = label_classes(
        classes.with_columns(pl.Series("class_name", class_names, dtype=pl.String)), labels
    )
    frame = frame.with_columns(rows_of_classes(classes, frame["class_id"]))
    return Listing(
        frame,
        files,
        names,
        repairs,
        _COLUMNS,
        path_name=row_name,
        box_name=row_name,
        cropped=_are_cleaned(files, frame, follow_links),
    )


def is_course(file: Path) -> bool:
    """Return whether a file is the course's `metadata.parquet`, by its columns.

    Raises:
        ManifestError: it is not a valid Parquet file.
    """
    return file.suffix == ".parquet" and {"UUID", "species_id"} <= {*parquet_columns(file)}


def _typed(file: Path, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the columns with gpufeed's names and dtypes."""
    missing = [name for name in (*_NUMBERS, *_TEXTS) if name not in frame.columns]
    if missing:
        raise ManifestError(
            f"{file}: there is no column {missing[0]!r}; the columns are {frame.columns}"
        )
    if frame.is_empty():
        raise ManifestError(f"{file}: the table is empty")
    columns = []
    for old, new in (_NUMBERS | _TEXTS).items():
        values, dtype = frame[old], pl.Int32 if old in _NUMBERS else pl.String
        fits = values.dtype.is_integer() if old in _NUMBERS else values.dtype == pl.String
        # A column of nulls only may have any dtype.
        if not fits and not (values.dtype == pl.Null and old in _NULLABLE):
            raise ManifestError(f"{file}: column {old!r} is of dtype {values.dtype}, not {dtype}")
        typed = values.cast(dtype, strict=False)
        if (row := first_true(typed.is_null() & values.is_not_null())) is not None:
            raise ManifestError(f"{file}, row {row}: {old} {values[row]} is out of range")
        if old not in _NULLABLE and (row := first_true(typed.is_null())) is not None:
            raise ManifestError(f"{file}, row {row}: {old} is null")
        columns.append(typed.alias(new))
    typed_frame = pl.DataFrame(columns)
    split = typed_frame["is_training_img"]
    if (row := first_true(~split.is_between(0, 1))) is not None:
        raise ManifestError(f"{file}, row {row}: is_training_img {split[row]} is neither 1 nor 0")
    if (row := first_true((typed_frame["width"] < 1) | (typed_frame["height"] < 1))) is not None:
        raise ManifestError(
            f"{file}, row {row}: {typed_frame['width'][row]}x{typed_frame['height'][row]} is not a "
            "valid size"
        )
    if (row := first_true(~typed_frame["uuid"].is_first_distinct())) is not None:
        raise ManifestError(
            f"{file}, row {row}: image {typed_frame['uuid'][row]} is listed more than once"
        )
    return typed_frame.with_columns(split == 1)


def _default_images(file: Path) -> Path:
    cleaned, originals = file.parent / "cleaned_images", file.parent / "images"
    return cleaned if cleaned.is_dir() else originals


def _are_cleaned(files: FileSource, frame: pl.DataFrame, follow_links: bool) -> bool:
    """Return whether most images of a sample differ in size from the photos."""
    if not files.root.is_dir():
        return False
    # First rows spread over the set, then all others, since few files may be present.
    step = max(1, frame.height // (4 * _SAMPLE))
    rows = sorted(range(frame.height), key=lambda row: (row % step > 0, row))
    photos = frame.select("width", "height")
    files = files if follow_links else files.within_root()
    same = other = 0
    for row in rows:
        if same + other == _SAMPLE:
            break
        try:
            with files.open(row) as file:
                size = image_size(file)
        except (OSError, ValueError):
            continue
        # A rotated photo is still the photo.
        is_photo = sorted(size) == sorted(photos.row(row))
        same, other = same + is_photo, other + (not is_photo)
    return other > same
