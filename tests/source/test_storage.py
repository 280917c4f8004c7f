"""Byte ranges of files: as Python slices them, whatever is open, and faults are named."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufeed._util.memory import Slices
from gpufeed.source import storage as storage_module
from gpufeed.source.ranges import RangeSource
from gpufeed.source.storage import LocalStorage, StoredRange

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    for number in range(4):
        (tmp_path / "sub" / f"{number}.bin").write_bytes(CONTENT[number:])
    return tmp_path


def source_of(folder: Path, starts: list[int], lengths: list[int]) -> RangeSource:
    storage = LocalStorage(folder)
    files = storage.find("sub/*.bin")
    which = np.arange(len(starts)) % len(files)
    names = pl.Series([f"image {number}" for number in range(len(starts))])
    stamps = [storage.stamp(file) for file in files]
    return RangeSource(storage, files, stamps, which, np.array(starts), np.array(lengths), names)


@given(
    places=st.lists(st.tuples(st.integers(0, 9000), st.integers(1, 1000)), min_size=1, max_size=9)
)
def test_ranges_are_slices(tmp_path_factory: pytest.TempPathFactory, places: list) -> None:
    folder = tmp_path_factory.mktemp("ranges")
    (folder / "sub").mkdir()
    (folder / "sub" / "0.bin").write_bytes(CONTENT)
    source = source_of(folder, *map(list, zip(*places, strict=True)))
    keys = np.arange(len(places))[::-1]
    for each in (source, source.reusing_memory(Slices()), pickle.loads(pickle.dumps(source))):  # noqa: S301
        read = each.take(keys).read(np.arange(len(places)))
        assert [bytes(image) for image in read] == [
            CONTENT[start : start + length] for start, length in reversed(places)
        ]


def test_more_files_than_are_kept_open(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_module, "_MAX_OPEN", 2)
    source = source_of(folder, [0] * 40, [7] * 40)
    before = len(list(Path("/proc/self/fd").iterdir()))
    read = source.read(np.random.default_rng(0).permutation(40))
    assert {bytes(image) for image in read} == {CONTENT[n : n + 7] for n in range(4)}
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2


def test_faults_are_errors_in_their_place(folder: Path) -> None:
    source = source_of(folder, [0, 0, 0, 0, 5, 5], [9, 9, 9, 9, 0, 99_999])
    (folder / "sub" / "1.bin").write_bytes(CONTENT[:-7])
    (folder / "sub" / "2.bin").unlink()
    limited = source.limited(np.array([9, 9, 9, 8, 9, 99_999]))
    said = [str(each) for each in limited.read(np.arange(6)) if isinstance(each, OSError)]
    assert said == [
        "the file has changed since it was indexed",
        f"[Errno 2] No such file or directory: '{folder}/sub/2.bin'",
        "the image has 9 bytes; the limit is 8",
        "the image is empty",
        "the file has changed since it was indexed",
    ]
    assert source.name(1) == f"{folder}/sub/1.bin/image 1"
    with pytest.raises(OSError, match="has changed"):
        source.open(1)
    (folder / "sub" / "1.bin").write_bytes(CONTENT[1:])
    assert source_of(folder, [0, 3], [2, 3]).fingerprint() != source.fingerprint()


def test_a_file_that_ends_early(folder: Path) -> None:
    (read,) = LocalStorage(folder).read([StoredRange("sub/0.bin", len(CONTENT) - 5, 9)])
    assert str(read) == f"the file ends at byte {len(CONTENT):,}, within the image"
