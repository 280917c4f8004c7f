"""The policy for bad images: which record replaces one whose image is bad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from gpufeed._util.numbers import is_integer
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError, DecodeError, TooManyFailuresError
from gpufeed.rng import SUBSTITUTE_STREAM, BatchRng

if TYPE_CHECKING:
    from gpufeed.order.sampler import Sampler
    from gpufeed.records import Manifest

__all__ = ["OnError", "Policy"]

OnError = Literal["raise", "substitute", "blank"] | Callable[[DecodeError], int | None]

_DRAWS = (64, 1024, 16384)
"""Numbers of positions drawn in turn to find a record of the same class."""


class Policy:
    """Chooses substitutes for records with bad images.

    A choice depends only on the seed, the record's visit, and the failures at its place in the
    batch. So it is the same in every process and after every resume.

    Args:
        on_error: see `Loader`.
        sampler: sampler whose order substitutes are drawn from, with the seed.
        manifest: the records.

    Raises:
        ConfigError: on_error is not one of its values.
    """

    def __init__(self, on_error: OnError, sampler: Sampler, manifest: Manifest) -> None:
        known = on_error in ("raise", "substitute", "blank") if isinstance(on_error, str) else False
        if not known and not callable(on_error):
            raise ConfigError(
                f'on_error is {short(on_error)}; it must be "raise", "substitute", "blank", or a '
                "function that takes a DecodeError and returns a record key or None"
            )
        self._on_error = on_error
        self._sampler = sampler
        self._manifest = manifest

    @property
    def raises(self) -> bool:
        """Whether a bad image is an error."""
        return self._on_error == "raise"

    @property
    def blanks(self) -> bool:
        """Whether a substitute may be a blank image."""
        return self._on_error == "blank" or not isinstance(self._on_error, str)

    def choose(self, epoch: int, draw_key: int, errors: Sequence[DecodeError]) -> int | None:
        """Return the key of a visit's substitute; None for a blank image.

        Args:
            epoch: epoch of the visit.
            draw_key: draw key of the visit.
            errors: errors of the visit's record and of its previous substitutes, in order.

        Raises:
            ConfigError: the function `on_error` does not return a valid record key.
            TooManyFailuresError: no record is left.
        """
        if not isinstance(self._on_error, str):
            return self._check_answer(self._on_error(errors[-1]), errors)
        if self._on_error == "blank":
            return None
        return self._substitute(epoch, draw_key, [error.record_key for error in errors])

    def _substitute(self, epoch: int, draw_key: int, bad: Sequence[int]) -> int:
        """Return the first record of the same class, not in `bad`, at random places of the epoch.

        Places are drawn from the sampler's order, so a substitute is a record that the sampler may
        return, with the same probability. If some 17,000 draws find no record of the class, the
        substitute is of another class.
        """
        sampler, groups_of = self._sampler, self._manifest.labels.groups_of
        rng = BatchRng(sampler.seed, np.array([epoch]), np.array([draw_key]), SUBSTITUTE_STREAM)
        size, fallback = sampler.epoch_size, None
        draws = (np.floor(rng.uniform(size=count)[0] * size) for count in _DRAWS)
        for places in draws:
            keys = sampler.visits(epoch * size + places.astype(np.int64)).record_key
            good = keys[~np.isin(keys, bad)]
            same_class = good[groups_of(good) == groups_of(np.array(bad[:1]))]
            if len(same_class):
                return int(same_class[0])
            if fallback is None and len(good):
                fallback = int(good[0])
        if fallback is None:
            raise TooManyFailuresError(
                f"epoch {epoch} has no record left that can be read and decoded; inspect the data "
                "with `gpufeed check`"
            )
        return fallback

    def _check_answer(self, answer: int | None, errors: Sequence[DecodeError]) -> int | None:
        if answer is None:
            return None
        failed = errors[-1].record_key
        if not is_integer(answer) or not 0 <= answer < len(self._manifest):
            raise ConfigError(
                f"on_error returned {short(answer)} for record {failed}; it must return a record "
                f"key from 0 to {len(self._manifest) - 1}, or None for a blank image"
            )
        if any(answer == error.record_key for error in errors):
            raise ConfigError(
                f"on_error returned record {answer} for record {failed}, but that record has "
                "failed at this place too; return another, or None for a blank image"
            )
        return int(answer)
