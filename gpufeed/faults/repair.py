"""What comes in the place of a batch's bad records, while the batch is made again."""

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
    """The substitutes of one batch, place by place.

    Args:
        step: the batch.
        policy: chooses them.
        failures: where bad records are noted.
    """

    def __init__(self, step: int, policy: Policy, failures: Failures) -> None:
        self._step = step
        self._policy = policy
        self._failures = failures
        self._errors: dict[int, list[DecodeError]] = {}
        self._answers: dict[int, int | None] = {}

    def add(self, errors: Mapping[int, DecodeError]) -> None:
        """Note bad records, by their places in the batch; substitutes may be among them.

        Raises:
            DecodeError: there are to be no substitutes.
            TooManyFailuresError: more records were bad than may be.
            PipelineError: the blank image in the place of a bad one is bad too.
        """
        for error in errors.values():
            self._failures.add(error, self._step)
        if self._policy.raises:
            raise _first_of([*errors.values()]) from None
        self._failures.check()
        for place, error in errors.items():
            if place in self._answers and self._answers[place] is None:
                raise PipelineError(f"the blank image in the place of {error} was refused too")
            self._errors.setdefault(place, []).append(error)
            self._answers.pop(place, None)

    def __call__(self, visits: Visits) -> tuple[Int64, Bool]:
        """Return what comes at the batch's visits.

        Returns:
            Record keys, int64 (n,), and which of them come as blank images, bool (n,).
        """
        keys, blank = visits.record_key.copy(), np.zeros(len(visits.record_key), dtype=np.bool_)
        for place, errors in self._errors.items():
            if place not in self._answers:
                visit = int(visits.epoch[place]), int(visits.draw_key[place])
                self._answers[place] = self._policy.choose(*visit, errors)
            answer = self._answers[place]
            if answer is None:
                blank[place] = True
            else:
                keys[place] = answer
        return keys, blank


def _first_of(errors: Sequence[DecodeError]) -> DecodeError:
    """The first of a batch's errors, with notes of how many there are, and of what to do."""
    first = copy.copy(errors[0])
    if len(errors) > 1:
        # What cannot be read is known before the others are decoded.
        first.add_note(f"{len(errors)} images of this batch are bad, or more")
    first.add_note(CONTINUE_HINT)
    return first
