"""A source of your own: images in a zip archive."""

from __future__ import annotations

import io
import threading
import zipfile
import zlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

import gpufeed


# [docs]
class ZipSource:
    """The images of a zip archive, in the order of their names."""

    def __init__(self, path):
        self.path = path
        with zipfile.ZipFile(path) as archive:
            self.names = sorted(name for name in archive.namelist() if name.endswith(".jpg"))
        self.threads = threading.local()  # an open archive is one thread's own

    def read(self, keys):
        if not hasattr(self.threads, "archive"):
            self.threads.archive = zipfile.ZipFile(self.path)
        return [self.read_one(self.names[key]) for key in keys]

    def read_one(self, name):
        try:
            return self.threads.archive.read(name)
        except (OSError, zipfile.BadZipFile, zlib.error) as error:
            return OSError(str(error))  # one bad image: returned, not raised

    def name(self, key):
        return self.names[key]  # not where the archive lies, so that it can be moved


# [/docs]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    drawn = np.random.default_rng(0)
    with zipfile.ZipFile(tmp_path / "birds.zip", "w") as archive:
        for number in range(12):
            buffer = io.BytesIO()
            Image.fromarray(drawn.integers(0, 256, (20 + number, 30, 3), np.uint8)).save(
                buffer, "JPEG"
            )
            archive.writestr(f"{number % 3}/{number:02}.jpg", buffer.getvalue())
    return tmp_path / "birds.zip"


def test_it_feeds_what_the_unpacked_files_feed(archive: Path, tmp_path: Path) -> None:
    source = ZipSource(archive)
    labels = pl.DataFrame({"label": [name[0] for name in source.names]})
    zipped = gpufeed.read_table(labels, source=source)
    zipfile.ZipFile(archive).extractall(tmp_path / "birds")
    unpacked = gpufeed.read_folder(tmp_path / "birds")
    options = {"transforms": gpufeed.presets.train(16), "batch_size": 4, "device": "cpu"}
    with gpufeed.Loader(zipped, **options) as one, gpufeed.Loader(unpacked, **options) as other:
        for ours, theirs in zip(one, other, strict=True):
            assert (ours["image"] == theirs["image"]).all()
            assert (ours["label"] == theirs["label"]).all()


def test_a_damaged_member_is_one_bad_record(archive: Path) -> None:
    source = ZipSource(archive)
    labels = pl.DataFrame({"label": [name[0] for name in source.names]})
    manifest = gpufeed.read_table(labels, source=source)
    content = bytearray(archive.read_bytes())
    content[content.find(b"JFIF") + 40] ^= 0xFF  # within the first member, whose sum tells
    archive.write_bytes(content)
    with gpufeed.Loader(
        manifest, transforms=gpufeed.presets.train(16), batch_size=4, on_error="substitute"
    ) as loader:
        assert len(list(loader)) == 3
        (failure,) = loader.quarantine
    assert failure.path == "0/00.jpg"
    assert failure.reason.startswith("cannot be read: Bad CRC-32 for file '0/00.jpg'")
