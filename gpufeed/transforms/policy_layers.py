"""The layers that policies are made of, as arrays drawn on the host and as a part of the graph.

A layer applies at most one operation to each record. Its inputs are three arrays: the number of the
operation, the value it takes, and a matrix for operations that move pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.transforms import arguments
from gpufeed.transforms.base import Params, PixelTransform
from gpufeed.transforms.frame import Sampling
from gpufeed.transforms.select import Nodes

__all__ = [
    "FIRST_WARP",
    "KINDS",
    "NAMES",
    "SHARE_BITS",
    "SIGNED",
    "LayeredTransform",
    "integer_shares",
    "lay_out",
]

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

NAMES = (
    "Identity",
    "AutoContrast",
    "Equalize",
    "Invert",
    "Brightness",
    "Color",
    "Contrast",
    "Sharpness",
    "Posterize",
    "Solarize",
    "SolarizeAdd",
    "ShearX",
    "ShearY",
    "TranslateX",
    "TranslateY",
    "Rotate",
)
"""AutoAugment's names, each at the index of its number.

Operations from `Brightness` on take a value. For the first four it is the factor of torchvision's
`adjust_...` functions. For the others: the bits to keep; the threshold from which values are
inverted; the number added to values below 128; the shear, in pixels per row or column; the shift to
the right or down, in pixels; the angle, in degrees counter-clockwise.
"""

KINDS = {name: number for number, name in enumerate(NAMES)}

FIRST_WARP = KINDS["ShearX"]
"""The operations from this number on move pixels."""

SHARE_BITS = 23
"""A share in a mixture is an integer of 2**-23: a pixel value times 2**23 fits in 32 bits."""

_FIRST_VALUED = KINDS["Brightness"]
_FACTORS = ("Brightness", "Color", "Contrast", "Sharpness")

SIGNED = np.array([name in _FACTORS or k >= FIRST_WARP for k, name in enumerate(NAMES)])
"""bool by number: whether an operation has two directions."""

_NEUTRAL = np.array(
    [np.nan] * _FIRST_VALUED
    + [1.0] * len(_FACTORS)
    + [8.0, 256.0, 0.0]
    + [0.0] * (len(NAMES) - FIRST_WARP)
)
"""float64 by number: the value with which an operation changes nothing."""


class LayeredTransform(PixelTransform):
    """A transform that applies layers of operations.

    Args:
        interpolation: "nearest" or "bilinear", for operations that move pixels.
        fill: value of pixels that come from outside the image, 0 to 255; one number or three (RGB).
    """

    def __init__(self, interpolation: Sampling, fill: float | Sequence[float]) -> None:
        self.interpolation = arguments.check_sampling(interpolation)
        self.fill = arguments.check_fill(fill)

    @property
    def loses_targets(self) -> bool:
        """True: some operations move pixels in the graph."""
        return True

    def _build_layer(self, image: Any, layer: Nodes, names: Iterable[str]) -> Any:
        """Add a layer to the graph; `names` are the operations that it may contain."""
        from gpufeed.transforms.operators import policy_layers

        return policy_layers.build_layer(
            image, layer, names, fill=self.fill, interpolation=self.interpolation
        )


def lay_out(kind: Int64, value: Float64, height: Int64, width: Int64) -> dict[str, Params]:
    """Return the inputs of layers.

    Args:
        kind: int64 (layers, n), operations by number.
        value: float64 (layers, n), what each takes; ignored for operations that take no value.
        height: int64 (n,), pixels.
        width: int64 (n,), pixels.

    Returns:
        For each layer, by its number as a string: `kind`, int32 (n,), 0 where nothing changes;
        `value`, float32 (n,); `matrix`, float32 (n, 3, 3), as in `warp_matrices`.
    """
    # Records for which nothing would change skip the operators.
    kind = np.where(value == _NEUTRAL[kind], 0, kind)
    # Pillow's kernel keeps the border, which is all of such a small image.
    small = (height < 3) | (width < 3)
    kind = np.where((kind == KINDS["Sharpness"]) & small, 0, kind)
    matrix = _matrices(kind, value, height, width)
    return {
        str(layer): {
            "kind": kind[layer].astype(np.int32),
            "value": value[layer].astype(np.float32),
            "matrix": matrix[layer],
        }
        for layer in range(len(kind))
    }


def _matrices(kind: Int64, value: Float64, height: Int64, width: Int64) -> npt.NDArray[np.float32]:
    """Return float32 (layers, n, 3, 3); identity matrices for operations that move no pixels.

    Shears are about the top left corner, rotations about the centre.
    """
    out = np.zeros((*kind.shape, 3, 3), dtype=np.float32)
    out[..., 0, 0] = out[..., 1, 1] = out[..., 2, 2] = 1.0
    out[..., 0, 1] = np.where(kind == KINDS["ShearX"], value, 0.0)
    out[..., 1, 0] = np.where(kind == KINDS["ShearY"], value, 0.0)
    out[..., 0, 2] = np.where(kind == KINDS["TranslateX"], -value, 0.0)
    out[..., 1, 2] = np.where(kind == KINDS["TranslateY"], -value, 0.0)
    rotated = kind == KINDS["Rotate"]
    if rotated.any():
        angle = np.radians(value[rotated])
        cos, sin = np.cos(angle), np.sin(angle)
        x = np.broadcast_to(width / 2.0, kind.shape)[rotated]
        y = np.broadcast_to(height / 2.0, kind.shape)[rotated]
        out[rotated, 0, 0], out[rotated, 0, 1] = cos, -sin
        out[rotated, 1, 0], out[rotated, 1, 1] = sin, cos
        out[rotated, 0, 2] = x - cos * x + sin * y
        out[rotated, 1, 2] = y - sin * x - cos * y
    return out


def integer_shares(shares: Float64) -> Int64:
    """Return shares in units of 2**-SHARE_BITS; each record's add up to 1 exactly.

    Args:
        shares: float64 (k, n). The first share absorbs what rounding leaves.
    """
    rounded = np.rint(shares * (1 << SHARE_BITS)).astype(np.int64)
    rounded[0] = (1 << SHARE_BITS) - rounded[1:].sum(axis=0)
    return rounded
