"""Move the pixels of images through projective maps."""

from __future__ import annotations

from typing import Any

from nvidia.dali import fn, types

from gpufeed.transforms.frame import Fill, Sampling

__all__ = ["warp"]


def warp(image: Any, matrix: Any, fill: Fill, interpolation: Sampling) -> Any:
    """Warp images, keeping their sizes.

    On the CPU, "nearest" takes the pixel that a point falls in, as Pillow does, whose points are
    off by up to 0.004 of a pixel; "bilinear" is exact, rounded to the nearest integer. Along the
    image's edges it blends with `fill`, as torchvision does for tensors; Pillow repeats the edge.

    Args:
        image: `DataNode` of uint8 HWC images.
        matrix: CPU `DataNode` of float32 (3, 3) per record, by the conventions of
            `gpufeed.transforms.warp_matrices`.
        fill: RGB value, 0 to 255, of points outside the image.
        interpolation: "nearest" or "bilinear".

    Returns:
        `DataNode` of uint8 HWC images.
    """
    # Several times as fast on the CPU as fn.warp_affine, which also takes no RGB fill.
    return fn.experimental.warp_perspective(
        image,
        matrix=matrix,
        fill_value=list(fill),
        interp_type=types.INTERP_NN if interpolation == "nearest" else types.INTERP_LINEAR,
        pixel_origin="corner",
    )
