"""Records of several images, such as before and after, or left and right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.records import Manifest
from gpufeed.records.bounding_box import BOX_COLUMNS
from gpufeed.records.subset import Subset, as_manifest
from gpufeed.source.selection import join

__all__ = ["Pair", "with_pairs"]


class Pair:
    """A second image of each record, such as the one taken later, or by the other camera.

    It goes through the loader's transforms, with the same random numbers as the record's image, so
    that both get the same crops, flips and colours. The batch has it as it has `image`. Its size
    may differ: random crops then show the same part of both. Pass several for more than two images.

        before = gpufeed.read_table("pairs.csv", path="before")
        after = gpufeed.read_table("pairs.csv", path="after")
        loader = gpufeed.Loader(before, targets=[gpufeed.Pair("after", after)])

    A record of which either image is bad counts as bad.

    Args:
        name: the images' key in the batch.
        manifest: the images, from any source. Row i is paired with row i of the loader's manifest,
            unless `on` says otherwise. Its labels are not used. The box of each image
            (`box_x` and so on), which `BoxCrop` takes, is its own, or without one that of the
            record's image.
        on: name of a column of both manifests that has the same value for the images of a pair, and
            different values for all images of `manifest`. Needed if the loader's manifest has been
            filtered or split.
        independent: whether it draws its own random numbers, so that its crops, flips and colours
            differ from those of the record's image.

    Raises:
        ConfigError: an argument is out of range.
    """

    moves = False

    def __init__(
        self,
        name: str,
        manifest: Manifest | Subset,
        *,
        on: str | None = None,
        independent: bool = False,
    ) -> None:
        self.name = name
        self.manifest = as_manifest(manifest)
        self.on = on
        self.independent = bool(independent)

    def __repr__(self) -> str:
        return f"Pair({self.name!r}, {len(self.manifest):,} images)"

    def bind(self, manifest: Manifest) -> Manifest:
        """Return the images with row i for row i of a manifest.

        Raises:
            ConfigError: there are not as many images, or none for one of the records.
        """
        own = self.manifest
        if own.reduce_depth != manifest.reduce_depth:
            raise ConfigError(
                f"targets has {self}, whose manifest has reduce_depth={own.reduce_depth}, and the "
                f"loader's has reduce_depth={manifest.reduce_depth}; read both with the same"
            )
        if own.prepared != manifest.prepared:
            raise ConfigError(
                f"targets has {self}, whose images have been through other transforms of prepare "
                "than the loader's; prepare both alike, or none"
            )
        if self.on is None:
            if len(own) != len(manifest):
                raise ConfigError(
                    f"targets has {self} for {len(manifest):,} records; filter and split both "
                    "manifests alike, or name a column that both have with on="
                )
            return own
        frames = [manifest.frame, own.frame]
        for frame in frames:
            if self.on not in frame.columns:
                raise ConfigError(
                    f"targets has {self} with on={short(self.on)}, a column that only one of the "
                    "manifests has; name one that both have"
                )
        ours, theirs = (frame[self.on] for frame in frames)
        if ours.dtype != theirs.dtype:
            raise ConfigError(
                f"targets has {self} with on={short(self.on)}, which is {theirs.dtype} there and "
                f"{ours.dtype} in the loader's manifest; cast one of them"
            )
        if theirs.is_duplicated().any():
            twice = theirs.filter(theirs.is_duplicated())[0]
            raise ConfigError(
                f"targets has {self} with on={short(self.on)}, and several of its images have "
                f"{short(twice)} there; each must have a value of its own"
            )
        rows = ours.to_frame("on").join(
            pl.DataFrame({"on": theirs, "row": np.arange(len(theirs))}),
            on="on",
            how="left",
            maintain_order="left",
        )["row"]
        if rows.null_count():
            record = int(rows.is_null().arg_max() or 0)
            raise ConfigError(
                f"targets has {self} with on={short(self.on)}, and none of its images has "
                f"{short(ours[record])} there, which record {record} has"
            )
        return own.take(rows.to_numpy())


def with_pairs(manifest: Manifest, pairs: Sequence[Manifest]) -> Manifest:
    """Return the images of all records: image j of record i in row i + j * len(manifest).

    Args:
        manifest: the records, with their first images.
        pairs: their other images, with row i for record i.
    """
    if not pairs:
        return manifest
    frames = [_images(manifest)]
    for each in pairs:
        frame = _images(each)
        if manifest.has_boxes and not each.has_boxes:
            frame = frame.hstack(_scaled_boxes(manifest.frame, frame))
        frames.append(frame.select(frames[0].columns))
    sources = [each.source for each in (manifest, *pairs)]
    return Manifest._of_checked(
        pl.concat(frames, rechunk=False),
        join(sources, [len(manifest)] * len(sources)),
        (),
        repairs={},
        reduce_depth=manifest.reduce_depth,
        point_names=(),
        box_columns=(),
        prepared=manifest.prepared,
    )


def _images(manifest: Manifest) -> pl.DataFrame:
    """Return the columns of images, without those of records."""
    boxes = BOX_COLUMNS if manifest.has_boxes else ()
    return manifest.frame.select("path", "width", "height", *boxes)


def _scaled_boxes(manifest: pl.DataFrame, images: pl.DataFrame) -> pl.DataFrame:
    """Return the boxes of a manifest on images of the same things, which may differ in size."""
    columns: dict[str, pl.Series] = {}
    for axis, side in (("x", "width"), ("y", "height")):
        first, extent = (manifest[f"box_{each}"].cast(pl.Int64) for each in (axis, side))
        before, after = (frame[side].cast(pl.Int64) for frame in (manifest, images))
        start, end = first * after // before, -(-(first + extent) * after // before)
        columns[f"box_{axis}"], columns[f"box_{side}"] = start, end - start
    return pl.DataFrame(columns).cast(pl.Int32)
