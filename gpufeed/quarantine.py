"""Which records turned out bad, and why."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from gpufeed.errors import ConfigError, DecodeError, StateError, TooManyFailuresError
from gpufeed.numbers import is_integer, is_number
from gpufeed.whole import write_whole

__all__ = ["Failure", "Quarantine", "check_limit"]

_COLUMNS = {"record_key": pl.Int64, "path": pl.String, "reason": pl.String, "step": pl.Int64}
_REASON_LENGTH = 300
_NAMED = 5


@dataclass(frozen=True)
class Failure:
    """One record whose picture could not be read or decoded.

    Attributes:
        record_key: the record's number in its manifest.
        path: its file, below the manifest's root.
        reason: what was found wrong, in words.
        step: the batch in which it was found.
    """

    record_key: int
    path: str
    reason: str
    step: int


class Quarantine:
    """The records whose pictures could not be read or decoded, in the order they were found in.

    Args:
        name: from a record key to its path below the manifest's root.
    """

    def __init__(self, name: Callable[[int], str]) -> None:
        self._name = name
        self._failures: dict[int, Failure] = {}

    def __len__(self) -> int:
        return len(self._failures)

    def __iter__(self) -> Iterator[Failure]:
        return iter(list(self._failures.values()))

    def __contains__(self, record_key: object) -> bool:
        return record_key in self._failures

    def __repr__(self) -> str:
        return f"<Quarantine: {len(self)} records>"

    @property
    def record_keys(self) -> npt.NDArray[np.int64]:
        """The records' keys, ascending, int64 (k,)."""
        return np.array(sorted(self._failures), dtype=np.int64)

    def add(self, error: DecodeError, step: int) -> bool:
        """Write a failure down; False where the record is in the list already."""
        key = error.record_key
        if key in self._failures:
            return False
        reason = error.reason[:_REASON_LENGTH]
        self._failures[key] = Failure(key, self._name(key), reason, step)
        return True

    def frame(self) -> pl.DataFrame:
        """Return the list as `record_key` (Int64), `path`, `reason` (String), `step` (Int64)."""
        rows = [asdict(failure) for failure in self]
        return pl.DataFrame(rows, schema=_COLUMNS)

    def save(self, path: str | Path) -> None:
        """Write the list as Parquet, whole or not at all, for `Manifest.without`.

        Raises:
            OSError: the file can not be written; the error names `path`.
        """
        buffer = io.BytesIO()
        self.frame().write_parquet(buffer)
        write_whole(path, buffer.getvalue())

    def state(self) -> str:
        """Return the list as JSON; as one text, which checkpoints of any kind carry whole."""
        return json.dumps([asdict(failure) for failure in self])

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
                found = self._name(failure.record_key)
            except (IndexError, OverflowError):
                found = None
            if found == failure.path:
                failures.append(failure)
            elif same:
                raise StateError(
                    f"the state's quarantine[{place}] is of record {failure.record_key} "
                    f"({failure.path}), which is {found} in this manifest"
                )
        return failures

    def restore(self, failures: Sequence[Failure]) -> None:
        """Take over a list in place of what is there."""
        self._failures = {failure.record_key: failure for failure in failures}

    def check(
        self, limit: int, max_failures: float, error: Callable[[Failure], DecodeError]
    ) -> None:
        """Raise `TooManyFailuresError` where there are more than `limit`.

        Args:
            limit: how many there may be.
            max_failures: the argument it comes from, for the message.
            error: from a failure to the error it was.
        """
        if len(self) <= limit:
            return
        reasons = Counter(failure.reason for failure in self)
        told = []
        for reason, count in reasons.most_common(_NAMED):
            first = next(failure for failure in self if failure.reason == reason)
            told.append(f"{count} x {reason} (first record {first.record_key}, {first.path})")
        if len(reasons) > _NAMED:
            told.append(f"and {len(reasons) - _NAMED} more reasons")
        raise TooManyFailuresError(
            f"{len(self)} records could not be read or decoded, and max_failures={max_failures} "
            f"allows {limit}: {'; '.join(told)}; see loader.quarantine, leave them out with "
            "Manifest.without, or allow more",
            [error(failure) for failure in self],
        )


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
