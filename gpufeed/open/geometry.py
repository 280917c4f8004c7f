"""The DALI operators that carry out a `Resample`."""

from __future__ import annotations

from typing import Any

from nvidia.dali import fn, types

from gpufeed.plan.stages import Resample

__all__ = ["PLACES", "flips_in_resize", "resample"]

_FILTERS = {"bilinear": types.INTERP_LINEAR, "bicubic": types.INTERP_CUBIC}
PLACES: dict[str, Any] = {"axes": (0, 1), "normalized_anchor": False, "normalized_shape": False}
"""Arguments that make `fn.slice` and its like take windows as (y, x) in pixels."""


def flips_in_resize(stage: Resample) -> bool:
    """Return whether the resize can write its output flipped, which costs nothing.

    DALI's operator for this neither pads afterwards nor resizes a region.
    """
    flips = stage.mirror is not None or stage.upturn is not None
    resizes = stage.resize is not None and stage.resize.first is None
    return flips and resizes and stage.canvas is None


def resample(stage: Resample, image: Any) -> Any:
    """Add the operators of a stage to the current graph.

    Args:
        stage: the stage, whose arrays are `DataNode`s.
        image: a `DataNode` of uint8 HWC images.
    """
    mirror, upturn = (0 if each is None else each for each in (stage.mirror, stage.upturn))
    if stage.cut is not None:
        image = fn.slice(image, stage.cut.start, stage.cut.shape, **PLACES)
    if stage.resize is not None:
        size = stage.resize.size
        how = {"interp_type": _FILTERS[stage.resize.interpolation], "antialias": True}
        if flips_in_resize(stage):
            # DALI's mask: 1 is left to right, 2 top to bottom.
            return fn.resize_crop_mirror(
                image, size=size, crop=size, mirror=mirror + 2 * upturn, **how
            )
        if stage.resize.first is not None:
            how |= {"roi_start": stage.resize.first, "roi_end": stage.resize.last}
        image = fn.resize(image, size=size, **how)
    if stage.canvas is not None:
        image = fn.slice(
            image,
            stage.canvas.start,
            stage.canvas.shape,
            **PLACES,
            out_of_bounds_policy="pad",
            fill_values=list(stage.canvas.fill),
        )
    if stage.mirror is not None or stage.upturn is not None:
        image = fn.flip(image, horizontal=mirror, vertical=upturn)
    return image
