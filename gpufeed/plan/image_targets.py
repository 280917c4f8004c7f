"""Further images of each record that move with its image: masks and depth maps."""

from __future__ import annotations

import os
from collections.abc import Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.numbers import is_number
from gpufeed._util.sanitize import short
from gpufeed._util.urls import URL, location
from gpufeed.decode.values import decode_values
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.concat import own_roots
from gpufeed.source.base import Content, Source, check_source
from gpufeed.source.files import FileSource, PathSource
from gpufeed.source.locate import Root, source_of
from gpufeed.source.objects import ObjectSource
from gpufeed.source.paths import make_relative
from gpufeed.source.selection import take
from gpufeed.transforms.arguments import check_sampling
from gpufeed.transforms.frame import Sampling

if TYPE_CHECKING:
    from gpufeed.plan.lookup import Lookup
    from gpufeed.records import Manifest

__all__ = ["Depth", "ImageTarget", "Mask"]


class ImageTarget:
    """A further image of each record, of one channel, moved as its image is: `Mask` or `Depth`.

    It has the size of its image. Each pixel of the batch is looked up once on the encoded image, at
    the point that the image's crops, resizes, pads, flips and warps lead to. A record whose further
    image is missing, damaged or of another size counts as bad, as with a bad image.

    Args:
        name: the array's key in the batch.
        column: the manifest's column of paths; by default the one called `name`. With `source`, a
            column of integers, the keys of the images.
        root: folder, or its URL, that relative paths are relative to; by default that of the
            manifest's images.
        suffix: what the suffix of each path is replaced with; None to keep it.
        source: source of the images, instead of files: without the column, key i is the image of
            row i of the loader's manifest, so a manifest that is filtered or split needs the
            column.
        follow_links: whether symbolic links may lead out of the root: see `read_table`.
        fill: value of padding and of other pixels from outside the image, and of blank images.
        dtype: dtype of the array.
        sampling: "nearest" or "bilinear".

    Raises:
        ConfigError: an argument is out of range or contradicts another.
    """

    moves: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        *,
        column: str | None,
        root: str | os.PathLike[str] | None,
        suffix: str | None,
        source: Source | None,
        follow_links: bool,
        fill: float,
        dtype: Literal["uint8", "int32", "float32"],
        sampling: Sampling = "nearest",
    ) -> None:
        if source is not None and root is not None:
            raise ConfigError(f"root is {short(root)}, but source is given too; pass only one")
        self.name = name
        self.column = name if column is None else column
        self.fill = fill
        self.dtype = dtype
        self.sampling = sampling
        self._root = root
        self._suffix = suffix
        self._source = source
        self._follow_links = bool(follow_links)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def bind(self, manifest: Manifest) -> Source:
        """Return a source with key i for row i of a manifest.

        Raises:
            ConfigError: the manifest does not have the column, or not of this kind.
            ManifestError: a path is invalid.
        """
        frame = manifest.frame
        known = self.column in frame.columns
        if self._source is not None and not known:
            try:
                check_source(self._source, len(manifest))
            except ManifestError as error:
                raise ConfigError(
                    f"{self}: {error}; a manifest that was filtered or split needs a column "
                    f"{self.column!r} of the source's keys"
                ) from None
            return self._source
        if not known:
            raise ConfigError(
                f"targets has {self}, but the manifest has no column {self.column!r}, only "
                f"{frame.columns}; name the column of paths with column=, or pass source="
            )
        column = frame[self.column]
        wanted = pl.String if self._source is None else "integers"
        fits = column.dtype == pl.String if self._source is None else column.dtype.is_integer()
        if not fits or column.null_count():
            raise ConfigError(
                f"targets has {self}, whose column {self.column!r} is {column.dtype} with "
                f"{column.null_count()} nulls; it must be {wanted} without nulls"
                + ("" if self._source is None else ", the keys of source; name it with column=")
                + ("; leave out rows that have none" if column.null_count() else "")
            )
        if self._source is not None:
            count = len(self._source) if isinstance(self._source, Sized) else 1 << 63
            if not column.is_between(0, count - 1).all():
                raise ConfigError(
                    f"targets has {self}, whose column {self.column!r} has keys from "
                    f"{short(column.min())} to {short(column.max())}; they must be keys of "
                    f"{self._source!r}, which count from 0"
                )
            return take(self._source, column.to_numpy().astype(np.int64))
        return self._files(manifest, column)

    def _files(self, manifest: Manifest, paths: pl.Series) -> PathSource:
        def row_name(row: int) -> str:
            return f"row {row} of column {self.column!r}"

        if self._suffix is not None:
            paths = paths.str.replace(r"\.[^./]*$", "") + self._suffix
        root = None if self._root is None else location(self._root)
        source = manifest.source
        folder = source.root if isinstance(source, PathSource) else Path()
        below = None if root is not None or self.column == "path" else own_roots(manifest.frame)
        if below is not None:
            absolute = paths.str.contains(f"^/|{URL}")
            below = below.zip_with(~absolute, pl.repeat("", len(below), eager=True))
            paths = below + paths
        found, relative = make_relative(paths, root, folder, row_name)
        if root is None and found is folder and not isinstance(source, PathSource):
            raise ConfigError(
                f"targets has {self}, whose paths are relative, and the images are {source!r}, "
                "not files in a folder; pass root="
            )
        at: Root = found
        if isinstance(source, ObjectSource) and found is folder:
            at = source.storage  # with its options
        files = source_of(at, relative, where=row_name)
        if isinstance(files, FileSource) and not self._follow_links:
            files = files.within_root()
        return files.limited(manifest.max_file_bytes)

    def empty(self, count: int, size: tuple[int, int]) -> npt.NDArray[Any]:
        """Return an array for `count` images of (height, width)."""
        return np.empty((count, *size), self.dtype)

    def decode(self, content: Content, size: tuple[int, int]) -> npt.NDArray[Any]:
        """Return the values of an image, (height, width).

        Raises:
            ValueError: the image cannot be decoded, or is not such an image of this size.
        """
        return decode_values(content, size)

    def write(
        self, lookup: Lookup, row: int, values: npt.NDArray[Any], out: npt.NDArray[Any]
    ) -> None:
        """Write the image of one view, (height, width), to `out`."""
        shown = lookup(row, values, out, self.sampling)
        if not shown.all():
            out[~np.broadcast_to(shown, out.shape)] = self.fill


class Mask(ImageTarget):
    """A mask of each record, such as its segmentation: whole numbers, exactly as in the file.

    The batch has it as uint8 or int32 (n, height, width); int32 is int64 in torch, as labels are.
    With `Views`, it has a list of such arrays. Values are those of `numpy.asarray` of Pillow's
    image: the indices of a palette, and 0 and 1 for 1 bit per pixel. Images have one channel: PNG,
    TIFF, BMP, PGM or PBM.

        loader = gpufeed.Loader(manifest, targets=[gpufeed.Mask("mask", root="masks/")])

    Args:
        name: the array's key in the batch.
        column: the manifest's column of paths; by default the one called `name`. With `source`, a
            column of integers, the keys of the masks.
        root: folder, or its URL, that relative paths are relative to; by default that of the
            manifest's images.
        suffix: what the suffix of each path is replaced with, as ".png" for images/1.jpg and
            masks/1.png; None to keep it.
        source: source of the masks, instead of files: without the column, key i is the mask of
            row i of the loader's manifest, so a manifest that is filtered or split needs the
            column.
        fill: value of pixels from outside the image, and of blank images. The default, 255, is the
            usual `ignore_index` of segmentation losses; masks with values 0 and 255 need another.
        dtype: "uint8", or "int32" for values above 255.
        follow_links: whether symbolic links may lead out of the root: see `read_table`.

    Raises:
        ConfigError: an argument is out of range or contradicts another.
    """

    def __init__(
        self,
        name: str,
        *,
        column: str | None = None,
        root: str | os.PathLike[str] | None = None,
        suffix: str | None = None,
        source: Source | None = None,
        fill: int = 255,
        dtype: Literal["uint8", "int32"] = "uint8",
        follow_links: bool = False,
    ) -> None:
        if dtype not in ("uint8", "int32"):
            raise ConfigError(f'dtype is {short(dtype)}; it must be "uint8" or "int32"')
        self._range = np.iinfo(dtype)
        if not is_number(fill) or fill not in range(self._range.min, self._range.max + 1):
            raise ConfigError(f"fill is {short(fill)}; it must be an integer of {dtype}")
        super().__init__(
            name,
            column=column,
            root=root,
            suffix=suffix,
            source=source,
            follow_links=follow_links,
            fill=fill,
            dtype=dtype,
        )

    def decode(self, content: Content, size: tuple[int, int]) -> npt.NDArray[Any]:
        """Return the values of a mask: see `ImageTarget`."""
        values = super().decode(content, size)
        if values.dtype.kind == "f":
            raise ValueError("its values are floating-point numbers, and a mask has integers")
        for extreme in (values.min(), values.max()) if values.dtype != np.uint8 else ():
            if not self._range.min <= extreme <= self._range.max:
                raise ValueError(
                    f"it has the value {extreme}, which does not fit in {self.dtype}"
                    + ('; pass dtype="int32"' if self.dtype == "uint8" else "")
                )
        return values


class Depth(ImageTarget):
    """A map of numbers for each record, such as its depth: float32 (n, height, width).

    With `Views`, the batch has a list of such arrays. Images have one channel, of 8 or 16 bits or
    of floating-point numbers: PNG, TIFF, BMP or PGM.

        depth = gpufeed.Depth("depth", scale=0.001)  # millimetres in 16 bits, as metres

    Args:
        name: the array's key in the batch.
        column: the manifest's column of paths; by default the one called `name`. With `source`, a
            column of integers, the keys of the maps.
        root: folder, or its URL, that relative paths are relative to; by default that of the
            manifest's images.
        suffix: what the suffix of each path is replaced with; None to keep it.
        source: source of the maps, instead of files: see `Mask`.
        scale: factor of the values.
        fill: value of pixels from outside the image, and of blank images; not multiplied by
            `scale`.
        interpolation: "nearest", or "bilinear" between the four pixels around a point, without
            antialiasing. If 0 means no measurement, "bilinear" mixes it in.
        follow_links: whether symbolic links may lead out of the root: see `read_table`.

    Raises:
        ConfigError: an argument is out of range or contradicts another.
    """

    def __init__(
        self,
        name: str,
        *,
        column: str | None = None,
        root: str | os.PathLike[str] | None = None,
        suffix: str | None = None,
        source: Source | None = None,
        scale: float = 1.0,
        fill: float = 0.0,
        interpolation: Sampling = "nearest",
        follow_links: bool = False,
    ) -> None:
        for argument, value in (("scale", scale), ("fill", fill)):
            if not is_number(value):
                raise ConfigError(f"{argument} is {short(value)}; it must be a number")
        self.scale = float(scale)
        super().__init__(
            name,
            column=column,
            root=root,
            suffix=suffix,
            source=source,
            follow_links=follow_links,
            fill=float(fill),
            dtype="float32",
            sampling=check_sampling(interpolation),
        )

    def write(
        self, lookup: Lookup, row: int, values: npt.NDArray[Any], out: npt.NDArray[Any]
    ) -> None:
        """Write the map of one view to `out`: see `ImageTarget`."""
        shown = lookup(row, values, out, self.sampling)
        out *= self.scale
        if not shown.all():
            out[~np.broadcast_to(shown, out.shape)] = self.fill
