"""Crops, resizes, pads and flips, with torchvision v2's names, defaults and rounding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.rng import BatchRng
from gpufeed.transforms import arguments
from gpufeed.transforms.base import GeometricTransform, Params, Records
from gpufeed.transforms.distributions import log_uniform
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

    The sampling is torchvision's (Szegedy et al., "Going deeper with convolutions", CVPR 2015): it
    draws an area and a log-uniform aspect ratio up to ten times, and takes the first that fits; if
    none fits, it takes the largest centred window of an allowed ratio.

    Args:
        size: output size in pixels, one number for a square or (height, width).
        scale: bounds of the window's area, as a fraction of the image's.
        ratio: bounds of its width divided by its height.
        interpolation: "bilinear" or "bicubic".
    """

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Interpolation = "bilinear",
    ) -> None:
        self.size = arguments.check_sizes("size", size)
        self.scale = arguments.check_range("scale", scale)
        self.ratio = arguments.check_range("ratio", ratio)
        self.interpolation = arguments.check_interpolation(interpolation)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw `top`, `left`, `height` and `width`, int64 (n,), pixels."""
        full = records.height, records.width
        first = rng.uniform(size=4)
        height, width, fits = self._attempt(first[:, :2], *full)
        missing = np.flatnonzero(~fits)
        if len(missing):
            # Few records need more than one attempt, so only those draw again.
            more = rng.rows(missing).uniform(size=2 * (_ATTEMPTS - 1))
            heights, widths, fit = self._attempt(
                more.reshape(len(missing), -1, 2), *(side[missing, None] for side in full)
            )
            rows, first_fit = np.arange(len(missing)), fit.argmax(axis=1)
            height[missing], width[missing] = heights[rows, first_fit], widths[rows, first_fit]
            none = missing[~fit.any(axis=1)]
            height[none], width[none] = self._largest(*(side[none] for side in full))
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
        """Return heights, widths and whether they fit, given uniform numbers (..., 2)."""
        share = self.scale[0] + unit[..., 0] * (self.scale[1] - self.scale[0])
        root = np.sqrt(log_uniform(unit[..., 1], self.ratio))
        side = np.sqrt(full_height * full_width * share)
        width = np.rint(side * root).astype(np.int64)
        height = np.rint(side / root).astype(np.int64)
        fits = (width > 0) & (height > 0) & (width <= full_width) & (height <= full_height)
        return height, width, fits

    def _largest(self, full_height: Int64, full_width: Int64) -> tuple[Int64, Int64]:
        """Return height and width of the largest window of an allowed ratio."""
        low, high = self.ratio
        ratio = full_width / full_height
        height = np.where(ratio < low, np.rint(full_width / low), full_height)
        width = np.where(ratio > high, np.rint(full_height * high), full_width)
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
        size: pixels. One number is the size of the shorter side; the longer one follows, rounded
            down as in torchvision. Otherwise (height, width), or None to make the longer side
            `max_size`.
        interpolation: "bilinear" or "bicubic".
        max_size: limit of the longer side, if `size` is one number or None.
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
            self.size = arguments.check_sizes("size", size)
        else:
            side = size[0] if isinstance(size, Sequence) else size
            self.size = arguments.check_size("size", side)
        self.interpolation = arguments.check_interpolation(interpolation)
        self.max_size = None if max_size is None else arguments.check_size("max_size", max_size)
        if self.size is None and self.max_size is None:
            raise ConfigError("Resize has neither size nor max_size; give at least one")
        if isinstance(self.size, tuple) and self.max_size is not None:
            raise ConfigError(
                f"max_size is {self.max_size} and size is {self.size}; max_size needs a size of "
                "one number, or None"
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
            # torchvision's formula may give 0.
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

    The factor is rounded to float64 before it is applied, so the longer side of some images is one
    pixel short, as in the data preparation of the WestDRI course on the JAX AI stack.

    Args:
        size: pixels.
        interpolation: "bilinear" or "bicubic".
    """

    def __init__(self, size: int, interpolation: Interpolation = "bilinear") -> None:
        self.size = arguments.check_size("size", size)
        self.interpolation = arguments.check_interpolation(interpolation)

    def place(self, frame: Frame, params: Params) -> Frame:  # noqa: ARG002
        """Resize."""
        factor = self.size / np.maximum(frame.height, frame.width)
        height = np.maximum((frame.height * factor).astype(np.int64), 1)
        width = np.maximum((frame.width * factor).astype(np.int64), 1)
        return frame.resize(height, width, self.interpolation)


class CenterCrop(GeometricTransform):
    """Crop the centre; pad smaller images with black first.

    Args:
        size: pixels, one number for a square or (height, width).
    """

    def __init__(self, size: int | Sequence[int]) -> None:
        self.size = arguments.check_sizes("size", size)

    def place(self, frame: Frame, params: Params) -> Frame:  # noqa: ARG002
        """Pad if needed, and crop."""
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
    """Pad the image with one colour.

    Args:
        padding: pixels, one number for all sides, (left and right, top and bottom) or (left, top,
            right, bottom).
        fill: value of the padding, 0 to 255; one number or three (RGB).
    """

    def __init__(self, padding: int | Sequence[int], fill: float | Sequence[float] = 0.0) -> None:
        self.padding = arguments.check_padding(padding)
        self.fill = arguments.check_fill(fill)

    def place(self, frame: Frame, params: Params) -> Frame:  # noqa: ARG002
        """Pad."""
        left, top, right, bottom = self.padding
        return frame.pad(top, left, bottom, right, self.fill)


class RandomCrop(GeometricTransform):
    """Crop a window at a random position, with optional padding.

    Args:
        size: pixels, one number for a square or (height, width).
        padding: pixels around the image, as in `Pad`; None for no padding.
        pad_if_needed: whether to pad images that are still smaller than the window. Each of the two
            sides gets all the missing pixels, so the image's position in the window is random.
        fill: value of the padding, 0 to 255; one number or three (RGB).

    Raises:
        ConfigError: from the loader, if a padded image is smaller than the window.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: float | Sequence[float] = 0.0,
    ) -> None:
        self.size = arguments.check_sizes("size", size)
        self.padding = None if padding is None else arguments.check_padding(padding)
        self.pad_if_needed = bool(pad_if_needed)
        self.fill = arguments.check_fill(fill)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw `top` and `left`, int64 (n,), pixels from the corner of the padded image."""
        height, width = self.size
        left, top, right, bottom = self._borders(records.height, records.width)
        full_height, full_width = records.height + top + bottom, records.width + left + right
        small = (full_height < height) | (full_width < width)
        if small.any():
            row = int(small.argmax())
            raise ConfigError(
                f"RandomCrop({height} x {width}) got record {records.record_key[row]} of "
                f"{records.height[row]} x {records.width[row]} (height x width); resize or pad "
                "before it"
            )
        return {
            "top": rng.integers(0, full_height - height + 1),
            "left": rng.integers(0, full_width - width + 1),
        }

    def _borders(self, height: Int64, width: Int64) -> tuple[Int64, Int64, Int64, Int64]:
        """Return the padding at left, top, right and bottom of images of these sizes."""
        left, top, right, bottom = self.padding or (0, 0, 0, 0)
        needed = int(self.pad_if_needed)
        more_y = needed * np.maximum(self.size[0] - (height + top + bottom), 0)
        more_x = needed * np.maximum(self.size[1] - (width + left + right), 0)
        return left + more_x, top + more_y, right + more_x, bottom + more_y

    def place(self, frame: Frame, params: Params) -> Frame:
        """Pad if requested, and crop."""
        if self.padding is not None or self.pad_if_needed:
            left, top, right, bottom = self._borders(frame.height, frame.width)
            frame = frame.pad(top, left, bottom, right, self.fill)
        return frame.crop(params["top"], params["left"], *self.size)


class BoxCrop(GeometricTransform):
    """Crop the record's bounding box, with a margin on each side, clipped to the image.

    Args:
        margin: margin on each side, as a fraction of the box's width or height, rounded down to
            pixels; or the bounds (low, high) of a fraction drawn once per record.

    Raises:
        ConfigError: from the loader, if the manifest has no boxes, or an earlier transform cropped
            a record's box away.
    """

    def __init__(self, margin: float | Sequence[float] = 0.0) -> None:
        self.margin = arguments.check_margin(margin)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Compute `top`, `left`, `height` and `width`, int64 (n,), pixels."""
        if records.boxes is None:
            raise ConfigError(
                "BoxCrop needs the columns box_x, box_y, box_width and box_height in the manifest; "
                "leave it out if the images have no boxes"
            )
        start = np.floor(records.boxes[:, :2]).astype(np.int64)
        end = np.ceil(records.boxes[:, 2:]).astype(np.int64)
        empty = (end <= start).any(axis=1)
        if empty.any():
            raise ConfigError(
                f"BoxCrop got record {records.record_key[empty.argmax()]}, whose box was cropped "
                "away by an earlier transform; put BoxCrop first"
            )
        fraction: float | Float64
        fraction = (
            rng.uniform(*self.margin)[:, None] if isinstance(self.margin, tuple) else self.margin
        )
        margin = ((end - start) * fraction).astype(np.int64)
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
        fill: value of the padding, 0 to 255; one number or three (RGB).

    Raises:
        ConfigError: from the loader, if an image is larger than the square.
    """

    def __init__(self, size: int, fill: float | Sequence[float] = 0.0) -> None:
        self.size = arguments.check_size("size", size)
        self.fill = arguments.check_fill(fill)

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Compute `top`, `left`, `bottom` and `right`, int64 (n,), pixels to add."""
        large = (records.height > self.size) | (records.width > self.size)
        if large.any():
            row = int(large.argmax())
            raise ConfigError(
                f"PadToSquare({self.size}) got record {records.record_key[row]} of "
                f"{records.height[row]} x {records.width[row]} (height x width); resize before it"
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
        self.p = arguments.check_probability("p", p)

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Draw `flip`, bool (n,)."""
        return {"flip": rng.bernoulli(self.p)}

    def place(self, frame: Frame, params: Params) -> Frame:
        """Flip."""
        return frame.flip(params["flip"])


class RandomVerticalFlip(GeometricTransform):
    """Flip top to bottom with probability `p`."""

    def __init__(self, p: float = 0.5) -> None:
        self.p = arguments.check_probability("p", p)

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Draw `flip`, bool (n,)."""
        return {"flip": rng.bernoulli(self.p)}

    def place(self, frame: Frame, params: Params) -> Frame:
        """Flip."""
        return frame.flip(params["flip"], vertical=True)
