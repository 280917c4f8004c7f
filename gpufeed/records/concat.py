"""Concatenation of manifests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from gpufeed._util.sanitize import short
from gpufeed.errors import ManifestError
from gpufeed.records.annotations import BOX_LABELS, BOX_POINTS, BOXES, POINTS
from gpufeed.records.bounding_box import BOX_COLUMNS
from gpufeed.records.lists import flatten, ragged
from gpufeed.records.manifest import Manifest
from gpufeed.source.base import Source
from gpufeed.source.files import FileSource
from gpufeed.source.objects import ObjectSource, join_objects
from gpufeed.source.selection import join

__all__ = ["concat"]

_NOT_NULLABLE = (*BOX_COLUMNS, BOXES, BOX_LABELS, BOX_POINTS, POINTS, "is_training_img")
"""Columns that may be absent but may not contain nulls."""


def concat(manifests: Iterable[Manifest]) -> Manifest:
    """Concatenate the images of several manifests into one manifest.

    Classes of the same name become one class; labels are renumbered in the order in which the
    manifests name their classes. If all images are files, or all are in one kind of object store,
    the root is the common parent folder of all roots, so the fingerprint depends on their locations
    within it. A column that only some manifests have is null for the others; boxes, points and
    `is_training_img` are kept only if all manifests have them. The column `source` (Int32) gives
    the index of each image's manifest and replaces a column of that name. Labels must be of one
    kind. `MixtureSampler` mixes the manifests in fixed proportions.

    Raises:
        ManifestError: there is no manifest, a column has incompatible dtypes, or the manifests
            differ in `reduce_depth`, the kind of their labels, the entries of vectors, or the names
            of their points.
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
    if len(set(kinds)) > 1 and not all(kind is not None and kind.is_float() for kind in kinds):
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
    frames = []
    for source, manifest in enumerate(manifests):
        frames.append(
            manifest.frame.drop(dropped, strict=False).with_columns(
                *_renumbered(manifest, label_of),
                path=prefixes[source] + pl.col("path"),
                source=pl.lit(source, dtype=pl.Int32),
            )
        )
    try:
        frame = pl.concat(frames, how="diagonal_relaxed")
    except pl.exceptions.PolarsError as error:
        raise ManifestError(f"the manifests' columns are incompatible: {error}") from error
    for manifest in manifests:
        for name, dtype in manifest.frame.schema.items():
            if name in frame.columns and frame[name].dtype == pl.String != dtype:
                raise ManifestError(
                    f"column {name!r} has dtype {dtype} in one manifest and is text in another; "
                    "cast or drop it first"
                )
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
