"""A sampler that mixes several datasets in fixed proportions."""

from __future__ import annotations

from collections.abc import Sequence, Sized

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.order.permutation import MAX_SIZE, Key, permute, permute_each
from gpufeed.order.sampler import Int64, Sampler, Visits, check_count

__all__ = ["MixtureSampler"]

_BLOCK = 1 << 16
"""Positions of a block, in which each source has its exact share."""


class MixtureSampler(Sampler):
    """Records of several sources, mixed in fixed proportions.

    For a manifest that `concat` made from the sources. In every 65,536 positions, each source has
    exactly its share, rounded to whole positions, in a shuffled arrangement. A source passes
    through its records at its own pace, reshuffled for each pass: every record occurs once before
    any occurs again, regardless of epochs.

    Args:
        sources: manifests of the sources, in `concat`'s order, or their numbers of records.
        weights: shares of the sources, above 0 and in any unit: (3, 1) is 75 % and 25 %.
        seed: seed of the order and of the transforms.
        num_epochs: number of epochs; None for no end.
        epoch_size: number of positions in an epoch; by default the number of records.

    Raises:
        ConfigError: an argument is out of range; the message names it.
    """

    def __init__(
        self,
        sources: Sequence[Sized | int],
        weights: Sequence[float],
        *,
        seed: int = 0,
        num_epochs: int | None = None,
        epoch_size: int | None = None,
    ) -> None:
        sizes = [
            check_count(
                f"sources[{place}]", len(each) if isinstance(each, Sized) else each, MAX_SIZE
            )
            for place, each in enumerate(sources)
        ]
        if not sizes or len(weights) != len(sizes):
            raise ConfigError(
                f"there are {len(weights)} weights for {len(sizes)} sources; pass one for each"
            )
        try:
            shares = np.array([float(weight) for weight in weights])
        except (TypeError, ValueError):
            shares = np.array([np.nan])
        if not (np.isfinite(shares) & (shares > 0)).all():
            raise ConfigError(f"weights are {tuple(weights)}; each must be a number above 0")
        super().__init__(sum(sizes), seed=seed, num_epochs=num_epochs, epoch_size=epoch_size)
        self._sizes = np.array(sizes, dtype=np.int64)
        self._offsets = np.cumsum(self._sizes) - self._sizes
        self._quotas = _quotas(shares)
        if not self._quotas.all():
            least = int(self._quotas.argmin())
            raise ConfigError(
                f"weights[{least}] is {weights[least]}, less than half of 1/{_BLOCK} of the total; "
                "leave the source out or increase its weight"
            )
        # The source of each place of a block, and how many earlier places of the block it has.
        slots = permute(np.arange(_BLOCK), _BLOCK, Key(self.seed, 0))
        ends = np.cumsum(self._quotas)
        self._source = np.searchsorted(ends, slots, side="right").astype(np.int64)
        by_source = np.argsort(self._source, kind="stable")
        self._before = np.empty(_BLOCK, dtype=np.int64)
        self._before[by_source] = np.arange(_BLOCK) - (ends - self._quotas)[self._source[by_source]]

    def visits(self, positions: Int64) -> Visits:
        """Return the records at `positions`."""
        epoch, within = np.divmod(positions, self.epoch_size)
        block, place = np.divmod(positions, _BLOCK)
        source = self._source[place]
        size = self._sizes[source]
        # Number of earlier positions, in all blocks, that the source has.
        earlier = block * self._quotas[source] + self._before[place]
        pass_, index = np.divmod(earlier, size)
        record = permute_each(index, size, self.seed, source + 1, pass_)
        return Visits(epoch, self._offsets[source] + record, within)

    @property
    def identity(self) -> dict[str, object]:
        """Everything that decides the order, as JSON values."""
        return {
            "kind": "MixtureSampler",
            "sources": self._sizes.tolist(),
            "weights": self._quotas.tolist(),
            "seed": self.seed,
            "epoch_size": self.epoch_size,
        }


def _quotas(shares: npt.NDArray[np.float64]) -> Int64:
    """Return each source's number of positions in a block, by the largest remainder method."""
    shares = shares / shares.max()  # so that their sum is finite
    exact = shares / np.cumsum(shares)[-1] * _BLOCK
    quotas: Int64 = np.floor(exact).astype(np.int64)
    by_remainder = np.argsort(quotas - exact, kind="stable")
    quotas[by_remainder[: _BLOCK - quotas.sum()]] += 1
    return quotas
