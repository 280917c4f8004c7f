"""What has failed in a run, and how much may."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields

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

    def parse(self, text: object, *, same: bool) -> list[Failure]:
        """Return the failures that `state` had returned.

        Args:
            text: the list, possibly edited.
            same: whether it is of the same manifest; if not, failures of other files are left out.

        Raises:
            StateError: it is no such list, or names other files.
        """
        try:
            state = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            state = None
        if not isinstance(state, list):
            raise StateError("the state's 'quarantine' is no JSON list")
        failures = []
        for place, entry in enumerate(state):
            failure = _parsed(entry, place)
            try:
                found = self._path(failure.record_key)
            except (IndexError, OverflowError):
                found = None
            if found == failure.path:
                failures.append(failure)
            elif same:
                key = sanitize(str(failure.record_key), 20)
                here = "not" if found is None else sanitize(found)
                raise StateError(
                    f"the state's quarantine[{place}] is of record {key} "
                    f"({sanitize(failure.path)}), which is {here} in this manifest"
                )
        return failures

    def restore(self, failures: Sequence[Failure]) -> None:
        """Take over a list in place of what is there."""
        self._failures.clear()
        self._failures.update({failure.record_key: failure for failure in failures})

    def check(self) -> None:
        """Raise `TooManyFailuresError` where there are more than there may be."""
        count = len(self.quarantine)
        if count <= self._limit:
            return
        # Those that differ in numbers only, as sizes of pictures do, are of one kind.
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


def _parsed(entry: object, place: int) -> Failure:
    names = {field.name: int if field.type == "int" else str for field in fields(Failure)}
    if (
        not isinstance(entry, Mapping)
        or set(entry) != set(names)
        or any(type(entry[name]) is not kind for name, kind in names.items())
        or entry["record_key"] < 0
        or not 0 <= entry["step"] < 1 << 63
        or not _is_text(entry["reason"])
    ):
        raise StateError(
            f"the state's quarantine[{place}] is no failure, which has {', '.join(names)}"
        )
    return Failure(**entry)


def _is_text(reason: str) -> bool:
    """Whether it can be written down; JSON can hold halves of letters, which can not."""
    try:
        reason.encode()
    except UnicodeEncodeError:
        return False
    return len(reason) <= _REASON_LENGTH
