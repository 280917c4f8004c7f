"""RandAugment as timm trains with it: its own operations, magnitudes that vary, layers left out.

After `timm/data/auto_augment.py` of timm 1.0.31 (Wightman, "PyTorch image models", 2019).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.rng import BatchRng
from gpufeed.transforms import checks
from gpufeed.transforms.base import PixelTransform, Records, Tree
from gpufeed.transforms.draws import normal
from gpufeed.transforms.frame import Sampling
from gpufeed.transforms.operations import KINDS, build_layer, lay_out

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
"""The magnitude at which operations go as far as they are meant to."""
_UNIFORM = 100.0
"""Noise above this means a uniform magnitude."""
_PART = re.compile(r"(mstd|mmax|inc|m|n|p)(\d+(?:\.\d+)?)")
_WHOLE = ("m", "n", "mmax", "inc")


@dataclass(frozen=True)
class _Settings:
    magnitude: float = _FULL
    layers: int = 2
    probability: float = 0.5
    noise: float = 0.0
    most: float = _FULL
    increasing: bool = False


class TimmRandAugment(PixelTransform):
    """timm's RandAugment, from its string.

    Operations are drawn with equal chances, and translations are not cut to whole pixels. timm
    itself reads between pixels bilinearly or bicubically, drawn each time, unless it is told one.
    Boxes and points do not follow pixels that it moves.

    Args:
        config: "rand" and any of these, joined by "-": "m9", the magnitude, to 10 if no "mmax" says
            otherwise; "n2", how many operations; "p0.5", the probability with which each is
            applied; "mstd0.5", the standard deviation of a normal magnitude, a uniform one from 0
            on where it is above 100; "mmax10", the most it may be; "inc1" for operations all of
            which do more the larger the magnitude.
        interpolation: "nearest" or "bilinear", where pixels move.
        fill: level that comes in where pixels move away, 0 to 255, or one for each of red, green,
            blue; ImageNet's mean, as timm has it, by default.

    Raises:
        ConfigError: naming the part of the string that is none of these; timm's sets of operations
            and weights, "t...", are not there.
    """

    def __init__(
        self,
        config: str = "rand-m9-mstd0.5-inc1",
        interpolation: Sampling = "bilinear",
        fill: float | Sequence[float] = (124.0, 116.0, 104.0),
    ) -> None:
        self.config = config
        self.interpolation = checks.check_sampling(interpolation)
        self.fill = checks.check_fill(fill)
        self._settings = _parse(config)

    @property
    def loses_targets(self) -> bool:
        """True: some operations move pixels in the graph."""
        return True

    def draw(self, rng: BatchRng, records: Records) -> Tree:
        """Draw operations, whether to apply them, their magnitudes, and which way each goes."""
        settings = self._settings
        layers = settings.layers
        drawn = rng.uniform(size=3 * layers).T.reshape(3, layers, len(records))
        kind = np.array([KINDS[name] for name in _NAMES])[(drawn[0] * len(_NAMES)).astype(int)]
        kind = np.where(drawn[1] < settings.probability, kind, 0)
        level = np.full(kind.shape, settings.magnitude)
        if settings.noise > _UNIFORM:
            level = level * rng.uniform(size=layers).T
        elif settings.noise > 0:
            level = level + settings.noise * normal(rng, layers).T
        level = np.clip(level, 0.0, settings.most)
        value = _values(
            kind, level, drawn[2] < 0.5, settings.increasing, records.height, records.width
        )
        return lay_out(kind, value, records.height, records.width)

    def build(self, image: Any, params: dict[str, Any]) -> Any:
        """Add the layers."""
        for layer in range(self._settings.layers):
            image = build_layer(
                image,
                params[str(layer)],
                _NAMES,
                fill=self.fill,
                interpolation=self.interpolation,
            )
        return image


def _values(
    kind: Int64, level: Float64, negative: Bool, increasing: bool, height: Int64, width: Int64
) -> Float64:
    """Return what operations take at a magnitude, in `lay_out`'s terms: float64 (layers, n)."""
    share = level / _FULL
    signed = np.where(negative, -share, share)
    bits = np.trunc(share * 4)
    threshold = np.minimum(np.trunc(share * 256), 256)
    if increasing:
        # Beyond 10 timm asks Pillow for a negative number of bits, which is an error.
        bits, threshold = np.maximum(4 - bits, 0), 256 - threshold
        factor = np.maximum(1.0 + signed * 0.9, 0.1)
    else:
        factor = share * 1.8 + 0.1
    taken = {
        **dict.fromkeys(("Brightness", "Color", "Contrast", "Sharpness"), factor),
        "Posterize": np.minimum(bits, 8),
        "Solarize": threshold,
        "SolarizeAdd": np.minimum(np.trunc(share * 110), 128),
        **dict.fromkeys(("ShearX", "ShearY"), signed * 0.3),
        # timm counts to the left and up.
        "TranslateX": signed * -0.45 * width,
        "TranslateY": signed * -0.45 * height,
        "Rotate": signed * 30.0,
    }
    value = np.zeros(kind.shape)
    for name, values in taken.items():
        np.copyto(value, values, where=kind == KINDS[name])
    return value


def _parse(config: str) -> _Settings:
    if not isinstance(config, str) or config.split("-")[0] != "rand":
        raise ConfigError(f'config is {config!r}; it must be a string such as "rand-m9-mstd0.5"')
    found: dict[str, float] = {}
    for part in config.split("-")[1:]:
        match = _PART.fullmatch(part)
        if match is None:
            raise ConfigError(
                f"config is {config!r}, whose {part!r} is none of m, n, p, mstd, mmax, inc with a "
                "number"
            )
        name, number = match[1], float(match[2])
        if name in _WHOLE and number != math.floor(number):
            raise ConfigError(f"config is {config!r}, whose {part!r} must be an integer")
        if name == "p" and number > 1:
            raise ConfigError(f"config is {config!r}, whose {part!r} is no probability")
        found[name] = number
    return _Settings(
        magnitude=found.get("m", _FULL),
        layers=int(found.get("n", 2)),
        probability=found.get("p", 0.5),
        noise=found.get("mstd", 0.0),
        # As in timm, where mmax0 is none.
        most=found.get("mmax", _FULL) or _FULL,
        increasing=bool(found.get("inc", 0)),
    )
