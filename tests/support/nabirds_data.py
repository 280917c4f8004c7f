"""NABirds for the tests of its readers: the real text files, and a tiny set of the same form."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import polars as pl
import pytest
from PIL import Image

CLASSES = {
    0: "Birds",
    1: "Ducks, Geese, and Swans",
    2: "Perching Birds",
    3: "Titmice",
    10: "Blue-winged Teal",
    20: "Blue-winged Teal  (Male)",
    21: "Blue-winged Teal (Female/juvenile)",
    22: "Oak Titmouse",
}
HIERARCHY = [(1, 0), (2, 0), (3, 2), (10, 1), (20, 10), (21, 10), (22, 3)]
# uuid, class, size, box, photographer, in training
IMAGES = [
    ("0a000000-0000-4000-8000-000000000001", 22, (40, 30), (5, 5, 10, 20), "Ann Lee", 1),
    ("0a000000-0000-4000-8000-000000000002", 21, (30, 40), (0, 0, 30, 45), '"Bo" C., D & E', 0),
    ("0a000000-0000-4000-8000-000000000003", 20, (50, 20), (40, 2, 20, 8), "F  'G", 1),
    ("0a000000-0000-4000-8000-000000000004", 22, (20, 20), (1, 2, 3, 4), "Ann Lee", 0),
]


def picture_path(uuid: str, class_id: int) -> str:
    return f"{class_id:04d}/{uuid.replace('-', '')}.jpg"


def write_nabirds(folder: Path) -> Path:
    """A distribution of four images, in two species and three classes."""
    folder.mkdir(parents=True, exist_ok=True)
    lines: dict[str, list[str]] = {
        "classes.txt": [f"{number} {name}" for number, name in CLASSES.items()],
        "hierarchy.txt": [f"{child} {parent}" for child, parent in HIERARCHY],
    }
    for uuid, class_id, size, box, photographer, split in IMAGES:
        path = picture_path(uuid, class_id)
        for name, rest in {
            "images.txt": path,
            "image_class_labels.txt": class_id,
            "sizes.txt": "{} {}".format(*size),
            "bounding_boxes.txt": "{} {} {} {}".format(*box),
            "photographers.txt": photographer,
            "train_test_split.txt": split,
        }.items():
            lines.setdefault(name, []).append(f"{uuid} {rest}")
        write_picture(folder / "images" / path, size)
    for name, rows in lines.items():
        (folder / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def write_picture(file: Path, size: tuple[int, int]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (90, 120, 30)).save(file)


def plain_rows(folder: Path, name: str) -> dict[str, str]:
    """A per-image file read by nothing but Python: id -> the rest of its line."""
    text = (folder / name).read_text(encoding="utf-8")
    return dict(line.split(" ", 1) for line in text.splitlines())


def course_frame(folder: Path) -> pl.DataFrame:
    """The course's metadata.parquet, made of the distribution's files with the course's faults.

    Names of species keep a space at their end where the distribution has a doubled one,
    photographers lose commas and quotes, and the dense rank of the names counts one too many.
    """
    classes = {int(key): name for key, name in plain_rows(folder, "classes.txt").items()}
    paths = plain_rows(folder, "images.txt")
    labels = plain_rows(folder, "image_class_labels.txt")
    sizes = plain_rows(folder, "sizes.txt")
    boxes = plain_rows(folder, "bounding_boxes.txt")
    photographers = plain_rows(folder, "photographers.txt")
    split = plain_rows(folder, "train_test_split.txt")
    rows = []
    for uuid, path in paths.items():
        name = classes[int(labels[uuid])]
        found = re.fullmatch(r"(.*) \((.*)\)", name)
        rows.append(
            (
                uuid,
                *(int(value) for value in boxes[uuid].split()),
                int(labels[uuid]),
                found[2] if found else None,
                path,
                re.sub("[,\"']", "", photographers[uuid]),
                *(int(value) for value in sizes[uuid].split()),
                int(split[uuid]),
                found[1] if found else name,
            )
        )
    schema = {
        "UUID": pl.String,
        **dict.fromkeys(("bb_x", "bb_y", "bb_width", "bb_height", "class_id"), pl.Int64),
        **dict.fromkeys(("subcategory", "path", "photographer"), pl.String),
        **dict.fromkeys(("width", "height", "is_training_img"), pl.Int64),
        "species_name": pl.String,
    }
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return frame.with_columns(pl.col("species_name").rank("dense").alias("species_id"))


@pytest.fixture(scope="session")
def nabirds_metadata(testdata: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the real text files."""
    folder = tmp_path_factory.mktemp("nabirds")
    with tarfile.open(testdata / "nabirds_metadata" / "nabirds_metadata.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return next(iter(folder.rglob("images.txt"))).parent
