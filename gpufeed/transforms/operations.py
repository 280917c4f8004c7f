"""The operations that policies choose from, as numbers on the host and as branches of the graph.

A layer applies at most one operation to each record. It is fed as three arrays: the operation's
number, the value it takes, and the matrix of those that move pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.transforms import ops
from gpufeed.transforms.base import Params
from gpufeed.transforms.frame import Fill, Sampling
from gpufeed.transforms.select import where
from gpufeed.transforms.warp import warp

__all__ = ["KINDS", "NAMES", "SIGNED", "build_layer", "lay_out", "mix", "parts"]

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
"""AutoAugment's names, each at its number.

Those from `Brightness` on take a value: the factor of torchvision's `adjust_...` of four, bits to
keep, the level from which levels are inverted, what is added to levels below 128; shares of a
pixel's row or column by which it moves, pixels to move right or down by, degrees counterclockwise.
"""

KINDS = {name: number for number, name in enumerate(NAMES)}

_PART = 23
"""An image's share in a mixture is counted in 2**-23: its levels times 2**23 fit in 32 bits."""

_FIRST_VALUED = KINDS["Brightness"]
_FIRST_MOVING = KINDS["ShearX"]
_ENHANCING = ("Brightness", "Color", "Contrast", "Sharpness")

SIGNED = np.array([name in _ENHANCING or k >= _FIRST_MOVING for k, name in enumerate(NAMES)])
"""bool by number: whether an operation goes both ways."""

_NEUTRAL = np.array(
    [np.nan] * _FIRST_VALUED
    + [1.0] * len(_ENHANCING)
    + [8.0, 256.0, 0.0]
    + [0.0] * (len(NAMES) - _FIRST_MOVING)
)
"""The value with which an operation changes nothing."""


def lay_out(kind: Int64, value: Float64, height: Int64, width: Int64) -> dict[str, Params]:
    """Return what layers are fed with.

    Args:
        kind: int64 (layers, n), operations by number.
        value: float64 (layers, n), what each takes; anything where it takes none.
        height: int64 (n,), pixels.
        width: int64 (n,), pixels.

    Returns:
        for each layer, by its number, `kind`, int32 (n,), 0 where nothing changes; `value`, float32
        (n,); `matrix`, float32 (n, 3, 3), as `warp` takes it.
    """
    # Records for which nothing would change go past the operators.
    kind = np.where(value == _NEUTRAL[kind], 0, kind)
    # Pillow's kernel leaves the border as it is, which is all of such an image.
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
    """Return float32 (layers, n, 3, 3); unit matrices for what moves no pixels.

    Shears are about the top left corner, rotations about the centre.
    """
    out = np.zeros((*kind.shape, 3, 3), dtype=np.float32)
    out[..., 0, 0] = out[..., 1, 1] = out[..., 2, 2] = 1.0
    out[..., 0, 1] = np.where(kind == KINDS["ShearX"], value, 0.0)
    out[..., 1, 0] = np.where(kind == KINDS["ShearY"], value, 0.0)
    out[..., 0, 2] = np.where(kind == KINDS["TranslateX"], -value, 0.0)
    out[..., 1, 2] = np.where(kind == KINDS["TranslateY"], -value, 0.0)
    turning = kind == KINDS["Rotate"]
    if turning.any():
        angle = np.radians(value[turning])
        cos, sin = np.cos(angle), np.sin(angle)
        x = np.broadcast_to(width / 2.0, kind.shape)[turning]
        y = np.broadcast_to(height / 2.0, kind.shape)[turning]
        out[turning, 0, 0], out[turning, 0, 1] = cos, -sin
        out[turning, 1, 0], out[turning, 1, 1] = sin, cos
        out[turning, 0, 2] = x - cos * x + sin * y
        out[turning, 1, 2] = y - sin * x - cos * y
    return out


def build_layer(
    image: Any,
    layer: dict[str, Any],
    names: Iterable[str],
    *,
    fill: Fill,
    interpolation: Sampling,
) -> Any:
    """Add a layer to the graph.

    Args:
        image: `DataNode` of uint8 HWC images.
        layer: CPU `DataNode`s of what `lay_out` returned for it.
        names: the operations that the layer may be asked for.
        fill: what comes in where pixels move away.
        interpolation: of those that move pixels.

    Returns:
        `DataNode` of uint8 HWC images.
    """
    kind, value, matrix = (layer[name] for name in ("kind", "value", "matrix"))
    wanted = {KINDS[name] for name in names}
    for number in sorted(wanted):
        if number >= _FIRST_MOVING:
            break
        if number:
            image = _apply(NAMES[number], kind == number, image, value)
    if max(wanted, default=0) >= _FIRST_MOVING:
        # All that move pixels are one operator.
        image = where(
            kind >= _FIRST_MOVING,
            image,
            lambda moved, own: warp(moved, own["matrix"], fill, interpolation),
            {"matrix": matrix},
        )
    return image


def _apply(name: str, mask: Any, image: Any, value: Any) -> Any:
    from nvidia.dali import fn, types

    plain = {"AutoContrast": ops.autocontrast, "Equalize": ops.equalize, "Invert": ops.invert}
    valued = {
        "Brightness": ops.brightness,
        "Color": ops.saturation,
        "Contrast": ops.contrast,
        "Sharpness": ops.sharpness,
        "Posterize": ops.posterize,
        "Solarize": ops.solarize,
        "SolarizeAdd": _solarize_add,
    }
    if name in plain:
        return where(mask, image, lambda chosen, _: plain[name](chosen), {})
    if name == "Posterize":
        value = fn.cast(value, dtype=types.INT32)
    return where(
        mask, image, lambda chosen, own: valued[name](chosen, own["value"]), {"value": value}
    )


def _solarize_add(image: Any, add: Any) -> Any:
    """Add up to 128 to levels below 128."""
    from nvidia.dali import fn, types

    return image + (image < 128) * fn.cast(add, dtype=types.UINT8)


def parts(shares: Float64) -> Int64:
    """Return shares in `mix`'s unit, so that each record's add up to 1 exactly.

    Args:
        shares: float64 (k, n), of which the first gets what rounding leaves.
    """
    whole = np.rint(shares * (1 << _PART)).astype(np.int64)
    whole[0] = (1 << _PART) - whole[1:].sum(axis=0)
    return whole


def mix(images: Sequence[Any], parts: Sequence[Any]) -> Any:
    """Add images up, each times its share, and cut fractions off.

    Args:
        images: `DataNode`s of uint8 HWC images of one size.
        parts: for each a CPU `DataNode` of what `parts` returned.
    """
    from nvidia.dali import fn, types

    # Integers: turning floats to levels takes DALI longer on the CPU than all the rest.
    weighed = [image * part for image, part in zip(images, parts, strict=True)]
    return fn.cast(sum(weighed[1:], start=weighed[0]) >> _PART, dtype=types.UINT8)
