"""Which record comes in the place of one whose image is bad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from gpufeed._util.numbers import is_integer
from gpufeed.errors import ConfigError, DecodeError, TooManyFailuresError
from gpufeed.rng import SUBSTITUTE_STREAM, BatchRng

if TYPE_CHECKING:
    from gpufeed.order.sampler import Sampler

__all__ = ["OnError", "Policy"]

OnError = Literal["raise", "substitute", "blank"] | Callable[[DecodeError], int | None]

_DRAWS = (64, 1024, 16384)
"""How many positions of the epoch are looked at in turn for a record of the same class."""


class Policy:
    """Chooses substitutes.

    A choice depends on the seed, the record's visit and what failed at its place of the batch, and
    on nothing that happened elsewhere or before. So it is the same in any process and after any
    resume.

    Args:
        on_error: see `Loader`.
        sampler: gives the records from which substitutes are taken, and the seed.
        labels: int32 (num_records,).

    Raises:
        ConfigError: on_error is none of these.
    """

    def __init__(self, on_error: OnError, sampler: Sampler, labels: npt.NDArray[np.int32]) -> None:
        known = on_error in ("raise", "substitute", "blank") if isinstance(on_error, str) else False
        if not known and not callable(on_error):
            raise ConfigError(
                f'on_error is {on_error!r}; it must be "raise", "substitute", "blank", or a '
                "function from a DecodeError to a record key or None"
            )
        self._on_error = on_error
        self._sampler = sampler
        self._labels = labels

    @property
    def raises(self) -> bool:
        """Whether there are no substitutes."""
        return self._on_error == "raise"

    @property
    def blanks(self) -> bool:
        """Whether there may be blank images."""
        return self._on_error == "blank" or not isinstance(self._on_error, str)

    def choose(self, epoch: int, draw_key: int, errors: Sequence[DecodeError]) -> int | None:
        """Return the key of the record that comes at a visit; None for a blank image.

        Args:
            epoch: of the visit.
            draw_key: of the visit.
            errors: of the record that was to come there, and of its substitutes so far, in turn.

        Raises:
            ConfigError: a function names no record.
            TooManyFailuresError: no record is left.
        """
        if not isinstance(self._on_error, str):
            return self._checked(self._on_error(errors[-1]), errors)
        if self._on_error == "blank":
            return None
        return self._substitute(epoch, draw_key, [error.record_key for error in errors])

    def _substitute(self, epoch: int, draw_key: int, bad: Sequence[int]) -> int:
        """The first record of the same class, but for `bad`, at places of the epoch drawn for this.

        From the sampler's own order, so that it is one that may come, as often as it comes there.
        Of any class where some 17,000 draws find no other of this one.
        """
        sampler, label = self._sampler, self._labels[bad[0]]
        rng = BatchRng(sampler.seed, np.array([epoch]), np.array([draw_key]), SUBSTITUTE_STREAM)
        size, other = sampler.epoch_size, None
        drawn = (np.floor(rng.uniform(size=count)[0] * size) for count in _DRAWS)
        for places in drawn:
            found = sampler.visits(epoch * size + places.astype(np.int64)).record_key
            good = found[~np.isin(found, bad)]
            alike = good[self._labels[good] == label]
            if len(alike):
                return int(alike[0])
            if other is None and len(good):
                other = int(good[0])
        if other is None:
            raise TooManyFailuresError(
                f"no record of epoch {epoch} is left that can be read and decoded; see what "
                "`gpufeed check` says of the data"
            )
        return other

    def _checked(self, answer: int | None, errors: Sequence[DecodeError]) -> int | None:
        if answer is None:
            return None
        asked = errors[-1].record_key
        if not is_integer(answer) or not 0 <= answer < len(self._labels):
            raise ConfigError(
                f"on_error returned {answer!r} for record {asked}; it must return a record key "
                f"from 0 to {len(self._labels) - 1}, or None for a blank image"
            )
        if any(answer == error.record_key for error in errors):
            raise ConfigError(
                f"on_error returned record {answer} for record {asked}, in a place where that one "
                "was found bad as well; return another, or None for a blank image"
            )
        return int(answer)
