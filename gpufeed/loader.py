"""The loader: batches in order, any batch by its number, and a state to go on from."""

from __future__ import annotations

import itertools
import operator
import os
import threading
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt

from gpufeed import state as states
from gpufeed.adapters import Framework, make_adapter
from gpufeed.engine.device import available_threads, resolve_device
from gpufeed.errors import ConfigError, EpochsExhausted, GpufeedError, StateError
from gpufeed.ledger import Ledger, Run
from gpufeed.order.foreign import adopt
from gpufeed.order.schedule import MAX_EPOCHS, LastBatch, Schedule
from gpufeed.order.shard import ShardOptions
from gpufeed.order.uniform import IndexSampler
from gpufeed.plan import BatchPlan, Planner
from gpufeed.presets import train as train_preset
from gpufeed.readahead import Begun, ReadAhead, await_result
from gpufeed.records import Manifest
from gpufeed.records.targets import BoxFormat
from gpufeed.stats import Clock, Stats
from gpufeed.storage.files import FileStore
from gpufeed.targets import CollateFn, Targets
from gpufeed.transforms.compose import check_functions

if TYPE_CHECKING:
    import polars as pl

    from gpufeed.engine.engine import Engine
    from gpufeed.engine.job import Failed, Job
    from gpufeed.order.sampler import Sampler
    from gpufeed.transforms import Transform, Views

__all__ = ["Batch", "Loader"]

Batch = dict[str, Any]

_READERS = 8
"""Threads that read files: they wait for storage, so their number does not follow the cores."""


class Loader:
    """Feeds the pictures of a manifest, as batches that are functions of (manifest, seed, step).

    Iterating goes on from where the loader stands to the end of the epoch; iterating again gives
    the next epoch. A batch is a dict of the framework's arrays, n being `batch_size` (or less, for
    a "partial" tail):

    - `image`: (n, 3, height, width) or (n, height, width, 3), in the transforms' dtype; with
      `Views` a list of them
    - `label`: (n,), int64 in torch, else int32
    - `record_key`: (n,), rows of the manifest; int32 in jax, else int64
    - `epoch`: (n,), likewise
    - `label_b`, `lam`: with `MixUp` or `CutMix`, the partner's label, (n,), and the share of
      `label` in the mixture, float32 (n,), 0 to 1
    - `soft_label`: with `SoftLabels`, float32 (n, classes)
    - `valid`: (n,) bool, False where a record only fills the batch up; with last_batch="pad" only
    - `boxes`, `box_labels`: with targets=("boxes",), lists of n arrays, float32 (k, 4) in pixels of
      the picture handed out, and (k,) as `label`; with collate_fn="pad" one array each, (n,
      max_boxes, 4) and (n, max_boxes), and `box_valid`, (n, max_boxes) bool
    - `points`, `point_visible`: with targets=("points",), float32 (n, k, 2) of x, y in pixels of
      the picture handed out, and (n, k) bool, False where a point was not visible before, or is not
      on the picture any more

    Boxes are cut to what is left of the picture. Those narrower or lower than a pixel then are
    dropped with their labels, which is what torchvision's SanitizeBoundingBoxes does. With `Views`
    each of these is a list, one for each view. Targets change neither pixels nor order, and a
    state loads whatever they are.

    Args:
        manifest: which pictures there are.
        sampler: which comes when; all in a shuffled order without end, of seed 0, where none is
            given. A torch or Grain sampler is taken as it is, a list or array of record keys as a
            `SubsetSampler`, any other iterable of them that has a length as a `RecordedSampler`,
            which tells what can not be promised then.
        transforms: what happens to them, a list or `Views` of several; `presets.train()` where
            none are given.
        batch_size: records in a batch of this shard.
        shard: which part of the global batch this process takes.
        last_batch: what becomes of an epoch's tail that fills no global batch: "drop", "pad" or
            "partial".
        device: "auto" (a GPU if there is one), "cpu", "cuda" (the one of this process's number on
            its machine, as its launcher gives it, else the first) or "cuda:1".
        framework: "numpy", "torch" or "jax".
        targets: what comes with the pictures, of "boxes" and "points".
        box_format: "xyxy" for (x0, y0, x1, y1), "xywh" for (x, y, width, height).
        collate_fn: None; "pad" for boxes in arrays of one shape; or a function that is given a list
            of n dicts, each what a batch has of one record, and returns what is handed out.
        max_boxes: with "pad", how many boxes a record has room for; of more, the first are kept.
            As many as the record with the most has, where none is given.
        num_threads: CPU threads for decoding and transforms; where none is given, one more than the
            cores this process may use, so that none is idle while a batch's last picture is made.
        prefetch: batches worked on ahead of the one handed out, at least 1.
        ledger: True writes down every record that iterating hands out, in `loader.ledger`; "pixels"
            also digests its pixels, which brings them to host memory.

    Raises:
        ConfigError: an argument is out of range or does not go with another.
        DeviceError: there is no such device.
        MissingExtraError: the framework is not installed.
    """

    def __init__(
        self,
        manifest: Manifest,
        *,
        sampler: Sampler | Iterable[int] | None = None,
        transforms: Sequence[Transform] | Views | None = None,
        batch_size: int = 64,
        shard: ShardOptions | None = None,
        last_batch: LastBatch = "drop",
        device: str = "auto",
        framework: Framework = "numpy",
        targets: Collection[str] = (),
        box_format: BoxFormat = "xyxy",
        collate_fn: CollateFn | None = None,
        max_boxes: int | None = None,
        num_threads: int | None = None,
        prefetch: int = 2,
        ledger: bool | Literal["pixels"] = False,
    ) -> None:
        if not isinstance(manifest, Manifest):
            raise ConfigError(
                f"manifest is {manifest!r}; it must be a Manifest, as read_nabirds, read_folder or "
                "read_table give it"
            )
        if not isinstance(shard, ShardOptions | None):
            raise ConfigError(
                f"shard is {shard!r}; it must be ShardOptions(shard_index, shard_count)"
            )
        self.manifest = manifest
        self.sampler = (
            IndexSampler(len(manifest), shuffle=True)
            if sampler is None
            else adopt(sampler, len(manifest))
        )
        shard = shard or ShardOptions()
        if not self.sampler.addressable and shard.shard_count > 1:
            raise ConfigError(
                f"{sampler!r} may come in another order in each of the {shard.shard_count} "
                "processes; take a gpufeed sampler, or torch's DistributedSampler without shard"
            )
        if self.sampler.own_shards > 1 and shard.shard_count > 1:
            raise ConfigError(
                f"the sampler cuts {self.sampler.own_shards} shards itself, and shard={shard} "
                "would cut each of them again; leave out shard, or take a sampler that cuts none"
            )
        for name, value in (("num_threads", num_threads), ("prefetch", prefetch)):
            if value is None and name == "num_threads":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name} is {value!r}; it must be an integer of 1 or more")
        self._num_threads = num_threads or available_threads() + 1
        self._prefetch = prefetch
        self._schedule = Schedule(
            self.sampler.epoch_size,
            self.sampler.num_epochs,
            batch_size,
            shard,
            last_batch,
        )
        self._planner = Planner(
            manifest,
            self.sampler,
            self._schedule,
            train_preset() if transforms is None else transforms,
        )
        self._targets = Targets(
            manifest,
            targets,
            box_format,
            max_boxes,
            collate_fn,
            itertools.chain(*self._planner.views),
        )
        # Here, so that what no state can be made of is found out now and not at a checkpoint.
        self._described = {
            "sampler": states.describe(self.sampler.identity),
            "transforms": states.describe_all(self._planner.identities),
        }
        self.device = resolve_device(device)
        # On a GPU, DALI's graph decodes and resizes; on the CPU there is a faster way.
        self._opens_on_host = not self.device.is_cuda
        check_functions(self._planner.program, on_host=self._opens_on_host)
        self._adapter = make_adapter(framework, self.device)
        self.ledger = self._make_ledger(ledger)
        self._store = FileStore(manifest)
        self._step = 0
        self._process = os.getpid()
        self._clock = Clock()
        # Weak, so that a loop that is left early ends its iteration's threads.
        self._pass: weakref.ref[_Pass] | None = None
        # One pipeline for iterating, one for single batches, each made when first used.
        self._engine: Engine | None = None
        self._single: Engine | None = None
        self._single_lock = threading.Lock()
        # What an iteration that has ended had begun beyond what its engine was given.
        self._begun: Begun[Job | Failed] = ()

    def __len__(self) -> int:
        """How many batches an epoch has."""
        return self._schedule.steps_per_epoch

    @property
    def step(self) -> int:
        """Number of the batch that iterating hands out next."""
        return self._step

    @property
    def epoch(self) -> int:
        """Epoch of the batch that iterating hands out next."""
        return self._step // len(self)

    @property
    def stats(self) -> Stats:
        """Figures of the pass under way, or else the last one."""
        return self._clock.read()

    def __iter__(self) -> Iterator[Batch]:
        """Go on from `step` to the end of its epoch.

        The iterator raises `DecodeError` when a picture of the next batch can not be read or
        decoded; the loader then still stands before that batch, and `skip()` passes it. The
        iterator can be used on.

        Raises:
            EpochsExhausted: the sampler has no epoch left.
        """
        if self._schedule.num_steps is not None and self._step >= self._schedule.num_steps:
            raise EpochsExhausted(
                f"all {self.sampler.num_epochs} epoch(s) of the sampler have been fed; use "
                "num_epochs=None for no end, or go back with seek(0)"
            )
        self._stop()
        self._clock = Clock()
        started = _Pass(self, self.epoch)
        self._pass = weakref.ref(started)
        return started

    def batch(self, step: int) -> Batch:
        """Make batch `step`, from nothing but its number; iterating is not affected.

        Raises:
            IndexError: there is no such batch, or this shard gets no record of it.
            TypeError: step is no integer.
            DecodeError: one of its pictures can not be read or decoded.
        """
        self._check_process()
        plan = self._planner.plan(operator.index(step))
        if plan is None:
            raise IndexError(f"this shard gets no record of batch {step}")
        with self._single_lock:
            if self._single is None:
                self._single = self._make_engine(depth=1)
            with ThreadPoolExecutor(_READERS) as readers:
                begun = self._read(self._single, plan, readers)
            try:
                self._single.submit(await_result(begun))
                plan, views = self._single.collect()
                batch: Batch = self._collated(self._hand_over(plan, views))
                return batch
            except GpufeedError:
                raise
            except BaseException:
                self._single = None  # as in _Pass.__next__
                raise

    def rows(self, batch: Batch) -> pl.DataFrame:
        """Return the manifest's rows of a batch's records, in its order."""
        return self.manifest.rows(self._adapter.to_numpy(batch["record_key"]))

    def seek(self, step: int) -> None:
        """Go to batch `step`, forward or back, without making those between.

        An iteration under way goes on from there to the end of its epoch. Outside of its epoch it
        can not go on: iterate anew.

        Raises:
            IndexError: there is no such batch, and it is not the end either.
            ConfigError: a sampler of another library can not go there.
        """
        last = self._schedule.num_steps
        last = MAX_EPOCHS * len(self) if last is None else last
        step = operator.index(step)
        if not 0 <= step <= last:
            raise IndexError(f"step is {step}; there are the batches 0 to {last - 1}")
        self.sampler.check_reachable(min(step, last - 1) // len(self))
        under_way = self._under_way()
        if under_way is not None:
            under_way.interrupt()
        self._step = step

    def skip(self, count: int = 1) -> None:
        """Pass over the next `count` batches."""
        self.seek(self._step + count)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, unless the loader stands within it already.

        As torch's distributed samplers are told before each epoch; here epochs count themselves,
        so that it need not be called.

        Raises:
            IndexError: there is no such epoch.
        """
        if operator.index(epoch) != self.epoch:
            self.seek(epoch * len(self))

    def state_dict(self) -> dict[str, Any]:
        """Return what it takes to go on from here: small, JSON-able, O(1).

        `records` counts the records that all shards together were handed, as positions of the
        sampler's order; batches made ahead do not count.
        """
        return states.make_state(self._schedule.records_before(self._step), self._fingerprints())

    def load_state_dict(self, state: Mapping[str, Any], ignore: Collection[str] = ()) -> None:
        """Go to where a loader stood that saved `state`.

        The number of shards may differ if the global batch is the same. With another global
        batch it loads where one of its batches begins at that record, and the order goes on there.

        Args:
            state: from `state_dict`.
            ignore: of "manifest", "sampler" and "transforms", what may have changed.

        Raises:
            StateMismatchError: it was saved with another manifest, sampler or transforms; the
                message says which, from what to what.
            StateError: it is no state of such a loader, or no batch begins where it stands.
        """
        records = states.check_state(state, self._fingerprints(), ignore)
        try:
            epoch, within = divmod(records, self.sampler.epoch_size)
            if within:
                self.sampler.check_reachable(epoch, begun=True)
            self.seek(self._schedule.step_at(records))
        except (IndexError, ConfigError) as error:
            raise StateError(f"the state's 'records' is {records}: {error}") from None

    def get_state(self) -> bytes:
        """Return `state_dict()` as JSON, as Grain's iterators do."""
        return states.encode_state(self.state_dict())

    def set_state(self, state: bytes) -> None:
        """Load what `get_state` returned.

        Raises:
            StateError: it is no state of such a loader.
        """
        self.load_state_dict(states.decode_state(state))

    def start_prefetch(self) -> None:
        """Do nothing: reading ahead starts with iterating.

        Grain's checkpoint handler calls this on an iterator that it has restored.
        """

    def close(self) -> None:
        """End all work and free the pipelines; using the loader again makes new ones."""
        self._stop()
        for engine in (self._engine, self._single):
            if engine is not None:
                engine.close()
        self._engine = self._single = None
        self._begun = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"Loader({len(self.manifest)} records, {self.sampler!r}, {len(self)} batches of "
            f"{self._schedule.batch_size} an epoch, {self.device}, at step {self._step})"
        )

    def _under_way(self) -> _Pass | None:
        return None if self._pass is None else self._pass()

    def _stop(self) -> None:
        under_way = self._under_way()
        if under_way is not None:
            under_way.overtake()

    def _fingerprints(self) -> dict[str, str]:
        return {"manifest": self.manifest.fingerprint(), **self._described}

    def _make_ledger(self, wanted: bool | Literal["pixels"]) -> Ledger | None:
        if wanted not in (False, True, "pixels"):
            raise ConfigError(f'ledger is {wanted!r}; it must be True, False or "pixels"')
        if not wanted:
            return None
        if self.sampler.own_shards > 1:
            raise ConfigError(
                "a ledger is of one order for all processes, but the sampler cuts "
                f"{self.sampler.own_shards} shards itself; take a sampler that cuts none, and shard"
            )
        return Ledger(
            Run(
                **self._fingerprints(),
                num_records=len(self.manifest),
                epoch_size=self.sampler.epoch_size,
                per_epoch=self._schedule.records_per_epoch,
                repeats=self.sampler.has_repeats,
                pixels=wanted == "pixels",
            )
        )

    def _check_process(self) -> None:
        if self._process != os.getpid():
            raise ConfigError(
                "this loader was made in another process and came here by a fork, which DALI's "
                "threads do not survive; make a loader in each process"
            )

    def _make_engine(self, depth: int) -> Engine:
        # Imported here: DALI takes a second, and nothing needs it before the first batch.
        from gpufeed.engine.engine import Engine

        return Engine(
            self._planner.program,
            self._store.path,
            batch_size=self._schedule.batch_size,
            device=self.device,
            num_threads=self._num_threads,
            depth=depth,
            opens_on_host=self._opens_on_host,
        )

    def _read(self, engine: Engine, plan: BatchPlan, readers: Executor) -> Future[Job | Failed]:
        return engine.prepare(plan, self._store.read(plan.record_keys, readers))

    def _prepare(self, engine: Engine, step: int, readers: Executor) -> Future[Job | Failed]:
        from gpufeed.engine.job import Failed, finished

        try:
            plan = self._planner.plan(step)
        except Exception as error:  # a user's own sampler or transform may raise anything
            return finished(Failed(step, error))
        if plan is None:
            raise AssertionError("steps without records are not prepared")
        return self._read(engine, plan, readers)

    def _write_down(self, ledger: Ledger, plan: BatchPlan, images: Any) -> None:
        valid = plan.valid
        pictures = None
        if images is not None:
            listed = images if isinstance(images, list) else [images]
            views = [self._adapter.to_numpy(view)[valid] for view in listed]
            pictures = views[0] if len(views) == 1 else _rows(views)
        ledger.add(plan.epochs[valid], plan.places[valid], plan.record_keys[valid], pictures)

    def _hand_over(self, plan: BatchPlan, views: Sequence[Any]) -> Batch:
        images = [self._adapter.pictures(pictures) for pictures in views]
        batch = {
            "image": images[0] if len(images) == 1 else images,
            "label": self._adapter.labels(plan.labels),
            "record_key": self._adapter.numbers(plan.record_keys),
            "epoch": self._adapter.numbers(plan.epochs),
        }
        if self._schedule.last_batch == "pad":
            batch["valid"] = self._adapter.arrays(plan.valid)
        if plan.mix is not None:
            batch["label_b"] = self._adapter.labels(plan.labels[plan.mix.partner])
            batch["lam"] = self._adapter.arrays(plan.mix.share)
        if plan.soft_labels is not None:
            batch["soft_label"] = self._adapter.arrays(plan.soft_labels)
        return batch | self._targets.made(plan, self._adapter)

    def _collated(self, batch: Batch) -> Any:
        views = len(self._planner.views)
        return self._targets.collated(batch, len(batch["record_key"]), views)


def _rows(views: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.uint8]:
    """The bytes of each record's views, as one row."""
    rows = [np.ascontiguousarray(view).reshape(len(view), -1).view(np.uint8) for view in views]
    return np.concatenate(rows, axis=1)


class _Pass:
    """One iteration over a loader, to the end of an epoch.

    Its threads live as long as it does. What DALI has under way outlives it, since those are the
    batches that the next pass begins with.
    """

    def __init__(self, loader: Loader, epoch: int) -> None:
        self._loader = loader
        self._first, self._last = epoch * len(loader), (epoch + 1) * len(loader)
        self._lock = threading.Lock()
        self._reader: ReadAhead[Job | Failed] | None = None
        self._closed = False
        self._overtaken = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        with self._lock:
            return self._next()

    def _next(self) -> Batch:
        loader = self._loader
        if self._overtaken or (not self._closed and not self._first <= loader._step <= self._last):
            raise ConfigError(
                "this iteration was ended by a later one over the same loader, by close(), or by "
                "seek() or load_state_dict() to another epoch; use a new iterator, or a second "
                "loader"
            )
        if self._closed:
            raise StopIteration
        loader._clock.asked()
        step = next(loader._schedule.steps_from(loader._step), self._last)
        if step >= self._last:
            loader._step = self._last
            self.close()
            raise StopIteration
        try:
            plan, views = self._collect(step)
            batch = loader._hand_over(plan, views)
            handed_out: Batch = loader._collated(batch)
        except GpufeedError:
            self.interrupt()
            raise
        except BaseException:
            # Stopped halfway, by Ctrl-C say: what is under way and what is noted may differ.
            loader._engine = None
            self.interrupt()
            raise
        loader._step = step + 1
        loader._clock.handed_out(int(plan.valid.sum()))
        if loader.ledger is not None:
            images = batch["image"] if loader.ledger.run.pixels else None
            loader._write_down(loader.ledger, plan, images)
        return handed_out

    def _collect(self, step: int) -> tuple[BatchPlan, list[Any]]:
        loader = self._loader
        engine = loader._engine
        if engine is None:
            engine = loader._engine = loader._make_engine(loader._prefetch)
        loader._check_process()
        under_way = engine.steps
        if under_way and under_way[0] != step:
            engine.drain()
            under_way = []
        if self._reader is None:
            first = under_way[-1] + 1 if under_way else step
            begun, loader._begun = loader._begun, ()
            if begun and begun[0][0] != next(loader._schedule.steps_from(first), None):
                begun = ()
            self._reader = ReadAhead(
                partial(loader._prepare, engine),
                loader._schedule.steps_from(begun[-1][0] + 1 if begun else first),
                begun=begun,
                ahead=loader._prefetch + 1,
                threads=_READERS,
            )
        # One more than `prefetch`, of which one is taken out at once. What is under way already
        # does not wait for files that are slow to come; only the start does.
        while len(engine) <= loader._prefetch and (
            not engine.started or not len(engine) or self._reader.ready
        ):
            job = next(self._reader, None)
            if job is None:
                break
            engine.submit(job)
        return engine.collect()

    def close(self) -> None:
        """End the threads; the next iteration goes on with what they have begun."""
        self._closed = True
        if self._reader is not None:
            self._loader._begun = self._reader.close()
            self._reader = None

    def interrupt(self) -> None:
        """Drop what is read ahead; the next batch is read anew, from where the loader stands."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def overtake(self) -> None:
        """End this iteration for another's sake."""
        self._overtaken = not self._closed
        self.close()

    def __del__(self) -> None:
        self.close()
