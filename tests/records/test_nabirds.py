"""NABirds' own folder: the real text files, and every way in which a small one can be wrong."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records import Manifest, read_nabirds
from gpufeed.records.nabirds import list_nabirds
from tests.support.nabirds_data import (
    IMAGES,
    picture_path,
    plain_rows,
    write_nabirds,
    write_picture,
)
from tests.support.nabirds_data import nabirds_metadata as nabirds_metadata


@pytest.fixture(scope="module")
def real(nabirds_metadata: Path) -> Manifest:
    return list_nabirds(nabirds_metadata, "class").manifest()  # there are no photos to probe


# --- the real files ----------------------------------------------------------------------------


def test_the_counts(real: Manifest, nabirds_metadata: Path) -> None:
    assert len(real) == 48_562
    assert len(real.split("train")) == 23_929
    assert len(real.split("test")) == 24_633
    assert len(real.classes) == 555
    assert real.frame["path"].str.ends_with(".JPG").sum() == 35
    assert real.split("train").frame["path"].str.ends_with(".JPG").sum() == 17
    assert real.root == nabirds_metadata / "images"
    # Three names have a doubled space, and four end as "Swainson's Hawk (Dark morph )" does.
    assert dict(real.repairs) == {"names_mended": 7, "boxes_clamped": 201}
    assert real.frame.schema == {
        "path": pl.String,
        "label": pl.Int32,
        **dict.fromkeys(("width", "height"), pl.Int32),
        **dict.fromkeys(("box_x", "box_y", "box_width", "box_height"), pl.Int32),
        "class_id": pl.Int32,
        **dict.fromkeys(("class_name", "species_name", "subcategory"), pl.String),
        "species_id": pl.Int32,
        "parents": pl.List(pl.String),
        "photographer": pl.String,
        "is_training_img": pl.Boolean,
        "uuid": pl.String,
    }


def test_each_file_against_plain_python(real: Manifest, nabirds_metadata: Path) -> None:
    frame = real.frame
    ids = frame["uuid"].to_list()
    for name, columns in {
        "images.txt": ["path"],
        "image_class_labels.txt": ["class_id"],
        "sizes.txt": ["width", "height"],
        "photographers.txt": ["photographer"],
    }.items():
        rows = plain_rows(nabirds_metadata, name)
        assert list(rows) == ids
        read = frame.select(pl.concat_str(pl.col(columns).cast(pl.String), separator=" "))
        assert read.to_series().to_list() == list(rows.values()), name
    split = plain_rows(nabirds_metadata, "train_test_split.txt")
    assert frame["is_training_img"].to_list() == [value == "1" for value in split.values()]


def test_boxes_lie_inside_and_only_those_that_overran_differ(
    real: Manifest, nabirds_metadata: Path
) -> None:
    sizes = real.sizes()
    changed = 0
    given = plain_rows(nabirds_metadata, "bounding_boxes.txt").values()
    for text, (height, width), box in zip(given, sizes, real.boxes(), strict=True):
        x, y, w, h = map(int, text.split())
        inside = [x, y, min(w, width - x), min(h, height - y)]
        assert box.tolist() == inside
        changed += inside != [x, y, w, h]
    assert changed == 201


def test_photographers_are_intact(real: Manifest) -> None:
    names = real.frame["photographer"]
    assert names.n_unique() == 1_031
    assert names.str.contains(",", literal=True).sum() == 1_573
    assert names.str.contains('"', literal=True).sum() == 143
    assert '"Mike" Michael L. Baird, flickr.bairdphotos.com' in names
    assert names.str.contains("&", literal=True).any()


def test_class_labels(real: Manifest, nabirds_metadata: Path) -> None:
    given = [int(text) for text in plain_rows(nabirds_metadata, "image_class_labels.txt").values()]
    used = sorted(set(given))
    names = {
        int(number): re.sub(" +", " ", name).replace(" )", ")")
        for number, name in plain_rows(nabirds_metadata, "classes.txt").items()
    }
    assert (used[0], used[-1]) == (295, 1010)
    assert real.classes == tuple(names[number] for number in used)
    assert real.frame["label"].to_list() == [used.index(number) for number in given]
    assert real.frame["class_name"].to_list() == [names[number] for number in given]
    assert real.classes[0] == "Common Eider (Adult male)"


def test_species_labels(nabirds_metadata: Path) -> None:
    birds = list_nabirds(nabirds_metadata, "species").manifest()
    assert len(birds.classes) == 404
    assert list(birds.classes) == sorted(set(birds.classes))
    names = birds.frame["species_name"].to_list()
    assert [birds.classes[label] for label in birds.frame["label"]] == names
    assert (birds.frame["species_id"] == birds.frame["label"] + 1).all()
    assert Counter(names)["Green-winged Teal"] == 144
    assert not any("(" in name for name in birds.classes)
    counts = birds.frame["label"].value_counts()
    assert counts["label"].sort().to_list() == list(range(404))


def test_both_splits_share_the_labels(real: Manifest) -> None:
    train, test = real.split("train"), real.split("test")
    assert train.classes == test.classes == real.classes
    for part in (train, test):
        assert part.frame["label"].unique().sort().to_list() == list(range(555))


def test_names_are_one_whole(real: Manifest) -> None:
    for column in ("class_name", "species_name", "subcategory", "photographer"):
        values = real.frame[column].drop_nulls()
        assert not values.str.contains(r"\s\s|^\s|\s$|\t").any(), column
    assert not any(part in name for name in real.classes for part in ("  ", " )", "( "))
    assert not real.frame["parents"].explode().str.contains("  ", literal=True).any()
    for row in real.frame.unique("class_id").iter_rows(named=True):
        part = f" ({row['subcategory']})" if row["subcategory"] else ""
        assert row["class_name"] == row["species_name"] + part


def test_parents(real: Manifest) -> None:
    classes = real.frame.unique("class_id")
    assert dict(classes["parents"].list.len().value_counts().iter_rows()) == {2: 290, 3: 265}
    assert real.frame["parents"].list.first().n_unique() <= 22
    (junco,) = classes.filter(pl.col("class_id") == 1010)["parents"].to_list()
    assert junco == ["Perching Birds", "New World Sparrows and Allies", "Dark-eyed Junco"]


def test_the_real_fingerprint_can_be_had_without_a_reader_of_ours(nabirds_metadata: Path) -> None:
    """Two columns, hashed again in plain Python by what `fingerprint` says of itself."""
    paths = list(plain_rows(nabirds_metadata, "images.txt").values())
    digest = hashlib.sha256()

    def add(part: bytes) -> None:
        digest.update(len(part).to_bytes(8, "little") + part)

    n = len(paths)
    for part in (b"gpufeed manifest 1", b"1", b"bird", str(n).encode()):
        add(part)
    for name in ("height", "label", "path", "width"):
        add(name.encode())
        add(bytes((n + 7) // 8))
        if name == "path":
            add(b"str")
            add(b"".join(len(path.encode()).to_bytes(8, "little") for path in paths))
            add("".join(paths).encode())
        else:
            add(b"i4")
            add((0 if name == "label" else 9).to_bytes(4, "little") * n)
    table = pl.DataFrame({"path": paths}).with_columns(label=0, width=9, height=9)
    assert Manifest(table, "/", ["bird"]).fingerprint() == digest.hexdigest()


# --- a small set, whole ------------------------------------------------------------------------


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    return write_nabirds(tmp_path / "birds")


def edit(file: Path, change: Callable[[list[str]], object]) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    change(lines)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_the_small_set(birds: Path) -> None:
    read = read_nabirds(birds, labels="species")
    assert read.classes == ("Blue-winged Teal", "Oak Titmouse")
    assert read.frame["label"].to_list() == [1, 0, 0, 1]
    assert read.frame["subcategory"].to_list() == [None, "Female/juvenile", "Male", None]
    assert read.frame["photographer"].to_list() == ["Ann Lee", '"Bo" C., D & E', "F  'G", "Ann Lee"]
    assert read.boxes().tolist() == [[5, 5, 10, 20], [0, 0, 30, 40], [40, 2, 10, 8], [1, 2, 3, 4]]
    assert dict(read.repairs) == {"names_mended": 1, "boxes_clamped": 2}
    assert read.frame["parents"].to_list() == [
        ["Perching Birds", "Titmice"],
        ["Ducks, Geese, and Swans", "Blue-winged Teal"],
        ["Ducks, Geese, and Swans", "Blue-winged Teal"],
        ["Perching Birds", "Titmice"],
    ]
    classes = read_nabirds(birds).classes
    assert classes == (
        "Blue-winged Teal (Male)",
        "Blue-winged Teal (Female/juvenile)",
        "Oak Titmouse",
    )


def test_crlf_a_byte_order_mark_and_blank_last_lines_change_nothing(birds: Path) -> None:
    before = read_nabirds(birds).fingerprint()
    for file in birds.glob("*.txt"):
        data = file.read_bytes().replace(b"\n", b"\r\n")
        file.write_bytes(b"\xef\xbb\xbf" + data + b"\r\n\r\n")
    assert read_nabirds(birds).fingerprint() == before


def test_a_file_without_a_last_line_end(birds: Path) -> None:
    before = read_nabirds(birds).fingerprint()
    for file in birds.glob("*.txt"):
        file.write_bytes(file.read_bytes().rstrip(b"\n"))
    assert read_nabirds(birds).fingerprint() == before


def test_files_may_be_in_different_orders(birds: Path) -> None:
    before = read_nabirds(birds).frame
    for name in ("sizes.txt", "photographers.txt", "train_test_split.txt"):
        edit(birds / name, lambda lines: lines.reverse())
    edit(birds / "bounding_boxes.txt", lambda lines: lines.insert(0, lines.pop(2)))
    assert read_nabirds(birds).frame.equals(before)
    edit(birds / "images.txt", lambda lines: lines.insert(3, lines.pop(0)))
    assert read_nabirds(birds).frame.equals(before[[1, 2, 3, 0]])


def test_names_outside_ascii(birds: Path) -> None:
    edit(birds / "photographers.txt", lambda lines: lines.__setitem__(0, f"{IMAGES[0][0]} Zoë 鳥"))
    assert read_nabirds(birds).frame["photographer"][0] == "Zoë 鳥"


def test_the_pictures_may_be_elsewhere(birds: Path, tmp_path: Path) -> None:
    assert read_nabirds(birds).root == birds / "images"
    moved = (birds / "images").rename(tmp_path / "moved")
    assert read_nabirds(birds, images=moved).root == moved
    assert refusal(birds) == (
        f"none of the 4 images that were probed exists, such as {birds}/images/"
        f"{picture_path(*IMAGES[0][:2])}; the root {birds}/images looks wrong: pass the folder "
        "that the paths are relative to as root=..., in read_nabirds as images=..."
    )
    assert "the root" in refusal(birds, sizes="headers", on_bad_image="drop")
    with pytest.raises(ManifestError, match=rf"images: there is no folder {tmp_path}/none"):
        read_nabirds(birds, images=tmp_path / "none")


def test_sizes_from_headers(tmp_path: Path) -> None:
    birds = write_nabirds(tmp_path / "birds")
    write_picture(birds / "images" / picture_path(*IMAGES[0][:2]), (12, 15))
    read = read_nabirds(birds, sizes="headers")
    assert read.sizes().tolist() == [[15, 12], [40, 30], [20, 50], [20, 20]]
    assert read.boxes()[0].tolist() == [5, 5, 7, 10]
    assert dict(read.repairs) == {"names_mended": 1, "sizes_replaced": 1, "boxes_clamped": 3}
    (birds / "images" / picture_path(*IMAGES[1][:2])).unlink()
    with pytest.raises(ManifestError, match=r"1 of 4 images are bad: .*No such file"):
        read_nabirds(birds, sizes="headers")
    assert refusal(birds).startswith("2 of 4 images that were probed are bad: ")
    assert len(read_nabirds(birds, on_bad_image="drop")) == 4


# --- a small set, broken -----------------------------------------------------------------------

FIRST, SECOND, THIRD, FOURTH = (image[0] for image in IMAGES)
OTHER = "ffffffff-0000-4000-8000-000000000009"
FILES = [
    "images.txt",
    "image_class_labels.txt",
    "sizes.txt",
    "bounding_boxes.txt",
    "photographers.txt",
    "train_test_split.txt",
    "classes.txt",
    "hierarchy.txt",
]


def refusal(birds: Path, **options: object) -> str:
    with pytest.raises(ManifestError) as caught:
        read_nabirds(birds, **options)
    return str(caught.value)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(birds: Path, name: str) -> None:
    (birds / name).unlink()
    assert refusal(birds) == f"the file {birds / name} is missing"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", [b"", b"\n\n", b"\r\n"])
def test_an_empty_file_is_named(birds: Path, name: str, content: bytes) -> None:
    (birds / name).write_bytes(content)
    assert refusal(birds) == f"{birds / name} is empty"


@pytest.mark.parametrize("name", FILES)
def test_what_is_not_utf8_is_named(birds: Path, name: str) -> None:
    data = (birds / name).read_bytes().splitlines(keepends=True)
    (birds / name).write_bytes(data[0] + data[1].rstrip() + b" \xff\n" + b"".join(data[2:]))
    assert refusal(birds) == f"{birds / name}, line 2: not UTF-8 text (invalid start byte)"


PER_IMAGE = FILES[1:6]


@pytest.mark.parametrize("name", PER_IMAGE)
def test_a_row_short(birds: Path, name: str) -> None:
    edit(birds / name, lambda lines: lines.pop(1))
    assert refusal(birds) == (
        f"{birds / name}: 1 of 4 images have no line; the first is {SECOND} "
        f"({birds / 'images.txt'}, line 2)"
    )


@pytest.mark.parametrize("name", PER_IMAGE)
def test_a_row_too_many(birds: Path, name: str) -> None:
    edit(birds / name, lambda lines: lines.append(lines[2].replace(THIRD, OTHER)))
    assert refusal(birds) == f"{birds / name}, line 5: image {OTHER} is not in images.txt"


@pytest.mark.parametrize("name", PER_IMAGE)
def test_an_id_that_does_not_match(birds: Path, name: str) -> None:
    edit(birds / name, lambda lines: lines.__setitem__(2, lines[2].replace(THIRD, OTHER)))
    assert refusal(birds) == f"{birds / name}, line 3: image {OTHER} is not in images.txt"


@pytest.mark.parametrize("name", PER_IMAGE)
def test_an_id_twice(birds: Path, name: str) -> None:
    edit(birds / name, lambda lines: lines.append(lines[0]))
    assert refusal(birds) == f"{birds / name}, line 5: image {FIRST} has more than one line"


def line_becomes(birds: Path, name: str, number: int, text: str) -> None:
    edit(birds / name, lambda lines: lines.__setitem__(number - 1, text))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "images.txt",
            f"{SECOND}",
            "expected 2 fields (uuid, path) separated by single spaces, not",
        ),
        ("images.txt", "", "expected 2 fields (uuid, path) separated by single spaces, not ''"),
        ("images.txt", f"{FIRST} 0001/a.jpg", f"image {FIRST} is listed more than once"),
        ("images.txt", f"{SECOND} ../a.jpg", "the path '../a.jpg' leaves the root through '..'"),
        ("images.txt", f"{SECOND} a/../../b.jpg", "leaves the root through '..'"),
        ("images.txt", f"{SECOND} /etc/passwd", "the path '/etc/passwd' is absolute"),
        ("images.txt", f"{SECOND} a\\b.jpg", "contains a backslash"),
        ("images.txt", f"{SECOND} a\0b.jpg", "contains a NUL character"),
        ("image_class_labels.txt", f"{SECOND} x1", "class_id 'x1' is not a 32-bit integer"),
        ("image_class_labels.txt", f"{SECOND} 1.0", "class_id '1.0' is not a 32-bit integer"),
        (
            "image_class_labels.txt",
            f"{SECOND} 99999999999",
            "'99999999999' is not a 32-bit integer",
        ),
        ("image_class_labels.txt", f"{SECOND} 77", "class 77 is not in classes.txt"),
        ("image_class_labels.txt", f"{SECOND} ", "expected 2 fields (uuid, class_id)"),
        ("image_class_labels.txt", f"{SECOND}  7", "expected 2 fields (uuid, class_id)"),
        ("image_class_labels.txt", f"{SECOND} 20 20", "expected 2 fields (uuid, class_id)"),
        ("sizes.txt", f"{SECOND} 3", "expected 3 fields (uuid, width, height)"),
        ("sizes.txt", f"{SECOND} 3 4 5", "expected 3 fields (uuid, width, height)"),
        ("sizes.txt", f"{SECOND} 0 4", "0x4 is not a valid size"),
        ("sizes.txt", f"{SECOND} 3 -4", "3x-4 is not a valid size"),
        ("bounding_boxes.txt", f"{SECOND} 1 2 3", "expected 5 fields"),
        ("bounding_boxes.txt", f"{SECOND} 1 2 3 four", "box_height 'four' is not a 32-bit integer"),
        ("bounding_boxes.txt", f"{SECOND} 1 2 0 4", "the box 1 2 0 4 (x y width height) has no"),
        (
            "bounding_boxes.txt",
            f"{SECOND} 30 2 9 4",
            "the box 30 2 9 4 (x y width height) lies entirely outside the image of 30x40 pixels",
        ),
        ("photographers.txt", SECOND, "expected 2 fields (uuid, photographer)"),
        ("train_test_split.txt", f"{SECOND} 2", "2 is neither 1 (train) nor 0 (test)"),
        ("classes.txt", "0 Again", "class 0 has more than one line"),
        ("classes.txt", "one Ducks", "class_id 'one' is not a 32-bit integer"),
        ("hierarchy.txt", "1 0", "class 1 has more than one line"),
        ("hierarchy.txt", "2 999", "class 999 is not in classes.txt"),
        ("hierarchy.txt", "999 1", "class 999 is not in classes.txt"),
        ("hierarchy.txt", "2", "expected 2 fields (child, parent)"),
    ],
)
def test_a_wrong_line(birds: Path, name: str, text: str, message: str) -> None:
    line_becomes(birds, name, 2, text)
    said = refusal(birds)
    assert said.startswith(f"{birds / name}, line 2: ")
    assert message in said


def test_a_box_is_named_by_its_own_line_in_a_file_of_another_order(birds: Path) -> None:
    edit(birds / "bounding_boxes.txt", lambda lines: lines.reverse())
    line_becomes(birds, "bounding_boxes.txt", 4, f"{FIRST} 99 0 5 5")
    assert f"{birds / 'bounding_boxes.txt'}, line 4: the box 99 0 5 5" in refusal(birds)


def test_a_pipe_is_named(birds: Path) -> None:
    (birds / "sizes.txt").unlink()
    os.mkfifo(birds / "sizes.txt")
    message = f"cannot read {birds}/sizes.txt: not a regular file but a pipe"
    assert refusal(birds) == message


def test_a_hierarchy_that_is_none(birds: Path) -> None:
    line_becomes(birds, "hierarchy.txt", 3, "3 22")
    assert refusal(birds) == f"{birds / 'hierarchy.txt'}: class 3 is its own ancestor"
    write_nabirds(birds)
    edit(birds / "hierarchy.txt", lambda lines: lines.pop())
    assert refusal(birds) == f"{birds / 'hierarchy.txt'}: class 22 has images but no line"


def test_a_link_out_of_the_root(tmp_path: Path) -> None:
    birds = write_nabirds(tmp_path / "birds")
    read_nabirds(birds)
    secret = tmp_path / "secret.jpg"
    secret.write_bytes(b"x")
    file = birds / "images" / picture_path(*IMAGES[2][:2])
    file.unlink()
    file.symlink_to(secret)
    assert refusal(birds) == (
        f"{birds / 'images.txt'}, line 3: the path '{picture_path(*IMAGES[2][:2])}' leaves the "
        f"root {birds / 'images'} through a symbolic link to {secret}; follow such "
        'links with follow_links=True if you trust them, or leave them out with on_bad_image="drop"'
    )
    whole = read_nabirds(write_nabirds(tmp_path / "whole"))
    secret.unlink()
    secret.symlink_to(whole.source.name(2))
    for sizes in ("manifest", "headers"):
        followed = read_nabirds(birds, sizes=sizes, follow_links=True)
        assert followed.fingerprint() == whole.fingerprint()
        rest = read_nabirds(birds, sizes=sizes, on_bad_image="drop")
        assert rest.frame.equals(whole.frame[[0, 1, 3]])
        assert rest.classes == whole.classes
        assert rest.repairs["links_dropped"] == 1
        assert "images_dropped" not in rest.repairs
    # A link that stays inside is none of our business, nor is one that no row asks for.
    file.unlink()
    file.symlink_to(birds / "images" / picture_path(*IMAGES[0][:2]))
    (file.parent / "unasked.jpg").symlink_to(secret)
    assert len(read_nabirds(birds, on_bad_image="drop")) == 4  # its size is another
    file.unlink()
    file.symlink_to(secret)
    # With rows left out, an error names its line all the same.
    edit(
        birds / "bounding_boxes.txt", lambda lines: lines.__setitem__(3, f"{IMAGES[3][0]} 1 2 0 4")
    )
    said = refusal(birds, on_bad_image="drop")
    assert said.startswith(f"{birds / 'bounding_boxes.txt'}, line 4: the box 1 2 0 4 ")


def test_sizes_from_headers_that_can_not_be_read(tmp_path: Path) -> None:
    birds = write_nabirds(tmp_path / "birds")
    paths = [birds / "images" / picture_path(*row[:2]) for row in IMAGES]
    paths[0].write_bytes(b"<html>")
    write_picture(paths[1], (30, 41))  # listed as 30 x 40
    assert refusal(birds, sizes="headers").startswith("1 of 4 images are bad: ")
    rest = read_nabirds(birds, sizes="headers", on_bad_image="drop")
    assert rest.sizes().tolist() == [[41, 30], [20, 50], [20, 20]]
    assert dict(rest.repairs) == {
        "names_mended": 1, "sizes_replaced": 1, "images_dropped": 1, "boxes_clamped": 2
    }  # fmt: skip
    for path in paths:
        path.unlink()
        path.symlink_to("/etc/hostname")
    for sizes in ("manifest", "headers"):
        said = f"every image listed leaves the root {birds / 'images'} through a symbolic link"
        assert refusal(birds, sizes=sizes, on_bad_image="drop").startswith(said)


def test_a_folder_that_is_a_link_out_of_the_root(tmp_path: Path) -> None:
    birds = write_nabirds(tmp_path / "birds")
    folder = (birds / "images" / picture_path(*IMAGES[1][:2])).parent
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert f"line 2: the path '{folder.name}/" in (said := refusal(birds))
    assert "through a symbolic link to " + str(tmp_path / "elsewhere") in said


def test_the_root_may_be_a_link_itself(tmp_path: Path) -> None:
    birds = write_nabirds(tmp_path / "birds")
    (birds / "images").rename(tmp_path / "pictures")
    (birds / "images").symlink_to(tmp_path / "pictures")
    assert len(read_nabirds(birds)) == 4


def test_what_is_no_nabirds(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none") == f"there is no file or folder {tmp_path / 'none'}"
    assert refusal(tmp_path) == (
        f"{tmp_path} is not a NABirds folder: it has neither images.txt nor metadata.parquet; "
        "pass the folder that has; read_folder reads a folder of class folders"
    )


def test_arguments_it_refuses(birds: Path) -> None:
    with pytest.raises(ConfigError, match='labels must be "class" or "species", not \'genus\''):
        read_nabirds(birds, labels="genus")
    with pytest.raises(ConfigError, match='sizes must be "manifest" or "headers", not \'guess\''):
        read_nabirds(birds, sizes="guess")


def test_labels_are_int32_and_rows_come_by_key(birds: Path) -> None:
    read = read_nabirds(birds)
    rows = read.rows(np.array([3, 0]))
    assert rows["uuid"].to_list() == [FOURTH, FIRST]
    assert rows.schema["label"] == pl.Int32


# ------------------------------------------------------------------------------- parts

PARTS = ["0 bill", "1 left wing", "2 tail"]


def write_parts(folder: Path, lines: list[str]) -> None:
    (folder / "parts").mkdir()
    (folder / "parts" / "parts.txt").write_text("\n".join(PARTS) + "\n")
    (folder / "parts" / "part_locs.txt").write_text("\n".join(lines) + "\n")


def part_lines(birds: Path) -> list[str]:
    ids = [line.split()[0] for line in (birds / "images.txt").read_text().splitlines()]
    return [
        f"{uuid} {part} {10 * i} {part} {int(part != 1)}"
        for i, uuid in enumerate(ids)
        for part in range(3)
    ]


def test_parts_are_read_where_there_are_any(birds: Path) -> None:
    without = read_nabirds(birds)
    assert not without.has_points
    lines = part_lines(birds)
    write_parts(birds, lines[::-1])
    read = read_nabirds(birds)
    assert read.points().shape == (4, 3, 3)
    assert read.point_names == ("bill", "left wing", "tail")
    for image, points in enumerate(read.points()):
        assert points.tolist() == [[10 * image, part, part != 1] for part in range(3)]
    assert read.frame.drop("points").equals(without.frame)
    assert read.split("test").points()[:, 0, 0].tolist() == [10, 30]


def test_a_part_without_a_line_is_not_visible(birds: Path) -> None:
    write_parts(birds, part_lines(birds)[:4])
    points = read_nabirds(birds).points()
    assert points[1].tolist() == [[10, 0, 1], [0, 0, 0], [0, 0, 0]]
    assert not points[2:].any()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "0a000000-0000-4000-8000-000000000009 0 1 1 1",
            "line 1: image 0a.*9 is not in images.txt",
        ),
        ("{uuid} 3 1 1 1", "line 1: part 3 is not in parts/parts.txt"),
        ("{uuid} 0 1 1 2", "line 1: visible is 2, neither 0 nor 1"),
        ("{uuid} 0 1 1 1\n{uuid} 0 2 2 1", "line 1: part 0 of image .* more than one line"),
        ("{uuid} 0 1 1", "line 1: expected 5 fields"),
    ],
)
def test_a_wrong_part_is_named(birds: Path, line: str, message: str) -> None:
    uuid = part_lines(birds)[0].split()[0]
    write_parts(birds, line.format(uuid=uuid).split("\n"))
    with pytest.raises(ManifestError, match=message):
        read_nabirds(birds)
