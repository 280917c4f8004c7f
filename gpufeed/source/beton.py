"""Images in FFCV's .beton files: JPEGs, or pixels.

A file has a header; a description of each field; a table with a row for each sample, which has the
numbers and says where images are; the images, in pages; and a table of the lengths of all that is
in the pages.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.sanitize import short
from gpufeed.errors import ManifestError
from gpufeed.source.base import Content, Saved
from gpufeed.source.locate import Root
from gpufeed.source.ranges import RangeSource
from gpufeed.source.storage import Storage

__all__ = ["Beton", "BetonSource", "open_beton"]

_VERSION = 2
_HEADER = np.dtype(
    [("version", "<u2"), ("fields", "<u2"), ("page", "<u4"), ("samples", "<u8"), ("table", "<u8")]
)
_FIELD = np.dtype([("kind", "u1"), ("name", "S16"), ("arguments", "V1024")])
_LENGTH = np.dtype([("sample", "<u8"), ("start", "<i8"), ("length", "<i8")])
_NUMBERS, _IMAGE, _BYTES = (0, 1), 2, 3
_BLOB = np.dtype([("start", "<i8"), ("length", "<i8")])
_KINDS: dict[int, Any] = {
    0: "<f8",
    1: "<i8",
    _IMAGE: np.dtype([("raw", "u1"), ("width", "<u2"), ("height", "<u2"), ("start", "<i8")]),
    _BYTES: _BLOB,
    4: "<u8",  # an array of numbers
    5: _BLOB,  # JSON
    6: "<u8",  # a tensor
}
"""What a row has of a field, by the field's kind."""


class Beton(NamedTuple):
    """What a file has.

    Attributes:
        source: its images.
        columns: the fields of numbers by name; and `width` and `height`, if they are known.
    """

    source: BetonSource
    columns: dict[str, npt.NDArray[Any]]


class BetonSource(RangeSource):
    """Byte ranges, each a JPEG or pixels; arguments as for `RangeSource`.

    Attributes:
        shapes: int64 (n, 2), height and width of the images that are pixels; 0 of others.
    """

    shapes: npt.NDArray[np.int64]

    def to_saved(self) -> Saved | None:
        """Return what `from_saved` takes: see `RangeSource`."""
        saved = super().to_saved()
        if saved is None:
            return None
        return Saved(saved.about, saved.columns.with_columns(shape=pl.Series(self.shapes)))

    @classmethod
    def from_saved(cls, about: dict[str, Any], columns: pl.DataFrame, root: Root | None) -> Self:
        """Return the source that was saved: see `RangeSource`."""
        source = super().from_saved(about, columns, root)
        source.shapes = columns["shape"].to_numpy()
        return source

    def read(self, keys: npt.NDArray[np.int64]) -> list[Content | OSError]:  # type: ignore[override]
        """Read images: see `Source`."""
        found: list[Content | OSError] = []
        for content, shape in zip(super().read(keys), self.shapes[keys].tolist(), strict=True):
            if shape[0] and not isinstance(content, OSError):
                found.append(np.frombuffer(content, np.uint8).reshape(*shape, 3))
            else:
                found.append(content)
        return found

    def take(self, keys: npt.NDArray[np.int64]) -> Self:
        """Return a source of the images of `keys`, in their order, repeats included."""
        taken = super().take(keys)
        taken.shapes = self.shapes[keys]
        return taken


def open_beton(storage: Storage, path: str, image: str) -> Beton:
    """Read the tables of a file.

    Args:
        storage: has the file.
        path: of the file.
        image: the field of the images: of FFCV's `RGBImageField`, or of its `BytesField`, each an
            encoded image.

    Raises:
        ManifestError: it is no such file, is truncated, or has no such field.
        OSError: it cannot be read.
    """
    name, stamp = storage.name(path), storage.stamp(path)

    def read(kind: Any, start: int, count: int) -> npt.NDArray[Any]:
        if start + count * kind.itemsize > stamp.length:
            raise ManifestError(f"{name} is truncated, or is no .beton file of FFCV")
        file.seek(start)
        return np.frombuffer(file.read(count * kind.itemsize), kind)

    with storage.open(path) as file:
        (header,) = read(_HEADER, 0, 1)
        if header["version"] != _VERSION:
            raise ManifestError(
                f"{name} is no .beton file of FFCV 1: its version is {header['version']}"
            )
        fields = read(_FIELD, _HEADER.itemsize, int(header["fields"]))
        names = [field.decode("ascii", "replace") for field in fields["name"].tolist()]
        kinds = fields["kind"].tolist()
        for each, number in zip(names, kinds, strict=True):
            if number not in _KINDS:
                raise ManifestError(f"{name} has the field {short(each)} of a type of its own")
        kind = dict(zip(names, kinds, strict=True)).get(image)
        if kind not in (_IMAGE, _BYTES):
            raise ManifestError(
                f"{name} has no field of images {short(image)}; its fields are {short(names)}"
            )
        row = np.dtype([("", _KINDS[each]) for each in kinds], align=True)
        rows = read(row, _HEADER.itemsize + fields.nbytes, int(header["samples"]))
        table = int(header["table"])
        lengths = read(_LENGTH, table, max(stamp.length - table, 0) // _LENGTH.itemsize)
    if not len(rows):
        raise ManifestError(f"{name} has no samples")
    values = dict(zip(names, (rows[each] for each in row.names or ()), strict=True))
    images = values[image]
    columns = {
        each: values[each] for each, number in zip(names, kinds, strict=True) if number in _NUMBERS
    }
    shapes = np.zeros((len(rows), 2), np.int64)
    if kind == _BYTES:
        sizes = images["length"]
    else:
        columns |= {side: images[side].astype(np.int32) for side in ("width", "height")}
        raw = images["raw"] == 1
        shapes[raw] = np.stack([images["height"], images["width"]], axis=1)[raw]
        sizes = np.where(raw, 3 * shapes.prod(axis=1), _lengths_at(images["start"], lengths))
    source = BetonSource(
        storage,
        [path],
        [stamp],
        np.zeros(len(rows), np.int64),
        images["start"].copy(),
        sizes.copy(),
        pl.Series(range(len(rows))).cast(pl.String),
    )
    source.shapes = shapes
    return Beton(source, columns)


def _lengths_at(starts: npt.NDArray[np.int64], lengths: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the lengths of what starts at these bytes; 0 where the table has none."""
    lengths = lengths[np.argsort(lengths["start"])]
    places = np.searchsorted(lengths["start"], starts)
    known = places < len(lengths)
    known[known] = lengths["start"][places[known]] == starts[known]
    found = np.zeros(len(starts), np.int64)
    found[known] = lengths["length"][places[known]]
    return found
