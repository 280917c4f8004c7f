"""NABirds, as it is distributed: a folder of text files beside the images.

Van Horn et al., "Building a bird recognition app and large scale dataset with citizen scientists:
the fine print in fine-grained dataset collection", CVPR 2015.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from gpufeed._util.rows import first_true, line_name
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.boxes import BOX
from gpufeed.records.course import list_course
from gpufeed.records.lines import read_lines
from gpufeed.records.listing import Listing
from gpufeed.records.manifest import Manifest
from gpufeed.records.sizes import OnBadImage, check_on_bad_image
from gpufeed.records.species import collapse, label_classes, spread, take_apart
from gpufeed.records.targets import POINTS, ragged
from gpufeed.source.files import FileSource

__all__ = ["list_nabirds", "read_nabirds"]

_TEXT, _NUMBER = pl.String, pl.Int32
_IMAGES = "images.txt"
_CLASS_OF, _SIZES, _BOXES = "image_class_labels.txt", "sizes.txt", "bounding_boxes.txt"
_PHOTOGRAPHERS, _SPLIT = "photographers.txt", "train_test_split.txt"
_PER_IMAGE: dict[str, dict[str, type[pl.DataType]]] = {
    _IMAGES: {"uuid": _TEXT, "path": _TEXT},
    _CLASS_OF: {"uuid": _TEXT, "class_id": _NUMBER},
    _SIZES: {"uuid": _TEXT, "width": _NUMBER, "height": _NUMBER},
    _BOXES: {"uuid": _TEXT, **dict.fromkeys(BOX, _NUMBER)},
    _PHOTOGRAPHERS: {"uuid": _TEXT, "photographer": _TEXT},
    _SPLIT: {"uuid": _TEXT, "is_training_img": _NUMBER},
}
_CLASSES, _HIERARCHY = "classes.txt", "hierarchy.txt"
_PARTS, _PART_LOCS = "parts/parts.txt", "parts/part_locs.txt"
"""Every image has a place in memory for each."""
_COLUMNS = [
    *("path", "label", "width", "height", *BOX),
    *("class_id", "class_name", "species_name", "subcategory", "species_id", "parents"),
    *("photographer", "is_training_img", "uuid"),
]


def read_nabirds(
    path: str | Path,
    labels: Literal["class", "species"] = "class",
    *,
    images: str | Path | None = None,
    sizes: Literal["manifest", "headers"] = "manifest",
    on_bad_image: OnBadImage = "raise",
    progress: bool | None = None,
) -> Manifest:
    """Read NABirds, from its own folder or from the `metadata.parquet` of the course on it.

    The columns, beside `path`, `label`, `width`, `height` and the box of a `Manifest`:

    - `class_id` (Int32), `class_name`: of the 1,011 nodes, as the dataset numbers them;
    - `species_name`, `subcategory` (null where there is none): the class name without its last
      parentheses, and the text in these;
    - `species_id` (Int32): from 1, in the order of the species' names;
    - `parents` (List[String]): the names above the class in the hierarchy, from the top level
      (`parents.list.first()`) down to its parent; 2 or 3 of them. Not in `metadata.parquet`;
    - `photographer`, `is_training_img` (Boolean), `uuid`;
    - `points`, where the folder has `parts/part_locs.txt`: the bird's parts, in the order of
      `parts/parts.txt` (bill, crown, nape, left eye, right eye, belly, breast, back, tail, left
      wing, right wing), those that cannot be seen with visible 0. Left and right are the bird's,
      and are not exchanged where an image is flipped;
    - where the images are the course's cleaned ones, which are cut to their boxes: `photo_width`,
      `photo_height`, `photo_box_x`, `photo_box_y`, `photo_box_width`, `photo_box_height`, of the
      photo they were cut from. The manifest's own sizes and boxes are those of the cut images.

    Names are rid of doubled spaces and of those just inside parentheses. Boxes that overrun are
    cut to the image. Both are counted in `repairs`: `names_mended` (classes), `boxes_clamped`
    and, with `sizes="headers"`, `sizes_replaced` (images).

    An image that is missing is no error here, unless its size must be read from it: with
    `sizes="headers"`, and of cleaned images.

    Args:
        path: the distribution's folder, with images.txt and so on; or a `metadata.parquet`, or a
            folder that holds one.
        labels: "class" labels by the rank of the class id (555 of them), "species" by the rank of
            the species' name (404). Both are of the whole set, so that its splits share them.
        images: the folder of the images. By default `images` below the distribution's folder;
            `cleaned_images`, else `images`, beside the parquet file.
        sizes: "manifest" takes the sizes from the metadata, "headers" from the images.
        on_bad_image: "raise", or "drop" to leave out images whose size must be read from their
            header and cannot be, and those that a symbolic link leads out of their folder, and to
            count them in `repairs`, `images_dropped` and `links_dropped`.
        progress: whether to show a progress bar; None on a terminal only.

    Raises:
        ManifestError: a file is missing or wrong; the message names it, and its line or row. Or a
            symbolic link leaves the folder, or an image whose size is to be read has none.
        ConfigError: `labels`, `sizes` or `on_bad_image` is none of the above.
    """
    if labels not in ("class", "species"):
        raise ConfigError(f'labels must be "class" or "species", not {labels!r}')
    if sizes not in ("manifest", "headers"):
        raise ConfigError(f'sizes must be "manifest" or "headers", not {sizes!r}')
    check_on_bad_image(on_bad_image)
    listing = list_nabirds(path, labels, images)
    return listing.manifest(headers=sizes == "headers", show=progress, on_bad_image=on_bad_image)


def list_nabirds(
    path: str | Path, labels: Literal["class", "species"], images: str | Path | None = None
) -> Listing:
    """List the images of NABirds, opening a few at most; with `read_nabirds`'s errors."""
    source = Path(path)
    pictures = None if images is None else Path(images)
    if pictures is not None and not pictures.is_dir():
        raise ManifestError(f"images: there is no folder {pictures}")
    if source.is_file():
        return list_course(source, labels, pictures)
    if not source.is_dir():
        raise ManifestError(f"there is no file or folder {source}")
    parquet = source / "metadata.parquet"
    if not (source / _IMAGES).exists():
        if parquet.is_file():
            return list_course(parquet, labels, pictures)
        if not any((source / name).exists() for name in (*_PER_IMAGE, _CLASSES)):
            raise ManifestError(
                f"{source} is no NABirds folder: it has neither images.txt nor metadata.parquet"
            )
    return _list_distribution(source, labels, pictures)


def _list_distribution(folder: Path, labels: str, images: Path | None) -> Listing:
    tables = {name: read_lines(folder / name, fields) for name, fields in _PER_IMAGE.items()}
    at = {name: line_name(folder / name) for name in _PER_IMAGE}
    listed, split, size = tables[_IMAGES], tables[_SPLIT], tables[_SIZES]
    if (row := first_true(~listed["uuid"].is_first_distinct())) is not None:
        raise ManifestError(f"{at[_IMAGES](row)}: image {listed['uuid'][row]} is listed already")
    if (row := first_true((size["width"] < 1) | (size["height"] < 1))) is not None:
        raise ManifestError(
            f"{at[_SIZES](row)}: {size['width'][row]}x{size['height'][row]} is no size"
        )
    if (row := first_true(~split["is_training_img"].is_between(0, 1))) is not None:
        raise ManifestError(
            f"{at[_SPLIT](row)}: {split['is_training_img'][row]} is neither 1 (train) nor 0 (test)"
        )
    root = folder / "images" if images is None else images
    files = FileSource(root, listed["path"], where=at[_IMAGES])

    classes, mended = _read_classes(folder, tables[_CLASS_OF]["class_id"])
    classes, names = label_classes(classes, labels)
    frame = pl.concat(
        [_aligned(folder, listed, name, table) for name, table in tables.items()], how="horizontal"
    )
    frame = frame.with_columns(pl.col("is_training_img") == 1, *spread(classes, frame["class_id"]))
    columns = list(_COLUMNS)
    if (folder / _PART_LOCS).is_file():
        frame = frame.with_columns(_read_parts(folder, frame["uuid"]))
        columns.append(POINTS)

    def box_line(row: int) -> str:
        return at[_BOXES]((tables[_BOXES]["uuid"] == frame["uuid"][row]).arg_max() or 0)

    repairs = {"names_mended": mended}
    return Listing(frame, files, names, repairs, columns, at=at[_IMAGES], at_box=box_line)


def _read_parts(folder: Path, ids: pl.Series) -> pl.Series:
    """The parts of each image; those without a line are not visible."""
    names = read_lines(folder / _PARTS, {"part": _NUMBER, "name": _TEXT})
    fields = {"uuid": _TEXT, "part": _NUMBER, "x": _NUMBER, "y": _NUMBER, "visible": _NUMBER}
    lines, at = read_lines(folder / _PART_LOCS, fields), line_name(folder / _PART_LOCS)
    for column, known, where in (("uuid", ids, _IMAGES), ("part", names["part"], _PARTS)):
        if (row := first_true(~lines[column].is_in(known.to_list()))) is not None:
            kind = "image" if column == "uuid" else "part"
            raise ManifestError(f"{at(row)}: {kind} {lines[column][row]} is not in {where}")
    if (row := first_true(~lines.select("uuid", "part").is_unique())) is not None:
        uuid, part = lines["uuid"][row], lines["part"][row]
        raise ManifestError(f"{at(row)}: part {part} of image {uuid} has more than one line")
    if (row := first_true(~lines["visible"].is_between(0, 1))) is not None:
        raise ManifestError(f"{at(row)}: visible is {lines['visible'][row]}, neither 0 nor 1")
    image = pl.DataFrame({"uuid": ids, "image": np.arange(len(ids))})
    place = names.select("part", place=pl.int_range(pl.len()))
    placed = lines.join(image, on="uuid", how="left").join(place, on="part", how="left")
    points = np.zeros((len(ids), len(names), 3))
    points[placed["image"].to_numpy(), placed["place"].to_numpy()] = placed.select(
        "x", "y", "visible"
    ).to_numpy()
    offsets = np.arange(len(ids) + 1) * len(names)
    return ragged(points.reshape(-1, 3), offsets).alias(POINTS)


def _aligned(folder: Path, listed: pl.DataFrame, name: str, table: pl.DataFrame) -> pl.DataFrame:
    """The table's rows in the order of images.txt."""
    ids, own = listed["uuid"], table["uuid"]
    if name == _IMAGES:
        return table
    if len(own) == len(ids) and (own == ids).all():
        return table.drop("uuid")
    at = line_name(folder / name)
    if (row := first_true(~own.is_in(ids.to_list()))) is not None:
        raise ManifestError(f"{at(row)}: image {own[row]} is not in {_IMAGES}")
    if (row := first_true(~own.is_first_distinct())) is not None:
        raise ManifestError(f"{at(row)}: image {own[row]} has a row already")
    missing = ~ids.is_in(own.to_list())
    if (row := first_true(missing)) is not None:
        raise ManifestError(
            f"{folder / name}: {missing.sum()} of {len(ids)} images have no row; the first is "
            f"{ids[row]} ({line_name(folder / _IMAGES)(row)})"
        )
    # Both hold the same ids, each once, so the k-th smallest of one is that of the other.
    order = np.empty(len(ids), dtype=np.int64)
    order[ids.arg_sort().to_numpy()] = own.arg_sort().to_numpy()
    return table.drop("uuid")[order]


def _read_classes(folder: Path, class_ids: pl.Series) -> tuple[pl.DataFrame, int]:
    """The classes that `class_ids` (those of the images) use, and how many names were mended."""
    table = read_lines(folder / _CLASSES, {"class_id": _NUMBER, "class_name": _TEXT})
    links = read_lines(folder / _HIERARCHY, {"child": _NUMBER, "parent": _NUMBER})
    known = table["class_id"].to_list()
    for file, ids in ((_CLASSES, table["class_id"]), (_HIERARCHY, links["child"])):
        if (row := first_true(~ids.is_first_distinct())) is not None:
            raise ManifestError(
                f"{line_name(folder / file)(row)}: class {ids[row]} has a row already"
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
    mended = int((collapse(used["class_name"]) != used["class_name"]).sum())
    names = dict(zip(table["class_id"], collapse(table["class_name"]), strict=True))
    above = dict(zip(links["child"], links["parent"], strict=True))
    parts = [take_apart(names[class_id]) for class_id in used["class_id"]]
    classes = pl.DataFrame(
        {
            "class_id": used["class_id"],
            "class_name": collapse(used["class_name"]),
            "species_name": pl.Series([species for species, _ in parts], dtype=_TEXT),
            "subcategory": pl.Series([subcategory for _, subcategory in parts], dtype=_TEXT),
            "parents": pl.Series(
                [
                    [names[parent] for parent in _line_of_descent(folder, above, class_id)]
                    for class_id in used["class_id"]
                ],
                dtype=pl.List(_TEXT),
            ),
        }
    )
    species_id = classes["species_name"].rank("dense").cast(_NUMBER)
    return classes.with_columns(species_id.alias("species_id")), mended


def _line_of_descent(folder: Path, above: dict[int, int], class_id: int) -> list[int]:
    """The classes above one, from the top level down; the root, which holds all, left out."""
    if class_id not in above:
        raise ManifestError(f"{folder / _HIERARCHY}: class {class_id} has images but no row")
    line: list[int] = []
    while (class_id := above[class_id]) in above:
        if class_id in line:
            raise ManifestError(f"{folder / _HIERARCHY}: class {class_id} is below itself")
        line.append(class_id)
    return line[::-1]
