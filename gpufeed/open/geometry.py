"""The DALI operators that carry out a `Resample`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from nvidia.dali import fn, types

from gpufeed.plan.stages import Resample

__all__ = ["PLACES", "carry_out", "resample"]

_FILTERS = {"bilinear": types.INTERP_LINEAR, "bicubic": types.INTERP_CUBIC}
PLACES: dict[str, Any] = {"axes": (0, 1), "normalized_anchor": False, "normalized_shape": False}
"""Arguments that make `fn.slice` and its like take windows as (y, x) in pixels."""


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
        if stage.flips_in_resize:
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
            # DALI truncates, where threads and Pillow round.
            fill_values=np.rint(stage.canvas.fill).tolist(),
        )
    if stage.mirror is not None or stage.upturn is not None:
        image = fn.flip(image, horizontal=mirror, vertical=upturn)
    return image


def carry_out(openings: Sequence[Sequence[Resample]], image: Any) -> list[Any]:
    """Add the operators of each view's stages to the current graph; return a `DataNode` for each.

    Args:
        openings: the stages of each view, whose arrays are `DataNode`s.
        image: a `DataNode` of uint8 HWC images, the input of each view.
    """
    return [reduce(lambda node, stage: resample(stage, node), each, image) for each in openings]
