"""Augmentation policies: operations and their magnitudes, drawn for each record.

Names, defaults and distributions are torchvision v2's; `policy_spaces` has the numbers. Each record
costs the operations that it drew. Boxes and points cannot follow the pixels that a policy moves;
torchvision's policies do not take boxes and points either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.rng import BatchRng
from gpufeed.transforms import arguments
from gpufeed.transforms.base import Records, Tree
from gpufeed.transforms.distributions import dirichlet
from gpufeed.transforms.frame import Sampling
from gpufeed.transforms.policy_layers import NAMES, LayeredTransform, integer_shares, lay_out
from gpufeed.transforms.policy_spaces import (
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
"""Magnitude bins of AutoAugment and AugMix."""
_MAX_DEPTH = 3
"""Maximum depth of AugMix's chains, if it is drawn."""


class RandAugment(LayeredTransform):
    """Apply a few random operations in sequence, all of one magnitude.

    Cubuk et al., "RandAugment: practical automated data augmentation with a reduced search space"
    (2019).

    Args:
        num_ops: number of operations, 0 or more.
        magnitude: magnitude of all operations, 0 to `num_magnitude_bins - 1`; the direction is
            drawn.
        num_magnitude_bins: number of magnitudes, 2 or more.
        interpolation: "nearest" or "bilinear", for operations that move pixels.
        fill: value of pixels that come from outside the image, 0 to 255; one number or three (RGB).
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
        self.num_ops = arguments.check_integer("num_ops", num_ops, 0)
        bins = arguments.check_integer("num_magnitude_bins", num_magnitude_bins, 2)
        self.num_magnitude_bins = bins
        self.magnitude = arguments.check_integer("magnitude", magnitude, 0, bins - 1)

    def draw(self, rng: BatchRng, records: Records) -> Tree:
        """Draw the operations and their directions."""
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
        """Add the layers to the graph."""
        for layer in range(self.num_ops):
            image = self._build_layer(image, params[str(layer)], tuple(RAND_AUGMENT.limits))
        return image


class TrivialAugmentWide(LayeredTransform):
    """Apply one random operation of a random magnitude.

    Müller and Hutter, "TrivialAugment: tuning-free yet state-of-the-art data augmentation" (2021).

    Args:
        num_magnitude_bins: number of magnitudes, 2 or more.
        interpolation: "nearest" or "bilinear", for operations that move pixels.
        fill: value of pixels that come from outside the image, 0 to 255; one number or three (RGB).
    """

    def __init__(
        self,
        num_magnitude_bins: int = 31,
        interpolation: Sampling = "nearest",
        fill: float | Sequence[float] = 0.0,
    ) -> None:
        super().__init__(interpolation, fill)
        bins = arguments.check_integer("num_magnitude_bins", num_magnitude_bins, 2)
        self.num_magnitude_bins = bins

    def draw(self, rng: BatchRng, records: Records) -> Tree:
        """Draw the operation, its magnitude and its direction."""
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
        """Add the layer to the graph."""
        return self._build_layer(image, params["0"], tuple(TRIVIAL_AUGMENT_WIDE.limits))


class AutoAugment(LayeredTransform):
    """Apply up to two operations, of probabilities and magnitudes learned on a dataset.

    Cubuk et al., "AutoAugment: learning augmentation strategies from data" (2019).

    Args:
        policy: the dataset, "imagenet", "cifar10" or "svhn".
        interpolation: "nearest" or "bilinear", for operations that move pixels.
        fill: value of pixels that come from outside the image, 0 to 255; one number or three (RGB).
    """

    def __init__(
        self,
        policy: Policy = "imagenet",
        interpolation: Sampling = "nearest",
        fill: float | Sequence[float] = 0.0,
    ) -> None:
        if policy not in get_args(Policy):
            names = ", ".join(f'"{name}"' for name in get_args(Policy))
            raise ConfigError(f"policy is {short(policy)}; it must be one of {names}")
        super().__init__(interpolation, fill)
        self.policy = policy
        self._pairs = sub_policies(policy)

    def draw(self, rng: BatchRng, records: Records) -> Tree:
        """Draw the pair of operations, which of them to apply, and their directions."""
        drawn = rng.uniform(size=5).T
        pair = (drawn[0] * self._pairs.kind.shape[1]).astype(np.int64)
        applied = drawn[1:3] < self._pairs.probability[:, pair]
        kind = np.where(applied, self._pairs.kind[:, pair], 0)
        value = AUTO_AUGMENT.values(
            kind,
            self._pairs.bin_index[:, pair],
            _BINS,
            drawn[3:5] < 0.5,
            records.height,
            records.width,
        )
        return lay_out(kind, value, records.height, records.width)

    def build(self, image: Any, params: dict[str, Any]) -> Any:
        """Add the layers to the graph."""
        for layer, kinds in enumerate(self._pairs.kind):
            names = [NAMES[kind] for kind in np.unique(kinds)]
            image = self._build_layer(image, params[str(layer)], names)
        return image


class AugMix(LayeredTransform):
    """Mix the image with augmented versions of it, each the result of a chain of operations.

    Hendrycks et al., "AugMix: a simple data processing method to improve robustness and
    uncertainty" (2020).

    Args:
        severity: how many of the ten magnitude bins, from the lowest, are drawn from; 1 to 10.
        mixture_width: number of chains, 1 or more.
        chain_depth: operations per chain; if below 1, drawn from 1 to 3 for each chain.
        alpha: parameter of the two Dirichlet distributions, above 0: that of the chains' shares,
            and that of the shares of the image and of all chains together.
        all_ops: whether to use brightness, colour, contrast and sharpness, which the paper leaves
            out.
        interpolation: "nearest" or "bilinear", for operations that move pixels.
        fill: value of pixels that come from outside the image, 0 to 255; one number or three (RGB).
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
        self.severity = arguments.check_integer("severity", severity, 1, _BINS)
        self.mixture_width = arguments.check_integer("mixture_width", mixture_width, 1)
        self.chain_depth = arguments.check_integer("chain_depth", chain_depth)
        if not arguments.is_number(alpha) or not 0 < alpha < math.inf:
            raise ConfigError(f"alpha is {short(alpha)}; it must be a number above 0")
        self.alpha = float(alpha)
        self.all_ops = bool(all_ops)

    @property
    def _space(self) -> Space:
        return AUGMIX if self.all_ops else AUGMIX_PARTIAL

    @property
    def _max_depth(self) -> int:
        return self.chain_depth if self.chain_depth > 0 else _MAX_DEPTH

    def draw(self, rng: BatchRng, records: Records) -> Tree:
        """Draw the chains, and the shares of the image and of each chain."""
        chains, max_depth = self.mixture_width, self._max_depth
        layers, n = chains * max_depth, len(records)
        drawn = rng.uniform(size=3 * layers).T.reshape(3, layers, n)
        choices = self._space.kinds
        kind = choices[(drawn[0] * len(choices)).astype(np.int64)]
        if self.chain_depth < 1:
            depth = rng.integers(1, _MAX_DEPTH + 1, size=chains).T
            within = np.arange(max_depth)[:, None] < depth[:, None]
            kind = np.where(within.reshape(layers, n), kind, 0)
        value = self._space.values(
            kind,
            (drawn[1] * self.severity).astype(np.int64),
            _BINS,
            drawn[2] < 0.5,
            records.height,
            records.width,
        )
        (own, rest), of_rest = (drawn.T for drawn in dirichlet(rng, self.alpha, 2, chains))
        shares = integer_shares(np.vstack([own, rest * of_rest]))
        return {
            "layers": lay_out(kind, value, records.height, records.width),
            "shares": {str(index): share for index, share in enumerate(shares)},
        }

    def build(self, image: Any, params: dict[str, Any]) -> Any:
        """Add the chains and their mixture to the graph."""
        from gpufeed.transforms.operators.policy_layers import mix

        images = [image]
        for chain in range(self.mixture_width):
            changed = image
            for depth in range(self._max_depth):
                layer = params["layers"][str(chain * self._max_depth + depth)]
                changed = self._build_layer(changed, layer, self._space.limits)
            images.append(changed)
        return mix(images, [params["shares"][str(index)] for index in range(len(images))])
