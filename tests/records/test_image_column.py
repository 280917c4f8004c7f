"""`read_table` of tables that hold images, as of those that hold their paths."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from gpufeed import Manifest, read_table
from gpufeed.errors import DecodeError, ManifestError
from gpufeed.source.ranges import RangeSource
from tests.support.loaders import digest, make
from tests.support.media import jpeg, picture

COUNT = 24
IMAGES = [jpeg(picture(30 + number, 60, seed=number)) for number in range(COUNT)]


def table(**columns: Any) -> pl.DataFrame:
    base = {"image": IMAGES, "label": ["b", "a", "c"] * 8, "note": range(COUNT)}
    return pl.DataFrame(base | columns)


def write(folder: Path, frame: pl.DataFrame) -> Path:
    frame.write_parquet(folder / "a.parquet", compression="snappy", row_group_size=10)
    return folder / "a.parquet"


def test_a_table_of_images(tmp_path: Path) -> None:
    in_memory = read_table(table(), image="image")
    assert in_memory.frame.columns == ["path", "label", "width", "height", "note"]
    assert in_memory.frame.row(5) == ("5", 2, 60, 35, 5)
    assert in_memory.classes == ("a", "b", "c")
    read = read_table(write(tmp_path, table()), image="image")
    assert read.frame["path"].to_list() == [f"a.parquet/{row}" for row in range(COUNT)]
    assert read.frame.drop("path").equals(in_memory.frame.drop("path"))
    named = read_table(table(path=[f"{row}.jpg" for row in range(COUNT)]), image="image")
    assert named.frame["path"][3] == "3.jpg"
    assert [bytes(image) for image in read.source.read(np.arange(COUNT))] == IMAGES
    half = table(half=["x", "y"] * 12).lazy().filter(pl.col("half") == "y")
    assert read_table(half, image="image")[1].row["note"] == 3


def test_sizes_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []
    plain = RangeSource.open

    def counted(self: RangeSource, key: int) -> Any:
        opened.append(key)
        return plain(self, key)

    monkeypatch.setattr(RangeSource, "open", counted)
    first = read_table(write(tmp_path, table()), image="image")
    assert sorted(opened) == list(range(COUNT))
    opened.clear()
    assert read_table(tmp_path / "a.parquet", image="image").fingerprint() == first.fingerprint()
    assert opened == []
    turned = read_table(write(tmp_path, table().reverse()), image="image")
    assert turned.sizes().tolist() == first.sizes()[::-1].tolist()
    opened.clear()
    sized = table(width=60, height=range(30, 30 + COUNT))
    read_table(sized, image="image")
    assert len(opened) == 8  # probed
    with pytest.raises(ManifestError, match=r"probed are bad: .*/0: 60 x 30 .*, listed as 61 x 30"):
        read_table(sized.with_columns(width=61), image="image")


def test_sizes_are_read_anew_where_a_file_was_written_anew(tmp_path: Path) -> None:
    """Also if another image of the same length is in the same place."""
    for size in ((40, 20), (20, 40)):
        content = io.BytesIO()
        Image.new("RGB", size).save(content, "BMP")
        frame = pl.DataFrame({"image": [content.getvalue()], "label": [0]})
        frame.write_parquet(tmp_path / "a.parquet", compression="uncompressed")
        read = read_table(tmp_path / "a.parquet", image="image")
        assert read.frame.select("width", "height").row(0) == size


def test_bad_images(tmp_path: Path) -> None:
    images = [*IMAGES[:4], None, b"", b"no image", *IMAGES[7:]]
    file = write(tmp_path, table(image=images))
    with pytest.raises(
        ManifestError,
        match=rf"3 of 24 images are bad: {file}/4: the image is null; {file}/5: the image is empty;"
        rf" {file}/6: .*; inspect them",
    ):
        read_table(file, image="image")
    read = read_table(file, image="image", on_bad_image="drop")
    assert read.frame["note"].to_list() == [0, 1, 2, 3, *range(7, COUNT)]
    assert read.repairs == {"images_dropped": 3}
    with pytest.raises(ManifestError, match=rf"{file}, row 2: label is missing"):
        read_table(write(tmp_path, table(label=["a", "b", None] * 8)), image="image")


def test_a_file_that_changes_in_a_run(tmp_path: Path) -> None:
    """Of two files: the images of one are bad, and those of the other as before."""
    for name, rows in (("a", slice(0, 20)), ("b", slice(20, COUNT))):
        table()[rows].write_parquet(tmp_path / f"{name}.parquet", compression="uncompressed")
    manifest = read_table([tmp_path / "a.parquet", tmp_path / "b.parquet"], image="image")
    with make(manifest) as loader:
        expected = [digest(batch) for batch in loader]
    content = (tmp_path / "b.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(content[: len(content) // 2])
    with (
        make(manifest) as loader,
        pytest.raises(DecodeError, match=r"b\.parquet/\d\): .*has changed"),
    ):
        list(loader)
    with make(manifest, on_error="blank", max_failures=1.0) as loader:
        got = list(loader)
        assert {each.record_key for each in loader.quarantine} == {20, 21, 22, 23}
    assert sum(int((~batch["valid"]).sum()) for batch in got) == 4
    (tmp_path / "b.parquet").unlink()
    table()[20:].write_parquet(tmp_path / "b.parquet", compression="snappy")
    again = read_table(f"{tmp_path}/*.parquet", image="image")
    assert again.fingerprint() == manifest.fingerprint()
    with make(again) as loader:
        assert [digest(batch) for batch in loader] == expected


def test_paths_in_the_place_of_images(tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    for number, image in enumerate(IMAGES):
        (tmp_path / "some" / f"{number:02}.jpg").write_bytes(image)
    structs = [{"bytes": None, "path": f"some/{number:02}.jpg"} for number in range(COUNT)]
    file = write(tmp_path, table(image=structs))
    read = read_table(file, image="image")
    assert read.root == tmp_path
    assert read.frame["path"][3] == "some/03.jpg"
    assert "image" not in read.frame.columns
    assert read_table(table(image=structs), image="image", root=tmp_path).frame.equals(read.frame)
    structs[0]["path"] = "../a.jpg"
    with pytest.raises(ManifestError, match=r"row 0: the path '\.\./a.jpg' leaves the root"):
        read_table(write(tmp_path, table(image=structs)), image="image")


def test_what_a_manifest_does(tmp_path: Path) -> None:
    """It is filtered, taken from and joined as any other."""
    read = read_table(write(tmp_path, table()), image="image")

    def notes(manifest: Manifest) -> list[int]:
        keys = np.arange(len(manifest))
        found = [IMAGES.index(bytes(image)) for image in manifest.source.read(keys)]
        assert found == manifest.frame["note"].to_list()
        return found

    assert notes(read.filter(pl.col("note") % 5 == 1)) == [1, 6, 11, 16, 21]
    assert notes(read.take([7, 7, 2])) == [7, 7, 2]
    assert notes(read[10:13]) == [10, 11, 12]
