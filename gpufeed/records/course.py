"""NABirds as the JAX AI stack course of WestDRI keeps it: `metadata.parquet` beside the images.

The images are the original photos, or the course's cleaned ones: each cut to its bounding box
with a margin, made smaller, and centred on a black square of 269 or 224 pixels a side.
"""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl

from gpufeed._util.rows import first_true
from gpufeed.errors import ManifestError
from gpufeed.records.boxes import BOX
from gpufeed.records.files import read_parquet
from gpufeed.records.headers import image_size
from gpufeed.records.listing import Listing
from gpufeed.records.species import collapse, join_name, label_classes, spread
from gpufeed.source.files import FileSource
from gpufeed.source.paths import is_inside

__all__ = ["list_course"]

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
    *("path", "label", "width", "height", *BOX),
    *("class_id", "class_name", "species_name", "subcategory", "species_id"),
    *("photographer", "is_training_img", "uuid"),
]
_SAMPLE = 32


def list_course(file: Path, labels: str, images: Path | None) -> Listing:
    """List what the course's `metadata.parquet` names; arguments and errors as `read_nabirds`.

    Its own `species_id`, which counts 405 species since two of its names end in a space, is kept;
    the names are mended, and 404 species come out.
    """
    frame = _typed(file, read_parquet(file))

    def at(row: int) -> str:
        return f"{file}, row {row}"

    root = _images_beside(file) if images is None else images
    files = FileSource(root, frame["path"], where=at)

    species, subcategory = collapse(frame["species_name"]), collapse(frame["subcategory"])
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
    frame = frame.with_columns(spread(classes, frame["class_id"]))
    return Listing(
        frame,
        files,
        names,
        repairs,
        _COLUMNS,
        at=at,
        at_box=at,
        cut=_are_cleaned(files, frame),
    )


def _typed(file: Path, frame: pl.DataFrame) -> pl.DataFrame:
    """The columns under gpufeed's names and dtypes."""
    absent = [name for name in (*_NUMBERS, *_TEXTS) if name not in frame.columns]
    if absent:
        raise ManifestError(f"{file}: there is no column {absent[0]!r}; there are {frame.columns}")
    if frame.is_empty():
        raise ManifestError(f"{file}: the table has no row")
    columns = []
    for old, new in (_NUMBERS | _TEXTS).items():
        values, dtype = frame[old], pl.Int32 if old in _NUMBERS else pl.String
        fits = values.dtype.is_integer() if old in _NUMBERS else values.dtype == pl.String
        # A column of which every value is null may have any dtype.
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
            f"{file}, row {row}: {typed_frame['width'][row]}x{typed_frame['height'][row]} is no "
            "size in pixels"
        )
    if (row := first_true(~typed_frame["uuid"].is_first_distinct())) is not None:
        raise ManifestError(
            f"{file}, row {row}: image {typed_frame['uuid'][row]} is listed already"
        )
    return typed_frame.with_columns(split == 1)


def _images_beside(file: Path) -> Path:
    cleaned, originals = file.parent / "cleaned_images", file.parent / "images"
    return cleaned if cleaned.is_dir() else originals


def _are_cleaned(files: FileSource, frame: pl.DataFrame) -> bool:
    """Whether most of a sample of the images have another size than the photos had."""
    if not files.root.is_dir():
        return False
    # Spread over the set, then all the rest: of a part of the set, few rows have a file.
    step = max(1, frame.height // (4 * _SAMPLE))
    rows = sorted(range(frame.height), key=lambda row: (row % step > 0, row))
    photos = frame.select("width", "height")
    real_root = os.path.realpath(files.root)
    same = other = 0
    for row in rows:
        if same + other == _SAMPLE:
            break
        if not is_inside(files.name(row), real_root):
            continue
        try:
            with files.open(row) as file:
                size = image_size(file)
        except (OSError, ValueError):
            continue
        # A turned image is still the photo.
        is_photo = sorted(size) == sorted(photos.row(row))
        same, other = same + is_photo, other + (not is_photo)
    return other > same
