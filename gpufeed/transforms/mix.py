"""Images mixed with a partner's."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.rng import BatchRng
from gpufeed.transforms import checks
from gpufeed.transforms.base import MixTransform, Params, Records
from gpufeed.transforms.draws import dirichlet

__all__ = ["CutMix", "MixUp"]

Float32 = npt.NDArray[np.float32]


class _Beta(MixTransform):
    """What both have in common: a share drawn from Beta(alpha, alpha), sometimes."""

    def __init__(self, alpha: float = 1.0, p: float = 1.0, group: int = 2) -> None:
        if not checks.is_number(alpha) or not 0 < alpha < 1e6:
            raise ConfigError(f"alpha is {alpha!r}; it must be a number above 0")
        self.alpha = float(alpha)
        self.p = checks.check_probability("p", p)
        self.group = checks.check_count("group", group, 2)

    def _shares(self, rng: BatchRng) -> tuple[npt.NDArray[np.bool_], Float32]:
        """Who is mixed, and the drawn shares, 1 for who is not."""
        mask = rng.bernoulli(self.p)
        # Beta is Dirichlet with two shares.
        share = dirichlet(rng, self.alpha, 2)[0][:, 0]
        return mask, np.where(mask, share, 1.0).astype(np.float32)


class MixUp(_Beta):
    """Mix each image with its partner's: share * own + (1 - share) * partner.

    Zhang et al., "mixup: beyond empirical risk minimization" (ICLR 2018). The share is drawn from
    Beta(alpha, alpha) for each record, where torchvision draws one for a batch. It comes after the
    output format; a batch then has `label_b`, the partner's, and `lam`, the share of `label`.

    Args:
        alpha: above 0; 1 for a uniform share.
        p: how often a record is mixed.
        group: records among which partners are found, see `MixTransform`.
    """

    def draw(self, rng: BatchRng, records: Records) -> tuple[Params, Float32]:  # noqa: ARG002
        """Draw `mask`, bool (n,), and `share`, float32 (n,)."""
        mask, share = self._shares(rng)
        return {"mask": mask, "share": share}, share

    def build(self, image: Any, partner: Any, params: dict[str, Any]) -> Any:
        """Blend."""
        from gpufeed.transforms.patch import blend
        from gpufeed.transforms.select import where

        def mixed(image: Any, own: dict[str, Any]) -> Any:
            return blend(image, own["partner"], own["share"])

        inputs = {"partner": partner, "share": params["share"]}
        return where(params["mask"], image, mixed, inputs)


class CutMix(_Beta):
    """Paste a rectangle of its partner's image into each.

    Yun et al., "CutMix: regularization strategy to train strong classifiers" (ICCV 2019): of the
    drawn share of the area is kept, and a rectangle of the image's own proportions, of the rest,
    is put around a uniform centre and cut at the border; labels go by the area it has then, as in
    torchvision, which draws one rectangle for a batch. It comes after the output format; a batch
    then has `label_b`, the partner's, and `lam`, the share of `label`.

    Args:
        alpha: of Beta(alpha, alpha), above 0; 1 for a uniform share.
        p: how often a record is mixed.
        group: records among which partners are found, see `MixTransform`.
    """

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

    def build(self, image: Any, partner: Any, params: dict[str, Any]) -> Any:
        """Paste."""
        from gpufeed.transforms.patch import paste
        from gpufeed.transforms.select import where

        def mixed(image: Any, own: dict[str, Any]) -> Any:
            return paste(image, own["partner"], own["anchor"], own["shape"])

        inputs = {name: node for name, node in params.items() if name != "mask"}
        return where(params["mask"], image, mixed, {**inputs, "partner": partner})
