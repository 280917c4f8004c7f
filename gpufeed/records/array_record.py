"""Reads the images, labels and other features of ArrayRecord files of Examples."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, BinaryIO, Literal

import numpy as np
import polars as pl

from gpufeed._util.sanitize import short
from gpufeed.errors import ManifestError
from gpufeed.records.bad_images import OnBadImage, check_on_bad_image
from gpufeed.records.manifest import Manifest
from gpufeed.records.sizes import with_sizes
from gpufeed.records.table import read_table
from gpufeed.source.array_record import ArrayRecordSource, image_of
from gpufeed.source.example import Values
from gpufeed.source.patterns import Patterns
from gpufeed.source.selection import take

__all__ = ["read_array_record"]

_KEY = "record number in gpufeed"


def read_array_record(
    paths: Patterns,
    *,
    image: str = "image",
    label: str | None = "label",
    classes: Sequence[str] | Manifest | Literal["renumber"] | None = None,
    on_bad_image: OnBadImage = "raise",
    reduce_depth: bool = False,
    progress: bool | None = None,
) -> Manifest:
    """Make a manifest from ArrayRecord files of `tf.train.Example` messages, as TFDS writes them.

    Features of one number or text in each record become columns; other features are left out.
    `path` is the file's name and the record's position in it, such as
    "birds-train.array_record-00000-of-00016/17".

    This reads all records once; `Manifest.save` spares that the next time. For records that are
    encoded images themselves, pass `read_table` their labels, and `ArrayRecordSource` as `source`.

    Args:
        paths: the files: see `ArrayRecordSource`.
        image: the feature that is the encoded image.
        label: the feature that is the label; otherwise as for `read_table`. If it has another name
            than `label`, a feature of that name is left out.
        classes: as for `read_table`. TFDS writes the names of a label into a file
            `label.labels.txt`, one a line.
        on_bad_image: as for `read_table`; an Example without an image counts as a bad image.
        reduce_depth: as for `read_table`.
        progress: whether to show a progress bar; None shows it on a terminal only.

    Raises:
        ManifestError: as `ArrayRecordSource` and `read_table`.
        ConfigError: as `read_table`.
        MissingExtraError: the package array_record or protobuf is not installed.
    """
    check_on_bad_image(on_bad_image)
    source = ArrayRecordSource(paths, image)
    scan = _Scan(source)
    keys = pl.DataFrame({_KEY: np.arange(len(source))})
    sized, _, repairs = with_sizes(
        keys, scan, show=progress, on_bad_image=on_bad_image, reduce_depth=reduce_depth
    )
    kept = sized[_KEY].to_numpy()
    taken = {"width", "height"}
    columns = [column.gather(kept) for column in scan.columns() if column.name not in taken]
    manifest = read_table(
        sized.drop(_KEY).with_columns(columns),
        label=label,
        classes=classes,
        source=take(source, kept) if repairs else source,
        on_bad_image=on_bad_image,
        reduce_depth=reduce_depth,
    )
    manifest._repairs |= repairs
    return manifest


class _Scan:
    """Reads records, and keeps their features while the sizes of their images are read."""

    def __init__(self, source: ArrayRecordSource) -> None:
        self._source = source
        self._columns: dict[str, list[Any]] = {}
        self._others: set[str] = {source.image or ""}
        self.name = source.name
        self.read = source.read

    def open(self, key: int) -> BinaryIO:
        """Open an image: see `Source`."""
        example = self._source.example(key)
        for name, values in example.items():
            self._keep(name, key, values)
        return io.BytesIO(image_of(example, self._source.image or ""))

    def _keep(self, name: str, key: int, values: Values) -> None:
        if name in self._others or not values:
            return
        (value, *more) = values
        try:
            kept = str(value, "utf-8") if isinstance(value, bytes) else value
        except UnicodeDecodeError:
            more = [value]
        if more:
            self._others.add(name)
        else:
            self._columns.setdefault(name, [None] * len(self._source))[key] = kept

    def columns(self) -> list[pl.Series]:
        """Return the features of one value; null where a record has none.

        Raises:
            ManifestError: a feature has values of several types.
        """
        columns = []
        for name in sorted(self._columns.keys() - self._others):
            try:
                columns.append(pl.Series(name, self._columns[name], strict=True))
            except TypeError:
                raise ManifestError(
                    f"the feature {short(name)} is a number in some records and text in others"
                ) from None
        return columns
