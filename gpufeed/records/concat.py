"""Concatenation of manifests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from gpufeed.errors import ManifestError
from gpufeed.records.annotations import BOX_LABELS, BOXES, POINTS
from gpufeed.records.bounding_box import BOX_COLUMNS
from gpufeed.records.manifest import Manifest
from gpufeed.source.base import Source
from gpufeed.source.files import FileSource
from gpufeed.source.objects import ObjectSource, join_objects
from gpufeed.source.selection import join

__all__ = ["concat"]

_NOT_NULLABLE = (*BOX_COLUMNS, BOXES, BOX_LABELS, POINTS, "is_training_img")
"""Columns that may be absent but may not contain nulls."""


def concat(manifests: Iterable[Manifest]) -> Manifest:
    """Concatenate the images of several manifests into one manifest.

    Classes of the same name become one class; labels are renumbered in the order in which the
    manifests name their classes. If all images are files, or all are in one kind of object store,
    the root is the common parent folder of all roots, so the fingerprint depends on their locations
    within it. A column that only some
    manifests have is null for the others; boxes, points and `is_training_img` are kept only if all
    manifests have them. The column `source` (Int32) gives the index of each image's manifest and
    replaces a column of that name. `MixtureSampler` mixes the manifests in fixed proportions.

    Raises:
        ManifestError: there is no manifest, a column has incompatible dtypes, or the manifests
            differ in `reduce_depth`.
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
    classes = tuple(dict.fromkeys(name for manifest in manifests for name in manifest.classes))
    label_of = {name: label for label, name in enumerate(classes)}
    joined, prefixes = _join(manifests)
    dropped = {
        name
        for name in _NOT_NULLABLE
        if any(name not in manifest.frame.columns for manifest in manifests)
    }
    frames = []
    for source, manifest in enumerate(manifests):
        labels = np.array([label_of[name] for name in manifest.classes], dtype=np.int32)
        frames.append(
            manifest.frame.drop(dropped, strict=False).with_columns(
                path=prefixes[source] + pl.col("path"),
                label=pl.Series(labels[manifest.frame["label"].to_numpy()]),
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
    return Manifest(
        frame,
        joined,
        classes,
        repairs=repairs,
        reduce_depth=manifests[0].reduce_depth,
    )


def _join(manifests: Sequence[Manifest]) -> tuple[Source | Path, list[str]]:
    """Return the images of all manifests, and what comes before the paths of each."""
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
