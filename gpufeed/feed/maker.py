"""Making a batch from its number: plan, read, open, run, and repair where images are bad."""

from __future__ import annotations

import copy
import math
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from gpufeed._util.limits import quarter_of_memory
from gpufeed._util.numbers import is_integer, is_number
from gpufeed._util.sanitize import short
from gpufeed._util.spans import Spans
from gpufeed.decode.diagnose import too_large, unreadable
from gpufeed.errors import ConfigError, DecodeError
from gpufeed.faults.blank import blank_image
from gpufeed.faults.failures import Failures
from gpufeed.faults.policy import Policy
from gpufeed.faults.repair import Repair
from gpufeed.feed.patience import Patience
from gpufeed.open.base import KEPT
from gpufeed.open.budget import Budget
from gpufeed.open.cached import Cache, CacheSettings
from gpufeed.open.further import Further
from gpufeed.source.base import Content, Source, fetcher, tell
from gpufeed.source.reader import open_reader
from gpufeed.source.selection import join
from gpufeed.source.wrapper import Wrapper

if TYPE_CHECKING:
    from gpufeed.decode.decoders import Decoder
    from gpufeed.engine.device import Device
    from gpufeed.engine.device_cache import DeviceCache
    from gpufeed.engine.engine import Engine, Run
    from gpufeed.open.base import Opened, Opener
    from gpufeed.open.choice import Choice
    from gpufeed.plan.planner import BatchPlan, Planner
    from gpufeed.tiers.source import TieredSource
    from gpufeed.tiers.tiers import Counts

__all__ = ["Made", "Maker", "await_result", "check_pixels", "check_timeout"]

T = TypeVar("T")
Keys = npt.NDArray[np.int64]
Made = tuple["BatchPlan", list[Any]]
"""A batch's plan, and for each view DALI's dense tensor of its images, valid while it is held."""

_POLL_SECONDS = 0.2
"""Interval at which a wait checks for signals."""


def await_result(future: Future[T]) -> T:
    """Wait for a result without blocking Ctrl-C."""
    # Polling, since with polars' signal handler a blocked main thread never sees Ctrl-C.
    while not future.done():
        wait([future], timeout=_POLL_SECONDS)
    return future.result()


class Maker:
    """Makes batches, one after the other; see `Loader` for the other arguments.

    Args:
        planner: plans batches.
        source: the images of all records, as the planner has them.
        policy: chooses substitutes for bad records.
        failures: collects bad records.
        choice: chooses what decodes each record.
        make_decoder: makes a decoder for each thread on the host; None for gpufeed's own.
        depth: batches that DALI works on at a time.
        reduce_depth: as for `Manifest`.
        cache: what decides the images of the cache; None for no cache.
        further: the masks and depth maps of records.
        pairs: the names of records' other images.
        tiers: the source of the records' first images, if it has tiers, which are told each step.
        spans: notes what is done when.

    Attributes:
        cache: the cache, made when first used; None before, and after `close`.
        readers: the number of batches that are planned and read at the same time.
    """

    def __init__(
        self,
        planner: Planner,
        source: Source,
        policy: Policy,
        failures: Failures,
        *,
        batch_size: int,
        device: Device,
        num_threads: int,
        choice: Choice,
        make_decoder: Callable[[], Decoder] | None,
        depth: int,
        max_pixels: int,
        read_timeout: float | None,
        reduce_depth: bool,
        cache: CacheSettings | None = None,
        further: Further | None = None,
        pairs: Sequence[str] = (),
        tiers: TieredSource | None = None,
        spans: Spans | None = None,
    ) -> None:
        self.failures = failures
        self.spans = Spans() if spans is None else spans
        self.cache: Cache | DeviceCache | None = None
        self.readers = 1
        self._cache_settings = cache
        self._tiers = tiers
        self._planner = planner
        self._further = Further() if further is None else further
        self._pairs = tuple(pairs)
        self._num_images = choice.num_images
        self._num_records = choice.num_images // (1 + len(pairs))
        if self._further.sources:
            # One source, so that one reader with its threads and its timeout reads everything:
            # after all images come those of each target, record by record.
            targets = self._further.sources
            counts = [self._num_images, *[self._num_records] * len(targets)]
            source = join([source, *targets], counts)
        self._source = source
        self._fetch = fetcher(source)
        self._policy = policy
        self._batch_size = batch_size
        self._device = device
        self._num_threads = num_threads
        self._choice = choice
        self._make_decoder = make_decoder
        self._depth = depth
        self._max_pixels = max_pixels
        self._read_timeout = read_timeout
        self._reduce_depth = reduce_depth
        self._process = os.getpid()
        # Made when first used: DALI takes a second to start.
        self._opener: Opener | None = None
        self._engine: Engine | None = None
        self._reader: Wrapper | None = None

    def threads_gone(self, _finalizing: Callable[[], bool] = sys.is_finalizing) -> bool:
        """Return whether threads have ended: in a forked process, or as the interpreter exits."""
        # A default argument, since modules may be gone as well.
        return _finalizing() or self.forked

    @property
    def forked(self) -> bool:
        """Whether this is a process forked from the one this was made in."""
        return self._process != os.getpid()

    def check_process(self) -> None:
        """Raise `ConfigError` in a process forked from the one this was made in."""
        if self.forked:
            raise ConfigError(
                "this loader was made before this process was forked, and DALI's threads do not "
                "survive a fork; make a loader in each process"
            )

    @property
    def opener(self) -> Opener:
        """The opener of images, made when first used."""
        if self._opener is None:
            self._opener = self._make_opener()
        return self._opener

    def _make_opener(self) -> Opener:
        from gpufeed.decode.decoders import NvImageCodec
        from gpufeed.open.host import HostOpener

        settings, views, host = self._cache_settings, len(self._planner.views), None
        on_device = settings is not None and settings.place == "device"
        if settings is not None and not on_device:
            self.cache = host = Cache(settings)
        opener = HostOpener(
            1 if on_device else views,
            self._source.name,
            self._num_threads,
            Budget(self._max_pixels, self._num_threads, quarter_of_memory()),
            self._choice,
            self._make_decoder or NvImageCodec,
            reduce_depth=self._reduce_depth,
            cache=host,
            further=self._further,
            spans=None if on_device else self.spans,
        )
        if settings is None or not on_device:
            return opener
        from gpufeed.engine.device_cache import DeviceCache

        self.cache = kept = DeviceCache(
            settings.prefix,
            opener,
            batch_size=self._batch_size,
            device=self._device,
            num_threads=self._num_threads,
            spans=self.spans,
        )
        return kept

    @property
    def engine(self) -> Engine:
        """The engine that runs opened batches, made when first used."""
        if self._engine is None or self._engine.broken:
            from gpufeed.engine.engine import Engine

            self.check_process()
            self._engine = Engine(
                self._planner.stages,
                self.opener,
                batch_size=self._batch_size,
                device=self._device,
                num_threads=self._num_threads,
                depth=self._depth,
            )
        return self._engine

    @property
    def counts(self) -> Counts | None:
        """What tiers have counted by now; None without tiers."""
        return None if self._tiers is None else copy.deepcopy(self._tiers.counts)

    def open(self) -> None:
        """Make the opener and the engine if they do not exist yet."""
        _ = self.engine

    def reader(self) -> Wrapper:
        """Return a reader of the images, which the caller closes; all share their threads."""
        if self._reader is None:
            self._reader = open_reader(self._source, self._read_timeout)
            self.readers = self._reader.batches
        return self._reader.share()

    def patience(self, step: int) -> Patience:
        """Return what reports a long wait for a batch; the wait begins now."""
        return Patience(step, self._source, self._read_timeout, self.spans)

    def prepare(self, step: int, reader: Wrapper) -> Future[Opened]:
        """Plan and read a batch and start to open it; callable from any thread.

        Raises:
            IndexError: there is no such batch, or this shard has no records in it.
        """
        if self._tiers is not None:
            self._tiers.begin(step)
        return self._prepare(step, reader)

    def _prepare(self, step: int, reader: Wrapper) -> Future[Opened]:
        with self.spans("plan", step):
            plan = self._planner.plan(step)
        if plan is None:
            raise IndexError(f"this shard has no records in batch {step}")
        if self._fetch is not None:
            upcoming = self._planner.upcoming(step)
            images = self._planner.images_of(upcoming)
            if self.cache is not None:
                images = images[~self.cache.ready[images]]
            tell(self._source, self._fetch, self._with_further(images, upcoming))
        encoded, further = self._read(plan, reader)
        return self.opener.open(plan, encoded, None, further)

    def begin(self, opened: Opened) -> Run:
        """Start to run a batch; see `Engine.begin`."""
        with self.spans("run", opened.plan.step):
            return self.engine.begin(opened)

    def make(self, step: int) -> Made:
        """Make one batch; see `prepare` and `finish` for the errors raised."""
        self.check_process()
        self.open()
        with self.reader() as reader:
            opened = await_result(self._prepare(step, reader))
        return self.finish(opened)

    def make_planned(self, plan: BatchPlan) -> Made:
        """Make a batch that has been planned; see `finish` for the errors raised."""
        self.check_process()
        self.open()
        with self.reader() as reader:
            encoded, further = self._read(plan, reader)
            opened = await_result(self.opener.open(plan, encoded, None, further))
        return self.finish(opened)

    def finish(self, opened: Opened, run: Run | None = None) -> Made:
        """Wait for a batch, and make it again while some of its images are bad.

        Args:
            opened: the batch.
            run: the batch in the engine, if it has been given to it already.

        Raises:
            ConfigError: the sampler has changed since the batch was planned.
            DecodeError: an image is bad, and on_error is "raise".
            TooManyFailuresError: more images are bad than max_failures allows.
            PipelineError: the batch cannot be made for another reason.
        """
        self._planner.check_order(opened.plan)
        repair = Repair(opened.plan.step, self._policy, self.failures)
        while True:
            errors = opened.errors
            if not errors:
                if run is None or not self.engine.has(run):
                    run = self.begin(opened)
                with self.spans("run", opened.plan.step):
                    outcome = self.engine.result(run)
                if isinstance(outcome, list):
                    fields = {**opened.plan.fields, **opened.fields}
                    return replace(opened.plan, fields=fields), outcome
                run, errors = None, outcome
            errors = self._of_records(errors, len(opened.plan))
            repair.add(errors)
            opened = self._open_again(opened, errors, repair)

    def _of_records(self, errors: Mapping[int, DecodeError], count: int) -> dict[int, DecodeError]:
        """Return the errors of images as those of their records, by place among `count` records."""
        found: dict[int, DecodeError] = {}
        for place, error in sorted(errors.items()):
            other, key = divmod(error.record_key, self._num_records)
            if other:
                said = f"{self._pairs[other - 1]}: {error.reason}"
                error = type(error)(key, error.path, said)
            found.setdefault(place % count, error)
        return found

    def _open_again(self, before: Opened, bad: Collection[int], repair: Repair) -> Opened:
        plan = before.plan
        count, per_record = len(plan), plan.images_per_record
        images = {place + i * count for place in bad for i in range(per_record)}
        with self.spans("plan", plan.step):
            plan = self._planner.plan_positions(plan.step, plan.positions, plan.delivered, repair)
        with self.reader() as reader:
            read, read_further = self._read(plan, reader, images)
        encoded = [
            read[place] if place in images else content
            for place, content in enumerate(before.encoded)
        ]
        further = [
            read_further[place] if place in bad else contents
            for place, contents in enumerate(before.further)
        ]
        # What the graph found to be bad may have further images that are ready.
        before = replace(before, ready=before.ready.difference(images))
        return await_result(self.opener.open(plan, encoded, before, further))

    def _read(
        self, plan: BatchPlan, reader: Wrapper, places: Collection[int] | None = None
    ) -> tuple[list[Content | DecodeError], list[tuple[Content, ...]]]:
        """Read a batch's images, unless the cache has them, and its further images.

        With `places`, read only those there, and return `KEPT` and () for the others.
        """
        with self.spans("read", plan.step):
            return self._read_images(plan, reader, places)

    def _read_images(
        self, plan: BatchPlan, reader: Wrapper, places: Collection[int] | None
    ) -> tuple[list[Content | DecodeError], list[tuple[Content, ...]]]:
        blank = plan.blank_images
        kept = np.zeros(len(blank), dtype=np.bool_)
        if self.cache is not None:
            kept = self.cache.ready[plan.image_keys] & ~blank
            if kept.all() and not self._further.targets:
                return [KEPT] * len(kept), []
        opened = ~blank & (plan.sizes.prod(axis=1) <= self._max_pixels)
        if places is not None:
            opened &= np.isin(np.arange(len(opened)), list(places))
        wanted = opened & ~kept
        keys = plan.image_keys[wanted]
        further_at = np.flatnonzero(opened[: len(plan)])
        results = reader.read(self._with_further(keys, plan.record_keys[further_at]))
        images = zip(keys.tolist(), results[: len(keys)], strict=True)
        read = iter([self._checked(key, result) for key, result in images])
        further = results[len(keys) :]
        if wanted.all() and not further:
            return [*read], []
        contents: list[Content | DecodeError] = []
        for place, size in enumerate(plan.sizes.tolist()):
            if wanted[place]:
                contents.append(next(read))
            elif kept[place] or (places is not None and place not in places):
                contents.append(KEPT)
            elif blank[place]:
                contents.append(blank_image(*size))
            else:
                key = int(plan.image_keys[place])
                contents.append(too_large(tuple(size), self._max_pixels, key, self._source.name))
        if not self._further.targets:
            return contents, []
        return contents, self._add_further(plan, further_at, further, contents)

    def _with_further(self, images: Keys, further: Keys) -> Keys:
        """Return keys of the source: those of images, and of the further images of records."""
        starts = self._num_images + self._num_records * np.arange(len(self._further.sources))
        return np.concatenate([images, *(further + start for start in starts.tolist())])

    def _add_further(
        self,
        plan: BatchPlan,
        places: Keys,
        results: Sequence[Content | OSError],
        contents: list[Content | DecodeError],
    ) -> list[tuple[Content, ...]]:
        """Return the further images of each record of a batch; an error goes to `contents`.

        Args:
            plan: the batch.
            places: of the records that were read.
            results: their further images, one target after the other.
            contents: the image of each record, or its error.
        """
        found: list[tuple[Content, ...]] = [()] * len(plan)
        for number, place in enumerate(places.tolist()):
            own = results[number :: len(places)]
            errors = [(i, each) for i, each in enumerate(own) if isinstance(each, OSError)]
            if not errors:
                found[place] = tuple(each for each in own if not isinstance(each, OSError))
            elif not isinstance(contents[place], DecodeError):
                (target, error), key = errors[0], int(plan.record_keys[place])
                reason = f"cannot be read: {error.strerror or error}"
                contents[place] = self._further.bad(target, key, reason)
        return found

    def _checked(self, key: int, result: Content | OSError) -> Content | DecodeError:
        if not isinstance(result, OSError):
            return result
        return unreadable(result, key, self._source.name)

    def close(self) -> None:
        """Free the engine and the opener; using the maker again makes new ones."""
        # Forgotten first, so that an interrupt here leaves nothing half closed.
        engine, opener, reader = self._engine, self._opener, self._reader
        self._engine = self._opener = self._reader = self.cache = None
        if reader is not None:
            reader.close()
        if self._tiers is not None:
            self._tiers.close()
        if engine is not None and not engine.broken:
            engine.drain()
        if opener is not None:
            opener.close()


def check_pixels(max_pixels: int) -> int:
    """Return `max_pixels` as an int; raise `ConfigError` if it is not a positive integer."""
    if not is_integer(max_pixels) or max_pixels < 1:
        raise ConfigError(f"max_pixels is {short(max_pixels)}; it must be an integer of 1 or more")
    return int(max_pixels)


def check_timeout(seconds: float | None) -> float | None:
    """Return `read_timeout` as a float or None; raise `ConfigError` if it is neither."""
    if seconds is None:
        return None
    if not is_number(seconds) or not 0 < seconds < math.inf:
        raise ConfigError(
            f"read_timeout is {short(seconds)}; it must be a number of seconds above 0, or None to "
            "wait for files indefinitely"
        )
    return float(seconds)
