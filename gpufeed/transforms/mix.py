"""Images and labels mixed with those of a partner."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.rng import BatchRng
from gpufeed.transforms import arguments
from gpufeed.transforms.base import MixTransform, Params, Records
from gpufeed.transforms.distributions import dirichlet
from gpufeed.transforms.select import Nodes, where

__all__ = ["CutMix", "MixUp"]

Float32 = npt.NDArray[np.float32]


class _BetaMix(MixTransform):
    """A mix, with probability `p`, with a share drawn from Beta(alpha, alpha)."""

    _operator: ClassVar[str]
    """The function of `operators.regions` that mixes two images."""

    def __init__(self, alpha: float = 1.0, p: float = 1.0, group: int = 2) -> None:
        if not arguments.is_number(alpha) or not 0 < alpha < 1e6:
            raise ConfigError(f"alpha is {short(alpha)}; it must be a number above 0")
        self.alpha = float(alpha)
        self.p = arguments.check_probability("p", p)
        self.group = arguments.check_integer("group", group, 2)

    def _shares(self, rng: BatchRng) -> tuple[npt.NDArray[np.bool_], Float32]:
        """Draw which records are mixed, bool (n,), and shares, 1 for the others."""
        mask = rng.bernoulli(self.p)
        # A Beta distribution is a Dirichlet distribution of two shares.
        share = dirichlet(rng, self.alpha, 2)[0][:, 0]
        return mask, np.where(mask, share, 1.0).astype(np.float32)

    def build(self, image: Any, partner: Any, params: Nodes) -> Any:
        """Mix the chosen records."""
        from gpufeed.transforms.operators import regions

        def mix(image: Any, own: Nodes) -> Any:
            return getattr(regions, self._operator)(image, **own)

        own = {name: node for name, node in params.items() if name != "mask"}
        return where(params["mask"], image, mix, {"other": partner, **own})


class MixUp(_BetaMix):
    """Blend each image with its partner's: share * own + (1 - share) * partner.

    Zhang et al., "mixup: beyond empirical risk minimization" (ICLR 2018). The share is drawn from
    Beta(alpha, alpha) for each record; torchvision draws one for a batch. MixUp follows the output
    format. It adds `label_b`, the partner's label, and `lam`, the share of `label`, to the batch.

    Args:
        alpha: above 0; 1 for a uniform share.
        p: probability that a record is mixed.
        group: records per group in which partners are found, see `MixTransform`.
    """

    _operator = "blend"

    def draw(self, rng: BatchRng, records: Records) -> tuple[Params, Float32]:  # noqa: ARG002
        """Draw `mask`, bool (n,), and `share`, float32 (n,)."""
        mask, share = self._shares(rng)
        return {"mask": mask, "share": share}, share


class CutMix(_BetaMix):
    """Paste a rectangle of its partner's image into each image.

    Yun et al., "CutMix: regularization strategy to train strong classifiers" (ICCV 2019). The drawn
    share of the area is kept. The rectangle has the rest of the area, the image's aspect ratio and
    a uniformly drawn centre, and is clipped at the border. As in torchvision, the shares of the
    labels are computed from the clipped area; torchvision draws one rectangle for a batch. CutMix
    follows the output format. It adds `label_b`, the partner's label, and `lam`, the share of
    `label`, to the batch.

    Args:
        alpha: of Beta(alpha, alpha), above 0; 1 for a uniform share.
        p: probability that a record is mixed.
        group: records per group in which partners are found, see `MixTransform`.
    """

    _operator = "paste"

    def draw(self, rng: BatchRng, records: Records) -> tuple[Params, Float32]:
        """Draw `mask`, bool (n,); `anchor` and `shape`, float32 (n, 2) of (y, x), pixels."""
        sides = np.stack([records.height, records.width], axis=1)
        centre = np.floor(rng.uniform(size=2) * sides).astype(np.int64)
        mask, share = self._shares(rng)
        half = (0.5 * np.sqrt(1.0 - share.astype(np.float64))[:, None] * sides).astype(np.int64)
        first = np.maximum(centre - half, 0)
        shape = np.minimum(centre + half, sides) - first
        mask &= (shape > 0).all(axis=1)
        shape[~mask] = 0
        kept = 1.0 - shape.prod(axis=1) / sides.prod(axis=1)
        params = {
            "mask": mask,
            "anchor": first.astype(np.float32),
            "shape": shape.astype(np.float32),
        }
        return params, kept.astype(np.float32)
