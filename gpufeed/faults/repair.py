"""Substitutes for the bad records of a batch, while the batch is made again."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpufeed.errors import CONTINUE_HINT, DecodeError, PipelineError

if TYPE_CHECKING:
    from gpufeed.faults.failures import Failures
    from gpufeed.faults.policy import Policy
    from gpufeed.order.sampler import Visits

__all__ = ["Repair"]

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]


class Repair:
    """The substitutes of one batch, by place.

    Args:
        step: number of the batch.
        policy: policy that chooses substitutes.
        failures: collects the bad records.
    """

    def __init__(self, step: int, policy: Policy, failures: Failures) -> None:
        self._step = step
        self._policy = policy
        self._failures = failures
        self._errors: dict[int, list[DecodeError]] = {}
        self._substitutes: dict[int, int | None] = {}

    def add(self, errors: Mapping[int, DecodeError]) -> None:
        """Add errors of records or of their substitutes, by place in the batch.

        Raises:
            DecodeError: the policy is to raise.
            TooManyFailuresError: more records have failed than allowed.
            PipelineError: a blank image has failed.
        """
        for error in errors.values():
            self._failures.add(error, self._step)
        if self._policy.raises:
            raise _first_with_notes([*errors.values()]) from None
        self._failures.check()
        for place, error in errors.items():
            if place in self._substitutes and self._substitutes[place] is None:
                raise PipelineError(f"the blank image that replaces a bad one failed too: {error}")
            self._errors.setdefault(place, []).append(error)
            self._substitutes.pop(place, None)

    def __call__(self, visits: Visits) -> tuple[Int64, Bool]:
        """Return the records of the batch's visits, with substitutes for bad ones.

        Returns:
            Record keys, int64 (n,), and which of them are blank images, bool (n,).
        """
        keys, blank = visits.record_key.copy(), np.zeros(len(visits.record_key), dtype=np.bool_)
        for place, errors in self._errors.items():
            if place not in self._substitutes:
                visit = int(visits.epoch[place]), int(visits.draw_key[place])
                self._substitutes[place] = self._policy.choose(*visit, errors)
            substitute = self._substitutes[place]
            if substitute is None:
                blank[place] = True
            else:
                keys[place] = substitute
        return keys, blank


def _first_with_notes(errors: Sequence[DecodeError]) -> DecodeError:
    """Return a batch's first error, with notes of the number of errors and of what to do."""
    first = copy.copy(errors[0])
    if len(errors) > 1:
        # Unreadable images are found before the others are decoded, so there may be more.
        first.add_note(f"at least {len(errors)} images of this batch are bad")
    first.add_note(CONTINUE_HINT)
    return first
