"""Changes of levels, with torchvision v2's names, defaults and distributions."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.rng import BatchRng, exp
from gpufeed.transforms import checks, ops
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


class _Sometimes(PixelTransform):
    """Does one thing to an image with probability `p`."""

    def __init__(self, p: float) -> None:
        self.p = checks.check_probability("p", p)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw chosen: bool (n,); beside it, the settings once per record."""
        settings = {name: np.full(len(records), value) for name, value in self._settings().items()}
        return {"chosen": rng.bernoulli(self.p), **settings}

    def build(self, image: Any, params: Nodes) -> Any:
        """Change the chosen images."""
        own = {name: node for name, node in params.items() if name != "chosen"}
        return where(params["chosen"], image, self._change, own)

    def _settings(self) -> dict[str, float]:
        return {}

    @abc.abstractmethod
    def _change(self, image: Any, own: Nodes) -> Any:
        """Add the operators that change chosen images."""


class RandomGrayscale(_Sometimes):
    """Turn to grey, in three equal channels, with probability `p`."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def _change(self, image: Any, own: Nodes) -> Any:  # noqa: ARG002
        return ops.grayscale(image)


class RandomInvert(_Sometimes):
    """Turn levels v into 255 - v with probability `p`."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)

    def _change(self, image: Any, own: Nodes) -> Any:  # noqa: ARG002
        return ops.invert(image)


class RandomPosterize(_Sometimes):
    """Keep the highest bits of levels with probability `p`.

    Args:
        bits: how many, 0 to 8.
        p: probability.
    """

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = checks.check_integer("bits", bits, 0, 8)

    def _settings(self) -> dict[str, float]:
        return {"bits": self.bits}

    def _change(self, image: Any, own: Nodes) -> Any:
        return ops.posterize(image, own["bits"])


class RandomSolarize(_Sometimes):
    """Invert high levels with probability `p`.

    Args:
        threshold: the lowest level to invert, 0 to 255.
        p: probability.
    """

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = checks.check_number("threshold", threshold, 0, 255)

    def _settings(self) -> dict[str, float]:
        return {"threshold": self.threshold}

    def _change(self, image: Any, own: Nodes) -> Any:
        return ops.solarize(image, own["threshold"])


class RandomAdjustSharpness(_Sometimes):
    """Smooth or sharpen with probability `p`.

    Rounds to the nearest level, where Pillow cuts fractions off. Images less than three pixels
    high or wide stay as they are.

    Args:
        sharpness_factor: 0 smooths, 1 changes nothing, 2 sharpens as much as 0 smooths.
        p: probability.
    """

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = checks.check_number("sharpness_factor", sharpness_factor, 0)

    def draw(self, rng: BatchRng, records: Records) -> Params:
        """Draw chosen: bool (n,); beside it, the factor once per record."""
        drawn = super().draw(rng, records)
        return {**drawn, "chosen": drawn["chosen"] & (records.height > 2) & (records.width > 2)}

    def _settings(self) -> dict[str, float]:
        return {"factor": self.sharpness_factor}

    def _change(self, image: Any, own: Nodes) -> Any:
        return ops.sharpness(image, own["factor"])


class RandomAutocontrast(_Sometimes):
    """Stretch each channel's levels to 0..255 with probability `p`."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)

    def _change(self, image: Any, own: Nodes) -> Any:  # noqa: ARG002
        return ops.autocontrast(image)


class RandomEqualize(_Sometimes):
    """Make each channel's levels equally frequent with probability `p`.

    Pillow, and so torchvision, divides by a whole number of pixels per level, which makes small
    images brighter; this does not.
    """

    def __init__(self, p: float = 0.5) -> None:
        super().__init__(p)

    def _change(self, image: Any, own: Nodes) -> Any:  # noqa: ARG002
        return ops.equalize(image)


class GaussianBlur(PixelTransform):
    """Blur with a Gaussian of random width.

    Of the window, only what can change a level is worked out: four times the greatest sigma to each
    side. Rounds after blurring rows, before columns.

    Args:
        kernel_size: pixels of the window, odd; one number, or (width, height) as in torchvision.
        sigma: pixels; one number, or (low, high) to draw it from.
    """

    def __init__(
        self, kernel_size: int | Sequence[int], sigma: float | Sequence[float] = (0.1, 2.0)
    ) -> None:
        self.kernel_size = checks.check_odd_sizes("kernel_size", kernel_size)
        both = (sigma, sigma) if checks.is_number(sigma) else sigma
        self.sigma = checks.check_range("sigma", both)

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Draw the weights of neighbours: across, down: float64 (n, pixels), of sum 1."""
        sigma = rng.uniform(*self.sigma)
        width, height = self.kernel_size
        return {"across": self._weights(sigma, width), "down": self._weights(sigma, height)}

    def _weights(self, sigma: Float64, size: int) -> Float64:
        reach = min(size // 2, math.ceil(4 * self.sigma[1]))
        places = np.arange(-reach, reach + 1) / sigma[:, None]
        weights = exp(-0.5 * places * places)
        weights /= weights.sum(axis=1, keepdims=True)
        return weights

    def build(self, image: Any, params: Nodes) -> Any:
        """Blur."""
        return ops.gaussian_blur(image, params["across"], params["down"])


class JPEG(PixelTransform):
    """Encode as JPEG and decode again.

    Args:
        quality: 1 to 100; one number, or (low, high), both included, to draw it from.
    """

    def __init__(self, quality: int | Sequence[int]) -> None:
        both = (quality, quality) if checks.is_integer(quality) else quality
        self.quality = checks.check_integers("quality", both, 1, 100)

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Draw quality: int64 (n,)."""
        low, high = self.quality
        return {"quality": rng.integers(low, high + 1)}

    def build(self, image: Any, params: Nodes) -> Any:
        """Encode and decode."""
        return ops.jpeg(image, params["quality"])


class Gamma(PixelTransform):
    """Raise levels, on the scale 0..1, to a random power.

    torchvision has this as a function only; PIX, with which the WestDRI course on the JAX AI stack
    draws from (0.6, 1.2), as `random_gamma`.

    Args:
        gamma: (low, high) to draw the power from, not below 0.
    """

    def __init__(self, gamma: Sequence[float]) -> None:
        self.gamma = checks.check_span("gamma", gamma, 0)

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Draw gamma: float64 (n,)."""
        return {"gamma": rng.uniform(*self.gamma)}

    def build(self, image: Any, params: Nodes) -> Any:
        """Raise."""
        return ops.gamma(image, params["gamma"])


class Contrast(PixelTransform):
    """Move each channel away from its own mean by a random factor.

    This is PIX's and TensorFlow's `random_contrast`; the WestDRI course on the JAX AI stack draws
    from (0.8, 1.2). torchvision's, which moves all channels away from the mean grey, is
    `ColorJitter(contrast=...)`.

    Args:
        contrast: (low, high) to draw the factor from, not below 0.
    """

    def __init__(self, contrast: Sequence[float]) -> None:
        self.contrast = checks.check_span("contrast", contrast, 0)

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Draw factor: float64 (n,)."""
        return {"factor": rng.uniform(*self.contrast)}

    def build(self, image: Any, params: Nodes) -> Any:
        """Move."""
        return ops.channel_contrast(image, params["factor"])
