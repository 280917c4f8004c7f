"""The manifest: the table of images that everything else is based on."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Self, SupportsIndex, overload

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed._util.hints import hint
from gpufeed._util.numbers import as_integer
from gpufeed._util.rows import gather, pieces, take_rows
from gpufeed._util.sanitize import sanitize, short
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.faults.quarantine import Quarantine
from gpufeed.records.annotations import (
    BOX_LABELS,
    BOX_POINTS,
    BOXES,
    POINTS,
)
from gpufeed.records.bounding_box import BOX_COLUMNS
from gpufeed.records.divide import divide, fold_sizes, part_sizes
from gpufeed.records.fingerprint import fingerprint, forked
from gpufeed.records.label_kinds import Labels
from gpufeed.records.lists import flatten
from gpufeed.records.record import Record
from gpufeed.records.rules import (
    FileLimits,
    check_frame,
    check_images,
    limit_files,
    num_pixels,
)
from gpufeed.records.splits import rows_of_split
from gpufeed.records.table_files import read_parquet
from gpufeed.source.base import Source
from gpufeed.source.files import PathSource
from gpufeed.source.locate import Root
from gpufeed.source.selection import take
from gpufeed.source.stored import Limits

__all__ = ["DROPPED", "SAVED", "Manifest", "class_names"]

DROPPED = ("images_dropped", "links_dropped")
"""Keys of `repairs` that count what was left out."""
SAVED = ".manifest"
"""Ending of the files of saved manifests."""
_MAX_SHOWN = 3


class Manifest:
    """The images of a dataset: an immutable table with one row per image, in a fixed order.

    A record_key is a row number of one manifest, so `filter` and `split` renumber the records.
    `manifest[key]` is a `Record`, with its `row` and its `image()`; iterating yields all of them.

    Args:
        frame: has at least the columns

            - `path` (String): name of the image; for a file, its path relative to the root, with
              `/` as the separator;
            - `width`, `height` (Int32): of the image in pixels, with its EXIF orientation applied;

            and optionally `box_x`, `box_y`, `box_width`, `box_height` (Int32, pixels, all four
            or none), a box inside the image. Other integer dtypes are cast to Int32. None of
            these may be null. Further optional columns, as `read_table` makes them, are

            - `label`: a class (Int32, in [0, len(classes))), several (List(Int32)), a number
              (Float64 or Float32), or a vector (Array of these) with an entry for each class;
            - `boxes` (List(Array(Float64, 4))): any number of boxes, x0, y0, x1, y1 in pixels,
              inside the image and with area;
            - `box_labels` (List(Int32) from 0, or List(Enum)): a label for each of these boxes;
            - `box_points` (List(Array(Float64, (k, 3)))): k points for each of these boxes;
            - `points` (List(Array(Float64, 3))): x, y in pixels and visible, 0 or 1; the same
              number for each image.

            All other columns are kept unchanged.
        source: source of the images, with key i for the image of row i; or the folder that the
            paths are relative to, its URL or a `RemoteStorage`.
        classes: the name of each class; none if there are no labels, or numbers.
        repairs: counts of what was repaired or dropped when the dataset was read.
        reduce_depth: whether images of 16 bits per channel (PNG, TIFF, PNM) are reduced to 8, by
            round(value / 257); by default they are bad images. Images of other depths above 8, and
            of floating-point or signed numbers, always are.
        numbers: row numbers to give in error messages; by default they count from 0.
        point_names: the names of the k points of each image, or else of each box.
        box_columns: the columns of lists that have a value for each box. They lose the values of
            boxes that `prepare` drops; no other column does, however long its lists are.

    Raises:
        ManifestError: a column is missing or has a wrong dtype, the frame is empty, or a row
            violates one of the rules above; the message names the row.
    """

    __slots__ = (
        "_box_columns",
        "_classes",
        "_file",
        "_fingerprint",
        "_frame",
        "_point_names",
        "_prepared",
        "_reduce_depth",
        "_repairs",
        "_selected_from",
        "_source",
    )

    def __init__(
        self,
        frame: pl.DataFrame,
        source: Source | Root,
        classes: Sequence[str] = (),
        *,
        repairs: Mapping[str, int] | None = None,
        reduce_depth: bool = False,
        numbers: Sequence[int] | None = None,
        point_names: Sequence[str] = (),
        box_columns: Sequence[str] = (),
    ) -> None:
        if not isinstance(frame, pl.DataFrame):
            raise ManifestError(f"a manifest needs a polars DataFrame, not {_kind(frame)}")
        if isinstance(classes, str) or not all(isinstance(name, str) for name in classes):
            raise ManifestError("classes must be a sequence of strings, one for each label")
        self._classes = tuple(classes)
        if isinstance(box_columns, str):
            raise ConfigError(f"box_columns is {short(box_columns)}; it must be a list of names")
        self._box_columns = tuple(sorted({*box_columns}))
        self._frame = check_frame(frame, len(self._classes), numbers, self._box_columns)
        self._source = check_images(source, self._frame, numbers)
        self._repairs = dict(repairs or {})
        self._selected_from = len(self)
        self._reduce_depth = reduce_depth
        self._point_names = tuple(point_names)
        if point_names and len(self._point_names) != self.num_points:
            raise ManifestError(
                f"there are {len(self._point_names)} point_names for {self.num_points} points"
            )
        self._prepared: tuple[Mapping[str, object], ...] = ()
        self._fingerprint: str | None = None
        self._file: tuple[Any, ...] | None = None

    @property
    def frame(self) -> pl.DataFrame:
        """All columns; a cheap copy, so changing it in place does not change the manifest."""
        return self._frame.clone()

    @property
    def source(self) -> Source:
        """The source of the images; key i is the image of row i."""
        return self._source

    @property
    def root(self) -> Path | str:
        """The absolute path of the folder of the images, of which `root / path` is one; or its URL.

        Raises:
            ManifestError: the images are not files in one folder.
        """
        if not isinstance(self._source, PathSource):
            raise ManifestError(f"the images are not files in one folder but {self._source!r}")
        return self._source.root

    @property
    def classes(self) -> tuple[str, ...]:
        """The name of each class: `classes[label]`, or of each entry if labels are vectors."""
        return self._classes

    @property
    def labels(self) -> Labels:
        """The labels of all records, in the form that batches have."""
        column = self._frame["label"] if "label" in self._frame.columns else None
        return Labels(column, len(self._classes), len(self))

    @property
    def repairs(self) -> Mapping[str, int]:
        """Counts of what was repaired when the whole set was read, as `{"boxes_clamped": 201}`."""
        return MappingProxyType(self._repairs)

    @property
    def selected_from(self) -> int:
        """The number of images of the manifest that `filter` or `take` selected these from.

        Its own for manifests that are made otherwise, and for splits and folds.
        """
        return self._selected_from

    @property
    def prepared(self) -> tuple[Mapping[str, object], ...]:
        """The identities of the transforms that `prepare` put the images through, in their order.

        A loader whose `transforms` begin with these leaves them out. `concat` keeps them if all of
        its manifests have the same.
        """
        return self._prepared

    @property
    def reduce_depth(self) -> bool:
        """Whether images of 16 bits per channel are reduced to 8; else they are bad images."""
        return self._reduce_depth

    @property
    def has_boxes(self) -> bool:
        """Whether every image has a bounding box (`box_x` and so on)."""
        return BOX_COLUMNS[0] in self._frame.columns

    def __len__(self) -> int:
        return self._frame.height

    @overload
    def __getitem__(self, key: SupportsIndex) -> Record: ...

    @overload
    def __getitem__(self, key: slice) -> Manifest: ...

    def __getitem__(self, key: SupportsIndex | slice) -> Record | Manifest:
        """Return a record, or with a slice a manifest, as `take` does; both as in a list.

        Raises:
            IndexError: there is no such record.
            ManifestError: the slice has no image.
            TypeError: the key is neither an integer nor a slice.
        """
        if isinstance(key, slice):
            return self.take(np.arange(len(self))[key])
        if not hasattr(key, "__index__"):
            raise TypeError(
                f"a manifest is indexed by integers and slices, not {_kind(key)}; take() takes a "
                "list of record keys, filter() a mask"
            )
        number = as_integer(key)
        if not -len(self) <= number < len(self):
            raise IndexError(f"there is no record {number}; there are records 0 to {len(self) - 1}")
        return Record(self, number % len(self))

    def __iter__(self) -> Iterator[Record]:
        return map(self.__getitem__, range(len(self)))

    if not TYPE_CHECKING:  # for which any name would then be an attribute

        def __getattr__(self, name: str) -> NoReturn:
            text = f"'Manifest' object has no attribute {name!r}{hint('Manifest', name)}"
            raise AttributeError(text, name=name, obj=self)

    def __repr__(self) -> str:
        boxes = "with boxes" if self.has_objects else "no boxes"
        repairs = f", repairs={self._repairs}" if self._repairs else ""
        classes = f"{len(self._classes):,} classes" if self._classes else "no classes"
        return (
            f"<Manifest: {len(self):,} images, {classes}, {boxes}, "
            f"{self._source!r}, columns={self._frame.columns}{repairs}>"
        )

    def sizes(self, keys: npt.ArrayLike | None = None) -> npt.NDArray[np.int32]:
        """Return the height and width of each image in pixels; int32, (n, 2).

        Args:
            keys: here and below, the record_keys of n images; None for all images.

        Raises:
            ConfigError: as `rows`.
        """
        return self._integers(("height", "width"), keys)

    def boxes(self, keys: npt.ArrayLike | None = None) -> npt.NDArray[np.int32] | None:
        """Return the bounding boxes x, y, width, height in pixels, int32, (n, 4), or None."""
        return self._integers(BOX_COLUMNS, keys) if self.has_boxes else None

    def most_pixels(self, limit: int = 1 << 62, count: int = 1) -> int:
        """Return the pixels that the `count` largest images with up to `limit` have together."""
        largest = np.zeros(0, np.int64)
        for piece in pieces(self._frame[["width", "height"]]):
            pixels = num_pixels(piece)
            largest = np.append(largest, pixels[pixels <= limit])
            if len(largest) > count:
                largest = np.partition(largest, -count)[-count:]
        return int(largest.sum())

    @property
    def max_file_bytes(self) -> Limits:
        """The most bytes that the file of each image may have, given its pixels."""
        return FileLimits(self._frame)

    @property
    def has_objects(self) -> bool:
        """Whether there are boxes: a list for each image, or the single box of `has_boxes`."""
        return BOXES in self._frame.columns or self.has_boxes

    def most_objects(self) -> int:
        """Return the most boxes that an image has, at least 1."""
        if BOXES not in self._frame.columns:
            return 1
        counts = (np.diff(flatten(piece)[1]) for piece in pieces(self._frame[BOXES]))
        return max(1, *(int(count.max()) for count in counts))

    @property
    def has_points(self) -> bool:
        """Whether every image has points."""
        return POINTS in self._frame.columns

    @property
    def box_classes(self) -> tuple[str, ...]:
        """The name of each label of `objects`; empty if they have none."""
        if BOX_LABELS not in self._frame.columns:
            named = self.has_objects and self.labels.has_classes
            return self._classes if named else ()
        inner = getattr(self._frame[BOX_LABELS].dtype, "inner", None)
        return tuple(inner.categories) if isinstance(inner, pl.Enum) else ()

    def objects(
        self, keys: npt.ArrayLike | None = None
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32], npt.NDArray[np.int64]] | None:
        """Return the boxes of each image, concatenated; None if there are none.

        They come from the column `boxes`, or else from the single box of each image. Without
        `box_labels`, a box has its image's class, or 0 if images do not have one class each.

        Returns:
            Boxes, float64 (m, 4) of x0, y0, x1, y1 in pixels; their labels, int32 (m,); and
            offsets, int64 (n + 1): the boxes of image i are those in [offsets[i], offsets[i + 1]).
        """
        if BOXES in self._frame.columns:
            boxes, offsets = flatten(self._lists(BOXES, keys))
            if BOX_LABELS in self._frame.columns:
                labels = flatten(self._lists(BOX_LABELS, keys))[0]
                return boxes, labels.astype(np.int32, copy=False), offsets
        elif (single := self.boxes(keys)) is not None:
            start = single[:, :2].astype(np.float64)
            boxes = np.concatenate([start, start + single[:, 2:]], axis=1)
            offsets = np.arange(len(boxes) + 1)
        else:
            return None
        groups = self.labels.groups_of(self._rows(keys))
        return boxes, np.repeat(groups, np.diff(offsets)), offsets

    def points(self, keys: npt.ArrayLike | None = None) -> npt.NDArray[np.float64] | None:
        """Return the points, float64 (n, k, 3) of x, y in pixels and visible, or None."""
        if not self.has_points:
            return None
        lists = self._lists(POINTS, keys)
        return flatten(lists)[0].reshape(len(lists), -1, 3)

    def box_points(self, keys: npt.ArrayLike | None = None) -> npt.NDArray[np.float64] | None:
        """Return the points of the boxes of `objects`, float64 (m, k, 3) as `points`, or None."""
        if BOX_POINTS not in self._frame.columns:
            return None
        return flatten(self._lists(BOX_POINTS, keys))[0].reshape(-1, self._points_of_a_box(), 3)

    @property
    def num_points(self) -> int:
        """The number of points of each image, or else of each box; 0 if there are none."""
        if self.has_points:
            return len(flatten(self._frame[POINTS][:1])[0])
        return self._points_of_a_box()

    def _points_of_a_box(self) -> int:
        dtype: Any = self._frame.schema.get(BOX_POINTS)
        return 0 if dtype is None else dtype.inner.shape[0]

    @property
    def point_names(self) -> tuple[str, ...]:
        """The names of the points, in their order; empty if they have none."""
        return self._point_names

    @property
    def box_columns(self) -> tuple[str, ...]:
        """The columns that have a value for each box, beside `box_labels` and `box_points`."""
        return self._box_columns

    def filter(self, predicate: pl.Expr | pl.Series | npt.NDArray[np.bool_]) -> Manifest:
        """Return the images for which the predicate holds, in order, with the same classes.

        Args:
            predicate: a boolean polars expression over the columns, or a mask with one boolean
                for each image. Null counts as False.

        Raises:
            ConfigError: the predicate is not boolean, has the wrong length, or cannot be
                evaluated.
            ManifestError: no image is left.
        """
        if isinstance(predicate, pl.Expr):
            try:
                mask = self._frame.select(predicate).to_series()
            except pl.exceptions.PolarsError as error:
                raise ConfigError(f"the predicate cannot be evaluated: {error}") from error
        elif isinstance(predicate, pl.Series):
            mask = predicate
        elif isinstance(predicate, np.ndarray):
            if predicate.ndim != 1:
                raise ConfigError(f"a mask must have one dimension, not {predicate.ndim}")
            mask = pl.Series(predicate)
        else:
            raise ConfigError(
                "a predicate must be a polars expression or a mask of booleans, "
                f"not {_kind(predicate)}: {short(predicate)}"
            )
        if mask.dtype != pl.Boolean:
            raise ConfigError(f"the predicate must give booleans, not {mask.dtype}")
        if len(mask) != len(self):
            raise ConfigError(f"the predicate gives {len(mask)} values for {len(self)} images")
        return self._select(mask, "the filter leaves no image")

    def without(self, bad: Quarantine | pl.DataFrame | str | Path) -> Manifest:
        """Return the images that are not in a list of bad ones, in order.

        Args:
            bad: a loader's quarantine; or a list of paths relative to the same root, as written by
                `loader.quarantine.save` and `gpufeed check`: a frame, or a Parquet file, with a
                column `path`. If it has a boolean column `fails`, only rows where that is true
                count.

        Raises:
            ManifestError: the file cannot be read, has no such column, or names all images.
            ConfigError: `bad` is something else.
        """
        source = "the list"
        if isinstance(bad, Quarantine):
            frame = bad.frame()
        elif isinstance(bad, pl.DataFrame):
            frame = bad
        elif isinstance(bad, str | Path):
            frame, source = read_parquet(Path(bad)), str(bad)
        else:
            raise ConfigError(
                f"bad must be a loader's quarantine, a frame with a column 'path', or the Parquet "
                f"file of one, not {_kind(bad)}"
            )
        if frame.schema.get("path") != pl.String:
            raise ManifestError(
                f"{source} has no text column 'path'; the columns are {frame.columns}"
            )
        if frame.schema.get("fails") == pl.Boolean:
            frame = frame.filter("fails")
        names = frame["path"].unique().to_list()
        if names and not self._frame["path"].is_in(names).any():
            dropped = sum(self._repairs.get(each, 0) for each in DROPPED)
            warnings.warn(
                f"none of the {len(names)} paths in {source} is in this manifest; {source} names "
                f"{short(names[0])}, this manifest {short(self._frame['path'][0])}"
                + (f"; {dropped} were already dropped when it was read" if dropped else ""),
                stacklevel=2,
            )
        return self._select(~self._frame["path"].is_in(names), f"{source} names every image")

    def split(self, name: str) -> Manifest:
        """Return the images of one split, with the same classes.

        A text column `split` gives the names of the splits; a row without one is in no split.
        Without that column, `is_training_img`, as NABirds has it, gives "train" and "test".

        Args:
            name: "train", "val" or any name in the column `split`. "valid" and "validation" are the
                same as "val", "training" as "train" and "testing" as "test", in any case.

        Raises:
            ConfigError: there is no split of this name.
            ManifestError: there is neither column, `is_training_img` is neither boolean nor 0 and
                1, or no image is in this split.
        """
        mask = rows_of_split(self._frame, name)
        return self._select(mask, f"no image is in split {name!r}")._as_whole()

    def random_split(
        self, lengths: Sequence[float], *, seed: int = 0, stratify: bool | None = None
    ) -> list[Manifest]:
        """Divide the images at random into parts, each in the manifest's order.

            train, val, test = manifest.random_split([0.8, 0.1, 0.1])

        The parts have all classes in their `classes`. They are the same on every machine.

        Args:
            lengths: fractions that sum to 1, or numbers of images that sum to all of them. Sizes of
                fractions are rounded by their largest remainders.
            seed: seed of the division, 0 to 2**64 - 1.
            stratify: whether each part has its share of each class, to within one image; None for
                yes if each image has one class.

        Returns:
            A manifest for each length.

        Raises:
            ConfigError: the lengths are neither, the seed is out of range, or `stratify` is True
                where images do not have one class each.
            ManifestError: a part has no image.
        """
        sizes = part_sizes(lengths, len(self))
        if 0 in sizes:
            raise ManifestError(
                f"part {sizes.index(0)} of {list(lengths)} has no image of {len(self)}"
            )
        parts = divide(self._strata(stratify), sizes, seed)
        return [self.take(np.flatnonzero(parts == part))._as_whole() for part in range(len(sizes))]

    def k_fold(
        self, folds: int, *, fold: int, seed: int = 0, stratify: bool | None = None
    ) -> tuple[Manifest, Manifest]:
        """Return the training and the validation set of one fold of a cross-validation.

        The validation sets of all folds divide the manifest, into sizes that differ by one at most.
        A class with fewer images than folds is missing in some of them.

        Args:
            folds: the number of folds, from 2 to the number of images.
            fold: the number of this one, from 0.
            seed: as for `random_split`; the same for all folds.
            stratify: as for `random_split`.

        Raises:
            ConfigError: an argument is out of range.
        """
        parts = divide(self._strata(stratify), fold_sizes(folds, fold, len(self)), seed)
        train, validation = np.flatnonzero(parts != fold), np.flatnonzero(parts == fold)
        return self.take(train)._as_whole(), self.take(validation)._as_whole()

    def check_same_classes(self, other: Manifest) -> None:
        """Check that labels mean the same in another manifest, as in the one to evaluate on.

        `classes` must be equal, and `box_classes` if both manifests have them.

        Raises:
            ManifestError: they are not; the message names the first labels that differ.
        """
        both = [("classes", self.classes, other.classes)]
        if self.box_classes and other.box_classes:
            both.append(("box_classes", self.box_classes, other.box_classes))
        for what, here, there in both:
            differ = [
                f"label {label} is {_class_name(ours)} here and {_class_name(theirs)} in the other"
                for label, (ours, theirs) in enumerate(zip_longest(here, there))
                if ours != theirs
            ]
            if differ:
                more = f"; and {len(differ) - _MAX_SHOWN:,} more" if differ[_MAX_SHOWN:] else ""
                raise ManifestError(
                    f"the {what} of the two manifests differ: {'; '.join(differ[:_MAX_SHOWN])}"
                    f"{more}; read one with classes= the other, or both with the same list"
                )

    def rows(self, keys: npt.ArrayLike) -> pl.DataFrame:
        """Return the rows of these record_keys, in their order, repeats included.

        Args:
            keys: integers, (k,), each in [0, len(self)).

        Raises:
            ConfigError: the keys are not integers, not one-dimensional, or out of range.
        """
        return self._frame[self._check_keys(keys)]

    def take(self, keys: npt.ArrayLike) -> Manifest:
        """Return the images of these record_keys as a manifest, in their order, repeats included.

        Args:
            keys: integers, (k,), k at least 1, each in [0, len(self)).

        Raises:
            ConfigError: as `rows`.
            ManifestError: there are no keys.
        """
        rows = self._check_keys(keys)
        if not len(rows):
            raise ManifestError("a manifest needs at least one image")
        taken = self._of_checked(
            self._frame[rows],
            take(self._source, rows),
            self._classes,
            repairs=self._repairs,
            reduce_depth=self._reduce_depth,
            point_names=self._point_names,
            box_columns=self._box_columns,
            prepared=self._prepared,
        )
        taken._selected_from = len(self)
        return taken

    @classmethod
    def _of_checked(
        cls,
        frame: pl.DataFrame,
        source: Source,
        classes: tuple[str, ...],
        *,
        repairs: dict[str, int],
        reduce_depth: bool,
        point_names: tuple[str, ...],
        box_columns: tuple[str, ...],
        prepared: Sequence[Mapping[str, object]],
        fingerprint: str | None = None,
    ) -> Self:
        """Return a manifest of rows that another manifest has checked."""
        made = object.__new__(cls)
        made._frame = frame
        made._source = limit_files(source, frame)
        made._classes = classes
        made._repairs = repairs
        made._selected_from = len(frame)
        made._reduce_depth = reduce_depth
        made._point_names = point_names
        made._box_columns = box_columns
        made._prepared = tuple(prepared)
        made._fingerprint = fingerprint
        made._file = None
        return made

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Pickle a manifest as its file's path, if `read_manifest` read it, or else as its rows."""
        if self._file is None:
            return super().__reduce_ex__(protocol)
        from gpufeed.records.saved import read_again

        return read_again, (self.fingerprint(), *self._file)

    def _rows(self, keys: npt.ArrayLike | None) -> npt.NDArray[np.int64] | None:
        return None if keys is None else self._check_keys(keys)

    def _check_keys(self, keys: npt.ArrayLike) -> npt.NDArray[np.int64]:
        array = np.asarray(keys)
        if array.ndim != 1:
            raise ConfigError(f"record keys must have one dimension, not {array.ndim}")
        if array.size and array.dtype.kind not in "iu":
            raise ConfigError(f"record keys must be integers, not {array.dtype}")
        outside = (array < 0) | (array >= len(self))
        if outside.any():
            raise ConfigError(
                f"record key {array[outside][0]} is out of range for {len(self)} images"
            )
        return array.astype(np.int64)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the classes and all columns, as 64 hex digits; computed once.

        It depends on names, dtypes, values and the order of the rows; not on the root, the order
        of the columns, the machine, or the version of any library.

        Raises:
            ManifestError: a column has a dtype without a canonical form (Object).
        """
        if self._fingerprint is None:
            self._fingerprint = fingerprint(self._frame, self._classes)
        return self._fingerprint

    def known_fingerprint(self) -> str:
        """Return the fingerprint, or "" in a forked process that would have to compute it.

        The threads of polars are not forked with it, and a computation may wait for them for ever.
        """
        return "" if forked() and self._fingerprint is None else self.fingerprint()

    def _new_column(self, saved: str) -> str | None:
        """Return the column without which the manifest would have a fingerprint, if any."""
        for column in self._frame.columns:
            if fingerprint(self._frame.drop(column), self._classes) == saved:
                return column
        return None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the manifest to a file for `read_manifest`, which opens it at once.

        It is an Arrow IPC file of all columns, with the names of classes and points and the
        fingerprint in its metadata. It says where the images are, in files of any kind that gpufeed
        reads, so that nothing else is needed to open it; images themselves are not copied. Those in
        memory, and those of a source of your own, are passed to `read_manifest` as `source`. The
        file is written atomically.

        Args:
            path: the file, which must end in ".manifest".

        Raises:
            ConfigError: `path` has another ending.
            MissingExtraError: pyarrow is not installed.
            OSError: the file cannot be written.
        """
        from gpufeed.records.saved import save_manifest

        save_manifest(self, path)

    def _strata(self, stratify: bool | None) -> npt.NDArray[np.int32]:
        labels = self.labels
        if stratify and not labels.has_classes:
            raise ConfigError(
                "stratify is True, but images do not have one class each; leave it out, or pass "
                "stratify=False"
            )
        return np.zeros(len(self), np.int32) if stratify is False else labels.groups

    def _as_whole(self) -> Manifest:
        """Count a new selection as no division among processes; return it."""
        self._selected_from = len(self)
        return self

    def _integers(
        self, columns: Sequence[str], keys: npt.ArrayLike | None
    ) -> npt.NDArray[np.int32]:
        rows = self._rows(keys)
        return np.column_stack([gather(self._frame[column], rows) for column in columns])

    def _lists(self, column: str, keys: npt.ArrayLike | None) -> pl.Series:
        rows = self._rows(keys)
        return self._frame[column] if rows is None else take_rows(self._frame[column], rows)

    def _select(self, mask: pl.Series, if_empty: str) -> Manifest:
        rows = mask.arg_true()
        if rows.is_empty():
            raise ManifestError(f"{if_empty} of {len(self)}")
        return self.take(rows.to_numpy())


def class_names(classes: object, argument: str = "classes") -> tuple[str, ...] | None:
    """Return the names that an argument gives: a sequence, a manifest's classes, or None.

    Raises:
        ConfigError: the argument is something else, such as a text or a set, which has no order.
    """
    if classes is None:
        return None
    if isinstance(classes, Manifest):
        return classes.classes
    if (
        not isinstance(classes, Sequence)
        or isinstance(classes, str)
        or not all(isinstance(name, str) for name in classes)
    ):
        raise ConfigError(
            f"{argument} must be a list of names in the order of their labels, or a manifest, not "
            f"{sanitize(repr(classes))}"
        )
    return tuple(classes)


def _class_name(name: str | None) -> str:
    return "no class" if name is None else sanitize(repr(name))


def _kind(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
