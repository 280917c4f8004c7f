"""What has failed in a run, and how much may."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict

from gpufeed._util.numbers import is_integer, is_number
from gpufeed._util.sanitize import sanitize
from gpufeed.errors import ConfigError, DecodeError, StateError, TooManyFailuresError
from gpufeed.faults.quarantine import Failure, Quarantine

__all__ = ["Failures", "check_limit"]

_REASON_LENGTH = 300
_NAMED = 5


class Failures:
    """Notes which records failed, once each, and how many may.

    Args:
        path: from a record key to the record's `path` in the manifest.
        name: from a record key to what errors call its image.
        num_records: of the manifest.
        max_failures: how many may fail, as an integer, or which share of the records.

    Raises:
        ConfigError: max_failures is out of range.

    Attributes:
        quarantine: the list.
    """

    def __init__(
        self,
        path: Callable[[int], str],
        name: Callable[[int], str],
        num_records: int,
        max_failures: float,
    ) -> None:
        self._path = path
        self._name = name
        self._limit = check_limit(max_failures, num_records)
        self._max_failures = max_failures
        self._failures: dict[int, Failure] = {}
        self.quarantine = Quarantine(self._failures)

    def add(self, error: DecodeError, step: int) -> bool:
        """Write a failure down; False where the record is in the list already."""
        key = error.record_key
        if key in self._failures:
            return False
        reason = error.reason[:_REASON_LENGTH]
        self._failures[key] = Failure(key, self._path(key), reason, step)
        return True

    def state(self) -> str:
        """Return the list as JSON; as one text, which checkpoints of any kind carry whole."""
        return json.dumps([asdict(failure) for failure in self.quarantine])

    def parse(self, text: str, *, same: bool) -> list[Failure]:
        """Return the failures that `state` had returned.

        Args:
            text: the list, possibly edited.
            same: whether it is of the same manifest; if not, failures of other files are left out.

        Raises:
            StateError: it is no such list, or names other files.
        """
        try:
            failures = [Failure(**entry) for entry in json.loads(text)]
            kept = [each for each in failures if self._has(each)]
        except (TypeError, ValueError) as error:
            raise StateError(
                f"the state's 'quarantine' is no JSON list of failures: {error}"
            ) from None
        if same and len(kept) < len(failures):
            other = next(each for each in failures if each not in kept)
            raise StateError(
                f"the state's 'quarantine' has record {other.record_key} ({sanitize(other.path)}), "
                "which is not in this manifest"
            )
        return kept

    def _has(self, failure: Failure) -> bool:
        """Whether the record of a failure is here, under this name."""
        try:
            return self._path(failure.record_key) == failure.path
        except (IndexError, OverflowError):
            return False

    def restore(self, failures: Sequence[Failure]) -> None:
        """Take over a list in place of what is there."""
        self._failures.clear()
        self._failures.update({failure.record_key: failure for failure in failures})

    def check(self) -> None:
        """Raise `TooManyFailuresError` where there are more than there may be."""
        count = len(self.quarantine)
        if count <= self._limit:
            return
        # Those that differ in numbers only, as sizes of images do, are of one kind.
        reasons = Counter(_kind(failure) for failure in self.quarantine)
        told = []
        for kind, times in reasons.most_common(_NAMED):
            first = next(failure for failure in self.quarantine if _kind(failure) == kind)
            same = sum(failure.reason == first.reason for failure in self.quarantine) == times
            reason = sanitize(first.reason, _REASON_LENGTH)
            told.append(
                f"{times} x {reason}{'' if same else ', and the like'}"
                f" (first record {first.record_key}, {sanitize(first.path)})"
            )
        if len(reasons) > _NAMED:
            told.append(f"and {len(reasons) - _NAMED} more reasons")
        raise TooManyFailuresError(
            f"{count} records could not be read or decoded, and max_failures={self._max_failures} "
            f"allows {self._limit}: {'; '.join(told)}; allow more, or leave them out with "
            "Manifest.without: loader.quarantine.save() writes these, `gpufeed check DATA "
            "--parquet FILE` all that are bad",
            [
                DecodeError(each.record_key, self._name(each.record_key), each.reason)
                for each in self.quarantine
            ],
        ) from None


def _kind(failure: Failure) -> str:
    return re.sub(r"\d+", "", failure.reason)


def check_limit(max_failures: float, num_records: int) -> int:
    """Return how many records may fail.

    Args:
        max_failures: how many, an integer; or which share of the records, a float from 0 to 1, of
            which at least one may fail unless it is 0.
        num_records: how many there are.

    Raises:
        ConfigError: it is out of range.
    """
    if is_integer(max_failures) and max_failures >= 0:
        return int(max_failures)
    if is_number(max_failures) and not is_integer(max_failures) and 0.0 <= max_failures <= 1.0:
        return max(int(max_failures * num_records), 1) if max_failures else 0
    raise ConfigError(
        f"max_failures is {max_failures!r}; it must be how many records may fail, an integer of 0 "
        "or more, or which share of them, a float from 0 to 1"
    )
