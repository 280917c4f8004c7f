"""Geometry, composed on the host: which part of each image is shown where.

A `Frame` is one resampling of a batch of images, with its steps in this order:

    input image --crop--> source window --resize--> scaled image --crop/pad--> canvas --flip
    --warp-->

Crops, pads and flips fold into the frame that they act on. So a crop of a crop is one window to
decode, and a crop after a resize computes only the pixels that it keeps. Consecutive warps become
one. Steps that do not fold (a second resize, a resize of padding, anything after a warp) start a
new frame on the canvas of the previous one.

A frame's static fields depend on which methods were called and never on the numbers passed, since
the graph is built once for all batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

__all__ = ["SUPPORT", "Fill", "Frame", "Interpolation", "Sampling", "Warp"]

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]

Interpolation = Literal["bilinear", "bicubic"]
Sampling = Literal["nearest", "bilinear"]
Fill = tuple[float, float, float]

SUPPORT: dict[Interpolation, int] = {"bilinear": 1, "bicubic": 2}
"""Radius of each filter, in pixels of the coarser of the two grids."""


def _pairs(first: npt.ArrayLike, second: npt.ArrayLike, count: int) -> Int64:
    """Return two scalars or (n,) arrays as one int64 array (n, 2)."""
    pairs = np.empty((count, 2), dtype=np.int64)
    pairs[:, 0] = first
    pairs[:, 1] = second
    return pairs


class _PerImage:
    """A dataclass whose arrays have one row per image."""

    def take(self, rows: Int64 | slice) -> Self:
        """Return the rows of some images, in the given order; rows may repeat."""
        taken: dict[str, Any] = {}
        for field in fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                taken[field.name] = value[rows]
            elif isinstance(value, _PerImage):
                taken[field.name] = value.take(rows)
        return replace(self, **taken)  # type: ignore[type-var]


@dataclass(frozen=True)
class Warp(_PerImage):
    """A projective map of n canvases onto themselves.

    Attributes:
        matrix: float64 (n, 3, 3), from points (x, y, 1) of the result to points of the canvas;
            pixel i covers [i, i + 1).
        mask: bool (n,), which canvases are warped at all.
        sampling: "nearest" or "bilinear".
        fill: RGB value of pixels from outside the canvas, 0 to 255.
    """

    matrix: Float64
    mask: Bool
    sampling: Sampling
    fill: Fill

    def after(self, other: Warp) -> Warp:
        """Return `other` followed by this warp, as one warp."""
        return replace(self, matrix=other.matrix @ self.matrix, mask=self.mask | other.mask)

    def forward(self, points: Float64) -> Float64:
        """Return where points move, float64 (n, k, 2) of (x, y)."""
        ones = np.ones((*points.shape[:-1], 1))
        moved = np.concatenate([points, ones], axis=-1) @ np.swapaxes(
            np.linalg.inv(self.matrix), -1, -2
        )
        return np.asarray(moved[..., :2] / moved[..., 2:])


@dataclass(frozen=True)
class Frame(_PerImage):
    """One crop, resize, crop or pad, flip and warp of n images.

    Sizes and positions are (y, x), in pixels.

    Attributes:
        source: int64 (n, 2), first pixel of the window of the input that is resized.
        extent: int64 (n, 2), size of that window; the filter reads nothing outside it.
        scaled: int64 (n, 2), the size that the window is resized to.
        origin: int64 (n, 2), the canvas's first pixel on the scaled image; may be negative.
        size: int64 (n, 2), size of the canvas.
        shown: int64 (n, 2), first pixel of the scaled image that may appear on the canvas.
        shown_end: int64 (n, 2), one past the last; nothing appears if it is not past `shown`.
        mirror: bool (n,), whether the canvas is flipped left to right.
        upturn: bool (n,), whether the canvas is flipped top to bottom.
        interpolation: the filter of the resize; None if there is none.
        trimmed: whether the scaled image was cropped.
        fill: RGB value of the padding, 0 to 255; None if there is none.
        mirrored: whether any image may be flipped left to right.
        upturned: whether any image may be flipped top to bottom.
        cut: whether the input was cropped.
        warped: the warp of the canvas; None if there is none.
        previous: the frame whose canvas is this one's input; None for the encoded image.
    """

    source: Int64
    extent: Int64
    scaled: Int64
    origin: Int64
    size: Int64
    shown: Int64
    shown_end: Int64
    mirror: Bool
    upturn: Bool
    interpolation: Interpolation | None = None
    trimmed: bool = False
    fill: Fill | None = None
    mirrored: bool = False
    upturned: bool = False
    cut: bool = False
    warped: Warp | None = None
    previous: Frame | None = None

    @staticmethod
    def whole(sizes: Int64, previous: Frame | None = None) -> Frame:
        """Return the frame that leaves images of these sizes, int64 (n, 2), as they are."""
        zero = np.zeros_like(sizes)
        unflipped = np.zeros(len(sizes), dtype=np.bool_)
        return Frame(
            source=zero,
            extent=sizes,
            scaled=sizes,
            origin=zero,
            size=sizes,
            shown=zero,
            shown_end=sizes,
            mirror=unflipped,
            upturn=unflipped,
            previous=previous,
        )

    def then(self, size: tuple[int, int] | None = None) -> Frame:
        """Return a new frame on this one's canvas, or on images of `size` that replace it."""
        sizes = self.size if size is None else _pairs(*size, len(self))
        return Frame.whole(sizes, previous=self)

    @property
    def scale(self) -> Float64:
        """Factors of the resize, float64 (n, 2)."""
        return np.asarray(self.scaled / self.extent)

    @property
    def cuts(self) -> bool:
        """Whether the frame reads a window of its input; does not depend on the numbers."""
        return self.cut or self.trimmed

    @property
    def resamples(self) -> bool:
        """Whether the frame does anything besides a warp; does not depend on the numbers."""
        flipped = self.mirrored or self.upturned
        return self.cuts or bool(self.interpolation) or self.fill is not None or flipped

    def __len__(self) -> int:
        return len(self.size)

    @property
    def height(self) -> Int64:
        """Heights of the canvas, int64 (n,)."""
        return self.size[:, 0]

    @property
    def width(self) -> Int64:
        """Widths of the canvas, int64 (n,)."""
        return self.size[:, 1]

    def _unflipped(
        self,
        top: npt.ArrayLike,
        left: npt.ArrayLike,
        bottom: npt.ArrayLike,
        right: npt.ArrayLike,
    ) -> Int64:
        """Return distances (top, left) before the flip, given all four distances after it."""
        return _pairs(
            np.where(self.upturn, bottom, top), np.where(self.mirror, right, left), len(self)
        )

    def crop(
        self,
        top: npt.ArrayLike,
        left: npt.ArrayLike,
        height: npt.ArrayLike,
        width: npt.ArrayLike,
    ) -> Frame:
        """Crop the canvas; each argument is an integer or int64 (n,).

        Raises:
            ValueError: a window is not inside its canvas; pad first.
        """
        if self.warped is not None:
            return self.then().crop(top, left, height, width)
        count = len(self)
        size = _pairs(height, width, count)
        bottom = self.height - np.asarray(top) - size[:, 0]
        right = self.width - np.asarray(left) - size[:, 1]
        start = self._unflipped(top, left, bottom, right)
        if np.any(start < 0) or np.any(start + size > self.size) or np.any(size < 1):
            raise ValueError("the window of a crop is empty or not inside its canvas; pad first")
        if self.interpolation is None and self.fill is None:
            part = Frame.whole(size, previous=self.previous)
            return replace(
                part,
                source=self.source + start,
                mirror=self.mirror,
                mirrored=self.mirrored,
                upturn=self.upturn,
                upturned=self.upturned,
                cut=True,
            )
        origin = self.origin + start
        return replace(
            self,
            origin=origin,
            size=size,
            shown=np.maximum(self.shown, origin),
            shown_end=np.minimum(self.shown_end, origin + size),
            trimmed=True,
        )

    def resize(
        self, height: npt.ArrayLike, width: npt.ArrayLike, interpolation: Interpolation
    ) -> Frame:
        """Resize the canvas, antialiased; each size is an integer or int64 (n,)."""
        if self.interpolation or self.fill or self.warped:
            return self.then().resize(height, width, interpolation)
        size = _pairs(height, width, len(self))
        whole = Frame.whole(size)
        return replace(
            self,
            scaled=size,
            size=size,
            shown=whole.shown,
            shown_end=whole.shown_end,
            interpolation=interpolation,
        )

    def pad(
        self,
        top: npt.ArrayLike,
        left: npt.ArrayLike,
        bottom: npt.ArrayLike,
        right: npt.ArrayLike,
        fill: Fill,
    ) -> Frame:
        """Pad the canvas; each width is an integer or int64 (n,), 0 or more."""
        if self.fill not in (None, fill) or self.warped is not None:
            return self.then().pad(top, left, bottom, right, fill)
        count = len(self)
        before = self._unflipped(top, left, bottom, right)
        return replace(
            self,
            origin=self.origin - before,
            size=self.size + _pairs(top, left, count) + _pairs(bottom, right, count),
            fill=fill,
        )

    def flip(self, mask: Bool, *, vertical: bool = False) -> Frame:
        """Flip the canvases where `mask`, bool (n,), is True, left to right or top to bottom."""
        if self.warped is not None:
            return self.then().flip(mask, vertical=vertical)
        if vertical:
            return replace(self, upturn=self.upturn ^ mask, upturned=True)
        return replace(self, mirror=self.mirror ^ mask, mirrored=True)

    def warp(self, warp: Warp) -> Frame:
        """Warp the canvases.

        Consecutive warps become one, which resamples once. Pixels that the first warp moves off the
        canvas are not lost if the second moves them back.
        """
        if self.warped is None:
            return replace(self, warped=warp)
        if (self.warped.sampling, self.warped.fill) != (warp.sampling, warp.fill):
            return self.then().warp(warp)
        return replace(self, warped=warp.after(self.warped))

    @property
    def reversed(self) -> Bool:
        """Whether the canvas shows the image mirrored, by an odd number of flips; bool (n,)."""
        odd = np.zeros(len(self), dtype=np.bool_)
        for frame in self.chain():
            odd = odd ^ frame.mirror ^ frame.upturn
            if frame.warped is not None:
                odd ^= frame.warped.mask & (np.linalg.det(frame.warped.matrix) < 0)
        return odd

    def chain(self, since: Frame | None = None) -> Iterator[Frame]:
        """Yield the frames from the encoded image, or from the one after `since`, to this one."""
        if self is since:
            return
        if self.previous is not None:
            yield from self.previous.chain(since)
        yield self

    def map_points(self, points: Float64) -> Float64:
        """Map points from the encoded image to the canvas, including those that fall outside it.

        Args:
            points: float64 (n, k, 2) of (x, y) in pixels; pixel i covers [i, i + 1).

        Returns:
            float64 (n, k, 2).
        """
        for frame in self.chain():
            points = frame._map(points, clip=False)
            if frame.warped is not None:
                points = frame.warped.forward(points)
        return points

    def shows(self, points: Float64) -> Bool:
        """Return whether points of the encoded image are on the canvas.

        A point that one frame crops away stays hidden, even if a later one pads there again.

        Args:
            points: float64 (n, k, 2) of (x, y) in pixels.

        Returns:
            bool (n, k).
        """
        seen = np.ones(points.shape[:2], dtype=np.bool_)
        for frame in self.chain():
            scaled = (points[..., ::-1] - frame.source[:, None]) * frame.scale[:, None]
            seen &= ((scaled >= frame.shown[:, None]) & (scaled <= frame.shown_end[:, None])).all(
                -1
            )
            points = frame._map(points, clip=False)
            if frame.warped is not None:
                points = frame.warped.forward(points)
                seen &= ((points >= 0) & (points <= frame.size[:, None, ::-1])).all(axis=-1)
        return np.asarray(seen & ((points >= 0) & (points < self.size[:, None, ::-1])).all(axis=-1))

    def _map(self, points: Float64, *, clip: bool) -> Float64:
        """Map points through this frame, without its warp; `clip` clips them to what it shows."""
        moved = (points[..., ::-1] - self.source[:, None]) * self.scale[:, None]
        if clip:
            moved = np.clip(moved, self.shown[:, None], self.shown_end[:, None])
        moved = moved - self.origin[:, None]
        flipped = np.stack([self.upturn, self.mirror], axis=-1)[:, None]
        moved = np.where(flipped, self.size[:, None] - moved, moved)
        return moved[..., ::-1]

    def map_boxes(self, boxes: Float64) -> Float64:
        """Map boxes from the encoded image to the canvas, clipped to what is left of the image.

        Args:
            boxes: float64 (n, 4) of (x0, y0, x1, y1) in pixels.

        Returns:
            float64 (n, 4); boxes that are cropped away have no area.
        """
        corners = boxes.reshape(len(boxes), 2, 2)
        for frame in self.chain():
            corners = frame._map(corners, clip=True)
            if frame.warped is not None:
                # A box clipped to a line would gain an area when rotated, so it becomes a point.
                empty = (corners[:, :1] == corners[:, 1:]).any(axis=-1, keepdims=True)
                corners = np.where(empty, corners[:, :1], corners)
                corners = frame._bounding(frame.warped.forward(_all_corners(corners)))
        # Sort and clip once more: flips swap corners, and empty frames leave them outside.
        limit = self.size[:, None, ::-1].astype(np.float64)
        corners = np.clip(np.sort(corners, axis=1), 0.0, limit)
        return corners.reshape(len(boxes), 4)

    def _bounding(self, points: Float64) -> Float64:
        """Return the bounding boxes of points, clipped to the canvas, as two corners."""
        limit = self.size[:, None, ::-1].astype(np.float64)
        corners = np.stack([points.min(axis=1), points.max(axis=1)], axis=1)
        return np.asarray(np.clip(corners, 0.0, limit))


def _all_corners(corners: Float64) -> Float64:
    """Return all four corners, float64 (n, 4, 2), of boxes given by two."""
    (x0, y0), (x1, y1) = corners[:, 0].T, corners[:, 1].T
    return np.stack(
        [np.stack(pair, axis=-1) for pair in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))], 1
    )
