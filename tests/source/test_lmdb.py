"""LMDB: the order of keys, a choice of them, and what others keep as values."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from pathlib import Path

import lmdb
import numpy as np
import pytest

from gpufeed import ConfigError, LmdbSource, ManifestError, read_table
from tests.support.media import jpeg, picture

IMAGE = jpeg(picture(20, 30, seed=0))


def write(path: Path, values: Mapping[bytes, bytes], **options: object) -> Path:
    with (
        lmdb.open(str(path), map_size=1 << 24, **options) as database,
        database.begin(write=True) as transaction,
    ):
        for key, value in values.items():
            transaction.put(key, value)
    return path


def test_keys_are_sorted_as_bytes(tmp_path: Path) -> None:
    values = {b"b": b"2", b"\xff": b"4", b"B": b"1", "ä".encode(): b"3"}
    source = LmdbSource(write(tmp_path / "x", values))
    assert source.names == ["B", "b", "ä", "\\xff"]
    assert source.read(np.arange(4)) == [b"1", b"2", b"3", b"4"]


def test_a_folder_and_a_file_are_taken(tmp_path: Path) -> None:
    write(tmp_path / "folder", {b"a": IMAGE})
    write(tmp_path / "file", {b"a": IMAGE}, subdir=False, lock=False)
    for path in ("folder", "folder/data.mdb", "file"):
        assert LmdbSource(tmp_path / path).read(np.zeros(1, int)) == [IMAGE]


def test_some_keys_may_be_chosen(tmp_path: Path) -> None:
    """As in databases for text recognition, where labels are among the values."""
    values = {b"image-%d" % key: IMAGE + bytes(key) for key in range(3)}
    values |= {b"label-%d" % key: b"word" for key in range(3)} | {b"num-samples": b"3"}
    path = write(tmp_path / "x", values)
    source = LmdbSource(path, keys=["image-2", b"image-0", "image-2"])
    assert source.names == ["image-2", "image-0", "image-2"]
    assert source.read(np.arange(2)) == [IMAGE + bytes(2), IMAGE]
    manifest = read_table({"label": [0, 1, 0]}, source=source, progress=False)
    assert manifest.sizes().tolist() == [[20, 30]] * 3
    with pytest.raises(ManifestError, match=r"data\.mdb has no key 'image-3'"):
        LmdbSource(path, keys=["image-1", "image-3"])
    with pytest.raises(ConfigError, match="keys has 1; keys must be text or bytes"):
        LmdbSource(path, keys=[1])  # type: ignore[list-item]


def test_a_database_larger_than_the_default_map_is_read(tmp_path: Path) -> None:
    values = {b"%02d" % key: bytes([key]) * (1 << 20) for key in range(12)}
    source = LmdbSource(write(tmp_path / "x", values))
    assert source.read(np.arange(12)) == [*values.values()]


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_pickles_are_refused(tmp_path: Path, protocol: int) -> None:
    path = write(tmp_path / "x", {b"k": pickle.dumps((IMAGE, 3), protocol=protocol)})
    with pytest.raises(ManifestError, match=r"the value of 'k' is a pickled object, which can run"):
        LmdbSource(path)


def test_what_is_open_already_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "x", {b"a": IMAGE})
    with (
        lmdb.open(str(path), readonly=True),
        pytest.raises(
            ManifestError, match=r"cannot open .*data\.mdb: .* is already open in this process"
        ),
    ):
        LmdbSource(path)
    assert len(LmdbSource(path)) == 1


def test_an_empty_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"data\.mdb has no images: there are no keys"):
        LmdbSource(write(tmp_path / "x", {}))


def test_a_database_is_closed_with_its_last_source(tmp_path: Path) -> None:
    path = write(tmp_path / "x", {b"a": IMAGE})
    first, second = LmdbSource(path), LmdbSource(path)
    del first
    assert second.read(np.zeros(1, int)) == [IMAGE]
    del second
    with lmdb.open(str(path), readonly=True) as again:
        assert again.stat()["entries"] == 1


def test_a_damaged_page_is_an_error(tmp_path: Path) -> None:
    values = {b"%05d" % key: bytes([key]) * 9000 for key in range(40)}
    file = write(tmp_path / "x", values, subdir=False, lock=False)
    source, times = LmdbSource(file), (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    with file.open("r+b") as opened:
        opened.seek(opened.read().index(b"00007") + 5)  # where the tree has the value's page
        opened.write(b"\xff" * 8)
    os.utime(file, ns=times)
    before, bad, after = source.read(np.array([6, 7, 8]))
    assert isinstance(bad, OSError)
    assert [before, after] == [values[b"00006"], values[b"00008"]]
    for keys in (None, ["00006", "00007"]):
        with pytest.raises(ManifestError, match=f"^{file} is damaged: .*MDB_PAGE_NOTFOUND"):
            LmdbSource(file, keys)
