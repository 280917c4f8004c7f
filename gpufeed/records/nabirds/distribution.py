"""NABirds as it is distributed: a folder of text files next to the images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from gpufeed._util.rows import first_true, line_name
from gpufeed.errors import ManifestError
from gpufeed.records.annotations import POINTS
from gpufeed.records.bounding_box import BOX_COLUMNS
from gpufeed.records.lists import ragged
from gpufeed.records.nabirds.classes import (
    label_classes,
    normalize_spaces,
    rows_of_classes,
    split_name,
)
from gpufeed.records.nabirds.listing import Listing
from gpufeed.records.nabirds.text_files import read_text_file
from gpufeed.source.files import FileSource

__all__ = ["DISTRIBUTION_FILES", "list_distribution"]

_TEXT, _NUMBER = pl.String, pl.Int32
_IMAGES = "images.txt"
_CLASS_OF, _SIZES, _BOXES = "image_class_labels.txt", "sizes.txt", "bounding_boxes.txt"
_PHOTOGRAPHERS, _SPLIT = "photographers.txt", "train_test_split.txt"
_PER_IMAGE: dict[str, dict[str, type[pl.DataType]]] = {
    _IMAGES: {"uuid": _TEXT, "path": _TEXT},
    _CLASS_OF: {"uuid": _TEXT, "class_id": _NUMBER},
    _SIZES: {"uuid": _TEXT, "width": _NUMBER, "height": _NUMBER},
    _BOXES: {"uuid": _TEXT, **dict.fromkeys(BOX_COLUMNS, _NUMBER)},
    _PHOTOGRAPHERS: {"uuid": _TEXT, "photographer": _TEXT},
    _SPLIT: {"uuid": _TEXT, "is_training_img": _NUMBER},
}
"""Columns of the files that have a line for each image."""
_CLASSES, _HIERARCHY = "classes.txt", "hierarchy.txt"
_PARTS, _PART_LOCS = "parts/parts.txt", "parts/part_locs.txt"
_COLUMNS = [
    *("path", "label", "width", "height", *BOX_COLUMNS),
    *("class_id", "class_name", "species_name", "subcategory", "species_id", "parents"),
    *("photographer", "is_training_img", "uuid"),
]

DISTRIBUTION_FILES = (*_PER_IMAGE, _CLASSES)
"""Files by which the distribution is recognised."""


def list_distribution(folder: Path, labels: str, images: Path | None) -> Listing:
    """List the images of the distribution; arguments and errors as for `read_nabirds`."""
    tables = {name: read_text_file(folder / name, fields) for name, fields in _PER_IMAGE.items()}
    row_names = {name: line_name(folder / name) for name in _PER_IMAGE}
    listed, split, size = tables[_IMAGES], tables[_SPLIT], tables[_SIZES]
    if (row := first_true(~listed["uuid"].is_first_distinct())) is not None:
        raise ManifestError(
            f"{row_names[_IMAGES](row)}: image {listed['uuid'][row]} is listed more than once"
        )
    if (row := first_true((size["width"] < 1) | (size["height"] < 1))) is not None:
        raise ManifestError(
            f"{row_names[_SIZES](row)}: {size['width'][row]}x{size['height'][row]} is not a valid "
            "size"
        )
    if (row := first_true(~split["is_training_img"].is_between(0, 1))) is not None:
        raise ManifestError(
            f"{row_names[_SPLIT](row)}: {split['is_training_img'][row]} is neither 1 (train) nor 0 "
            "(test)"
        )
    root = folder / "images" if images is None else images
    files = FileSource(root, listed["path"], where=row_names[_IMAGES])

    classes, mended = _read_classes(folder, tables[_CLASS_OF]["class_id"])
    classes, names = label_classes(classes, labels)
    frame = pl.concat(
        [_align(folder, listed, name, table) for name, table in tables.items()], how="horizontal"
    )
    frame = frame.with_columns(
        pl.col("is_training_img") == 1, *rows_of_classes(classes, frame["class_id"])
    )
    columns = list(_COLUMNS)
    part_names: list[str] = []
    if (folder / _PART_LOCS).is_file():
        parts, part_names = _read_parts(folder, frame["uuid"])
        frame = frame.with_columns(parts)
        columns.append(POINTS)

    def box_name(row: int) -> str:
        return row_names[_BOXES]((tables[_BOXES]["uuid"] == frame["uuid"][row]).arg_max() or 0)

    return Listing(
        frame,
        files,
        names,
        repairs={"names_mended": mended},
        columns=columns,
        path_name=row_names[_IMAGES],
        box_name=box_name,
        point_names=part_names,
    )


def _read_parts(folder: Path, ids: pl.Series) -> tuple[pl.Series, list[str]]:
    """Return the parts of each image, and their names; parts without a line are not visible."""
    names = read_text_file(folder / _PARTS, {"part": _NUMBER, "name": _TEXT})
    fields = {"uuid": _TEXT, "part": _NUMBER, "x": _NUMBER, "y": _NUMBER, "visible": _NUMBER}
    lines = read_text_file(folder / _PART_LOCS, fields)
    row_name = line_name(folder / _PART_LOCS)
    for column, known, file in (("uuid", ids, _IMAGES), ("part", names["part"], _PARTS)):
        if (row := first_true(~lines[column].is_in(known.to_list()))) is not None:
            kind = "image" if column == "uuid" else "part"
            raise ManifestError(f"{row_name(row)}: {kind} {lines[column][row]} is not in {file}")
    if (row := first_true(~lines.select("uuid", "part").is_unique())) is not None:
        uuid, part = lines["uuid"][row], lines["part"][row]
        raise ManifestError(f"{row_name(row)}: part {part} of image {uuid} has more than one line")
    if (row := first_true(~lines["visible"].is_between(0, 1))) is not None:
        raise ManifestError(f"{row_name(row)}: visible is {lines['visible'][row]}, neither 0 nor 1")
    image = pl.DataFrame({"uuid": ids, "image": np.arange(len(ids))})
    place = names.select("part", place=pl.int_range(pl.len()))
    placed = lines.join(image, on="uuid", how="left").join(place, on="part", how="left")
    points = np.zeros((len(ids), len(names), 3))
    points[placed["image"].to_numpy(), placed["place"].to_numpy()] = placed.select(
        "x", "y", "visible"
    ).to_numpy()
    offsets = np.arange(len(ids) + 1) * len(names)
    return ragged(points.reshape(-1, 3), offsets).alias(POINTS), names["name"].to_list()


def _align(folder: Path, listed: pl.DataFrame, name: str, table: pl.DataFrame) -> pl.DataFrame:
    """Return a table's rows in the order of images.txt."""
    ids, own = listed["uuid"], table["uuid"]
    if name == _IMAGES:
        return table
    if len(own) == len(ids) and (own == ids).all():
        return table.drop("uuid")
    row_name = line_name(folder / name)
    if (row := first_true(~own.is_in(ids.to_list()))) is not None:
        raise ManifestError(f"{row_name(row)}: image {own[row]} is not in {_IMAGES}")
    if (row := first_true(~own.is_first_distinct())) is not None:
        raise ManifestError(f"{row_name(row)}: image {own[row]} has more than one line")
    missing = ~ids.is_in(own.to_list())
    if (row := first_true(missing)) is not None:
        raise ManifestError(
            f"{folder / name}: {missing.sum()} of {len(ids)} images have no line; the first is "
            f"{ids[row]} ({line_name(folder / _IMAGES)(row)})"
        )
    # Both have the same ids, each once, so their k-th smallest ids are the same.
    order = np.empty(len(ids), dtype=np.int64)
    order[ids.arg_sort().to_numpy()] = own.arg_sort().to_numpy()
    return table.drop("uuid")[order]


def _read_classes(folder: Path, class_ids: pl.Series) -> tuple[pl.DataFrame, int]:
    """Return the classes of the images' `class_ids`, and the number of names repaired."""
    table = read_text_file(folder / _CLASSES, {"class_id": _NUMBER, "class_name": _TEXT})
    links = read_text_file(folder / _HIERARCHY, {"child": _NUMBER, "parent": _NUMBER})
    known = table["class_id"].to_list()
    for file, ids in ((_CLASSES, table["class_id"]), (_HIERARCHY, links["child"])):
        if (row := first_true(~ids.is_first_distinct())) is not None:
            raise ManifestError(
                f"{line_name(folder / file)(row)}: class {ids[row]} has more than one line"
            )
    for file, ids in (
        (_HIERARCHY, links["child"]),
        (_HIERARCHY, links["parent"]),
        (_CLASS_OF, class_ids),
    ):
        if (row := first_true(~ids.is_in(known))) is not None:
            raise ManifestError(
                f"{line_name(folder / file)(row)}: class {ids[row]} is not in {_CLASSES}"
            )
    used = table.filter(table["class_id"].is_in(class_ids.unique().to_list()))
    mended = int((normalize_spaces(used["class_name"]) != used["class_name"]).sum())
    names = dict(zip(table["class_id"], normalize_spaces(table["class_name"]), strict=True))
    parents = dict(zip(links["child"], links["parent"], strict=True))
    parts = [split_name(names[class_id]) for class_id in used["class_id"]]
    classes = pl.DataFrame(
        {
            "class_id": used["class_id"],
            "class_name": normalize_spaces(used["class_name"]),
            "species_name": pl.Series([species for species, _ in parts], dtype=_TEXT),
            "subcategory": pl.Series([subcategory for _, subcategory in parts], dtype=_TEXT),
            "parents": pl.Series(
                [
                    [names[ancestor] for ancestor in _ancestors(folder, parents, class_id)]
                    for class_id in used["class_id"]
                ],
                dtype=pl.List(_TEXT),
            ),
        }
    )
    species_id = classes["species_name"].rank("dense").cast(_NUMBER)
    return classes.with_columns(species_id.alias("species_id")), mended


def _ancestors(folder: Path, parents: dict[int, int], class_id: int) -> list[int]:
    """Return the ancestors of a class from the top level down, without the root of all classes."""
    if class_id not in parents:
        raise ManifestError(f"{folder / _HIERARCHY}: class {class_id} has images but no line")
    ancestors: list[int] = []
    while (class_id := parents[class_id]) in parents:
        if class_id in ancestors:
            raise ManifestError(f"{folder / _HIERARCHY}: class {class_id} is its own ancestor")
        ancestors.append(class_id)
    return ancestors[::-1]
