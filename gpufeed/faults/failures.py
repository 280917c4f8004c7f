"""The failed records of a run, and the limit on their number."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict

from gpufeed._util.numbers import is_integer, is_number
from gpufeed._util.sanitize import sanitize, short
from gpufeed.errors import ConfigError, DecodeError, StateError, TooManyFailuresError
from gpufeed.faults.quarantine import Failure, Quarantine

__all__ = ["Failures", "check_limit"]

_MAX_REASON_CHARS = 300
_MAX_REASONS_SHOWN = 5


class Failures:
    """Collects failed records, each once, and limits their number.

    Args:
        path: maps a record key to the record's `path` in the manifest.
        name: maps a record key to the name of its image in errors.
        num_records: length of the manifest.
        max_failures: maximum number of failures, an integer, or their share of the records.

    Raises:
        ConfigError: max_failures is out of range.

    Attributes:
        quarantine: list of the failures.
        total: number of failures that were added, those of the same record again included.
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
        self.total = 0

    def add(self, error: DecodeError, step: int) -> bool:
        """Add a failure; return False if the record has failed before."""
        self.total += 1
        key = error.record_key
        if key in self._failures:
            return False
        reason = error.reason[:_MAX_REASON_CHARS]
        target_file = "" if error.path == self._name(key) else error.path
        self._failures[key] = Failure(key, self._path(key), reason, step, target_file)
        return True

    def state(self) -> str:
        """Return the failures as JSON text, which any kind of checkpoint can store."""
        return json.dumps([asdict(failure) for failure in self.quarantine])

    def parse(self, text: str, *, same: bool) -> list[Failure]:
        """Return the failures that `state` returned.

        Args:
            text: the failures as JSON text, possibly edited.
            same: whether they belong to the same manifest; if not, failures of other images are
                left out.

        Raises:
            StateError: the text is not a list of failures, or it names other images.
        """
        try:
            failures = [Failure(**entry) for entry in json.loads(text)]
            kept = [failure for failure in failures if self._has(failure)]
        except (TypeError, ValueError) as error:
            raise StateError(
                f"the state's 'quarantine' is not a JSON list of failures: {error}"
            ) from None
        if same and len(kept) < len(failures):
            other = next(failure for failure in failures if failure not in kept)
            raise StateError(
                f"the state's 'quarantine' has record {other.record_key} ({sanitize(other.path)}), "
                "which is not in this manifest"
            )
        return kept

    def _has(self, failure: Failure) -> bool:
        """Return whether the manifest has the failed record, with the same path."""
        try:
            return self._path(failure.record_key) == failure.path
        except (IndexError, OverflowError):
            return False

    def restore(self, failures: Sequence[Failure]) -> None:
        """Replace the failures."""
        self._failures.clear()
        self._failures.update({failure.record_key: failure for failure in failures})

    def check(self) -> None:
        """Raise `TooManyFailuresError` if there are more failures than allowed."""
        count = len(self.quarantine)
        if count <= self._limit:
            return
        # Reasons that differ only in numbers, such as image sizes, are counted together.
        kinds = Counter(_kind(failure) for failure in self.quarantine)
        reasons = []
        for kind, times in kinds.most_common(_MAX_REASONS_SHOWN):
            first = next(failure for failure in self.quarantine if _kind(failure) == kind)
            same = sum(failure.reason == first.reason for failure in self.quarantine) == times
            reason = sanitize(first.reason, _MAX_REASON_CHARS)
            reasons.append(
                f"{times} x {reason}{'' if same else ', and similar'}"
                f" (first record {first.record_key}, {sanitize(first.target_file or first.path)})"
            )
        if len(kinds) > _MAX_REASONS_SHOWN:
            reasons.append(f"and {len(kinds) - _MAX_REASONS_SHOWN} more reasons")
        raise TooManyFailuresError(
            f"{count} records could not be read or decoded, but max_failures={self._max_failures} "
            f"allows {self._limit}: {'; '.join(reasons)}; allow more, or leave them out with "
            "Manifest.without: loader.quarantine.save() writes these, and `gpufeed check DATA "
            "--parquet FILE` every bad image",
            [
                DecodeError(key, failure.target_file or self._name(key), failure.reason)
                for key, failure in self._failures.items()
            ],
        ) from None


def _kind(failure: Failure) -> str:
    return re.sub(r"\d+", "", failure.reason)


def check_limit(max_failures: float, num_records: int) -> int:
    """Return the maximum number of records that may fail.

    Args:
        max_failures: the number, an integer; or the share of the records, a float from 0 to 1. Any
            share above 0 allows at least one failure.
        num_records: length of the manifest.

    Raises:
        ConfigError: max_failures is out of range.
    """
    if is_integer(max_failures) and max_failures >= 0:
        return int(max_failures)
    if is_number(max_failures) and not is_integer(max_failures) and 0.0 <= max_failures <= 1.0:
        return max(int(max_failures * num_records), 1) if max_failures else 0
    raise ConfigError(
        f"max_failures is {short(max_failures)}; it must be the number of records that may fail, "
        "an integer of 0 or more, or their share, a float from 0 to 1"
    )
