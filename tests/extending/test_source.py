"""A source of your own: images in a database."""

from __future__ import annotations

import contextlib
import io
import pickle
import sqlite3
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

import gpufeed


# [docs]
class DatabaseSource:
    """The images of a table of an SQLite database, in the order of their names."""

    def __init__(self, path):
        self.path = path
        with contextlib.closing(sqlite3.connect(path)) as database:
            rows = database.execute("SELECT name FROM images ORDER BY name").fetchall()
        self.names = [name for (name,) in rows]

    def read(self, keys):
        with contextlib.closing(sqlite3.connect(self.path)) as database:  # one thread's own
            return [self.read_one(database, self.names[key]) for key in keys]

    def read_one(self, database, name):
        query = "SELECT content FROM images WHERE name = ?"
        try:
            row = database.execute(query, [name]).fetchone()
        except sqlite3.Error as error:
            return OSError(str(error))  # one bad image: returned, not raised
        return OSError("it was deleted") if row is None else row[0]

    def name(self, key):
        return self.names[key]  # not where the database lies, so that it can be moved


# [/docs]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    drawn = np.random.default_rng(0)
    with contextlib.closing(sqlite3.connect(tmp_path / "birds.db")) as database:
        database.execute("CREATE TABLE images (name TEXT PRIMARY KEY, content BLOB)")
        for number in range(12):
            buffer = io.BytesIO()
            Image.fromarray(drawn.integers(0, 256, (20 + number, 30, 3), np.uint8)).save(
                buffer, "JPEG"
            )
            row = (f"{number % 3}/{number:02}.jpg", buffer.getvalue())
            database.execute("INSERT INTO images VALUES (?, ?)", row)
            (tmp_path / "birds" / row[0]).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "birds" / row[0]).write_bytes(row[1])
        database.commit()
    return tmp_path / "birds.db"


def test_it_feeds_what_files_feed(database: Path, tmp_path: Path) -> None:
    source = DatabaseSource(database)
    labels = pl.DataFrame({"label": [name[0] for name in source.names]})
    stored = gpufeed.read_table(labels, source=source)
    files = gpufeed.read_folder(tmp_path / "birds")
    options = {"transforms": gpufeed.presets.train(16), "batch_size": 4, "device": "cpu"}
    with gpufeed.Loader(stored, **options) as one, gpufeed.Loader(files, **options) as other:
        for ours, theirs in zip(one, other, strict=True):
            assert (ours["image"] == theirs["image"]).all()
            assert (ours["label"] == theirs["label"]).all()


def test_a_deleted_image_is_one_bad_record(database: Path) -> None:
    source = DatabaseSource(database)
    labels = pl.DataFrame({"label": [name[0] for name in source.names]})
    manifest = pickle.loads(pickle.dumps(gpufeed.read_table(labels, source=source)))  # noqa: S301
    with contextlib.closing(sqlite3.connect(database)) as changed:
        changed.execute("DELETE FROM images WHERE name = '0/00.jpg'")
        changed.commit()
    with gpufeed.Loader(
        manifest, transforms=gpufeed.presets.train(16), batch_size=4, on_error="substitute"
    ) as loader:
        assert len(list(loader)) == 3
        (failure,) = loader.quarantine
    assert failure.path == "0/00.jpg"
    assert failure.reason == "cannot be read: it was deleted"
