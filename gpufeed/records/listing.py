"""NABirds' images as their list names them, and what makes a manifest of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from gpufeed._util.rows import RowName
from gpufeed.records.boxes import BOX, clamp_boxes
from gpufeed.records.manifest import Manifest
from gpufeed.records.sizes import OnBadImage, drop_links, with_sizes
from gpufeed.source.base import Source
from gpufeed.source.files import FileSource

__all__ = ["Listing"]

_ROW = "row number in gpufeed"
_SIZE = ("width", "height")
_PHOTO = (*_SIZE, *BOX)


@dataclass(frozen=True)
class Listing:
    """A list of images, of which none has been opened but to see of what sort they are.

    Attributes:
        frame: the columns of a manifest, with sizes and boxes as they are listed, a row each.
        files: the images, one for each row.
        classes: names of the labels.
        repairs: how often what was mended.
        columns: those to keep, in order.
        at: names the place in the list that gives a row's path.
        at_box: names the place that gives its box.
        cut: whether the images are cut from photos, whose sizes and boxes the list gives.
    """

    frame: pl.DataFrame
    files: FileSource
    classes: Sequence[str]
    repairs: dict[str, int]
    columns: Sequence[str]
    at: RowName
    at_box: RowName
    cut: bool = False

    def unopened(self) -> pl.DataFrame:
        """A manifest's frame as far as it can be had without opening all images.

        It has no sizes and boxes where the list does not give the images' own, and links that
        leave the root are in it.

        Raises:
            ManifestError: a box has no area in its image as it is listed.
        """
        frame, _ = clamp_boxes(self.frame, self.at_box)
        return frame.drop(_PHOTO) if self.cut else frame

    def manifest(self, *, headers: bool, show: bool | None, on_bad_image: OnBadImage) -> Manifest:
        """Make a manifest, with the boxes inside their images.

        Args:
            headers: whether sizes are read from the images where the list has them too.
            show: whether to show a progress bar; None on a terminal only.
            on_bad_image: "drop" leaves out links that leave the root, and where headers are read
                images that have none.

        Raises:
            ManifestError: a link leaves the root, an image cannot be read, or a box has no area
                in its image.
        """
        source: Source
        listed = self.frame.with_row_index(_ROW)
        frame, source, dropped = drop_links(listed, self.files, self.at, on_bad_image)
        repairs = self.repairs | dropped
        if headers and not self.cut:
            frame, source, dropped = with_sizes(
                frame.rename({name: f"listed_{name}" for name in _SIZE}),
                source,
                show=show,
                on_bad_image=on_bad_image,
            )
            differ = pl.any_horizontal(pl.col(name) != pl.col(f"listed_{name}") for name in _SIZE)
            repairs |= {"sizes_replaced": frame.filter(differ).height, **dropped}
        rows = frame[_ROW]
        frame, repairs["boxes_clamped"] = clamp_boxes(frame, lambda row: self.at_box(rows[row]))
        columns = list(self.columns)
        if self.cut:
            frame = frame.rename({name: f"photo_{name}" for name in _PHOTO})
            frame, source, dropped = with_sizes(frame, source, show=show, on_bad_image=on_bad_image)
            frame = frame.with_columns(
                pl.lit(0, pl.Int32).alias("box_x"),
                pl.lit(0, pl.Int32).alias("box_y"),
                pl.col("width").alias("box_width"),
                pl.col("height").alias("box_height"),
            )
            columns += [f"photo_{name}" for name in _PHOTO]
            repairs |= dropped
        return Manifest(frame.select(columns), source, self.classes, repairs=repairs)
