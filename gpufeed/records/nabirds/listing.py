"""The images that NABirds' metadata list, from which a manifest is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from gpufeed._util.rows import RowName
from gpufeed.records.bad_images import OnBadImage, drop_links
from gpufeed.records.bounding_box import BOX_COLUMNS, clamp_boxes
from gpufeed.records.manifest import Manifest
from gpufeed.records.sizes import with_sizes
from gpufeed.source.base import Source
from gpufeed.source.files import FileSource

__all__ = ["Listing"]

_ROW = "row number in gpufeed"
_SIZE = ("width", "height")
_PHOTO = (*_SIZE, *BOX_COLUMNS)


@dataclass(frozen=True)
class Listing:
    """A list of images, only a few of which have been opened, to determine their kind.

    Attributes:
        frame: the columns of a manifest, with the listed sizes and boxes, one row per image.
        files: the images, one for each row.
        classes: names of the labels.
        repairs: number of repairs of each kind.
        columns: columns to keep, in order.
        path_name: names the line or row that gives an image's path.
        box_name: names the line or row that gives an image's box.
        cropped: whether the images are cropped from photos, whose sizes and boxes are listed.
        point_names: the names of the points, if there are any.
    """

    frame: pl.DataFrame
    files: FileSource
    classes: Sequence[str]
    repairs: dict[str, int]
    columns: Sequence[str]
    path_name: RowName
    box_name: RowName
    cropped: bool = False
    point_names: Sequence[str] = ()

    def unopened(self) -> pl.DataFrame:
        """Return the part of the manifest's frame that needs no images to be opened.

        It has no sizes and boxes if the images are cropped, and it includes symbolic links that
        leave the root.

        Raises:
            ManifestError: a box has no area within its image's listed size.
        """
        frame, _ = clamp_boxes(self.frame, self.box_name)
        return frame.drop(_PHOTO) if self.cropped else frame

    def manifest(
        self,
        *,
        headers: bool = False,
        show: bool | None = None,
        follow_links: bool = False,
        on_bad_image: OnBadImage = "raise",
        reduce_depth: bool = False,
    ) -> Manifest:
        """Make a manifest, with boxes clamped to their images, which are opened only for sizes.

        Args:
            headers: whether to read sizes from the images even if they are listed.
            show: whether to show a progress bar; None shows it on a terminal only.
            follow_links: whether links may leave the root.
            on_bad_image: "drop" leaves out links that leave the root and, if headers are read,
                bad images.
            reduce_depth: as for `Manifest`.

        Raises:
            ManifestError: a link leaves the root, an image cannot be read, or a box has no area
                within its image.
        """
        source: Source = self.files
        frame = self.frame.with_row_index(_ROW)
        repairs = dict(self.repairs)
        if not follow_links:
            frame, source, dropped = drop_links(frame, self.files, self.path_name, on_bad_image)
            repairs |= dropped
        if headers and not self.cropped:
            frame, source, dropped = with_sizes(
                frame.rename({name: f"listed_{name}" for name in _SIZE}),
                source,
                show=show,
                on_bad_image=on_bad_image,
                reduce_depth=reduce_depth,
            )
            differ = pl.any_horizontal(pl.col(name) != pl.col(f"listed_{name}") for name in _SIZE)
            repairs |= {"sizes_replaced": frame.filter(differ).height, **dropped}
        rows = frame[_ROW]
        frame, repairs["boxes_clamped"] = clamp_boxes(frame, lambda row: self.box_name(rows[row]))
        columns = list(self.columns)
        if self.cropped:
            frame = frame.rename({name: f"photo_{name}" for name in _PHOTO})
            frame, source, dropped = with_sizes(
                frame, source, show=show, on_bad_image=on_bad_image, reduce_depth=reduce_depth
            )
            frame = frame.with_columns(
                pl.lit(0, pl.Int32).alias("box_x"),
                pl.lit(0, pl.Int32).alias("box_y"),
                pl.col("width").alias("box_width"),
                pl.col("height").alias("box_height"),
            )
            columns += [f"photo_{name}" for name in _PHOTO]
            repairs |= dropped
        return Manifest(
            frame.select(columns),
            source,
            self.classes,
            repairs=repairs,
            reduce_depth=reduce_depth,
            point_names=self.point_names,
        )
