"""Layers of policies: at most one operation for each record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nvidia.dali import fn, types

from gpufeed.transforms.frame import Fill, Sampling
from gpufeed.transforms.operators import colour
from gpufeed.transforms.operators.warp import warp
from gpufeed.transforms.policy_layers import FIRST_WARP, KINDS, NAMES, SHARE_BITS
from gpufeed.transforms.select import Nodes, where

__all__ = ["build_layer", "mix"]

_UNARY = {
    "AutoContrast": colour.autocontrast,
    "Equalize": colour.equalize,
    "Invert": colour.invert,
}
_BINARY = {
    "Brightness": colour.brightness,
    "Color": colour.saturation,
    "Contrast": colour.contrast,
    "Sharpness": colour.sharpness,
    "Posterize": colour.posterize,
    "Solarize": colour.solarize,
    "SolarizeAdd": colour.solarize_add,
}


def build_layer(
    image: Any, layer: Nodes, names: Iterable[str], *, fill: Fill, interpolation: Sampling
) -> Any:
    """Add a layer to the graph.

    Args:
        image: `DataNode` of uint8 HWC images.
        layer: CPU `DataNode`s of what `lay_out` returned for the layer.
        names: the operations that the layer may contain.
        fill: RGB value, 0 to 255, of pixels that come from outside the image.
        interpolation: of the operations that move pixels.

    Returns:
        `DataNode` of uint8 HWC images.
    """
    kind = layer["kind"]
    kinds = sorted({KINDS[name] for name in names} - {KINDS["Identity"]})
    for number in kinds:
        if number < FIRST_WARP:
            image = _apply(NAMES[number], kind == number, image, layer["value"])
    if any(number >= FIRST_WARP for number in kinds):
        # One operator does them all.
        image = where(
            kind >= FIRST_WARP,
            image,
            lambda image, own: warp(image, own["matrix"], fill, interpolation),
            {"matrix": layer["matrix"]},
        )
    return image


def _apply(name: str, mask: Any, image: Any, value: Any) -> Any:
    if name in _UNARY:
        return where(mask, image, lambda image, _: _UNARY[name](image), {})
    return where(
        mask, image, lambda image, own: _BINARY[name](image, own["value"]), {"value": value}
    )


def mix(images: Sequence[Any], shares: Sequence[Any]) -> Any:
    """Return the weighted sum of images, truncated to integers.

    Args:
        images: `DataNode`s of uint8 HWC images of one size.
        shares: for each a CPU `DataNode` of what `integer_shares` returned.
    """
    # In integers: on the CPU, DALI's cast from float takes longer than all the rest.
    weighted = [image * share for image, share in zip(images, shares, strict=True)]
    return fn.cast(sum(weighted[1:], start=weighted[0]) >> SHARE_BITS, dtype=types.UINT8)
