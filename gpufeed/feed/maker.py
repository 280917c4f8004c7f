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
from gpufeed.source.readers import PatientReaders, Readers
from gpufeed.source.watched import WatchedReaders

if TYPE_CHECKING:
    from gpufeed.engine.device import Device
    from gpufeed.engine.engine import Engine
    from gpufeed.open.job import BadPictures, Failed, Job
    from gpufeed.order.sampler import Sampler
    from gpufeed.plan.planner import BatchPlan, Planner
    from gpufeed.records import Manifest
    from gpufeed.source.files import FileStore

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
        store: FileStore,
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
        self._store = store
        self._batch_size = batch_size
        self._device = device
        self._num_threads = num_threads
        # One for all engines: a batch is mended beside those that are made ahead.
        self._budget = Budget(max_pixels, num_threads)
        self.opens_on_host = opens_on_host
        self.failures = Failures(store.name)
        self.stand_ins = StandIns(on_error, sampler, manifest.frame["label"].to_numpy())
        self._limit = check_limit(max_failures, len(manifest))
        self._max_failures = max_failures
        self._max_pixels = max_pixels
        self._read_timeout = _check_timeout(read_timeout)
        self._process = os.getpid()
        # For what is made ahead; made when first used, and kept from epoch to epoch.
        self._thread: ThreadPoolExecutor | None = None
        self._readers: Readers | None = None
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
            self._store.path,
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
        if self._thread is None or self._readers is None:
            self._thread = ThreadPoolExecutor(1, "gpufeed-plan")
            self._readers = self._make_readers()
        prepare = partial(self._prepare, engine, self._readers)
        return ReadAhead(
            prepare,
            steps,
            planner=self._thread,
            give_up=self._readers.give_up,
            begun=begun,
            ahead=ahead,
        )

    def _make_readers(self) -> Readers:
        timeout = self._read_timeout
        return PatientReaders() if timeout is None else WatchedReaders(timeout)

    def _prepare(self, engine: Engine, readers: Readers, step: int) -> Future[Job | Failed]:
        from gpufeed.open.job import Failed, finished

        try:
            plan = self._planner.plan(step)
            if plan is None:
                raise AssertionError("steps without records are not prepared")
            return engine.prepare(plan, self._read(plan, readers))
        except Exception as error:  # a user's own sampler or transform may raise anything
            return finished(Failed(step, error))

    def _read(
        self, plan: BatchPlan, readers: Readers, places: Collection[int] | None = None
    ) -> list[bytes | DecodeError | None]:
        """Read a batch's files, or only those of some places: None for the others."""
        wanted = ~plan.blank & (plan.sizes.prod(axis=1) <= self._max_pixels)
        if places is not None:
            wanted &= np.isin(np.arange(len(plan)), list(places))
        elif wanted.all():
            return [*self._store.read(plan.record_keys, plan.sizes, readers)]
        read = iter(self._store.read(plan.record_keys[wanted], plan.sizes[wanted], readers))
        contents: list[bytes | DecodeError | None] = []
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

    def _too_large(self, record_key: int, height: int, width: int) -> DecodeError:
        return DecodeError(
            record_key,
            self._store.path(record_key),
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
        with self._lock, self._make_readers() as readers:
            while True:
                plan = self._plan_around(step, bad, replacements)
                if plan is None:
                    raise IndexError(f"this shard gets no record of batch {step}")
                if self._single is None:
                    self._single = self.engine(depth=1)
                contents = self._read(plan, readers, None if bad is None else bad.errors)
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
        path = self._store.path(failure.record_key)
        return DecodeError(failure.record_key, path, failure.reason)

    def close(self) -> None:
        """Free what batches are made with; what is made ahead must have been closed."""
        with self._lock:
            if self._single is not None:
                self._single.close()
            if self._thread is not None:
                self._thread.shutdown()
            if self._readers is not None:
                self._readers.close()
            self._single = self._thread = self._readers = None


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
