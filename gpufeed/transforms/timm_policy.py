"""timm's RandAugment, with its own operations, random magnitudes, and layers that may be skipped.

Follows `timm/data/auto_augment.py` of timm 1.0.31 (Wightman, "PyTorch image models", 2019).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.rng import BatchRng
from gpufeed.transforms.base import Records, Tree
from gpufeed.transforms.distributions import normal
from gpufeed.transforms.frame import Sampling
from gpufeed.transforms.policy_layers import KINDS, LayeredTransform, lay_out

__all__ = ["TimmRandAugment"]

Bool = npt.NDArray[np.bool_]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

_NAMES = (
    "AutoContrast",
    "Equalize",
    "Invert",
    "Rotate",
    "Posterize",
    "Solarize",
    "SolarizeAdd",
    "Color",
    "Contrast",
    "Brightness",
    "Sharpness",
    "ShearX",
    "ShearY",
    "TranslateX",
    "TranslateY",
)
_FULL = 10.0
"""The magnitude of an operation's full strength."""
_UNIFORM = 100.0
"""Above this, noise stands for a uniform magnitude."""
_PART = re.compile(r"(mstd|mmax|inc|m|n|p)(\d+(?:\.\d+)?)")
_INTEGER_PARTS = ("m", "n", "mmax", "inc")


@dataclass(frozen=True)
class _Settings:
    magnitude: float
    layers: int
    probability: float
    noise: float
    max_magnitude: float
    increasing: bool


class TimmRandAugment(LayeredTransform):
    """timm's RandAugment, from its configuration string.

    Operations have equal probabilities, and translations are not rounded to whole pixels. timm
    itself draws bilinear or bicubic sampling each time, unless it is given one. Boxes and points
    cannot follow the pixels that it moves.

    Args:
        config: "rand" and any of these, joined by "-": "m9", the magnitude, clipped to that of
            "mmax"; "n2", the number of operations; "p0.5", the probability of applying each;
            "mstd0.5", the standard deviation of a normally distributed magnitude, or, above 100, a
            magnitude uniform from 0 to that of "m"; "mmax10", the largest magnitude, 10 by
            default; "inc1", for operations whose strength all increases with the magnitude.
        interpolation: "nearest" or "bilinear", for operations that move pixels.
        fill: value of pixels that come from outside the image, 0 to 255; one number or three (RGB).
            By default ImageNet's mean, as in timm.

    Raises:
        ConfigError: a part of the string is none of these. timm's sets of operations and weights,
            "t...", are not supported.
    """

    def __init__(
        self,
        config: str = "rand-m9-mstd0.5-inc1",
        interpolation: Sampling = "bilinear",
        fill: float | Sequence[float] = (124.0, 116.0, 104.0),
    ) -> None:
        super().__init__(interpolation, fill)
        self.config = config
        self._settings = _parse(config)

    def draw(self, rng: BatchRng, records: Records) -> Tree:
        """Draw operations, whether to apply them, their magnitudes and directions."""
        settings = self._settings
        layers = settings.layers
        drawn = rng.uniform(size=3 * layers).T.reshape(3, layers, len(records))
        kind = np.array([KINDS[name] for name in _NAMES])[(drawn[0] * len(_NAMES)).astype(int)]
        kind = np.where(drawn[1] < settings.probability, kind, 0)
        magnitude = np.full(kind.shape, settings.magnitude)
        if settings.noise > _UNIFORM:
            magnitude = magnitude * rng.uniform(size=layers).T
        elif settings.noise > 0:
            magnitude = magnitude + settings.noise * normal(rng, layers).T
        magnitude = np.clip(magnitude, 0.0, settings.max_magnitude)
        value = _values(
            kind, magnitude, drawn[2] < 0.5, settings.increasing, records.height, records.width
        )
        return lay_out(kind, value, records.height, records.width)

    def build(self, image: Any, params: dict[str, Any]) -> Any:
        """Add the layers to the graph."""
        for layer in range(self._settings.layers):
            image = self._build_layer(image, params[str(layer)], _NAMES)
        return image


def _values(
    kind: Int64, magnitude: Float64, negative: Bool, increasing: bool, height: Int64, width: Int64
) -> Float64:
    """Return the values of operations, as `lay_out` takes them: float64 (layers, n)."""
    strength = magnitude / _FULL
    signed = np.where(negative, -strength, strength)
    bits = np.trunc(strength * 4)
    threshold = np.minimum(np.trunc(strength * 256), 256)
    if increasing:
        # Above a magnitude of 10 timm passes Pillow a negative number of bits, which is an error.
        bits, threshold = np.maximum(4 - bits, 0), 256 - threshold
        factor = np.maximum(1.0 + signed * 0.9, 0.1)
    else:
        factor = strength * 1.8 + 0.1
    values = {
        **dict.fromkeys(("Brightness", "Color", "Contrast", "Sharpness"), factor),
        "Posterize": np.minimum(bits, 8),
        "Solarize": threshold,
        "SolarizeAdd": np.minimum(np.trunc(strength * 110), 128),
        **dict.fromkeys(("ShearX", "ShearY"), signed * 0.3),
        # timm's translations are to the left and up.
        "TranslateX": signed * -0.45 * width,
        "TranslateY": signed * -0.45 * height,
        "Rotate": signed * 30.0,
    }
    out = np.zeros(kind.shape)
    for name, value in values.items():
        np.copyto(out, value, where=kind == KINDS[name])
    return out


def _parse(config: str) -> _Settings:
    if not isinstance(config, str) or config.split("-")[0] != "rand":
        raise ConfigError(
            f'config is {short(config)}; it must be a string such as "rand-m9-mstd0.5"'
        )
    found: dict[str, float] = {}
    for part in config.split("-")[1:]:
        match = _PART.fullmatch(part)
        if match is None:
            raise ConfigError(
                f"config is {short(config)}, whose {short(part)} is none of m, n, p, mstd, mmax, "
                "inc with a number"
            )
        name, number = match[1], float(match[2])
        if name in _INTEGER_PARTS and number != math.floor(number):
            raise ConfigError(f"config is {short(config)}, whose {short(part)} must be an integer")
        if name == "p" and number > 1:
            raise ConfigError(f"config is {short(config)}, whose {short(part)} must be from 0 to 1")
        found[name] = number
    return _Settings(
        magnitude=found.get("m", _FULL),
        layers=int(found.get("n", 2)),
        probability=found.get("p", 0.5),
        noise=found.get("mstd", 0.0),
        # As in timm, mmax0 stands for the default.
        max_magnitude=found.get("mmax", _FULL) or _FULL,
        increasing=bool(found.get("inc", 0)),
    )
