"""Search spaces of torchvision's policies: operations, their ranges, AutoAugment's sub-policies.

All numbers are those of torchvision 0.29's `transforms.v2`. torchvision computes magnitudes in
single precision, where a whole number may be off in the last bit, depending on the machine. Here
magnitudes are exact before translations and thresholds are rounded to integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpufeed.transforms.policy_layers import KINDS, NAMES, SIGNED

__all__ = [
    "AUGMIX",
    "AUGMIX_PARTIAL",
    "AUTO_AUGMENT",
    "RAND_AUGMENT",
    "TRIVIAL_AUGMENT_WIDE",
    "Space",
    "SubPolicies",
    "sub_policies",
]

Bool = npt.NDArray[np.bool_]
Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

_MAX_VALUE = 255.0


@dataclass(frozen=True)
class Space:
    """Operations, and the magnitude of each in the last bin; in the first bin it is 0.

    Attributes:
        limits: magnitudes by name: of shears, the slope; of translations, a fraction of the image's
            side, or pixels; of rotations, degrees; of factors, the distance from 1; of Posterize,
            the bits removed; of Solarize, the number of values inverted; 0 if the operation takes
            no value.
        sides: whether translations are fractions of the side.
        bits: bits that Posterize keeps in the first bin.
    """

    limits: dict[str, float]
    sides: bool = True
    bits: int = 8

    @property
    def kinds(self) -> Int64:
        """Numbers of the operations, in torchvision's order."""
        return np.array([KINDS[name] for name in self.limits])

    def values(
        self, kind: Int64, bin_index: Int64, bins: int, negative: Bool, height: Int64, width: Int64
    ) -> Float64:
        """Return the values of operations: float64 (layers, n).

        Args:
            kind: int64 (layers, n), operations by number.
            bin_index: int64 (layers, n), from 0 to `bins` - 1.
            bins: number of bins, 2 or more.
            negative: bool (layers, n), whether to reverse operations that have two directions.
            height: int64 (n,), pixels.
            width: int64 (n,), pixels.
        """
        limit = np.array([self.limits.get(name, 0.0) for name in NAMES])[kind]
        along_x, along_y = kind == KINDS["TranslateX"], kind == KINDS["TranslateY"]
        if self.sides:
            limit = limit * np.where(along_x, width, np.where(along_y, height, 1))
        # In this order of operations, whole numbers are exact.
        value = limit * bin_index / (bins - 1)
        value = np.where(negative & SIGNED[kind], -value, value)
        value = np.where(along_x | along_y, np.trunc(value), value)
        value = np.where(_FACTOR[kind], 1.0 + value, value)
        value = np.where(kind == KINDS["Posterize"], np.rint(self.bits - value), value)
        # For integer pixel values, a threshold is equivalent to its ceiling.
        return np.where(kind == KINDS["Solarize"], np.ceil(_MAX_VALUE - value), value)


_FACTORS = ("Brightness", "Color", "Contrast", "Sharpness")
_FACTOR = np.isin(NAMES, _FACTORS)

_NO_VALUE = dict.fromkeys(("AutoContrast", "Equalize"), 0.0)
_SHEARS = {"ShearX": 0.3, "ShearY": 0.3}
_TRANSLATIONS = dict.fromkeys(("TranslateX", "TranslateY"), 150.0 / 331.0)
_THRESHOLDS = {"Posterize": 4.0, "Solarize": _MAX_VALUE}

RAND_AUGMENT = Space(
    {
        "Identity": 0.0,
        **_SHEARS,
        **_TRANSLATIONS,
        "Rotate": 30.0,
        **dict.fromkeys(_FACTORS, 0.9),
        **_THRESHOLDS,
        **_NO_VALUE,
    }
)
AUTO_AUGMENT = Space(
    {name: limit for name, limit in RAND_AUGMENT.limits.items() if name != "Identity"}
    | {"Invert": 0.0}
)
TRIVIAL_AUGMENT_WIDE = Space(
    {
        "Identity": 0.0,
        "ShearX": 0.99,
        "ShearY": 0.99,
        "TranslateX": 32.0,
        "TranslateY": 32.0,
        "Rotate": 135.0,
        **dict.fromkeys(_FACTORS, 0.99),
        "Posterize": 6.0,
        "Solarize": _MAX_VALUE,
        **_NO_VALUE,
    },
    sides=False,
)
# torchvision's limit of translations is width / 3, which may differ from width * (1 / 3) in the
# last bit.
AUGMIX_PARTIAL = Space(
    {
        **_SHEARS,
        **dict.fromkeys(("TranslateX", "TranslateY"), 1.0 / 3.0),
        "Rotate": 30.0,
        **_THRESHOLDS,
        **_NO_VALUE,
    },
    bits=4,
)
AUGMIX = Space(AUGMIX_PARTIAL.limits | dict.fromkeys(_FACTORS, 0.9), bits=4)


@dataclass(frozen=True)
class SubPolicies:
    """AutoAugment's pairs of operations, of which each record draws one.

    Attributes:
        kind: int64 (2, 25), operations by number.
        probability: float64 (2, 25), of applying the operation.
        bin_index: int64 (2, 25), magnitude bin of ten; 0 if the operation takes no value.
    """

    kind: Int64
    probability: Float64
    bin_index: Int64


def sub_policies(policy: str) -> SubPolicies:
    """Return the sub-policies learned on "imagenet", "cifar10" or "svhn"."""
    pairs = [
        [operation.split() for operation in line.split(", ")]
        for line in _LEARNED[policy].strip().splitlines()
    ]
    flat = [pair[layer] for layer in (0, 1) for pair in pairs]
    shape = (2, len(pairs))
    return SubPolicies(
        kind=np.array([KINDS[words[0]] for words in flat]).reshape(shape),
        probability=np.array([float(words[1]) for words in flat]).reshape(shape),
        bin_index=np.array([int((*words, "0")[2]) for words in flat]).reshape(shape),
    )


# Pairs of operations, each with its probability and, if it takes a value, its magnitude bin of ten.
_LEARNED = {
    "imagenet": """
        Posterize 0.4 8, Rotate 0.6 9
        Solarize 0.6 5, AutoContrast 0.6
        Equalize 0.8, Equalize 0.6
        Posterize 0.6 7, Posterize 0.6 6
        Equalize 0.4, Solarize 0.2 4
        Equalize 0.4, Rotate 0.8 8
        Solarize 0.6 3, Equalize 0.6
        Posterize 0.8 5, Equalize 1.0
        Rotate 0.2 3, Solarize 0.6 8
        Equalize 0.6, Posterize 0.4 6
        Rotate 0.8 8, Color 0.4 0
        Rotate 0.4 9, Equalize 0.6
        Equalize 0.0, Equalize 0.8
        Invert 0.6, Equalize 1.0
        Color 0.6 4, Contrast 1.0 8
        Rotate 0.8 8, Color 1.0 2
        Color 0.8 8, Solarize 0.8 7
        Sharpness 0.4 7, Invert 0.6
        ShearX 0.6 5, Equalize 1.0
        Color 0.4 0, Equalize 0.6
        Equalize 0.4, Solarize 0.2 4
        Solarize 0.6 5, AutoContrast 0.6
        Invert 0.6, Equalize 1.0
        Color 0.6 4, Contrast 1.0 8
        Equalize 0.8, Equalize 0.6
    """,
    "cifar10": """
        Invert 0.1, Contrast 0.2 6
        Rotate 0.7 2, TranslateX 0.3 9
        Sharpness 0.8 1, Sharpness 0.9 3
        ShearY 0.5 8, TranslateY 0.7 9
        AutoContrast 0.5, Equalize 0.9
        ShearY 0.2 7, Posterize 0.3 7
        Color 0.4 3, Brightness 0.6 7
        Sharpness 0.3 9, Brightness 0.7 9
        Equalize 0.6, Equalize 0.5
        Contrast 0.6 7, Sharpness 0.6 5
        Color 0.7 7, TranslateX 0.5 8
        Equalize 0.3, AutoContrast 0.4
        TranslateY 0.4 3, Sharpness 0.2 6
        Brightness 0.9 6, Color 0.2 8
        Solarize 0.5 2, Invert 0.0
        Equalize 0.2, AutoContrast 0.6
        Equalize 0.2, Equalize 0.6
        Color 0.9 9, Equalize 0.6
        AutoContrast 0.8, Solarize 0.2 8
        Brightness 0.1 3, Color 0.7 0
        Solarize 0.4 5, AutoContrast 0.9
        TranslateY 0.9 9, TranslateY 0.7 9
        AutoContrast 0.9, Solarize 0.8 3
        Equalize 0.8, Invert 0.1
        TranslateY 0.7 9, AutoContrast 0.9
    """,
    "svhn": """
        ShearX 0.9 4, Invert 0.2
        ShearY 0.9 8, Invert 0.7
        Equalize 0.6, Solarize 0.6 6
        Invert 0.9, Equalize 0.6
        Equalize 0.6, Rotate 0.9 3
        ShearX 0.9 4, AutoContrast 0.8
        ShearY 0.9 8, Invert 0.4
        ShearY 0.9 5, Solarize 0.2 6
        Invert 0.9, AutoContrast 0.8
        Equalize 0.6, Rotate 0.9 3
        ShearX 0.9 4, Solarize 0.3 3
        ShearY 0.8 8, Invert 0.7
        Equalize 0.9, TranslateY 0.6 6
        Invert 0.9, Equalize 0.6
        Contrast 0.3 3, Rotate 0.8 4
        Invert 0.8, TranslateY 0.0 2
        ShearY 0.7 6, Solarize 0.4 8
        Invert 0.6, Rotate 0.8 4
        ShearY 0.3 7, TranslateX 0.9 3
        ShearX 0.1 6, Invert 0.6
        Solarize 0.7 2, TranslateY 0.6 7
        ShearY 0.8 4, Invert 0.8
        ShearX 0.7 9, TranslateY 0.8 3
        ShearY 0.8 5, AutoContrast 0.7
        ShearX 0.7 2, Invert 0.1
    """,
}
