"""Changes of pixel values, with torchvision v2's names, defaults and distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gpufeed.rng import BatchRng, exp
from gpufeed.transforms import arguments
from gpufeed.transforms.base import Params, PixelTransform, Records
from gpufeed.transforms.select import Nodes, where

__all__ = [
    "JPEG",
    "Contrast",
    "Gamma",
    "GaussianBlur",
    "RandomAdjustSharpness",
    "RandomAutocontrast",
    "RandomEqualize",
    "RandomGrayscale",
    "RandomInvert",
    "RandomPosterize",
    "RandomSolarize",
]


Float64 = npt.NDArray[np.float64]


class _ColourTransform(PixelTransform):
    """Applies one function of `operators.colour`, with the drawn parameters as its arguments."""

    _operator: ClassVar[str]

    def build(self, image: Any, params: Nodes) -> Any:
        """Add the operators to the graph."""
        from gpufeed.transforms.operators import colour

        return getattr(colour, self._operator)(image, **params)


class _RandomColourTransform(_ColourTransform):
    """Applies it to an image with probability `p`."""

    def __init__(self, p: float) -> None:
        self.p = arguments.check_probability("p", p)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw `chosen`, bool (n,); repeat the operator's arguments for each record."""
        fixed = {name: np.full(len(records), value) for name, value in self._arguments().items()}
        return {"chosen": rng.bernoulli(self.p), **fixed}

    def build(self, image: Any, params: Nodes) -> Any:
        """Add the operators for the chosen images."""
        own = {name: node for name, node in params.items() if name != "chosen"}
        return where(params["chosen"], image, super().build, own)

    def _arguments(self) -> dict[str, float]:
        return {}


class RandomGrayscale(_RandomColourTransform):
    """Convert to grey, in three equal channels, with probability `p`."""

    _operator = "grayscale"

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)


class RandomInvert(_RandomColourTransform):
    """Turn values v into 255 - v with probability `p`."""

    _operator = "invert"

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)


class RandomPosterize(_RandomColourTransform):
    """Keep the highest bits of values with probability `p`.

    Args:
        bits: bits to keep, 0 to 8.
        p: probability.
    """

    _operator = "posterize"

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = arguments.check_integer("bits", bits, 0, 8)

    def _arguments(self) -> dict[str, float]:
        return {"bits": self.bits}


class RandomSolarize(_RandomColourTransform):
    """Invert high values with probability `p`.

    Args:
        threshold: the lowest value to invert, 0 to 255.
        p: probability.
    """

    _operator = "solarize"

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = arguments.check_number("threshold", threshold, 0, 255)

    def _arguments(self) -> dict[str, float]:
        return {"threshold": self.threshold}


class RandomAdjustSharpness(_RandomColourTransform):
    """Smooth or sharpen with probability `p`.

    Rounds to the nearest integer, where Pillow truncates. Images less than 3 pixels high or wide
    stay as they are.

    Args:
        sharpness_factor: 0 smooths, 1 changes nothing, 2 sharpens as much as 0 smooths.
        p: probability.
    """

    _operator = "sharpness"

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = arguments.check_number("sharpness_factor", sharpness_factor, 0)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw `chosen`, bool (n,); repeat the factor for each record."""
        drawn = super().draw(rng, records)
        return {**drawn, "chosen": drawn["chosen"] & (records.height > 2) & (records.width > 2)}

    def _arguments(self) -> dict[str, float]:
        return {"factor": self.sharpness_factor}


class RandomAutocontrast(_RandomColourTransform):
    """Stretch each channel's values to 0..255 with probability `p`."""

    _operator = "autocontrast"

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)


class RandomEqualize(_RandomColourTransform):
    """Equalize the histogram of each channel with probability `p`.

    Pillow, and with it torchvision, rounds down the number of pixels per value, which makes small
    images brighter; this divides exactly.
    """

    _operator = "equalize"

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)


class GaussianBlur(_ColourTransform):
    """Blur with a Gaussian of random width.

    Weights further than four times the largest sigma from the centre cannot change a value and are
    left out. Rounds after the rows, and again after the columns.

    Args:
        kernel_size: size of the window in pixels, odd; one number, or (width, height) as in
            torchvision.
        sigma: pixels; one number, or the bounds (low, high).
    """

    _operator = "gaussian_blur"

    def __init__(
        self, kernel_size: int | Sequence[int], sigma: float | Sequence[float] = (0.1, 2.0)
    ) -> None:
        self.kernel_size = arguments.check_odd_sizes("kernel_size", kernel_size)
        bounds = (sigma, sigma) if arguments.is_number(sigma) else sigma
        self.sigma = arguments.check_range("sigma", bounds)

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Draw the weights `across` and `down`: float64 (n, odd number of pixels), of sum 1."""
        sigma = rng.uniform(*self.sigma)
        width, height = self.kernel_size
        return {"across": self._weights(sigma, width), "down": self._weights(sigma, height)}

    def _weights(self, sigma: Float64, size: int) -> Float64:
        radius = min(size // 2, math.ceil(4 * self.sigma[1]))
        distances = np.arange(-radius, radius + 1) / sigma[:, None]
        weights = exp(-0.5 * distances * distances)
        weights /= weights.sum(axis=1, keepdims=True)
        return weights


class JPEG(_ColourTransform):
    """Encode as JPEG and decode again.

    Args:
        quality: 1 to 100; one number, or the bounds (low, high), both included.
    """

    _operator = "jpeg"

    def __init__(self, quality: int | Sequence[int]) -> None:
        bounds = (quality, quality) if arguments.is_integer(quality) else quality
        self.quality = arguments.check_integers("quality", bounds, 1, 100)

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Draw `quality`, int64 (n,)."""
        low, high = self.quality
        return {"quality": rng.integers(low, high + 1)}


class Gamma(_ColourTransform):
    """Raise values, scaled to 0..1, to a random power.

    torchvision has this as a function only. PIX has it as `random_gamma`; the WestDRI course on the
    JAX AI stack draws from (0.6, 1.2) with it.

    Args:
        gamma: bounds (low, high) of the power, 0 or more.
    """

    _operator = "gamma"

    def __init__(self, gamma: Sequence[float]) -> None:
        self.gamma = arguments.check_span("gamma", gamma, 0)

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Draw `gamma`, float64 (n,)."""
        return {"gamma": rng.uniform(*self.gamma)}


class Contrast(_ColourTransform):
    """Scale the distance of values from their channel's mean by a random factor.

    This is `random_contrast` of PIX and TensorFlow; the WestDRI course on the JAX AI stack draws
    from (0.8, 1.2). torchvision's contrast, which scales the distance from the mean grey, is
    `ColorJitter(contrast=...)`.

    Args:
        contrast: bounds (low, high) of the factor, 0 or more.
    """

    _operator = "channel_contrast"

    def __init__(self, contrast: Sequence[float]) -> None:
        self.contrast = arguments.check_span("contrast", contrast, 0)

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Draw `factor`, float64 (n,)."""
        return {"factor": rng.uniform(*self.contrast)}
