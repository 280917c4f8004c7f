"""Matrices of warps.

Conventions, for all warps:

- A matrix maps points of the output to points of the input, as in Pillow's `Image.transform`.
- Points are (x, y) in pixels from the top left corner of the top left pixel, so the centre of pixel
  (column, row) is (column + 0.5, row + 0.5), as in Pillow.
- A matrix is multiplied by the column (x, y, 1); the product (u, v, w) is the point (u / w, v / w).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["affine_matrices", "perspective_matrices"]

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]


def affine_matrices(
    center: npt.ArrayLike,
    *,
    angle: npt.ArrayLike = 0.0,
    translate: npt.ArrayLike = (0.0, 0.0),
    scale: npt.ArrayLike = 1.0,
    shear: npt.ArrayLike = (0.0, 0.0),
) -> Float32:
    """Return the matrices of a shear, then a rotation and scaling, then a translation.

    These are the matrices of torchvision's `affine`, whose angles are clockwise; the angles of its
    `rotate` are counter-clockwise.

    Args:
        center: (x, y) or (n, 2), pixels: the fixed point of shear, rotation and scaling.
        angle: degrees clockwise, a number or (n,).
        translate: (x, y) or (n, 2), pixels to the right and down.
        scale: above 0, a number or (n,).
        shear: (x, y) or (n, 2), degrees; x shifts each row further left, y each column further up.

    Returns:
        float32 (n, 3, 3).
    """
    theta = np.radians(np.asarray(angle, dtype=np.float64))
    shift = np.asarray(translate, dtype=np.float64)
    shears = np.radians(np.asarray(shear, dtype=np.float64))
    fixed = np.asarray(center, dtype=np.float64)
    shear_x, shear_y = shears[..., 0], shears[..., 1]

    # torchvision's R(angle) S(scale) SHy SHx, inverted; its determinant is scale ** 2.
    stretch = 1.0 / np.cos(shear_y)
    a = np.cos(theta - shear_y) * stretch
    c = np.sin(theta - shear_y) * stretch
    b = -a * np.tan(shear_x) - np.sin(theta)
    d = -c * np.tan(shear_x) + np.cos(theta)
    rows = np.broadcast_arrays(*np.atleast_1d(d, -b, -c, a, scale, *(fixed + shift).T, *fixed.T))
    xx, xy, yx, yy, size, from_x, from_y, to_x, to_y = rows
    xx, xy, yx, yy = xx / size, xy / size, yx / size, yy / size

    out = np.zeros((len(xx), 3, 3), dtype=np.float32)
    out[:, 0, 0], out[:, 0, 1] = xx, xy
    out[:, 1, 0], out[:, 1, 1] = yx, yy
    out[:, 0, 2] = to_x - xx * from_x - xy * from_y
    out[:, 1, 2] = to_y - yx * from_x - yy * from_y
    out[:, 2, 2] = 1.0
    return out


def perspective_matrices(points: Float64, targets: Float64) -> Float64:
    """Return the matrices, float64 (n, 3, 3), that map four points to four targets, (n, 4, 2)."""
    count = len(points)
    rows = np.zeros((count, 8, 8))
    x, y = points[..., 0], points[..., 1]
    u, v = targets[..., 0], targets[..., 1]
    one = np.ones_like(x)
    rows[:, 0::2, :3] = np.stack([x, y, one], axis=-1)
    rows[:, 1::2, 3:6] = np.stack([x, y, one], axis=-1)
    rows[:, 0::2, 6:] = -u[..., None] * points
    rows[:, 1::2, 6:] = -v[..., None] * points
    solution = np.linalg.solve(rows, targets.reshape(count, 8, 1))[..., 0]
    matrix = np.concatenate([solution, np.ones((count, 1))], axis=1)
    return np.asarray(matrix.reshape(count, 3, 3))
