"""The loader: batches in order, any batch by its number, and a state to go on from."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from gpufeed._util.identity import brief, encode
from gpufeed._util.limits import available_threads
from gpufeed._util.numbers import is_integer
from gpufeed.adapters import Framework, make_adapter
from gpufeed.engine.device import Device, resolve_device
from gpufeed.errors import ConfigError, EpochsExhausted, StateError
from gpufeed.faults.failures import Failures
from gpufeed.faults.policy import OnError, Policy
from gpufeed.faults.quarantine import Quarantine
from gpufeed.feed import state as states
from gpufeed.feed.batch import Batch, HandOver
from gpufeed.feed.cursor import Cursor
from gpufeed.feed.maker import Maker, check_pixels, check_timeout
from gpufeed.feed.stats import Stats
from gpufeed.ledger import Ledger, Run
from gpufeed.open.base import OpenerKind
from gpufeed.order.foreign import adopt
from gpufeed.order.schedule import MAX_EPOCHS, LastBatch, Schedule
from gpufeed.order.shard import ShardOptions
from gpufeed.order.uniform import IndexSampler
from gpufeed.plan.fields import Field
from gpufeed.plan.planner import Planner
from gpufeed.plan.stages import check_functions
from gpufeed.plan.targets import CollateFn, Targets
from gpufeed.presets import train as train_preset
from gpufeed.records import Manifest
from gpufeed.records.annotations import BoxFormat

if TYPE_CHECKING:
    import polars as pl

    from gpufeed.open.decoders import Decoder
    from gpufeed.order.sampler import Sampler
    from gpufeed.transforms import Transform, Views

__all__ = ["Batch", "Loader"]

MAX_PIXELS = 1 << 27
"""Pixels of the largest image that is decoded: 1.2 GB while it is, with two copies that resizing
makes; `Budget` bounds how many there are at a time.

A number and no share of the machine's memory, so that a batch is the same on every machine.
"""


class Loader:
    """Feeds the images of a manifest, as batches that are functions of (manifest, seed, step).

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
    - `valid`: (n,) bool, False where a record only fills the batch up or its image is blank; with
      last_batch="pad", and where on_error is "blank" or a function
    - `boxes`, `box_labels`: with targets=("boxes",), lists of n arrays, float32 (k, 4) in pixels of
      the image handed out, and (k,) as `label`; with collate_fn="pad" one array each, (n,
      max_boxes, 4) and (n, max_boxes), and `box_valid`, (n, max_boxes) bool
    - `points`, `point_visible`: with targets=("points",), float32 (n, k, 2) of x, y in pixels of
      the image handed out, and (n, k) bool, False where a point was not visible before, or is not
      on the image any more

    Boxes are cut to what is left of the image. Those narrower or lower than a pixel then are
    dropped with their labels, which is what torchvision's SanitizeBoundingBoxes does. With `Views`
    each of these is a list, one for each view. Targets change neither pixels nor order, and a
    state loads whatever they are.

    Args:
        manifest: which images there are.
        sampler: which comes when; all in a shuffled order without end, of seed 0, where none is
            given. A torch or Grain sampler is taken as it is, a list or array of record keys as a
            `SubsetSampler`, any other iterable of them that has a length as a `RecordedSampler`,
            which tells what cannot be promised then.
        transforms: what happens to them, a list or `Views` of several; `presets.train()` where
            none are given.
        batch_size: records in a batch of this shard.
        shard: which part of the global batch this process takes.
        last_batch: what becomes of an epoch's tail that fills no global batch: "drop", "pad" or
            "partial".
        device: "auto" (a GPU if there is one), "cpu", "cuda" (the one of this process's number on
            its machine, as its launcher gives it, else the first) or "cuda:1".
        framework: "numpy", "torch" or "jax".
        targets: what comes with the images: "boxes", "points", and instances of `Field`, such as
            `Column("age")` for a column of the manifest.
        box_format: "xyxy" for (x0, y0, x1, y1), "xywh" for (x, y, width, height).
        collate_fn: None; "pad" for boxes in arrays of one shape; or a function that is given a list
            of n dicts, each what a batch has of one record, and returns what is handed out.
        max_boxes: with "pad", how many boxes a record has room for; of more, the first are kept.
            As many as the record with the most has, where none is given.
        num_threads: CPU threads for decoding and transforms. The default is one more than the cores
            this process may use, so that no core is idle while a batch's last image is made:
            cgroups, bindings and the other processes of its machine are taken into account.
        prefetch: batches worked on ahead of the one handed out, at least 1.
        on_error: what becomes of a record whose image cannot be read or decoded. "raise" raises
            `DecodeError`. "substitute" puts another record of its class in its place, drawn from
            the sampler's order by the same seed. "blank" puts a black image there, of its size
            but of 2^24 pixels at most, which goes through the transforms, has no boxes or points,
            and is not `valid`. A function is given
            the `DecodeError` and returns the key of the record to take, or None for a blank
            image, or raises; it should go by its argument alone, for batches to be the same each
            time. A stand-in is drawn for as the record would have been, `record_key` and `label`
            are its own, and the others of the batch are what they would have been, but that who
            would have been mixed with it is mixed with the stand-in, or not at all. Each record is
            tried anew whenever it comes; those that failed are listed in `loader.quarantine`.
        max_failures: how many records this process may find bad before `TooManyFailuresError` ends
            it: an integer, or a float for a share of the manifest's records, of which at least one
            may be. With on_error="raise" it does not count.
        max_pixels: images with more pixels count as bad, by the manifest before their file is
            opened, and by their header before memory is set aside for them.
        read_timeout: seconds after which a file that is being read counts as bad, as one that can
            not be read, for storage that may hang; None to wait however long it takes. The read
            itself cannot be ended: its thread stays, as long as the storage hangs, and holds
            neither other files up nor the end of the process; the file is bad at once if it comes
            again meanwhile. With it, batches depend on what the storage did.
        ledger: True writes down every record that iterating hands out, in `loader.ledger`; "pixels"
            also digests its pixels, which brings them to host memory.
        opener: what decodes images and carries out their first resize: "threads" of the host, in
            front of the DALI graph; or the "graph" itself. "auto" is "graph" on a GPU, and
            "threads", which take less time there, on the CPU. Pixels differ by a grey level or two.
        decoder: makes the decoder of each thread, where threads open images; nvImageCodec's where
            none is given. A state does not tell which decoder it was saved with.

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
        targets: Collection[str | Field] = (),
        box_format: BoxFormat = "xyxy",
        collate_fn: CollateFn | None = None,
        max_boxes: int | None = None,
        num_threads: int | None = None,
        prefetch: int = 2,
        on_error: OnError = "raise",
        max_failures: float = 0.01,
        max_pixels: int = MAX_PIXELS,
        read_timeout: float | None = None,
        ledger: bool | Literal["pixels"] = False,
        opener: OpenerKind = "auto",
        decoder: Callable[[], Decoder] | None = None,
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
            if not is_integer(value) or value < 1:
                raise ConfigError(f"{name} is {value!r}; it must be an integer of 1 or more")
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
            check_pixels(max_pixels),
            [each for each in targets if isinstance(each, str)],
            [each for each in targets if isinstance(each, Field)],
        )
        with_pictures = Targets(
            manifest,
            targets,
            box_format,
            max_boxes,
            collate_fn,
            itertools.chain(*self._planner.views),
        )
        # Here, so that what no state can be made of is found out now and not at a checkpoint.
        self._described = {
            "sampler": encode(self.sampler.identity),
            "transforms": encode(self._planner.identities),
        }
        self.device = resolve_device(device)
        # On a GPU, DALI's graph decodes and resizes; on the CPU there is a faster way.
        on_host = _opens_on_host(opener, self.device)
        check_functions(self._planner.stages, on_host=on_host)
        if decoder is not None and not callable(decoder):
            raise ConfigError(
                f"decoder is {decoder!r}; it must be callable and make a decoder, as a class does"
            )
        if decoder is not None and not on_host:
            raise ConfigError(
                "decoder is for images that threads open, but here the graph opens them; pass "
                'opener="threads"'
            )
        self._adapter = make_adapter(framework, self.device)
        self.ledger = self._make_ledger(ledger)
        policy = Policy(on_error, self.sampler, manifest.frame["label"].to_numpy())
        paths = manifest.frame["path"]
        self._failures = Failures(
            paths.__getitem__, manifest.source.name, len(manifest), max_failures
        )
        self._maker = Maker(
            self._planner,
            manifest.source,
            policy,
            self._failures,
            batch_size=batch_size,
            device=self.device,
            num_threads=num_threads or available_threads() + 1,
            on_host=on_host,
            make_decoder=decoder,
            depth=prefetch,
            max_pixels=max_pixels,
            read_timeout=check_timeout(read_timeout),
        )
        marks_valid = last_batch == "pad" or policy.blanks
        self._hand_over = HandOver(
            self._adapter, with_pictures, self.ledger, marks_valid=marks_valid
        )
        self._cursor = Cursor(self._schedule, self._maker, self._hand_over, prefetch)

    def __len__(self) -> int:
        """How many batches an epoch has."""
        return self._schedule.steps_per_epoch

    @property
    def step(self) -> int:
        """Number of the batch that iterating hands out next."""
        return self._cursor.step

    @property
    def epoch(self) -> int:
        """Epoch of the batch that iterating hands out next."""
        return self._cursor.step // len(self)

    @property
    def quarantine(self) -> Quarantine:
        """The records that were found bad; part of the state."""
        return self._failures.quarantine

    @property
    def stats(self) -> Stats:
        """Figures of the pass under way, or else the last one."""
        return self._cursor.clock.read()

    def __iter__(self) -> Iterator[Batch]:
        """Go on from `step` to the end of its epoch.

        The iterator raises `DecodeError` when an image of the next batch cannot be read or
        decoded, unless `on_error` has another answer; the loader then still stands before that
        batch, and `skip()` passes it. The iterator can be used on.

        Raises:
            EpochsExhausted: the sampler has no epoch left.
            TooManyFailuresError: more records were bad than max_failures allows.
        """
        if self._schedule.num_steps is not None and self.step >= self._schedule.num_steps:
            raise EpochsExhausted(
                f"all {self.sampler.num_epochs} epoch(s) of the sampler have been fed; use "
                "num_epochs=None for no end, or go back with seek(0)"
            )
        return self._cursor.start()

    def batch(self, step: int) -> Batch:
        """Make batch `step`, from nothing but its number; where iterating stands does not change.

        Bad records that it meets are listed, and count, as those of iterating do.

        Raises:
            IndexError: there is no such batch, or this shard gets no record of it.
            TypeError: step is no integer.
            DecodeError: one of its images cannot be read or decoded, and on_error is "raise".
            TooManyFailuresError: more were than max_failures allows.
        """
        number = operator.index(step)
        self._cursor.check_process()
        with self._cursor.turn:
            made = self._maker.make(number)
            batch: Batch = self._hand_over.collated(self._hand_over.batch(*made))
        return batch

    def rows(self, batch: Batch) -> pl.DataFrame:
        """Return the manifest's rows of a batch's records, in its order."""
        return self.manifest.rows(self._adapter.to_numpy(batch["record_key"]))

    def seek(self, step: int) -> None:
        """Go to batch `step`, forward or back, without making those between.

        An iteration under way goes on from there to the end of its epoch. Outside of its epoch it
        cannot go on: iterate anew.

        Raises:
            IndexError: there is no such batch, and it is not the end either.
            ConfigError: a sampler of another library cannot go there.
        """
        last = self._schedule.num_steps
        last = MAX_EPOCHS * len(self) if last is None else last
        step = operator.index(step)
        if not 0 <= step <= last:
            raise IndexError(f"step is {step}; there are the batches 0 to {last - 1}")
        self.sampler.check_reachable(min(step, last - 1) // len(self))
        self._cursor.seek(step)

    def skip(self, count: int = 1) -> None:
        """Pass over the next `count` batches."""
        self.seek(self.step + count)

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
        sampler's order; batches made ahead do not count. `fingerprints` hold the manifest's hash
        and, as JSON, what sampler and transforms were made of; the keys, weights or labels of a
        sampler take about two bytes a record there, weights of no pattern eleven. `quarantine`
        lists the bad records that this process has met.
        """
        return states.make_state(
            self._schedule.records_before(self.step),
            self._fingerprints(),
            self._failures.state(),
        )

    def load_state_dict(self, state: Mapping[str, Any], ignore: Collection[str] = ()) -> None:
        """Go to where a loader stood that saved `state`.

        What becomes of bad images (`on_error`, `max_pixels`) is not in a state, and is to be
        given as before. The number of shards may differ if the global batch is the same. With
        another global batch it loads where one of its batches begins at that record, and the order
        goes on there.

        Args:
            state: from `state_dict`.
            ignore: of "manifest", "sampler" and "transforms", what may have changed.

        Raises:
            StateMismatchError: it was saved with another manifest, sampler or transforms; the
                message says which, from what to what.
            StateError: it is no state of such a loader, or no batch begins where it stands.
        """
        records = states.check_state(state, self._fingerprints(), ignore)
        failures = self._failures.parse(
            state.get("quarantine", "[]"), same="manifest" not in ignore
        )
        try:
            epoch, within = divmod(records, self.sampler.epoch_size)
            if within:
                self.sampler.check_reachable(epoch, begun=True)
            self.seek(self._schedule.step_at(records))
        except (IndexError, ConfigError) as error:
            raise StateError(f"the state's 'records' is {records}: {error}") from None
        self._failures.restore(failures)

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
        self._cursor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"Loader({len(self.manifest)} records, {self.sampler!r}, {len(self)} batches of "
            f"{self._schedule.batch_size} an epoch, {self.device}, at step {self.step})"
        )

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
                **{**self._fingerprints(), "sampler": encode(brief(self.sampler.identity))},
                num_records=len(self.manifest),
                epoch_size=self.sampler.epoch_size,
                per_epoch=self._schedule.records_per_epoch,
                repeats=self.sampler.has_repeats,
                pixels=wanted == "pixels",
            )
        )


def _opens_on_host(opener: object, device: Device) -> bool:
    """Whether threads of the host open images."""
    if opener not in get_args(OpenerKind):
        raise ConfigError(f'opener is {opener!r}; it must be "auto", "threads" or "graph"')
    return opener == "threads" or (opener == "auto" and not device.is_cuda)
