"""Concatenation of manifests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gpufeed._util.sanitize import short
from gpufeed.errors import ManifestError
from gpufeed.records.annotations import ANNOTATIONS, BOX_POINTS, BOXES, POINTS
from gpufeed.records.bounding_box import BOX_COLUMNS
from gpufeed.records.lists import flatten, ragged
from gpufeed.records.manifest import Manifest
from gpufeed.source.base import Source
from gpufeed.source.files import FileSource
from gpufeed.source.objects import ObjectSource, join_objects
from gpufeed.source.selection import join

__all__ = ["concat", "own_roots"]

_NOT_NULLABLE = (*BOX_COLUMNS, *ANNOTATIONS, "is_training_img")
"""Columns that may be absent but may not contain nulls."""
_SOURCE_ROOT = "source_root"
"""The column of the folder of each image's manifest, below the common root."""


def concat(manifests: Iterable[Manifest]) -> Manifest:
    """Concatenate the images of several manifests into one manifest.

    Classes of the same name become one class; labels are renumbered in the order in which the
    manifests name their classes; so do the labels of boxes, and the categories of Enums. If all
    images are files, or all are in one kind of object store, the root is the common parent folder
    of all roots, so the fingerprint depends on their locations within it. If roots differ, the
    column `source_root` (Enum) gives the one of each image's manifest, relative to the common root;
    `Mask` and `Depth` find the paths of their columns there. A column that only some manifests have
    is null for the others; boxes, points and `is_training_img` are kept only if all manifests have
    them. The column `source` (Int32) gives the index of each image's manifest. `source` and
    `source_root` replace columns of these names. Labels must be of one kind. `MixtureSampler` mixes
    the manifests in fixed proportions.

    Raises:
        ManifestError: there is no manifest, a column has incompatible dtypes, or the manifests
            differ in `reduce_depth`, the kind of their labels, the entries of vectors, the names
            of their points, or `box_columns`.
    """
    given: object = manifests
    manifests = [] if isinstance(given, Manifest) else list(manifests)
    if not manifests or not all(isinstance(manifest, Manifest) for manifest in manifests):
        raise ManifestError("concat takes a sequence of at least one Manifest")
    if len({manifest.reduce_depth for manifest in manifests}) > 1:
        raise ManifestError(
            "some of the manifests have reduce_depth=True and others do not; make all of them with "
            "the same"
        )
    kinds = [manifest.frame.schema.get("label") for manifest in manifests]
    # float32 and float64 are of one kind.
    if len({str(kind).replace("Float32", "Float64") for kind in kinds}) > 1:
        raise ManifestError(
            f"the manifests have labels of different kinds, {', '.join(sorted(map(str, kinds)))}; "
            "read all of them with labels of one kind"
        )
    if isinstance(kinds[0], pl.Array):
        _check_same("classes", [manifest.classes for manifest in manifests])
    classes = tuple(dict.fromkeys(name for manifest in manifests for name in manifest.classes))
    label_of = {name: label for label, name in enumerate(classes)}
    joined, prefixes = _join(manifests)
    dropped = {
        name
        for name in _NOT_NULLABLE
        if any(name not in manifest.frame.columns for manifest in manifests)
    }
    names: tuple[str, ...] = ()
    if not {POINTS, BOX_POINTS} <= dropped:
        names = _check_same("point_names", [manifest.point_names for manifest in manifests])
    columns: tuple[str, ...] = ()
    if not {BOXES, BOX_COLUMNS[0]} <= dropped:
        columns = _check_same("box_columns", [manifest.box_columns for manifest in manifests])
    rooted = any(prefixes) or any(own_roots(each.frame) is not None for each in manifests)
    frames = []
    for source, manifest in enumerate(manifests):
        frame, prefix = manifest.frame.drop(dropped, strict=False), prefixes[source]
        if rooted:
            own = own_roots(frame)
            below = prefix + pl.lit("" if own is None else own)
            frame = frame.with_columns(below.alias(_SOURCE_ROOT))
        frames.append(
            frame.with_columns(
                *_renumbered(manifest, label_of),
                path=prefix + pl.col("path"),
                source=pl.lit(source, dtype=pl.Int32),
            )
        )
    frame = pl.concat(_with_common_dtypes(frames), how="diagonal_relaxed")
    if rooted:
        roots = frame[_SOURCE_ROOT]
        frame = frame.with_columns(roots.cast(pl.Enum(roots.unique().sort())))
    repairs: dict[str, int] = {}
    for manifest in manifests:
        for name, count in manifest.repairs.items():
            repairs[name] = repairs.get(name, 0) + count
    made = Manifest(
        frame,
        joined,
        classes,
        repairs=repairs,
        reduce_depth=manifests[0].reduce_depth,
        point_names=names,
        box_columns=columns,
    )
    if all(manifest.prepared == manifests[0].prepared for manifest in manifests):
        made._prepared = manifests[0]._prepared
    return made


def _join(manifests: Sequence[Manifest]) -> tuple[Source | Path, list[str]]:
    """Return the images of all manifests, and the prefix of the paths of each."""
    sources = [manifest.source for manifest in manifests]
    files = [source for source in sources if type(source) is FileSource]
    if len(files) == len(sources):
        # Resolved, since one may lead to another by "..".
        roots = [Path(os.path.realpath(source.root)) for source in files]
        root = Path(os.path.commonpath(roots))
        folders = [each.relative_to(root).as_posix() for each in roots]
        return root, ["" if folder == "." else f"{folder}/" for folder in folders]
    objects = [source for source in sources if isinstance(source, ObjectSource)]
    if len(objects) == len(sources) and (found := join_objects(objects)) is not None:
        return found
    return join(sources, [len(manifest) for manifest in manifests]), [""] * len(manifests)


def own_roots(frame: pl.DataFrame) -> pl.Series | None:
    """Return what leads from a manifest's root to that of each row's own; None if that is the same.

    Text that is empty or ends in "/".
    """
    if not isinstance(frame.schema.get(_SOURCE_ROOT), pl.Enum):  # or a column of a user's own
        return None
    return frame[_SOURCE_ROOT].cast(pl.String)


def _with_common_dtypes(frames: list[pl.DataFrame]) -> list[pl.DataFrame]:
    """Return the frames with the categories of all Enums of a column, also in lists, in each.

    Raises:
        ManifestError: a column's dtypes have nothing in common.
    """
    for name in dict.fromkeys(name for frame in frames for name in frame.columns):
        having = (frame.schema.get(name, pl.Null()) for frame in frames)
        dtypes: list[Any] = [dtype for dtype in dict.fromkeys(having) if dtype != pl.Null]
        if len(dtypes) < 2:
            continue
        lists = all(isinstance(dtype, pl.List) for dtype in dtypes)
        enums = [dtype.inner if lists else dtype for dtype in dtypes]
        if all(isinstance(enum, pl.Enum) for enum in enums):
            names = list(dict.fromkeys(name for enum in enums for name in enum.categories))
            common = pl.List(pl.Enum(names)) if lists else pl.Enum(names)
            frames = [
                frame.cast({name: common}) if name in frame.columns else frame for frame in frames
            ]
            continue
        parts = [pl.DataFrame(schema={name: dtype}) for dtype in dtypes]
        try:
            found = pl.concat(parts, how="vertical_relaxed")[name].dtype
        except pl.exceptions.PolarsError:
            found = None
        if found is None or (found == pl.String and found in dtypes):
            raise ManifestError(
                f"column {name!r} has dtype {short(dtypes[0])} in one manifest and "
                f"{short(dtypes[1])} in another; cast or drop it first"
            )
    return frames


def _check_same(what: str, lists: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the names that all manifests have in common.

    Raises:
        ManifestError: they differ.
    """
    for names in lists:
        if names != lists[0]:
            raise ManifestError(
                f"the manifests differ in {what}: {short(lists[0])} and {short(names)}; make all "
                "of them with the same"
            )
    return lists[0]


def _renumbered(manifest: Manifest, label_of: dict[str, int]) -> list[pl.Series]:
    """Return the column of a manifest's labels with new numbers for its classes, if any."""
    labels = manifest.labels.column
    numbers = np.array([label_of[name] for name in manifest.classes], dtype=np.int32)
    if labels is None or labels.dtype not in (pl.Int32, pl.List(pl.Int32)):
        return []
    if labels.dtype == pl.Int32:
        return [pl.Series("label", numbers[labels.to_numpy()])]
    values, offsets = flatten(labels)
    return [ragged(numbers[values], offsets).alias("label")]
