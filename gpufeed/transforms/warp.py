"""Moves the pixels of images through a matrix each: rotations, shears, translations, perspective.

Conventions, for `warp` and everything that makes matrices for it:

- A matrix maps places of the output to places of the input, as Pillow's `Image.transform` takes it.
- Places are (x, y), x first, in pixels, from the top left corner of the top left pixel, so that the
  centre of pixel (column, row) is at (column + 0.5, row + 0.5), as in Pillow.
- (x, y, 1) is a column, to the right of the matrix; of the result (u, v, w), the place is
  (u / w, v / w).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.transforms.frame import Fill, Sampling

__all__ = ["affine_matrices", "warp"]

Float32 = npt.NDArray[np.float32]


def affine_matrices(
    center: npt.ArrayLike,
    *,
    angle: npt.ArrayLike = 0.0,
    translate: npt.ArrayLike = (0.0, 0.0),
    scale: npt.ArrayLike = 1.0,
    shear: npt.ArrayLike = (0.0, 0.0),
) -> Float32:
    """Return the matrices of shears, then a rotation and scaling, then a translation.

    The same matrices as torchvision's `affine`, whose angle turns clockwise; its `rotate` turns the
    other way.

    Args:
        center: (x, y) or (n, 2), pixels: where shears, rotation and scaling leave the image.
        angle: degrees clockwise, one or (n,).
        translate: (x, y) or (n, 2), pixels to the right and down.
        scale: above 0, one or (n,).
        shear: (x, y) or (n, 2), degrees; to the left with every row, and up with every column.

    Returns:
        float32 (n, 3, 3).
    """
    turned = np.radians(np.asarray(angle, dtype=np.float64))
    moved = np.asarray(translate, dtype=np.float64)
    shears = np.radians(np.asarray(shear, dtype=np.float64))
    about = np.asarray(center, dtype=np.float64)
    shear_x, shear_y = shears[..., 0], shears[..., 1]

    # R(angle) S(scale) SHy SHx, as torchvision writes it, inverted: its determinant is scale ** 2.
    stretch = 1.0 / np.cos(shear_y)
    a = np.cos(turned - shear_y) * stretch
    c = np.sin(turned - shear_y) * stretch
    b = -a * np.tan(shear_x) - np.sin(turned)
    d = -c * np.tan(shear_x) + np.cos(turned)
    rows = np.broadcast_arrays(*np.atleast_1d(d, -b, -c, a, scale, *(about + moved).T, *about.T))
    xx, xy, yx, yy, size, from_x, from_y, to_x, to_y = rows
    xx, xy, yx, yy = xx / size, xy / size, yx / size, yy / size

    out = np.zeros((len(xx), 3, 3), dtype=np.float32)
    out[:, 0, 0], out[:, 0, 1] = xx, xy
    out[:, 1, 0], out[:, 1, 1] = yx, yy
    out[:, 0, 2] = to_x - xx * from_x - xy * from_y
    out[:, 1, 2] = to_y - yx * from_x - yy * from_y
    out[:, 2, 2] = 1.0
    return out


def warp(image: Any, matrix: Any, fill: Fill, interpolation: Sampling) -> Any:
    """Move pixels, keeping the images' sizes.

    On the CPU, "nearest" takes the pixel that a place falls in, as Pillow does, whose places are
    off by up to 0.004 of a pixel; "bilinear" is exact, rounded to the nearest level. Along the
    image's edges it mixes the `fill` in, as torchvision does for tensors, where Pillow repeats
    the edge.

    Args:
        image: `DataNode` of uint8 HWC images.
        matrix: CPU `DataNode` of float32 (3, 3) for each, as the module says.
        fill: levels where a place lies outside of the image.
        interpolation: "nearest" or "bilinear".

    Returns:
        `DataNode` of uint8 HWC images.
    """
    from nvidia.dali import fn, types

    # On the CPU several times quicker than fn.warp_affine, which has no fill of three levels.
    return fn.experimental.warp_perspective(
        image,
        matrix=matrix,
        fill_value=list(fill),
        interp_type=types.INTERP_NN if interpolation == "nearest" else types.INTERP_LINEAR,
        pixel_origin="corner",
    )
