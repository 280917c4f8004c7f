"""The course's metadata.parquet, with original and with cleaned images."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records import read_nabirds
from gpufeed.records.nabirds import list_nabirds
from tests.support.nabirds_data import course_frame, plain_rows, write_nabirds, write_picture
from tests.support.nabirds_data import nabirds_metadata as nabirds_metadata


@pytest.fixture(scope="module")
def real_course(nabirds_metadata: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("course")
    course_frame(nabirds_metadata).write_parquet(folder / "metadata.parquet")
    return folder


def test_the_faults_are_in_the_file(real_course: Path) -> None:
    frame = pl.read_parquet(real_course / "metadata.parquet")
    assert frame.shape == (48_562, 14)
    assert frame["species_id"].max() == 405
    ids = dict(frame.select("species_name", "species_id").unique().iter_rows())
    assert (ids["Green-winged Teal"], ids["Green-winged Teal "]) == (186, 187)
    assert "Blue-winged Teal " in ids
    assert "Blue-winged Teal" not in ids


@pytest.mark.parametrize("labels", ["class", "species"])
def test_the_same_labels_as_the_distribution(
    real_course: Path, nabirds_metadata: Path, labels: str
) -> None:
    course = list_nabirds(real_course, labels).manifest()  # there are no photos to probe
    birds = list_nabirds(nabirds_metadata, labels).manifest()
    assert len(birds.classes) == (555 if labels == "class" else 404)
    assert course.classes == birds.classes
    same = [name for name in course.frame.columns if name not in ("species_id", "photographer")]
    assert "label" in same
    assert course.frame.select(same).equals(birds.frame.select(same))
    assert dict(course.repairs) == {"names_mended": 7, "boxes_clamped": 201}
    assert (len(course.split("train")), len(course.split("test"))) == (23_929, 24_633)


def test_its_own_columns_are_kept(real_course: Path) -> None:
    raw = pl.read_parquet(real_course / "metadata.parquet")
    course = list_nabirds(real_course / "metadata.parquet", "class").manifest().frame
    assert course["species_id"].to_list() == raw["species_id"].to_list()
    assert course["photographer"].to_list() == raw["photographer"].to_list()
    assert not course["photographer"].str.contains("[,\"']").any()
    assert course.columns == [
        *("path", "label", "width", "height", "box_x", "box_y", "box_width", "box_height"),
        *("class_id", "class_name", "species_name", "subcategory", "species_id"),
        *("photographer", "is_training_img", "uuid"),
    ]


# --- a small set -------------------------------------------------------------------------------


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """metadata.parquet alone, of four images."""
    (tmp_path / "course").mkdir()
    frame = course_frame(write_nabirds(tmp_path / "birds"))
    frame.write_parquet(tmp_path / "course" / "metadata.parquet")
    return tmp_path / "course"


def paths(folder: Path) -> list[str]:
    return list(plain_rows(folder.parent / "birds", "images.txt").values())


def with_pictures(course: Path, name: str, sizes: list[tuple[int, int]]) -> None:
    for path, size in zip(paths(course), sizes, strict=False):
        write_picture(course / name / path, size)


PHOTOS = [(40, 30), (30, 40), (50, 20), (20, 20)]
SQUARES = [(269, 269), (224, 224), (269, 269), (224, 224)]


def test_without_pictures_the_file_is_listed(course: Path) -> None:
    read = list_nabirds(course, "class").manifest()
    assert read.root == course / "images"
    assert read.sizes().tolist() == [[30, 40], [40, 30], [20, 50], [20, 20]]


def test_original_pictures(course: Path) -> None:
    with_pictures(course, "images", PHOTOS)
    read = read_nabirds(course)
    assert read.root == course / "images"
    assert read.sizes().tolist() == [[30, 40], [40, 30], [20, 50], [20, 20]]
    assert read.boxes().tolist() == [[5, 5, 10, 20], [0, 0, 30, 40], [40, 2, 10, 8], [1, 2, 3, 4]]
    assert "photo_width" not in read.frame.columns


def test_cleaned_pictures(course: Path) -> None:
    with_pictures(course, "images", PHOTOS)
    with_pictures(course, "cleaned_images", SQUARES)
    for read in (
        read_nabirds(course),
        read_nabirds(course / "metadata.parquet"),
        read_nabirds(course, sizes="headers"),
        read_nabirds(course, images=course / "cleaned_images"),
    ):
        assert read.root == course / "cleaned_images"
        assert read.sizes().tolist() == [[269, 269], [224, 224], [269, 269], [224, 224]]
        assert read.boxes().tolist() == [
            [0, 0, 269, 269],
            [0, 0, 224, 224],
            [0, 0, 269, 269],
            [0, 0, 224, 224],
        ]
        photo = read.frame.select(pl.col("^photo_.*$").name.map(lambda name: name[6:]))
        assert photo.columns == ["width", "height", "box_x", "box_y", "box_width", "box_height"]
        assert photo.rows() == [
            (40, 30, 5, 5, 10, 20),
            (30, 40, 0, 0, 30, 40),
            (50, 20, 40, 2, 10, 8),
            (20, 20, 1, 2, 3, 4),
        ]
        assert dict(read.repairs) == {"names_mended": 1, "boxes_clamped": 2}
    # The folder tells nothing, the images do.
    assert "photo_width" not in read_nabirds(course, images=course / "images").frame.columns


def test_a_cleaned_picture_that_is_missing_has_no_size(course: Path) -> None:
    with_pictures(course, "cleaned_images", SQUARES[:3])
    with pytest.raises(ManifestError, match=r"1 of 4 images are bad: .*No such file"):
        read_nabirds(course)
    whole = paths(course)
    found = read_nabirds(course, on_bad_image="drop")
    assert found.frame["path"].to_list() == whole[:3]
    assert found.repairs["images_dropped"] == 1
    assert found.classes == tuple(list_nabirds(course, "class").classes)
    (course / "cleaned_images" / whole[1]).write_bytes(b"<html>")
    found = read_nabirds(course, on_bad_image="drop")
    assert found.frame["path"].to_list() == [whole[0], whole[2]]
    with pytest.raises(ConfigError, match='on_bad_image is \'skip\'; it must be "raise" or "drop"'):
        read_nabirds(course, on_bad_image="skip")  # type: ignore[arg-type]


def test_of_what_sort_pictures_are_is_not_seen_outside(course: Path, tmp_path: Path) -> None:
    """Squares that links lead to are no cleaned images."""
    for path, size in zip(paths(course), SQUARES, strict=True):
        write_picture(tmp_path / "outside" / path, size)
        (course / "images" / path).parent.mkdir(parents=True, exist_ok=True)
        (course / "images" / path).symlink_to(tmp_path / "outside" / path)
    assert not list_nabirds(course, "class").cropped
    assert list_nabirds(course, "class", follow_links=True).cropped
    assert read_nabirds(course, follow_links=True).sizes().tolist() == [[*size] for size in SQUARES]
    (course / "images" / paths(course)[0]).unlink()
    write_picture(course / "images" / paths(course)[0], SQUARES[0])
    assert list_nabirds(course, "class").cropped


def test_a_few_originals_of_another_size_are_originals(course: Path) -> None:
    with_pictures(course, "images", [PHOTOS[0], PHOTOS[1][::-1], (9, 9)])  # one is turned
    assert not list_nabirds(course, "class").cropped
    (course / "images" / paths(course)[0]).write_bytes(b"damaged")
    assert not list_nabirds(course, "class").cropped


def test_sizes_from_the_headers_of_originals(course: Path) -> None:
    with_pictures(course, "images", [(12, 15), *PHOTOS[1:]])
    read = read_nabirds(course, sizes="headers")
    assert read.sizes().tolist()[0] == [15, 12]
    assert read.boxes()[0].tolist() == [5, 5, 7, 10]
    assert dict(read.repairs) == {"names_mended": 1, "sizes_replaced": 1, "boxes_clamped": 3}


def test_a_folder_with_images_txt_is_the_distribution(course: Path) -> None:
    write_nabirds(course)
    assert "parents" in read_nabirds(course).frame.columns
    assert "parents" not in read_nabirds(course / "metadata.parquet").frame.columns


def test_names_with_letters_that_make_a_pattern(course: Path) -> None:
    course = course.rename(course.with_name("a[b]*"))
    with_pictures(course, "images", PHOTOS)
    assert len(read_nabirds(course)) == 4


# --- a small set, broken -----------------------------------------------------------------------


def broken(course: Path, *changes: pl.Expr) -> str:
    file = course / "metadata.parquet"
    pl.read_parquet(file).with_columns(changes).write_parquet(file)
    with pytest.raises(ManifestError) as caught:
        read_nabirds(course)
    said = str(caught.value)
    assert said.startswith(str(file))
    return said.removeprefix(str(file))


def second(name: str, value: object) -> pl.Expr:
    is_second = pl.int_range(pl.len()) == 1
    return pl.when(is_second).then(pl.lit(value)).otherwise(pl.col(name)).alias(name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (second("path", "../x.jpg"), ", row 1: the path '../x.jpg' leaves the root through '..'"),
        (second("path", "/x.jpg"), ", row 1: the path '/x.jpg' is absolute"),
        (second("path", None), ", row 1: path is null"),
        (second("width", 0), ", row 1: 0x40 is not a valid size"),
        (second("width", 2**40), ", row 1: width 1099511627776 is out of range"),
        (
            second("bb_x", 30),
            ", row 1: the box 30 0 30 45 (x y width height) lies entirely outside",
        ),
        (second("is_training_img", 3), ", row 1: is_training_img 3 is neither 1 nor 0"),
        (second("UUID", "0a000000-0000-4000-8000-000000000001"), ", row 1: image 0a000000"),
        (second("class_id", 22), ": class_id 22 has more than one name"),
        (pl.col("class_id").cast(pl.String), ": column 'class_id' is of dtype String, not Int32"),
        (pl.col("path").cast(pl.Binary), ": column 'path' is of dtype Binary, not String"),
    ],
)
def test_a_wrong_row(course: Path, change: pl.Expr, message: str) -> None:
    assert broken(course, change).startswith(message)


def test_wrong_files(course: Path) -> None:
    file = course / "metadata.parquet"
    frame = pl.read_parquet(file)
    frame.drop("bb_x").write_parquet(file)
    with pytest.raises(ManifestError, match=r"there is no column 'bb_x'; the columns are \['UUID'"):
        read_nabirds(file)
    frame.clear().write_parquet(file)
    with pytest.raises(ManifestError, match="the table is empty"):
        read_nabirds(file)
    for content in (b"", b"PAR1", b"PAR1" + b"\xff" * 64 + b"PAR1"):
        file.write_bytes(content)
        with pytest.raises(ManifestError, match=f"{file} is not a valid Parquet file: "):
            read_nabirds(file)


def test_null_subcategories_and_photographers(course: Path) -> None:
    file = course / "metadata.parquet"
    frame = pl.read_parquet(file).with_columns(
        pl.lit(None).alias("photographer"),
        pl.lit(None).alias("subcategory"),
    )
    frame.write_parquet(file)
    read = list_nabirds(file, "class").manifest().frame
    assert read.schema["photographer"] == pl.String
    assert read["class_name"].to_list() == read["species_name"].to_list()
