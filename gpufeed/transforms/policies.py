"""Policies: which operations are done to a record, and how much, drawn record by record.

They are torchvision v2's, by name, default and distribution; `spaces` holds the numbers. A record
pays for the operations that it drew. Boxes and points do not follow pixels that a policy moves;
torchvision takes none either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from gpufeed.errors import ConfigError
from gpufeed.rng import BatchRng
from gpufeed.transforms import checks
from gpufeed.transforms.base import PixelTransform, Records, Tree
from gpufeed.transforms.draws import dirichlet
from gpufeed.transforms.frame import Sampling
from gpufeed.transforms.operations import NAMES, build_layer, lay_out, mix, parts
from gpufeed.transforms.spaces import (
    AUGMIX,
    AUGMIX_PARTIAL,
    AUTO_AUGMENT,
    RAND_AUGMENT,
    TRIVIAL_AUGMENT_WIDE,
    Space,
    sub_policies,
)

__all__ = ["AugMix", "AutoAugment", "Policy", "RandAugment", "TrivialAugmentWide"]

Policy = Literal["imagenet", "cifar10", "svhn"]

_BINS = 10
"""Bins of AutoAugment and AugMix."""
_DEEPEST = 3
"""Of AugMix's chains, where their depth is drawn."""


class _Policy(PixelTransform):
    """Layers of operations, one after another."""

    def __init__(self, interpolation: Sampling, fill: float | Sequence[float]) -> None:
        self.interpolation = checks.check_sampling(interpolation)
        self.fill = checks.check_fill(fill)

    @property
    def loses_targets(self) -> bool:
        """True: some operations move pixels in the graph."""
        return True

    def _build(self, image: Any, layer: dict[str, Any], names: Sequence[str]) -> Any:
        return build_layer(image, layer, names, fill=self.fill, interpolation=self.interpolation)


class RandAugment(_Policy):
    """A few operations in a row, each drawn anew, all of one magnitude.

    Cubuk et al., "RandAugment: practical automated data augmentation with a reduced search space"
    (2019).

    Args:
        num_ops: how many, 0 or more.
        magnitude: of each, from 0 to `num_magnitude_bins - 1`, whichever way is drawn.
        num_magnitude_bins: 2 or more.
        interpolation: "nearest" or "bilinear", where pixels move.
        fill: level that comes in where pixels move away, 0 to 255, or one for each of red, green,
            blue.
    """

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Sampling = "nearest",
        fill: float | Sequence[float] = 0.0,
    ) -> None:
        super().__init__(interpolation, fill)
        self.num_ops = checks.check_count("num_ops", num_ops, 0)
        self.num_magnitude_bins = checks.check_count("num_magnitude_bins", num_magnitude_bins, 2)
        self.magnitude = checks.check_count("magnitude", magnitude, 0, self.num_magnitude_bins - 1)

    def draw(self, rng: BatchRng, records: Records) -> Tree:
        """Draw operations, and which way each goes."""
        drawn = rng.uniform(size=2 * self.num_ops).T
        choices = RAND_AUGMENT.kinds
        kind = choices[(drawn[::2] * len(choices)).astype(np.int64)]
        value = RAND_AUGMENT.values(
            kind,
            np.full_like(kind, self.magnitude),
            self.num_magnitude_bins,
            drawn[1::2] < 0.5,
            records.height,
            records.width,
        )
        return lay_out(kind, value, records.height, records.width)

    def build(self, image: Any, params: dict[str, Any]) -> Any:
        """Add the layers."""
        for layer in range(self.num_ops):
            image = self._build(image, params[str(layer)], tuple(RAND_AUGMENT.limits))
        return image


class TrivialAugmentWide(_Policy):
    """One operation, of a magnitude drawn with it.

    Müller and Hutter, "TrivialAugment: tuning-free yet state-of-the-art data augmentation" (2021).

    Args:
        num_magnitude_bins: 2 or more.
        interpolation: "nearest" or "bilinear", where pixels move.
        fill: level that comes in where pixels move away, 0 to 255, or one for each of red, green,
            blue.
    """

    def __init__(
        self,
        num_magnitude_bins: int = 31,
        interpolation: Sampling = "nearest",
        fill: float | Sequence[float] = 0.0,
    ) -> None:
        super().__init__(interpolation, fill)
        self.num_magnitude_bins = checks.check_count("num_magnitude_bins", num_magnitude_bins, 2)

    def draw(self, rng: BatchRng, records: Records) -> Tree:
        """Draw the operation, its magnitude, and which way it goes."""
        drawn = rng.uniform(size=3).T[:, None]
        choices = TRIVIAL_AUGMENT_WIDE.kinds
        kind = choices[(drawn[0] * len(choices)).astype(np.int64)]
        value = TRIVIAL_AUGMENT_WIDE.values(
            kind,
            (drawn[1] * self.num_magnitude_bins).astype(np.int64),
            self.num_magnitude_bins,
            drawn[2] < 0.5,
            records.height,
            records.width,
        )
        return lay_out(kind, value, records.height, records.width)

    def build(self, image: Any, params: dict[str, Any]) -> Any:
        """Add the layer."""
        return self._build(image, params["0"], tuple(TRIVIAL_AUGMENT_WIDE.limits))


class AutoAugment(_Policy):
    """Two operations, with probabilities and magnitudes that were learned for a data set.

    Cubuk et al., "AutoAugment: learning augmentation strategies from data" (2019).

    Args:
        policy: "imagenet", "cifar10" or "svhn".
        interpolation: "nearest" or "bilinear", where pixels move.
        fill: level that comes in where pixels move away, 0 to 255, or one for each of red, green,
            blue.
    """

    def __init__(
        self,
        policy: Policy = "imagenet",
        interpolation: Sampling = "nearest",
        fill: float | Sequence[float] = 0.0,
    ) -> None:
        if policy not in get_args(Policy):
            names = ", ".join(f'"{name}"' for name in get_args(Policy))
            raise ConfigError(f"policy is {policy!r}; it must be one of {names}")
        super().__init__(interpolation, fill)
        self.policy = policy
        self._pairs = sub_policies(policy)

    def draw(self, rng: BatchRng, records: Records) -> Tree:
        """Draw the pair of operations, which of them to apply, and which way each goes."""
        drawn = rng.uniform(size=5).T
        pair = (drawn[0] * self._pairs.kind.shape[1]).astype(np.int64)
        applied = drawn[1:3] < self._pairs.probability[:, pair]
        kind = np.where(applied, self._pairs.kind[:, pair], 0)
        place = self._pairs.place[:, pair]
        value = AUTO_AUGMENT.values(
            kind, place, _BINS, drawn[3:5] < 0.5, records.height, records.width
        )
        return lay_out(kind, value, records.height, records.width)

    def build(self, image: Any, params: dict[str, Any]) -> Any:
        """Add the layers."""
        for layer, kinds in enumerate(self._pairs.kind):
            names = [NAMES[kind] for kind in np.unique(kinds)]
            image = self._build(image, params[str(layer)], names)
        return image


class AugMix(_Policy):
    """The image mixed with a few others made of it, each by a chain of operations.

    Hendrycks et al., "AugMix: a simple data processing method to improve robustness and
    uncertainty" (2020).

    Args:
        severity: magnitudes are drawn from the first so many of ten bins, 1 to 10.
        mixture_width: how many chains, 1 or more.
        chain_depth: operations of each, or, below 1, drawn from 1 to 3 for each.
        alpha: of the Dirichlet distributions of the chains' shares, and of the image's and
            theirs; above 0.
        all_ops: also brightness, colour, contrast and sharpness, which the paper leaves out.
        interpolation: "nearest" or "bilinear", where pixels move.
        fill: level that comes in where pixels move away, 0 to 255, or one for each of red, green,
            blue.
    """

    def __init__(
        self,
        severity: int = 3,
        mixture_width: int = 3,
        chain_depth: int = -1,
        alpha: float = 1.0,
        all_ops: bool = True,
        interpolation: Sampling = "bilinear",
        fill: float | Sequence[float] = 0.0,
    ) -> None:
        super().__init__(interpolation, fill)
        self.severity = checks.check_count("severity", severity, 1, _BINS)
        self.mixture_width = checks.check_count("mixture_width", mixture_width, 1)
        self.chain_depth = checks.check_count("chain_depth", chain_depth, None)
        if not checks.is_number(alpha) or not 0 < alpha < math.inf:
            raise ConfigError(f"alpha is {alpha!r}; it must be a number above 0")
        self.alpha = float(alpha)
        self.all_ops = bool(all_ops)

    @property
    def _space(self) -> Space:
        return AUGMIX if self.all_ops else AUGMIX_PARTIAL

    @property
    def _deepest(self) -> int:
        return self.chain_depth if self.chain_depth > 0 else _DEEPEST

    def draw(self, rng: BatchRng, records: Records) -> Tree:
        """Draw the chains, and the shares of the image and of each."""
        chains, deepest = self.mixture_width, self._deepest
        layers, n = chains * deepest, len(records)
        drawn = rng.uniform(size=3 * layers).T.reshape(3, layers, n)
        choices = self._space.kinds
        kind = choices[(drawn[0] * len(choices)).astype(np.int64)]
        if self.chain_depth < 1:
            depth = rng.integers(1, _DEEPEST + 1, size=chains).T
            reached = np.arange(deepest)[:, None] < depth[:, None]
            kind = np.where(reached.reshape(layers, n), kind, 0)
        place = (drawn[1] * self.severity).astype(np.int64)
        value = self._space.values(
            kind, place, _BINS, drawn[2] < 0.5, records.height, records.width
        )
        (own, rest), of_rest = (drawn.T for drawn in dirichlet(rng, self.alpha, 2, chains))
        shares = parts(np.vstack([own, rest * of_rest]))
        return {
            "layers": lay_out(kind, value, records.height, records.width),
            "shares": {str(place): share for place, share in enumerate(shares)},
        }

    def build(self, image: Any, params: dict[str, Any]) -> Any:
        """Add the chains, and what mixes them."""
        images = [image]
        for chain in range(self.mixture_width):
            changed = image
            for depth in range(self._deepest):
                layer = params["layers"][str(chain * self._deepest + depth)]
                changed = self._build(changed, layer, ["Identity", *self._space.limits])
            images.append(changed)
        return mix(images, [params["shares"][str(place)] for place in range(len(images))])
