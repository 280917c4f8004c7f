"""Rectangles and mixtures of finished images. Type, layout and size stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from nvidia.dali import fn, types

from gpufeed.transforms.base import Made

__all__ = ["blend", "constant", "fill", "paste", "window"]


def fill(image: Any, anchor: Any, shape: Any, value: tuple[float, float, float], made: Made) -> Any:
    """Fill a rectangle of each image.

    Args:
        image: `DataNode` of images.
        anchor: CPU `DataNode` of float32 (2,) per record: (y, x) of the rectangle's first pixel.
        shape: CPU `DataNode` of float32 (2,) per record: its (height, width).
        value: one number per channel.
        made: what the images are like.
    """
    if made.dtype != "float16":
        return _erase(image, anchor, shape, value)
    return fn.cast_like(_erase(_to_float32(image), anchor, shape, value), image)


def paste(image: Any, other: Any, anchor: Any, shape: Any) -> Any:
    """Copy a rectangle of `other` into each image, exactly: only zeros are added to its values."""
    black = (0.0, 0.0, 0.0)
    # In float32, since DALI's arithmetic does not support float16.
    own, whole = _to_float32(image), _to_float32(other)
    around, outside = (_erase(node, anchor, shape, black) for node in (own, whole))
    return fn.cast_like(around + (whole - outside), image)


def blend(image: Any, other: Any, share: Any) -> Any:
    """Return share * image + (1 - share) * other; `share` is a CPU `DataNode` of float32."""
    mixed = _to_float32(image) * share + _to_float32(other) * (1.0 - share)
    return fn.cast_like(mixed, image)


def constant(field: npt.NDArray[np.float32], made: Made, device: str) -> Any:
    """Return one image for all records. Call it outside `where`, which has a part of the batch.

    Args:
        field: float32, in the layout of the images.
        made: what the images are like.
        device: "cpu" or "gpu".
    """
    return types.Constant(field, layout=made.layout.removeprefix("N"), device=device)


def window(field: Any, start: Any, made: Made) -> Any:
    """Crop each record's image out of a larger one.

    Args:
        field: `DataNode` of the larger images, in the layout of the images.
        start: CPU `DataNode` of int32 (2,) per record: (y, x) of the first pixel.
        made: what the images are like.
    """
    return fn.slice(field, start=start, shape=[made.height, made.width], axis_names="HW")


def _erase(image: Any, anchor: Any, shape: Any, value: tuple[float, float, float]) -> Any:
    # On a GPU, DALI's erase does not support float16.
    return fn.erase(image, anchor=anchor, shape=shape, axis_names="HW", fill_value=list(value))


def _to_float32(image: Any) -> Any:
    return fn.cast(image, dtype=types.FLOAT)
