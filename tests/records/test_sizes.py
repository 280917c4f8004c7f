"""Sizes read in parallel, and what is kept of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import polars as pl
import pytest

from gpufeed.decode.headers import ImageHeader
from gpufeed.errors import ManifestError
from gpufeed.records import sizes
from gpufeed.records.sizes import read_sizes
from gpufeed.source import FileSource
from tests.support.nabirds_data import write_picture


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user cache"))
    for number in range(5):
        write_picture(tmp_path / "data" / f"{number}.png", (10 + number, 20))
    return tmp_path / "data"


@pytest.fixture
def headers_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files whose header was read."""
    read: list[str] = []

    def reading(file: BinaryIO) -> ImageHeader:
        read.append(Path(f"/proc/self/fd/{file.fileno()}").readlink().name)
        return original(file)

    original = sizes.image_header
    monkeypatch.setattr(sizes, "image_header", reading)
    return read


def widths(root: Path, *names: str) -> list[int]:
    frame = read_sizes(FileSource(root, pl.Series("path", list(names))), len(names))
    assert frame.schema == {"width": pl.Int32, "height": pl.Int32}
    return frame["width"].to_list()


def test_the_order_is_that_of_the_paths_and_repeats_are_allowed(root: Path) -> None:
    assert widths(root, "3.png", "0.png", "3.png", "1.png") == [13, 10, 13, 11]


def test_more_files_than_a_thread_takes_at_once(root: Path) -> None:
    for number in range(200):
        os.link(root / f"{number % 5}.png", root / f"link{number}.png")
    names = [f"link{number}.png" for number in range(200)]
    assert widths(root, *names) == [10 + number % 5 for number in range(200)]


def test_a_size_is_read_once(root: Path, headers_read: list[str]) -> None:
    assert widths(root, "0.png", "1.png") == [10, 11]
    assert widths(root, "1.png", "2.png") == [11, 12]
    assert widths(root, "0.png", "1.png", "2.png") == [10, 11, 12]
    assert sorted(headers_read) == ["0.png", "1.png", "2.png"]
    (kept,) = (root.parent / "user cache" / "gpufeed").iterdir()  # no temporary file is left
    assert kept.name.startswith("sizes-")
    assert not (root / ".gpufeed").exists()


def test_a_replaced_file_is_read_again(root: Path, headers_read: list[str]) -> None:
    os.utime(root / "1.png", ns=(1, 1))
    assert widths(root, "0.png", "1.png") == [10, 11]
    before = (root / "0.png").stat()
    write_picture(root / "0.png", (77, 20))
    # The same length, so that only the time tells.
    os.truncate(root / "0.png", before.st_size)
    os.utime(root / "0.png", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert widths(root, "0.png", "1.png") == [77, 11]
    assert headers_read.count("0.png") == 2
    # The same time, so that only the length tells.
    os.truncate(root / "1.png", (root / "1.png").stat().st_size + 1)
    os.utime(root / "1.png", ns=(1, 1))
    assert widths(root, "0.png", "1.png") == [77, 11]
    assert headers_read.count("1.png") == 2


@pytest.mark.parametrize("content", [b"", b"PAR1 nonsense PAR1", b"\0" * 400])
def test_a_damaged_cache_is_passed_over_and_written_anew(
    root: Path, headers_read: list[str], content: bytes
) -> None:
    (root / ".gpufeed").mkdir()
    (root / ".gpufeed" / "sizes.parquet").write_bytes(content)
    assert widths(root, "4.png") == [14]
    assert widths(root, "4.png") == [14]
    assert headers_read == ["4.png"]


def test_a_cache_of_another_form_is_passed_over(root: Path, headers_read: list[str]) -> None:
    (root / ".gpufeed").mkdir()
    pl.DataFrame({"path": ["4.png"], "width": [1]}).write_parquet(
        root / ".gpufeed" / "sizes.parquet"
    )
    assert widths(root, "4.png") == [14]
    assert headers_read == ["4.png"]


@pytest.mark.parametrize("width", [None, 0, -3])
def test_a_cached_size_that_is_none_is_read_again(
    root: Path, headers_read: list[str], width: int | None
) -> None:
    (root / ".gpufeed").mkdir()
    cache = root / ".gpufeed" / "sizes.parquet"
    widths(root, "1.png", "4.png")
    kept = pl.read_parquet(cache)
    spoilt = pl.when(pl.col("path") == "4.png").then(width).otherwise(pl.col("width"))
    kept.with_columns(spoilt.cast(pl.Int32).alias("width")).write_parquet(cache)
    assert widths(root, "1.png", "4.png") == [11, 14]
    assert sorted(headers_read) == ["1.png", "4.png", "4.png"]


def test_sizes_are_kept_beside_the_data_where_a_folder_asks_for_it(
    root: Path, headers_read: list[str], tmp_path: Path
) -> None:
    (root / ".gpufeed").mkdir()
    assert widths(root, "1.png") == [11]
    assert widths(root, "1.png") == [11]
    assert headers_read == ["1.png"]
    assert [file.name for file in (root / ".gpufeed").iterdir()] == ["sizes.parquet"]
    assert not (tmp_path / "user cache").exists()


def test_no_place_to_write_is_no_error(
    root: Path, headers_read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / ".gpufeed").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(root / ".gpufeed"))
    assert widths(root, "1.png") == [11]
    assert widths(root, "1.png") == [11]
    assert headers_read == ["1.png", "1.png"]


def test_pictures_that_can_not_be_read_are_named(root: Path) -> None:
    for number in range(4):
        (root / f"bad{number}.png").write_bytes(b"")
    names = ["0.png", "none.png", *(f"bad{number}.png" for number in range(4))]
    with pytest.raises(ManifestError) as caught:
        widths(root, *names)
    assert str(caught.value) == (
        f"5 of 6 images are bad: {root}/none.png: No such file or directory; "
        f"{root}/bad0.png: the file is empty; {root}/bad1.png: the file is empty; and 2 more; "
        'inspect them with `gpufeed check`, or leave them out with on_bad_image="drop"'
    )
    # What could be read is kept all the same.
    assert widths(root, "0.png") == [10]


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("link", ["file", "folder"])
def test_sizes_are_not_written_through_links(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str, later: bool
) -> None:
    """Or whoever may write beside the data could have any file of the reader's replaced."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    mine = elsewhere / "sizes.parquet"
    mine.write_text("mine")
    beside, original = root / ".gpufeed", sizes.image_header

    def place(file: BinaryIO) -> ImageHeader:
        if later:
            beside.rmdir()
        if link == "folder":
            beside.symlink_to(elsewhere)
        else:
            beside.mkdir()
            (beside / "sizes.parquet").symlink_to(mine)
        return original(file)

    if later:
        beside.mkdir()
        monkeypatch.setattr(sizes, "image_header", place)
    else:
        with (root / "1.png").open("rb") as file:
            place(file)
    assert widths(root, "1.png") == [11]
    assert mine.read_text() == "mine"
    assert [path.name for path in elsewhere.iterdir()] == ["sizes.parquet"]


def test_a_pipe_beside_the_data_is_passed_over(root: Path) -> None:
    (root / ".gpufeed").mkdir()
    os.mkfifo(root / ".gpufeed" / "sizes.parquet")
    assert widths(root, "1.png") == [11]
