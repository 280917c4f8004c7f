"""Makes batches by their number: plans, reads, has them worked on, and mends what is bad."""

from __future__ import annotations

import copy
import math
import os
import threading
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpufeed._util.numbers import is_integer, is_number
from gpufeed.errors import GO_ON, ConfigError, DecodeError, GpufeedError
from gpufeed.faults.blank import blank_picture
from gpufeed.faults.failures import Failures, check_limit
from gpufeed.faults.policy import OnError, Replacements, StandIns
from gpufeed.faults.quarantine import Failure
from gpufeed.feed.read_ahead import Begun, ReadAhead, await_result
from gpufeed.open.budget import Budget
from gpufeed.source.base import Encoded, hint
from gpufeed.source.threads import Threaded
from gpufeed.source.timeout import Timeout
from gpufeed.source.wrapper import Wrapper

if TYPE_CHECKING:
    from gpufeed.engine.device import Device
    from gpufeed.engine.engine import Engine
    from gpufeed.open.job import BadPictures, Failed, Job
    from gpufeed.order.sampler import Sampler
    from gpufeed.plan.planner import BatchPlan, Planner
    from gpufeed.records import Manifest

__all__ = ["Maker", "check_pixels"]


class Maker:
    """Makes the batches of a loader; see there for the arguments.

    Attributes:
        failures: the records that were found bad.
        stand_ins: who comes in their place.

    Raises:
        ConfigError: an argument is out of range.
    """

    def __init__(
        self,
        manifest: Manifest,
        sampler: Sampler,
        planner: Planner,
        *,
        batch_size: int,
        device: Device,
        num_threads: int,
        opens_on_host: bool,
        on_error: OnError,
        max_failures: float,
        max_pixels: int,
        read_timeout: float | None,
    ) -> None:
        self._planner = planner
        self._manifest = manifest
        self._batch_size = batch_size
        self._device = device
        self._num_threads = num_threads
        # One for all engines: a batch is mended beside those that are made ahead.
        self._budget = Budget(max_pixels, num_threads)
        self.opens_on_host = opens_on_host
        paths = manifest.frame["path"]
        self.failures = Failures(paths.__getitem__)
        self.stand_ins = StandIns(on_error, sampler, manifest.frame["label"].to_numpy())
        self._limit = check_limit(max_failures, len(manifest))
        self._max_failures = max_failures
        self._max_pixels = max_pixels
        self._read_timeout = _check_timeout(read_timeout)
        self._process = os.getpid()
        # For what is made ahead; made when first used, and kept from epoch to epoch.
        self._thread: ThreadPoolExecutor | None = None
        self._reader: Wrapper | None = None
        self._single: Engine | None = None
        # Entered again where a user's on_error asks for a batch.
        self._lock = threading.RLock()

    def engine(self, depth: int) -> Engine:
        """Return a new engine, which works on `depth` batches at a time."""
        # Imported here: DALI takes a second, and nothing needs it before the first batch.
        from gpufeed.engine.engine import Engine

        self.check_process()
        return Engine(
            self._planner.stages,
            self._manifest.source.name,
            batch_size=self._batch_size,
            device=self._device,
            num_threads=self._num_threads,
            depth=depth,
            opens_on_host=self.opens_on_host,
            budget=self._budget,
        )

    def check_process(self) -> None:
        """Raise `ConfigError` in another process than the one this was made in."""
        if self._process != os.getpid():
            raise ConfigError(
                "this loader was made in another process and came here by a fork, which DALI's "
                "threads do not survive; make a loader in each process"
            )

    def read_ahead(
        self,
        engine: Engine,
        steps: Iterator[int],
        *,
        begun: Begun[Job | Failed],
        ahead: int,
    ) -> ReadAhead[Job | Failed]:
        """Begin to make batches ahead, for `engine`; what goes wrong is in what comes of each.

        Args:
            engine: what they are prepared for.
            steps: their numbers, of batches that have records.
            begun: what an earlier one had begun, of the steps before these.
            ahead: how many are begun before they are asked for.
        """
        if self._thread is None or self._reader is None:
            self._thread = ThreadPoolExecutor(1, "gpufeed-plan")
            self._reader = self._make_reader()
        prepare = partial(self._prepare, engine, self._reader)
        return ReadAhead(
            prepare,
            steps,
            planner=self._thread,
            give_up=self._reader.give_up,
            begun=begun,
            ahead=ahead,
        )

    def _make_reader(self) -> Wrapper:
        source, seconds = self._manifest.source, self._read_timeout
        return Threaded(source) if seconds is None else Timeout(source, seconds)

    def _prepare(self, engine: Engine, reader: Wrapper, step: int) -> Future[Job | Failed]:
        from gpufeed.open.job import Failed, finished

        try:
            plan = self._planner.plan(step)
            if plan is None:
                raise AssertionError("steps without records are not prepared")
            hint(reader, self._planner.upcoming(step))
            return engine.prepare(plan, self._read(plan, reader))
        except Exception as error:  # a user's own sampler or transform may raise anything
            return finished(Failed(step, error))

    def _read(
        self, plan: BatchPlan, reader: Wrapper, places: Collection[int] | None = None
    ) -> list[Encoded | DecodeError | None]:
        """Read a batch's images, or only those of some places: None for the others."""
        wanted = ~plan.blank & (plan.sizes.prod(axis=1) <= self._max_pixels)
        if places is not None:
            wanted &= np.isin(np.arange(len(plan)), list(places))
        keys = plan.record_keys[wanted]
        found = zip(keys.tolist(), reader.read(keys), strict=True)
        read = iter([self._as_read(key, each) for key, each in found])
        if wanted.all():
            return [*read]
        contents: list[Encoded | DecodeError | None] = []
        for place, size in enumerate(plan.sizes.tolist()):
            if wanted[place]:
                contents.append(next(read))
            elif places is not None and place not in places:
                contents.append(None)
            elif plan.blank[place]:
                contents.append(blank_picture(*size))
            else:
                contents.append(self._too_large(int(plan.record_keys[place]), *size))
        return contents

    def _as_read(self, record_key: int, found: Encoded | OSError) -> Encoded | DecodeError:
        if not isinstance(found, OSError):
            return found
        reason = f"can not be read: {found.strerror or found}"
        return DecodeError(record_key, self._manifest.source.name(record_key), reason)

    def _too_large(self, record_key: int, height: int, width: int) -> DecodeError:
        return DecodeError(
            record_key,
            self._manifest.source.name(record_key),
            f"the picture has {width} x {height} = {width * height:,} pixels, max_pixels is "
            f"{self._max_pixels:,}; pass more where there is memory for it",
        )

    def make(self, step: int, bad: BadPictures | None = None) -> tuple[BatchPlan, list[Any]]:
        """Make batch `step` by itself.

        Args:
            step: its number.
            bad: what was wrong with it when it was made otherwise.

        Returns:
            Its plan, and for each view DALI's dense tensor of its pictures, valid while it is held.

        Raises:
            IndexError: there is no such batch, or this shard gets no record of it.
            DecodeError: one of its pictures is bad, and nobody stands in.
            TooManyFailuresError: too many are.
        """
        from gpufeed.open.job import BadPictures

        self.check_process()
        if bad is not None:
            bad = BadPictures(bad.errors, bad.kept)
        replacements = Replacements(self.stand_ins)
        with self._lock, self._make_reader() as reader:
            while True:
                plan = self._plan_around(step, bad, replacements)
                if plan is None:
                    raise IndexError(f"this shard gets no record of batch {step}")
                if self._single is None:
                    self._single = self.engine(depth=1)
                contents = self._read(plan, reader, None if bad is None else bad.errors)
                kept = None if bad is None else bad.kept
                begun = self._single.prepare(plan, contents, kept)
                try:
                    self._single.submit(await_result(begun))
                    return self._single.collect()
                except BadPictures as found:
                    # Anew, without the frames it was raised in, which hold whole batches.
                    bad = BadPictures(found.errors, found.kept)
                except GpufeedError:
                    raise
                except BaseException:
                    # Stopped halfway: what is under way and what is noted may differ.
                    self._single = None
                    raise

    def _plan_around(
        self, step: int, bad: BadPictures | None, replacements: Replacements
    ) -> BatchPlan | None:
        """Plan a batch; where some of it was bad, note that and plan who stands in."""
        if bad is None:
            return self._planner.plan(step)
        errors = list(bad.errors.values())
        for error in errors:
            self.failures.add(error, step)
        if self.stand_ins.raises:
            raise _first_of(errors) from None
        self.failures.check(self._limit, self._max_failures, self._as_error)
        replacements.add(bad.errors)
        return self._planner.plan(step, replacements)

    def _as_error(self, failure: Failure) -> DecodeError:
        path = self._manifest.source.name(failure.record_key)
        return DecodeError(failure.record_key, path, failure.reason)

    def close(self) -> None:
        """Free what batches are made with; what is made ahead must have been closed."""
        with self._lock:
            if self._single is not None:
                self._single.close()
            if self._thread is not None:
                self._thread.shutdown()
            if self._reader is not None:
                self._reader.close()
            self._single = self._thread = self._reader = None


def _first_of(errors: Sequence[DecodeError]) -> DecodeError:
    """The first of a batch's errors, with notes of how many there are, and of what to do."""
    first = copy.copy(errors[0])
    if len(errors) > 1:
        # What can not be read is known before the others are decoded.
        first.add_note(f"{len(errors)} pictures of this batch are bad, or more")
    first.add_note(GO_ON)
    return first


def check_pixels(max_pixels: int) -> int:
    """Return the most pixels of a picture; raise `ConfigError` where that is no number of them."""
    if not is_integer(max_pixels) or max_pixels < 1:
        raise ConfigError(f"max_pixels is {max_pixels!r}; it must be an integer of 1 or more")
    return int(max_pixels)


def _check_timeout(seconds: float | None) -> float | None:
    if seconds is None:
        return None
    if not is_number(seconds) or not 0 < seconds < math.inf:
        raise ConfigError(
            f"read_timeout is {seconds!r}; it must be seconds, more than 0, or None to wait for "
            "files however long it takes"
        )
    return float(seconds)
