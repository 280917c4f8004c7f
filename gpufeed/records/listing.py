"""NABirds' pictures as their list names them, and what makes a manifest of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from gpufeed.records.boxes import BOX, clamp_boxes
from gpufeed.records.checks import Where
from gpufeed.records.manifest import Manifest
from gpufeed.records.paths import check_links, drop_links
from gpufeed.records.sizes import OnUnreadable, with_sizes

__all__ = ["Listing"]

_ROW = "row number in gpufeed"
_SIZE = ("width", "height")
_PHOTO = (*_SIZE, *BOX)


@dataclass(frozen=True)
class Listing:
    """A list of pictures, of which none has been opened but to see of what sort they are.

    Attributes:
        frame: the columns of a manifest, with sizes and boxes as they are listed, a row each.
        root: the folder that the paths are relative to.
        classes: names of the labels.
        repairs: how often what was mended.
        columns: those to keep, in order.
        at: names the place in the list that gives a row's path.
        at_box: names the place that gives its box.
        cut: whether the pictures are cut from photos, whose sizes and boxes the list gives.
    """

    frame: pl.DataFrame
    root: Path
    classes: Sequence[str]
    repairs: dict[str, int]
    columns: Sequence[str]
    at: Where
    at_box: Where
    cut: bool = False

    def unopened(self) -> pl.DataFrame:
        """A manifest's frame as far as it can be had without opening all pictures.

        It has no sizes and boxes where the list does not give the pictures' own, and links that
        leave the root are in it.

        Raises:
            ManifestError: a box has no area in its picture as it is listed.
        """
        frame, _ = clamp_boxes(self.frame, self.at_box)
        return frame.drop(_PHOTO) if self.cut else frame

    def manifest(self, *, headers: bool, show: bool | None, on_error: OnUnreadable) -> Manifest:
        """Make a manifest, with the boxes inside their pictures.

        Args:
            headers: whether sizes are read from the pictures where the list has them too.
            show: whether to show a progress bar; None on a terminal only.
            on_error: "drop" leaves out links that leave the root, and what has no readable header
                where headers are read.

        Raises:
            ManifestError: a link leaves the root, a picture can not be read, or a box has no area
                in its picture.
        """
        frame, repairs = self.frame.with_row_index(_ROW), dict(self.repairs)
        if on_error == "drop":
            frame, dropped = drop_links(self.root, frame)
            repairs |= dropped
        else:
            check_links(self.root, frame["path"], self.at)
        if headers and not self.cut:
            listed = frame.rename({name: f"listed_{name}" for name in _SIZE})
            frame, dropped = with_sizes(listed, self.root, show=show, on_error=on_error)
            differ = pl.any_horizontal(pl.col(name) != pl.col(f"listed_{name}") for name in _SIZE)
            repairs |= {"sizes_replaced": frame.filter(differ).height, **dropped}
        rows = frame[_ROW]
        frame, repairs["boxes_clamped"] = clamp_boxes(frame, lambda row: self.at_box(rows[row]))
        columns = list(self.columns)
        if self.cut:
            frame = frame.rename({name: f"photo_{name}" for name in _PHOTO})
            frame, dropped = with_sizes(frame, self.root, show=show, on_error=on_error)
            frame = frame.with_columns(
                pl.lit(0, pl.Int32).alias("box_x"),
                pl.lit(0, pl.Int32).alias("box_y"),
                pl.col("width").alias("box_width"),
                pl.col("height").alias("box_height"),
            )
            columns += [f"photo_{name}" for name in _PHOTO]
            repairs |= dropped
        return Manifest(frame.select(columns), self.root, self.classes, repairs=repairs)
