"""A few images are probed when a list gives their sizes, so that a wrong root fails at once."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from PIL import Image

from gpufeed import FileSource, Manifest, ManifestError, MemorySource, SourceError, read_table
from tests.support.deep import png, ramp
from tests.support.media import jpeg, make_manifest, picture

COUNT = 30
PROBED = [0, 4, 8, 12, 16, 20, 24, 29]


@pytest.fixture
def sized(tmp_path: Path) -> Manifest:
    return make_manifest(tmp_path / "pictures", [(20 + number, 40) for number in range(COUNT)])


def turn(path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    path.write_bytes(jpeg(picture(40, 60, seed=0), exif=exif))


HARMS: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (Path.unlink, "No such file or directory; inspect all images with `gpufeed check`"),
    "empty": (lambda path: path.write_bytes(b""), "the file is empty; inspect"),
    "no image": (lambda path: path.write_bytes(b"<html>"), "not a JPEG, PNG, .*'<html>'; inspect"),
    "another size": (
        lambda path: path.write_bytes(jpeg(picture(10, 12, seed=0))),
        r"12 x 10 \(width x height\), listed as 40 x 2\d; to read sizes from the images, leave out",
    ),
    "turned": (turn, r"40 x 60 \(width x height\), listed as 40 x 2\d; to read sizes from"),
    "too deep": (
        lambda path: path.write_bytes(png(ramp(28, 40))),
        "16 bits per channel; to reduce them to 8, pass reduce_depth=True",
    ),
}


@pytest.mark.parametrize("name", HARMS)
def test_a_bad_image_among_those_probed_is_named(sized: Manifest, name: str) -> None:
    harm, message = HARMS[name]
    harm(sized.root / "00008.jpg")
    said = f"^the table: 1 of 8 images that were probed are bad: {sized.root}/00008.jpg: {message}"
    with pytest.raises(ManifestError, match=said):
        read_table(sized.frame, root=sized.root)
    assert len(read_table(sized.frame, root=sized.root, on_bad_image="drop")) == COUNT


def test_eight_are_opened_once_each_and_none_by_a_manifest(
    sized: Manifest, opened: list[str]
) -> None:
    Manifest(sized.frame, sized.root, sized.classes)
    assert opened == []
    read_table(sized.frame, root=sized.root)
    assert opened == [f"{sized.root}/{key:05}.jpg" for key in PROBED]


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9])
def test_a_few_are_all_probed(sized: Manifest, opened: list[str], count: int) -> None:
    read_table(sized.frame[:count], root=sized.root)
    assert len(set(opened)) == len(opened) == min(count, 8)


def test_no_image_is_opened_twice_for_its_size(sized: Manifest, opened: list[str]) -> None:
    read_table(sized.frame.select("path", "label"), root=sized.root)
    images = [path for path in opened if path.endswith(".jpg")]
    assert sorted(images) == [f"{sized.root}/{key:05}.jpg" for key in range(COUNT)]


@pytest.mark.parametrize("on_bad_image", ["raise", "drop"])
@pytest.mark.parametrize("columns", [["path", "label"], ["path", "label", "width", "height"]])
def test_a_wrong_root_is_called_one(
    sized: Manifest, tmp_path: Path, columns: list[str], on_bad_image: Any
) -> None:
    with pytest.raises(ManifestError) as caught:
        read_table(sized.frame.select(columns), root=tmp_path, on_bad_image=on_bad_image)
    examined = "8 images that were probed" if "width" in columns else "30 images"
    assert str(caught.value).removeprefix("the table: ") == (
        f"none of the {examined} exists, such as {tmp_path}/00000.jpg; the root {tmp_path} looks "
        "wrong: pass the folder that the paths are relative to as root=..., in read_nabirds as "
        "images=..."
    )


def test_drop_refuses_only_where_all_that_are_probed_are_bad(sized: Manifest) -> None:
    for key in PROBED[:-1]:
        (sized.root / f"{key:05}.jpg").write_bytes(b"")
    assert len(read_table(sized.frame, root=sized.root, on_bad_image="drop")) == COUNT
    (sized.root / "00029.jpg").unlink()
    with pytest.raises(ManifestError, match=r"8 of 8 images .* bad: .*; and 5 more; inspect"):
        read_table(sized.frame, root=sized.root, on_bad_image="drop")


def test_sources_are_probed_through_themselves(sized: Manifest) -> None:
    contents = [(sized.root / name).read_bytes() for name in sized.frame["path"]]
    asked: list[int] = []

    class Own(MemorySource):
        def open(self, key: int) -> BinaryIO:
            asked.append(key)
            return io.BytesIO(contents[key])

    read_table(sized.frame, source=Own(contents))
    assert asked == PROBED

    class Reading:
        """It cannot open."""

        def read(self, keys: np.ndarray) -> list[bytes | OSError]:
            return [FileNotFoundError(2, "gone") if key == 8 else contents[key] for key in keys]

        def name(self, key: int) -> str:
            return f"shelf {key}"

    with pytest.raises(
        ManifestError, match="1 of 8 images that were probed are bad: shelf 8: gone"
    ):
        read_table(sized.frame, source=Reading())

    class Broken(Reading):
        def read(self, keys: np.ndarray) -> list[bytes | OSError]:  # noqa: ARG002
            return []

    with pytest.raises(SourceError, match=r"Broken\.read returned 0 items for 1 keys"):
        read_table(sized.frame, source=Broken())


def test_a_source_of_files_in_another_order_is_found_out(sized: Manifest) -> None:
    files = FileSource(sized.root, sized.frame["path"].reverse())
    with pytest.raises(ManifestError, match=r"8 of 8 .*40 x 49 .*, listed as 40 x 20; "):
        read_table(sized.frame.drop("path"), source=files)
