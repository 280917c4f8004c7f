"""Rectangles and mixtures of finished images, in the graph; all keep type, layout and size."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.transforms.base import Made

__all__ = ["blend", "constant", "fill", "paste", "window"]


def fill(image: Any, anchor: Any, shape: Any, value: tuple[float, float, float]) -> Any:
    """Write a value into a rectangle of each image.

    Args:
        image: `DataNode` of images.
        anchor: CPU `DataNode` of float32 (2,) for each: (y, x) of its first pixel.
        shape: likewise its (height, width).
        value: one number for each channel.
    """
    from nvidia.dali import fn

    return fn.erase(image, anchor=anchor, shape=shape, axis_names="HW", fill_value=list(value))


def paste(image: Any, other: Any, anchor: Any, shape: Any) -> Any:
    """Write what `other` has in a rectangle into each image: exactly, since zeros are added."""
    from nvidia.dali import fn

    black = (0.0, 0.0, 0.0)
    # In float32, since DALI's arithmetic has no float16.
    around, whole, outside = (
        _as_float(node)
        for node in (
            fill(image, anchor, shape, black),
            other,
            fill(other, anchor, shape, black),
        )
    )
    return fn.cast_like(around + (whole - outside), image)


def blend(image: Any, other: Any, share: Any) -> Any:
    """Return share * image + (1 - share) * other; `share` is a CPU `DataNode` of float32 each."""
    from nvidia.dali import fn

    mixed = _as_float(image) * share + _as_float(other) * (1.0 - share)
    return fn.cast_like(mixed, image)


def constant(field: npt.NDArray[np.float32], made: Made, device: str) -> Any:
    """Return one image for all records; make it outside of `where`, which has but some of them.

    Args:
        field: float32, laid out as the images are.
        made: what the images are like.
        device: "cpu" or "gpu".
    """
    from nvidia.dali import types

    return types.Constant(field, layout=made.layout.removeprefix("N"), device=device)


def window(field: Any, start: Any, made: Made) -> Any:
    """Cut an image out of a larger one for each record.

    Args:
        field: `DataNode` of the larger ones, laid out as the images are.
        start: CPU `DataNode` of int32 (2,) for each: (y, x) of its first pixel.
        made: what the images are like.
    """
    from nvidia.dali import fn

    return fn.slice(
        field,
        start=start,
        shape=[made.height, made.width],
        axis_names="HW",
    )


def _as_float(image: Any) -> Any:
    from nvidia.dali import fn, types

    return fn.cast(image, dtype=types.FLOAT)
