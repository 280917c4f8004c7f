"""A saved manifest opens its images by itself: in every format, moved, mixed and changed."""

from __future__ import annotations

import lzma
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import gpufeed
from benchmarks.formats import FORMATS
from gpufeed import ConfigError, Manifest, ManifestError
from gpufeed.source.base import fingerprint_of, open_image
from tests.support.formats import COUNT, IMAGES, contents, write
from tests.support.web_server import web_server

ON_DISK = [name for name in FORMATS if name != "memory"]
STAMPED = [name for name in ON_DISK if name != "files"]


def again(manifest: Manifest, folder: Path, **options: Any) -> Manifest:
    """Save a manifest, and open it."""
    manifest.save(folder / "a.manifest")
    return gpufeed.read_manifest(folder / "a.manifest", **options)


@pytest.mark.parametrize("name", ON_DISK)
def test_every_format_opens_again(name: str, tmp_path: Path) -> None:
    """Whole and in part, in pickles, with what caches know it by."""
    made = write(name, tmp_path / "data")
    for part, keys in ((made, range(COUNT)), (made.take([5, 0, 3, 5]), [5, 0, 3, 5])):
        read = again(part, tmp_path)
        assert contents(read) == [IMAGES.contents[key] for key in keys]
        assert [read[row].row["path"] for row in range(len(keys))] == part.frame["path"].to_list()
        for row in range(len(keys)):
            assert read.source.name(row) == part.source.name(row)
            with open_image(read.source, row) as opened:
                assert opened.read(4) == IMAGES.contents[0][:4]
        known = made if part is made else again(read, tmp_path)
        assert fingerprint_of(read.source) == fingerprint_of(known.source)
        assert read.fingerprint() == part.fingerprint()
        kept = pickle.dumps(read)
        assert len(kept) < 1000
        assert contents(pickle.loads(kept)) == contents(part)  # noqa: S301
        assert contents(again(read, tmp_path)) == contents(part)


@pytest.mark.parametrize("name", ON_DISK)
def test_files_may_be_moved(name: str, tmp_path: Path) -> None:
    """To a folder where they have the same names, and other times."""
    made = write(name, tmp_path / "data")
    made.save(tmp_path / "a.manifest")
    folder = made.source.root if name in ("files", "zip") else saved_root(tmp_path / "a.manifest")
    inside = Path(folder).relative_to(tmp_path / "data")
    shutil.move(tmp_path / "data", tmp_path / "moved")
    for file in (tmp_path / "moved").rglob("*"):
        os.utime(file, (1, 1))
    if name != "hdf5":  # which is opened at once
        gone = contents(gpufeed.read_manifest(tmp_path / "a.manifest"))
        assert all(isinstance(each, OSError) for each in gone)
    read = gpufeed.read_manifest(tmp_path / "a.manifest", root=tmp_path / "moved" / inside)
    assert contents(read) == IMAGES.contents
    assert contents(pickle.loads(pickle.dumps(read))) == IMAGES.contents  # noqa: S301
    if name in ("files", "zip"):
        return
    with pytest.raises(ManifestError, match=r"cannot read .*: No such file .*; root must have"):
        gpufeed.read_manifest(tmp_path / "a.manifest", root=tmp_path)
    for file in (tmp_path / "moved").rglob("*.*"):
        with file.open("ab") as opened:
            opened.write(b"x")
    with pytest.raises(ManifestError, match=r"has .* bytes, and the file .* had .*; root must"):
        gpufeed.read_manifest(tmp_path / "a.manifest", root=tmp_path / "moved" / inside)


def saved_root(file: Path) -> str:
    from gpufeed.records.table_files import read_arrow

    about = read_arrow(file)[1][b"gpufeed"].decode()
    return str(about.partition('"root": "')[2].partition('"')[0])


@pytest.mark.parametrize("name", STAMPED)
def test_a_change_is_noticed_when_it_is_read(name: str, tmp_path: Path) -> None:
    made = write(name, tmp_path / "data")
    made.save(tmp_path / "a.manifest")
    files = [file for file in (tmp_path / "data").rglob("*") if file.is_file()]
    for file in files:
        os.utime(file, (1, 1))
    try:
        found = contents(gpufeed.read_manifest(tmp_path / "a.manifest"))
    except ManifestError as error:
        found = [OSError(str(error))]
    assert all("has changed since it was indexed" in str(each) for each in found)
    again(FORMATS[name].read(tmp_path / "data"), tmp_path)
    assert contents(gpufeed.read_manifest(tmp_path / "a.manifest")) == IMAGES.contents


def test_several_formats_in_one(tmp_path: Path) -> None:
    """Concatenated, and then in another order."""
    names = ("files", "zip", "webdataset", "lmdb", "hdf5", "arrow")
    parts = [write(name, tmp_path / name) for name in names]
    both = gpufeed.concat([gpufeed.concat(parts[:2]), *parts[2:]])
    order = np.random.default_rng(5).permutation(len(both))
    for made, keys in ((both, np.arange(len(both))), (both.take(order), order)):
        read = again(made, tmp_path)
        assert contents(read) == [IMAGES.contents[key % COUNT] for key in keys]
        assert [read.source.name(row) for row in range(len(made))] == [
            made.source.name(row) for row in range(len(made))
        ]
        assert contents(again(read.take([7, 3]), tmp_path)) == [contents(read)[k] for k in (7, 3)]
    with pytest.raises(ConfigError, match="but the images are of 6 sources; pass source="):
        again(both, tmp_path, root=tmp_path)


def test_pixels_in_a_file(tmp_path: Path) -> None:
    packed = Path(__file__).parents[1] / "source" / "ffcv-1.0.2.beton.xz"
    (tmp_path / "x.beton").write_bytes(lzma.decompress(packed.read_bytes()))
    made = gpufeed.read_beton(tmp_path / "x.beton")
    for part in (made, made.take([4, 0])):
        read = again(part, tmp_path)
        for mine, theirs in zip(read, part, strict=True):
            assert np.array_equal(mine.image(), theirs.image())
        assert fingerprint_of(read.source) == fingerprint_of(part.source)


def test_shards_are_found_at_a_url(tmp_path: Path) -> None:
    made = write("webdataset", tmp_path / "data")
    shards = {f"/{file.name}": file.read_bytes() for file in (tmp_path / "data").glob("*.tar")}
    with web_server(shards) as server:
        read = again(made, tmp_path, root=server.url)
        assert contents(read) == IMAGES.contents
        there = gpufeed.read_webdataset(f"{server.url}/{{000..002}}.tar", label="txt")
        assert contents(again(there, tmp_path)) == IMAGES.contents
        assert contents(again(there, tmp_path, root=tmp_path / "data")) == IMAGES.contents


def test_query_strings_are_not_saved(tmp_path: Path) -> None:
    """They may be credentials."""
    write("parquet_snappy", tmp_path)
    content = (tmp_path / "train.parquet").read_bytes()
    with web_server({"/x.parquet": content, "/x.parquet?key=secret": content}) as server:
        url = f"{server.url}/x.parquet?key=secret"
        read = again(gpufeed.read_table(url, image="image", progress=False), tmp_path)
        assert contents(read) == IMAGES.contents
    assert b"secret" not in (tmp_path / "a.manifest").read_bytes()


def test_a_changed_column_of_the_source_is_noticed(tmp_path: Path) -> None:
    import pyarrow as pa

    file = tmp_path / "a.manifest"
    write("webdataset", tmp_path / "data").save(file)
    with pa.ipc.open_file(file) as reader:
        table = reader.read_all()
    place = table.schema.get_field_index("gpufeed.source.start")
    starts = pa.array([512] * COUNT, pa.int64())
    table = table.set_column(place, "gpufeed.source.start", starts)
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(ManifestError, match="has been changed since it was saved"):
        gpufeed.read_manifest(file)


class Own:
    """A source of a user's."""

    def __init__(self, read: Callable[[Any], Any]) -> None:
        self.read = read

    def name(self, key: int) -> str:
        return str(key)


def test_what_cannot_be_opened_again_says_so(tmp_path: Path) -> None:
    table = write("arrow", tmp_path).frame.drop("path")
    in_memory = gpufeed.MemorySource(IMAGES.contents)
    own = Own(in_memory.read)
    buffers = gpufeed.read_table(
        pl.DataFrame({"image": IMAGES.contents, "label": [0] * COUNT}), image="image"
    )
    mixed = gpufeed.concat([write("webdataset", tmp_path), buffers])
    of = {source: gpufeed.read_table(table, source=source) for source in (in_memory, own)}
    for made, said in (
        (of[in_memory], "MemorySource"),
        (of[own], "Own"),
        (buffers, "RangeSource"),
        (mixed, "Joined"),
    ):
        with pytest.raises(ManifestError, match=rf"open its images, .*{said}.*; pass source="):
            again(made, tmp_path)
        read = again(made, tmp_path, source=made.source)
        assert contents(read) == contents(made)
