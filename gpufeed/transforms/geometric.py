"""Crops, resizes, pads and flips, with torchvision v2's names, defaults and rounding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.rng import BatchRng
from gpufeed.transforms import checks
from gpufeed.transforms.base import GeometricTransform, Params, Records
from gpufeed.transforms.draws import log_uniform
from gpufeed.transforms.frame import Frame, Interpolation

__all__ = [
    "BoxCrop",
    "CenterCrop",
    "Pad",
    "PadToSquare",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "ResizeLongest",
]

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

_ATTEMPTS = 10


class RandomResizedCrop(GeometricTransform):
    """Crop a window of random area and aspect ratio and resize it, antialiased.

    The sampling is torchvision's (Szegedy et al., "Going deeper with convolutions", CVPR 2015):
    ten attempts at an area and a log-uniform aspect ratio, of which the first that fits is taken,
    else the largest centred window whose ratio is allowed.

    Args:
        size: pixels of the output, one number for a square or (height, width).
        scale: bounds of the window's share of the image's area.
        ratio: bounds of its width over its height.
        interpolation: "bilinear" or "bicubic".
    """

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Interpolation = "bilinear",
    ) -> None:
        self.size = checks.check_sizes("size", size)
        self.scale = checks.check_range("scale", scale)
        self.ratio = checks.check_range("ratio", ratio)
        self.interpolation = checks.check_interpolation(interpolation)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw top, left, height, width: int64 (n,), pixels."""
        full = records.height, records.width
        first = rng.uniform(size=4)
        height, width, fits = self._attempt(first[:, :2], *full)
        missing = np.flatnonzero(~fits)
        if len(missing):
            # Few need more than one attempt, so the others' are not drawn.
            more = rng.rows(missing).uniform(size=2 * (_ATTEMPTS - 1))
            tall, broad, fit = self._attempt(
                more.reshape(len(missing), -1, 2), *(side[missing, None] for side in full)
            )
            rows, chosen = np.arange(len(missing)), fit.argmax(axis=1)
            height[missing], width[missing] = tall[rows, chosen], broad[rows, chosen]
            none = missing[~fit.any(axis=1)]
            height[none], width[none] = self._widest(*(side[none] for side in full))
        else:
            none = missing
        spare_y, spare_x = full[0] - height, full[1] - width
        top = np.floor(first[:, 2] * (spare_y + 1)).astype(np.int64)
        left = np.floor(first[:, 3] * (spare_x + 1)).astype(np.int64)
        top[none], left[none] = spare_y[none] // 2, spare_x[none] // 2
        return {"top": top, "left": left, "height": height, "width": width}

    def _attempt(
        self, unit: Float64, full_height: Int64, full_width: Int64
    ) -> tuple[Int64, Int64, npt.NDArray[np.bool_]]:
        """Return heights, widths and whether they fit, from uniform numbers (..., 2)."""
        share = self.scale[0] + unit[..., 0] * (self.scale[1] - self.scale[0])
        root = np.sqrt(log_uniform(unit[..., 1], self.ratio))
        side = np.sqrt(full_height * full_width * share)
        width = np.rint(side * root).astype(np.int64)
        height = np.rint(side / root).astype(np.int64)
        fits = (width > 0) & (height > 0) & (width <= full_width) & (height <= full_height)
        return height, width, fits

    def _widest(self, full_height: Int64, full_width: Int64) -> tuple[Int64, Int64]:
        """Return height and width of the largest window whose ratio is allowed."""
        low, high = self.ratio
        whole = full_width / full_height
        height = np.where(whole < low, np.rint(full_width / low), full_height)
        width = np.where(whole > high, np.rint(full_height * high), full_width)
        return (
            np.clip(height, 1, full_height).astype(np.int64),
            np.clip(width, 1, full_width).astype(np.int64),
        )

    def place(self, frame: Frame, params: Params) -> Frame:
        """Crop and resize."""
        window = frame.crop(params["top"], params["left"], params["height"], params["width"])
        return window.resize(*self.size, self.interpolation)


class Resize(GeometricTransform):
    """Resize, antialiased.

    Args:
        size: one number for the shorter side, the longer one then following and rounded down as
            torchvision does; or (height, width); or None, to make the longer side `max_size`.
        interpolation: "bilinear" or "bicubic".
        max_size: with one number, the most the longer side may have.
    """

    def __init__(
        self,
        size: int | Sequence[int] | None,
        interpolation: Interpolation = "bilinear",
        max_size: int | None = None,
    ) -> None:
        self.size: int | tuple[int, int] | None
        if size is None:
            self.size = None
        elif isinstance(size, Sequence) and len(size) != 1:
            self.size = checks.check_sizes("size", size)
        else:
            self.size = checks.check_size("size", size[0] if isinstance(size, Sequence) else size)
        self.interpolation = checks.check_interpolation(interpolation)
        self.max_size = None if max_size is None else checks.check_size("max_size", max_size)
        if self.size is None and self.max_size is None:
            raise ConfigError("Resize needs a size, or size=None with max_size")
        if isinstance(self.size, tuple) and self.max_size is not None:
            raise ConfigError(
                f"max_size is {self.max_size}; it goes with one number for size, not with "
                f"{self.size}"
            )
        if isinstance(self.size, int) and self.max_size is not None and self.max_size <= self.size:
            raise ConfigError(
                f"max_size is {self.max_size}; it must be more than size, {self.size}"
            )

    def place(self, frame: Frame, params: Params) -> Frame:  # noqa: ARG002
        """Resize."""
        if isinstance(self.size, tuple):
            return frame.resize(*self.size, self.interpolation)
        short = np.minimum(frame.height, frame.width)
        long = np.maximum(frame.height, frame.width)
        if self.size is None:
            new_long = np.full_like(long, self.max_size)
            # At least a pixel, which torchvision's formula does not promise.
            new_short = np.maximum(new_long * short // long, 1)
        else:
            new_short = np.full_like(short, self.size)
            new_long = self.size * long // short
            if self.max_size is not None:
                over = new_long > self.max_size
                limited = np.maximum(self.max_size * new_short // new_long, 1)
                new_short = np.where(over, limited, new_short)
                new_long = np.where(over, self.max_size, new_long)
        portrait = frame.height > frame.width
        return frame.resize(
            np.where(portrait, new_long, new_short),
            np.where(portrait, new_short, new_long),
            self.interpolation,
        )


class ResizeLongest(GeometricTransform):
    """Resize, antialiased, by the factor that makes the longer side `size`, rounding down.

    The factor is rounded to a double before it is applied, so the longer side of some images
    comes out a pixel short, as in the data preparation of the WestDRI course on the JAX AI stack.

    Args:
        size: pixels.
        interpolation: "bilinear" or "bicubic".
    """

    def __init__(self, size: int, interpolation: Interpolation = "bilinear") -> None:
        self.size = checks.check_size("size", size)
        self.interpolation = checks.check_interpolation(interpolation)

    def place(self, frame: Frame, params: Params) -> Frame:  # noqa: ARG002
        """Resize."""
        factor = self.size / np.maximum(frame.height, frame.width)
        height = np.maximum((frame.height * factor).astype(np.int64), 1)
        width = np.maximum((frame.width * factor).astype(np.int64), 1)
        return frame.resize(height, width, self.interpolation)


class CenterCrop(GeometricTransform):
    """Cut out the centre; an image that is smaller is padded with black first.

    Args:
        size: pixels, one number for a square or (height, width).
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = checks.check_sizes("size", size)

    def place(self, frame: Frame, params: Params) -> Frame:  # noqa: ARG002
        """Pad where needed, and crop."""
        height, width = self.size
        missing_y = np.maximum(height - frame.height, 0)
        missing_x = np.maximum(width - frame.width, 0)
        padded = frame.pad(
            missing_y // 2,
            missing_x // 2,
            (missing_y + 1) // 2,
            (missing_x + 1) // 2,
            (0.0, 0.0, 0.0),
        )
        # Halves round to even, as Python's round() does in torchvision.
        top = np.rint((padded.height - height) / 2.0).astype(np.int64)
        left = np.rint((padded.width - width) / 2.0).astype(np.int64)
        return padded.crop(top, left, height, width)


class Pad(GeometricTransform):
    """Put a border of one colour around the image.

    Args:
        padding: pixels, one number for all sides, (left and right, top and bottom) or (left, top,
            right, bottom).
        fill: level of the padding, 0 to 255, or one for each of red, green, blue.
    """

    def __init__(self, padding: int | Sequence[int], fill: float | Sequence[float] = 0.0) -> None:
        self.padding = checks.check_padding(padding)
        self.fill = checks.check_fill(fill)

    def place(self, frame: Frame, params: Params) -> Frame:  # noqa: ARG002
        """Pad."""
        left, top, right, bottom = self.padding
        return frame.pad(top, left, bottom, right, self.fill)


class RandomCrop(GeometricTransform):
    """Cut out a window at a random place, of the image or of the image padded.

    Args:
        size: pixels, one number for a square or (height, width).
        padding: pixels around the image, as for `Pad`; None for none.
        pad_if_needed: pads what is still smaller than the window, on both sides alike by all that
            is missing, so that the image stands at a random place of the window.
        fill: level of the padding, 0 to 255, or one for each of red, green, blue.

    Raises:
        ConfigError: when a batch holds an image that is smaller, its padding counted.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: float | Sequence[float] = 0.0,
    ) -> None:
        self.size = checks.check_sizes("size", size)
        self.padding = None if padding is None else checks.check_padding(padding)
        self.pad_if_needed = bool(pad_if_needed)
        self.fill = checks.check_fill(fill)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw top, left: int64 (n,), pixels from the corner of the padded image."""
        height, width = self.size
        left, top, right, bottom = self._borders(records.height, records.width)
        full_height, full_width = records.height + top + bottom, records.width + left + right
        small = (full_height < height) | (full_width < width)
        if small.any():
            one = int(small.argmax())
            raise ConfigError(
                f"RandomCrop({height} x {width}) got record {records.record_key[one]} of "
                f"{records.height[one]} x {records.width[one]} (height x width); resize or pad "
                "before it"
            )
        return {
            "top": rng.integers(0, full_height - height + 1),
            "left": rng.integers(0, full_width - width + 1),
        }

    def _borders(self, height: Int64, width: Int64) -> tuple[Int64, Int64, Int64, Int64]:
        """Return what is added at left, top, right and bottom of images of these sizes."""
        left, top, right, bottom = self.padding or (0, 0, 0, 0)
        needed = int(self.pad_if_needed)
        more_y = needed * np.maximum(self.size[0] - (height + top + bottom), 0)
        more_x = needed * np.maximum(self.size[1] - (width + left + right), 0)
        return left + more_x, top + more_y, right + more_x, bottom + more_y

    def place(self, frame: Frame, params: Params) -> Frame:
        """Pad where asked to, and crop."""
        if self.padding is not None or self.pad_if_needed:
            left, top, right, bottom = self._borders(frame.height, frame.width)
            frame = frame.pad(top, left, bottom, right, self.fill)
        return frame.crop(params["top"], params["left"], *self.size)


class BoxCrop(GeometricTransform):
    """Cut out the record's bounding box, with a margin on each side, clamped to the image.

    Args:
        margin: of each side, as a share of the box's width or height, rounded down to pixels; or
            (low, high), between which one is drawn for each record, for all of its sides.

    Raises:
        ConfigError: the manifest has no boxes, or a record's box is not on the image any more.
    """

    def __init__(self, margin: float | Sequence[float] = 0.0) -> None:
        self.margin = checks.check_margin(margin)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Work out top, left, height, width: int64 (n,), pixels."""
        if records.boxes is None:
            raise ConfigError("BoxCrop needs box_x, box_y, box_width, box_height in the manifest")
        start = np.floor(records.boxes[:, :2]).astype(np.int64)
        end = np.ceil(records.boxes[:, 2:]).astype(np.int64)
        gone = (end <= start).any(axis=1)
        if gone.any():
            raise ConfigError(
                f"BoxCrop got record {records.record_key[gone.argmax()]}, whose box was cut off by "
                "the transforms before; put BoxCrop first"
            )
        share: float | Float64
        share = (
            rng.uniform(*self.margin)[:, None] if isinstance(self.margin, tuple) else self.margin
        )
        margin = ((end - start) * share).astype(np.int64)
        start = np.maximum(start - margin, 0)
        end = np.minimum(end + margin, np.stack([records.width, records.height], axis=1))
        return {
            "top": start[:, 1],
            "left": start[:, 0],
            "height": end[:, 1] - start[:, 1],
            "width": end[:, 0] - start[:, 0],
        }

    def place(self, frame: Frame, params: Params) -> Frame:
        """Crop."""
        return frame.crop(params["top"], params["left"], params["height"], params["width"])


class PadToSquare(GeometricTransform):
    """Centre the image on a square of one colour.

    Args:
        size: side of the square, pixels.
        fill: level of the padding, 0 to 255, or one for each of red, green, blue.

    Raises:
        ConfigError: when a batch holds an image that is larger.
    """

    def __init__(self, size: int, fill: float | Sequence[float] = 0.0) -> None:
        self.size = checks.check_size("size", size)
        self.fill = checks.check_fill(fill)

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Work out top, left, bottom, right: int64 (n,), pixels to add."""
        large = (records.height > self.size) | (records.width > self.size)
        if large.any():
            one = int(large.argmax())
            raise ConfigError(
                f"PadToSquare({self.size}) got record {records.record_key[one]} of "
                f"{records.height[one]} x {records.width[one]} (height x width); resize before it"
            )
        missing_y, missing_x = self.size - records.height, self.size - records.width
        top, left = missing_y // 2, missing_x // 2
        return {"top": top, "left": left, "bottom": missing_y - top, "right": missing_x - left}

    def place(self, frame: Frame, params: Params) -> Frame:
        """Pad."""
        return frame.pad(
            params["top"], params["left"], params["bottom"], params["right"], self.fill
        )


class RandomHorizontalFlip(GeometricTransform):
    """Flip left to right with probability `p`."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = checks.check_probability("p", p)

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Draw flip: bool (n,)."""
        return {"flip": rng.bernoulli(self.p)}

    def place(self, frame: Frame, params: Params) -> Frame:
        """Flip."""
        return frame.flip(params["flip"])


class RandomVerticalFlip(GeometricTransform):
    """Flip top to bottom with probability `p`."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = checks.check_probability("p", p)

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Draw flip: bool (n,)."""
        return {"flip": rng.bernoulli(self.p)}

    def place(self, frame: Frame, params: Params) -> Frame:
        """Flip."""
        return frame.flip(params["flip"], vertical=True)
