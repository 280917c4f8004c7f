"""Several sources in fixed proportions."""

from __future__ import annotations

from collections.abc import Sequence, Sized

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.order.permutation import MAX_SIZE, Key, permute, permute_each
from gpufeed.order.sampler import Int64, Sampler, Visits, check_count

__all__ = ["MixtureSampler"]

_BLOCK = 1 << 16
"""Positions in which each source has its exact share."""


class MixtureSampler(Sampler):
    """Records of several sources, mixed in fixed proportions.

    For the manifest that `concat` makes of the sources. In every 65,536 positions each source has
    exactly its share of them, to the nearest position, in a shuffled arrangement. A source goes
    through its records in passes, each shuffled anew, at its own pace: every record comes once
    before any comes again, whatever the epochs.

    Args:
        sources: their manifests, in `concat`'s order, or how many records they have.
        weights: their shares, above 0 and in any unit: (3, 1) is 75 % and 25 %.
        seed: of the order and of the transforms.
        num_epochs: None for no end.
        epoch_size: positions of an epoch; as many as there are records where none is given.

    Raises:
        ConfigError: naming the argument that is out of range.
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
                f"there are {len(weights)} weights for {len(sizes)} sources; give one for each"
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
                f"weights[{least}] is {weights[least]}, less than half of 1/{_BLOCK} of all; "
                "leave the source out or weigh it more"
            )
        # Which source each place of a block is given to, and how many places before it were.
        slots = permute(np.arange(_BLOCK), _BLOCK, Key(self.seed, 0))
        ends = np.cumsum(self._quotas)
        self._source = np.searchsorted(ends, slots, side="right").astype(np.int64)
        by_source = np.argsort(self._source, kind="stable")
        self._before = np.empty(_BLOCK, dtype=np.int64)
        self._before[by_source] = np.arange(_BLOCK) - (ends - self._quotas)[self._source[by_source]]

    def visits(self, positions: Int64) -> Visits:
        """Return which records come at `positions`."""
        epoch, within = np.divmod(positions, self.epoch_size)
        block, place = np.divmod(positions, _BLOCK)
        source = self._source[place]
        size = self._sizes[source]
        # Places before this one, of all blocks, that its source was given.
        given = block * self._quotas[source] + self._before[place]
        turn, index = np.divmod(given, size)
        record = permute_each(index, size, self.seed, source + 1, turn)
        return Visits(epoch, self._offsets[source] + record, within)

    @property
    def identity(self) -> dict[str, object]:
        """What decides the order."""
        return {
            "kind": "MixtureSampler",
            "sources": self._sizes.tolist(),
            "weights": self._quotas.tolist(),
            "seed": self.seed,
            "epoch_size": self.epoch_size,
        }


def _quotas(shares: npt.NDArray[np.float64]) -> Int64:
    """How many positions of a block each source gets: by the largest remainders."""
    shares = shares / shares.max()  # of which the sum is finite
    exact = shares / np.cumsum(shares)[-1] * _BLOCK
    quotas: Int64 = np.floor(exact).astype(np.int64)
    most_left = np.argsort(quotas - exact, kind="stable")
    quotas[most_left[: _BLOCK - quotas.sum()]] += 1
    return quotas
