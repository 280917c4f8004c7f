"""Making one shard: the images of a range of records, in one file or in files of their own."""

from __future__ import annotations

import hashlib
import importlib
import io
import itertools
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gpufeed._util.atomic_write import atomic_write
from gpufeed.errors import DecodeError
from gpufeed.records import Manifest
from gpufeed.tools.prepare.encode import ENDINGS, encode, too_long
from gpufeed.tools.prepare.pack.item import Item, Pack
from gpufeed.tools.prepare.pixels import make_images
from gpufeed.tools.prepare.rows import SHA256
from gpufeed.tools.prepare.settings import Settings
from gpufeed.transforms import Transform

__all__ = ["DONE", "REASON", "Job"]

REASON = "reason"
"""Column of why an image was not written."""
DONE = ".prepare"
"""Folder of what is known of finished shards, until all are."""

_SCHEMA = {
    "path": pl.String,
    "start": pl.Int64,
    "length": pl.Int64,
    SHA256: pl.String,
    REASON: pl.String,
}


@dataclass(frozen=True)
class Job:
    """All that decides the shards of a data set; each is a function of this and its number.

    Attributes:
        manifest: the images.
        rows: the columns of the prepared images, one row for each record.
        transforms: what is done to them.
        settings: how they are written.
        folder: where.
        class_folders: a folder for each class.
    """

    manifest: Manifest
    rows: pl.DataFrame
    transforms: tuple[Transform, ...]
    settings: Settings
    folder: Path
    class_folders: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of shards."""
        return -(-len(self.manifest) // self.settings.shard_size)

    def keys(self, number: int) -> range:
        """Return the records of a shard."""
        first = number * self.settings.shard_size
        return range(first, min(first + self.settings.shard_size, len(self.manifest)))

    def done(self, number: int) -> Path:
        """Return the file of the facts about a shard, which is there when the shard is."""
        return self.folder / DONE / f"{number:06}.parquet"

    def make(self, number: int, turn: AbstractContextManager[Any] | None = None) -> None:
        """Write a shard, and then the facts about it: a row of `path`, `start` ... for each record.

        Args:
            number: of the shard.
            turn: as for `make_images`; None for none.

        Raises:
            DecodeError: an image is bad, and `on_error` is "raise".
            OSError: it cannot be written.
        """
        facts: list[dict[str, str | int]] = []
        items = self._items(number, facts, turn or nullcontext())
        shard, to = f"shard-{number:06}", self.settings.to
        starts: list[int] = []
        if to == "files":
            files = [self._write(item) for item in items]
            for path in files:  # when all are under way to the disk
                with path.open("rb") as file:
                    os.fsync(file.fileno())
            starts = [0] * len(files)
        elif (first := next(items, None)) is not None:  # a shard without images is no file
            pack: Pack = importlib.import_module(f"gpufeed.tools.prepare.pack.{to}").pack
            items = itertools.chain([first], items)
            shard = f"{shard}.{to}"
            atomic_write(self.folder / shard, lambda file: starts.extend(pack(file, items)))
        places = iter(starts)
        for fact in facts:
            if REASON not in fact:
                fact["start"] = place = next(places)
                if to != "files":
                    fact["path"] = f"{shard}/{place if to == 'arrayrecord' else fact['path']}"
        content = io.BytesIO()
        pl.DataFrame(facts, _SCHEMA).write_parquet(content)
        atomic_write(self.done(number), content.getvalue())

    def _write(self, item: Item) -> Path:
        path = self.folder / item.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(item.content)
        return path

    def _items(
        self, number: int, facts: list[dict[str, str | int]], turn: AbstractContextManager[Any]
    ) -> Iterator[Item]:
        """Yield the images of a shard, and append a fact for each record."""
        keys = self.keys(number)
        numbers = np.arange(keys.start, keys.stop)
        most = self.settings.max_pixels
        made = make_images(self.manifest, self.transforms, numbers, turn, max_pixels=most)
        for key, image in zip(keys, made, strict=True):
            if not isinstance(image, DecodeError) and (reason := too_long(image, self.settings)):
                image = DecodeError(key, self.manifest.source.name(key), reason)
            if isinstance(image, DecodeError):
                if self.settings.on_error == "raise":
                    raise image
                facts.append({REASON: image.reason})
                continue
            row = self.rows.slice(key, 1)
            name, content = self._name(key, row), encode(image, self.settings)
            digest = hashlib.sha256(content).hexdigest()
            facts.append({"path": name, "length": len(content), SHA256: digest})
            yield Item(name, content, row)

    def _name(self, key: int, row: pl.DataFrame) -> str:
        """Return the name of an image, by its record: names of strangers' files may be anything."""
        name = f"{key:08}{ENDINGS[self.settings.image_format]}"
        if self.settings.to != "files":
            return name
        folder = f"{key // self.settings.shard_size:06}"
        if self.class_folders:
            folder = self.class_folders[row["label"][0]]
        return f"images/{folder}/{name}"
