"""The loader: batches in order, any batch by its number, and a state to resume from."""

from __future__ import annotations

import bisect
import itertools
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from gpufeed._util.atomic_write import atomic_write
from gpufeed._util.dali_build import refuse_two_builds
from gpufeed._util.hints import explain
from gpufeed._util.identity import encode
from gpufeed._util.limits import available_threads
from gpufeed._util.numbers import as_integer, is_integer
from gpufeed._util.sanitize import short
from gpufeed._util.spans import Spans
from gpufeed.adapters import Framework, make_adapter
from gpufeed.decode.diagnose import MAX_PIXELS
from gpufeed.engine.device import resolve_device
from gpufeed.errors import ConfigError, EpochsExhausted, StateError
from gpufeed.faults.failures import Failures
from gpufeed.faults.policy import OnError, Policy
from gpufeed.faults.quarantine import Quarantine
from gpufeed.feed import state as states
from gpufeed.feed.agree import Agreement, facts_of
from gpufeed.feed.batch import Batch, HandOver
from gpufeed.feed.canary import Canary
from gpufeed.feed.columns import Columns
from gpufeed.feed.cursor import Cursor, Pass
from gpufeed.feed.maker import Maker, check_pixels, check_timeout
from gpufeed.feed.report import Report, report_of
from gpufeed.feed.sharded import follow_sharding
from gpufeed.feed.stats import Stats
from gpufeed.feed.timeline import timeline
from gpufeed.feed.trainers import BatchSampler, TrainerEpochs
from gpufeed.ledger import Ledger, Run
from gpufeed.live.watch import Watch, watch
from gpufeed.open.budget import check_whole_images
from gpufeed.open.cached import amount, make_settings
from gpufeed.open.choice import Choice
from gpufeed.open.further import Further
from gpufeed.open.kinds import THREADS, Kind, OpenerKind, default_kind, identify, resolve_shares
from gpufeed.order.find_shard import FoundShard, find_shard, warn_if_cut_twice
from gpufeed.order.foreign import GrainSampler, RecordedSampler, adopt
from gpufeed.order.sampler import is_fixed
from gpufeed.order.schedule import MAX_EPOCHS, BatchSize, LastBatch, Schedule
from gpufeed.order.shard import ShardOptions, adopt_shard
from gpufeed.order.uniform import IndexSampler, SequentialSampler, SubsetSampler
from gpufeed.plan.fields import BATCH_KEYS, Field, check_fields
from gpufeed.plan.image_targets import Depth, ImageTarget, Mask
from gpufeed.plan.pairs import Pair
from gpufeed.plan.planner import Planner
from gpufeed.plan.stages import calls_functions, check_functions
from gpufeed.plan.targets import CollateFn, Companions, Targets
from gpufeed.presets import evaluate as evaluate_preset
from gpufeed.presets import train as train_preset
from gpufeed.records import Manifest
from gpufeed.records.annotations import BoxFormat
from gpufeed.records.subset import Subset, as_manifest
from gpufeed.source.selection import Joined
from gpufeed.tiers.caches import DiskCache, MemoryCache, check_caches
from gpufeed.tiers.source import TieredSource
from gpufeed.tiers.tiers import Run as TieredRun

if TYPE_CHECKING:
    import jax
    import polars as pl
    import torch
    from PIL.Image import Image

    from gpufeed.decode.decoders import Decoder
    from gpufeed.order.sampler import Sampler
    from gpufeed.transforms import Transform, Views

__all__ = ["Batch", "Loader"]


class Loader:
    """Feeds the images of a manifest in batches, each a pure function of (manifest, seed, step).

        with gpufeed.Loader(manifest, batch_size=64, framework="torch") as loader:
            for batch in loader:  # one epoch; again: the next
                train_step(batch["image"], batch["label"])
            checkpoint = loader.state_dict()

    Iterating continues from the loader's current step to the end of the epoch; iterating again
    yields the next epoch. `forever` iterates across epochs, and `Loader.for_evaluation` makes a
    loader of which every iteration starts at the first batch. A batch is a dict of the framework's
    arrays. Below, n is `batch_size`, or less for a "partial" tail:

    - `image`: in the transforms' dtype, (n, height, width, 3) in jax and otherwise
      (n, 3, height, width), unless the output format says `layout`; with `Views`, a list of such
      arrays.
    - `label`, if the manifest has labels: classes, (n,), int64 in torch, otherwise int32; of images
      with several classes, float32 (n, classes), 1 for each of an image's classes and otherwise 0;
      numbers, float32 (n,); vectors, float32 (n, k).
    - `record_key`: (n,), rows of the manifest; int32 in jax, otherwise int64.
    - `epoch`: (n,), of the same dtype as `record_key`.
    - `label_b` and `lam`, with `MixUp` or `CutMix`: the partner's label, as `label`, and the share
      of `label` in the mixture, float32 (n,), 0 to 1.
    - `soft_label`, with `SoftLabels`: float32 (n, classes).
    - `valid`, with last_batch="pad" or None, or where on_error is "blank" or a function: bool (n,),
      False for padding and for blank images.
    - `boxes` and `box_labels`, with targets=("boxes",): lists of n arrays, float32 (k, 4) in pixels
      of the output image, and (k,) of the same dtype as `label`. With collate_fn="pad", one array
      each, (n, max_boxes, 4) and (n, max_boxes), and the mask `box_valid`, bool (n, max_boxes).
    - `points` and `point_visible`, with targets=("points",): float32 (n, k, 2) of (x, y) in pixels
      of the output image, and bool (n, k), False where a point was not visible in the original or
      is no longer on the image.
    - `box_points` and `box_point_visible`, with targets=("boxes", "box_points"): the points of each
      box, lists of n arrays, float32 (k, p, 2) and bool (k, p), or padded arrays as for boxes.
    - each of `box_columns`: a number or boolean for each box, as `box_labels`; integers have the
      dtype of classes, other numbers are float32.
    - each `Mask` and `Depth` of targets, by its name: (n, height, width), uint8, float32, or for
      dtype="int32" of the same dtype as `label`.
    - each `Pair` of targets, by its name: as `image`.
    - each of `columns`: numbers and booleans, and fixed-size arrays of them, as arrays with a row
      for each record, float32, bool, or of the dtype of classes, which is int64 in NumPy if a
      number needs it; text as a list of n str, and everything else as a list of what polars gives,
      such as `datetime.date`, with None for null. A padded, blank or substituted image has the
      values of its `record_key`. A function that `jax.jit` compiles takes the arrays of a batch,
      and no lists of text.

    Boxes are clipped to the image. Boxes whose width or height is then below one pixel are dropped
    with all that belongs to them, as torchvision's SanitizeBoundingBoxes does. Labels count from 0;
    add 1 to `box_labels` for torchvision's detectors, which take 0 as the background. With `Views`,
    boxes, points and masks are lists with one entry for each view. Targets and columns change
    neither pixels nor order, and a state loads whatever is requested. docs/how-to/ has
    pages on all of them.

    Args:
        manifest: the images and their labels; or torch's `Subset` of a manifest, as its
            `random_split` returns, which has record keys of its own, from 0.
        sampler: the order of the records. The default is an endless shuffle of all records with
            seed 0. A torch or Grain sampler is taken as it is, if it is made for as many records as
            the manifest has, and a Grain `MapDataset` of record keys. A list or array of record
            keys, such as those of a subset, becomes a `SubsetSampler`; any other iterable of record
            keys that has a length becomes a `RecordedSampler`, which documents what it cannot
            guarantee.
        transforms: a list of transforms, or `Views` of several lists. The default is
            `presets.train()`. If they begin with those that `prepare` put the images through, these
            are left out, and the others draw the same random numbers as with the originals.
        batch_size: records in one batch of this process. A mapping from steps to sizes changes the
            size during training: {0: 64, 1000: 128} has batches of 128 from step 1000 on. The
            schedule is not part of the state, so pass the same one on resume.
        shard: the part of the global batch that this process takes, as gpufeed's or Grain's
            `ShardOptions`, of which `drop_remainder` has no effect here: see `last_batch`. By
            default the loader finds it: from torch.distributed or jax.distributed if initialized,
            otherwise from the variables that launchers set, as `shard_from_env` does. It looks
            again when an iteration starts, so the process group may be initialized after the loader
            is made. The order of a distributed sampler of torch is not divided again. Pass
            `ShardOptions(0, 1)` to read all records in this process. Where several processes hold
            parts of one model, as in tensor parallelism, pass the number of their replica and the
            number of replicas. The processes of a group compare what they were given before the
            first batch: docs/how-to/processes.md tells what and when.
        last_batch: what to do with the end of an epoch that does not fill a global batch: "drop"
            it, "pad" it, or hand out a "partial" batch. None, the default of `for_evaluation`, is
            "pad" with several shards or with `sharding`, where all processes need equal batches,
            and otherwise "partial".
        device: "auto" (a GPU if there is one and the framework is not "numpy", otherwise the CPU),
            "cpu", "cuda" or "cuda:1"; or a `torch.device`. "cuda" is the GPU that
            `torch.cuda.set_device` chose, otherwise that of the process's local rank, where its
            launcher sets one, otherwise the first.
        framework: "numpy", "torch" or "jax".
        sharding: for JAX, a sharding of the first dimension, such as
            `NamedSharding(mesh, PartitionSpec("data"))`. Every array of a batch is then a global
            `jax.Array` with this sharding, and n above is `batch_size` times the number of shards.
            `shard` follows from the sharding; processes that hold the same rows are one shard.
            `batch_size` must be a multiple of the number of parts that this process holds. Boxes
            need collate_fn="pad". With several devices in a process, use device="cpu".
        targets: what comes with the images: "boxes", "box_points", "points", and instances of
            `Mask`, `Depth`, `Pair` and `Field`.
        columns: names of columns of the manifest whose values come with the images.
        box_columns: those of `Manifest.box_columns` whose values come with the boxes.
        flip_pairs: pairs of points that swap places in flipped images, such as
            ("left eye", "right eye"): names of `Manifest.point_names`, or numbers. Without them, a
            point keeps its place in the list. Flips in both directions, which are a rotation by
            180 degrees, swap nothing.
        box_format: "xyxy" for (x0, y0, x1, y1) or "xywh" for (x, y, width, height).
        collate_fn: None; "pad" for boxes in arrays of one shape; or a function from a list of n
            dicts, one for each record of the batch, to what the loader hands out.
        max_boxes: with collate_fn="pad", the number of boxes each record has room for; if a record
            has more, the first are kept. The default is the largest number that any record has.
        num_threads: CPU threads for decoding and transforms. The default is one more than the cores
            this process may use, so that no core is idle while the last image of a batch is made.
            It accounts for cgroups, CPU affinity and the job's other processes on the machine.
        prefetch: batches prepared ahead of the one handed out, at least 1.
        restart: whether each iteration starts at batch 0, instead of continuing where the last one
            stopped. The loader then has a single epoch, and all iterations yield the same batches.
            An iteration right after `seek`, `skip` or `load_state_dict` starts there.
        on_error: what to do when a record's image cannot be read or decoded:

            - "raise" raises `DecodeError`.
            - "substitute" takes another record of the same class, or any other if images do not
              have one class each, drawn from the sampler's order with the same seed.
            - "blank" takes a black image of the same size, up to 2^24 pixels. It goes through the
              transforms, has no boxes or points, and is not `valid`.
            - A function takes the `DecodeError` and returns the key of a substitute, returns None
              for a blank image, or raises. It should depend on its argument alone, so that batches
              are reproducible.

            A substitute is transformed with the random numbers of the record it replaces;
            `record_key` and `label` are the substitute's own. The other records of the batch do not
            change, except that one to be mixed with the failed record is mixed with the substitute,
            or not at all. Every record is tried again each time it comes. Failed records are
            listed in `loader.quarantine`.
        max_failures: the number of bad records that this process tolerates before it raises
            `TooManyFailuresError`: an integer, or a float for a share of the manifest's records,
            which allows at least one unless it is 0. Ignored with on_error="raise".
        max_pixels: the most pixels an image may have. A larger image counts as bad: by the size in
            the manifest before its file is opened, and by its header before memory is allocated.
        read_timeout: seconds after which reading a file fails, for storage that may hang; None to
            wait indefinitely. A blocked read cannot be cancelled: its thread remains until the
            storage answers, but delays neither other files nor the exit of the process. Until then
            the file fails at once if it comes again. With a timeout, batches depend on how fast the
            storage answers.
        ledger: True records every record handed out by iterating in `loader.ledger`; "pixels" also
            records digests of the pixels, which copies them to host memory.
        opener: what decodes images and does their first resize. Pixels of any two differ, mostly
            by a few grey levels, so states record the opener.

            - "auto" is "cuda" on a GPU. On the CPU it is "threads", or "graph" if no image of the
              manifest has more than 32 x 32 pixels and none of `decoder`, `cache` and a `Lambda`
              needs threads.
            - "threads" of the host, before the DALI graph, which on a GPU receives their pixels.
            - "graph", on the CPU: the DALI graph itself.
            - "cuda", on a GPU: nvJPEG's CUDA decoder, with smooth chroma. It decodes whole images.
            - "cuda_windows", on a GPU: the same without smooth chroma, and windows only. Do not use
              it with nvImageCodec 0.9.0, which may crash on them.
            - "hardware", on a GPU: its JPEG engines, which decode whole images.
            - Fixed shares of these, such as {"cuda": 0.6, "hardware": 0.25, "threads": 0.15}. A
              hash of a record's path chooses its decoder, so a record has the same pixels in every
              batch and in every subset of the manifest.

            On a GPU, and wherever threads have a share, threads open images above 2^24 pixels, and
            in the graph nvImageCodec decodes formats other than JPEG on the CPU. The loader cannot
            be made if the largest images that a GPU decodes whole, `prefetch` batches of them, do
            not fit into its free memory. None of the openers has been run on a GPU yet.
        decoder: a function that makes a decoder for each thread, for use with threads or a share of
            them. The default is nvImageCodec's. States do not record the decoder.
        cache: "host" decodes each image once and keeps it in host memory; "device" keeps it in the
            device's memory, from which the DALI graph takes it for each batch. Batches are the same
            as without a cache. Images are kept as the leading transforms without random numbers
            leave them: with `presets.evaluate`, finished. If a random crop follows a resize, images
            are kept before the resize, at their full size: gpufeed resizes only what the crop
            shows, and cutting that out of the whole resized image would change some pixels by one
            level. The loader cannot be made if the images need more than 0.9 of the memory that is
            available, or half of it on a GPU; each loader is counted alone. Bad images are not
            kept. A file that changes after it was decoded is not noticed.

            With "host", the processes of a machine share the memory, and it is freed with the last
            loader that uses it, by `close` or as its process ends. Each loader has its own memory
            if the source has no `fingerprint`, with `decoder`, and on processors other than x86.
            Needs opener="threads", the default on the CPU.

            With "device", each loader has its own memory, until `close`, and any opener that
            decodes in the graph works. Threads of the host fill the cache too if no resize is left
            after it, as with `presets.evaluate`. No `Lambda` can be called. A vertical flip right
            after a resize keeps images before it. "device" has not been run on a GPU yet.

            A list of tiers, the fastest first, keeps encoded images of a slow source, such as
            [MemoryCache("8 GB"), DiskCache("/local/nvme", "200 GB")]. The processes of a machine
            share them. Images are read ahead in the order of use, and those that this machine uses
            last are given up first, as far as the sampler tells; docs/how-to/caching.md is about
            them. A tier that fails is left out, with a warning. Batches are the same as without
            tiers. The source needs a `fingerprint`. Masks, depth maps and pairs of targets are not
            kept.
        canary: k to make one record of every k-th batch again on the CPU while iterating, and to
            raise `CanaryError` if what was handed out looks different, such as 1000; None not to.
            `loader.canary` counts; docs/how-to/canary.md is about it.

    Raises:
        ConfigError: an argument is out of range or contradicts another.
        DeviceError: there is no such device, the framework cannot use it, or its free memory is
            unknown.
        PipelineError: two builds of DALI are installed.
        MissingExtraError: the framework is not installed.
    """

    @explain
    def __init__(
        self,
        manifest: Manifest | Subset,
        *,
        sampler: Sampler | Iterable[int] | None = None,
        transforms: Sequence[Transform] | Views | None = None,
        batch_size: BatchSize = 64,
        shard: ShardOptions | None = None,
        last_batch: LastBatch | None = "drop",
        device: str | torch.device = "auto",
        framework: Framework = "numpy",
        sharding: jax.sharding.NamedSharding | None = None,
        targets: Collection[str | Field | ImageTarget | Pair] = (),
        columns: Collection[str] = (),
        box_columns: Sequence[str] = (),
        flip_pairs: Sequence[tuple[str | int, str | int]] = (),
        box_format: BoxFormat = "xyxy",
        collate_fn: CollateFn | None = None,
        max_boxes: int | None = None,
        num_threads: int | None = None,
        prefetch: int = 2,
        restart: bool = False,
        on_error: OnError = "raise",
        max_failures: float = 0.01,
        max_pixels: int = MAX_PIXELS,
        read_timeout: float | None = None,
        ledger: bool | Literal["pixels"] = False,
        opener: OpenerKind | Mapping[Kind, float] = "auto",
        decoder: Callable[[], Decoder] | None = None,
        cache: Literal["host", "device"] | Sequence[MemoryCache | DiskCache] | None = None,
        canary: int | None = None,
    ) -> None:
        manifest = as_manifest(manifest)
        if shard is not None:
            shard = adopt_shard(shard)
        if sharding is not None:
            last_batch = "pad" if last_batch is None else last_batch
            shard = follow_sharding(
                sharding,
                shard,
                framework=framework,
                batch_size=batch_size,
                last_batch=last_batch,
                targets=targets,
                collate_fn=collate_fn,
            )
        self.manifest = manifest
        if isinstance(targets, Field | ImageTarget | Pair):
            raise ConfigError(f"targets is {targets}; it must be a list, as [{targets}]")
        fields = [each for each in targets if isinstance(each, Field)]
        images = [each for each in targets if isinstance(each, ImageTarget)]
        pairs = [each for each in targets if isinstance(each, Pair)]
        check_fields([*fields, *images, *pairs])
        if images and manifest.prepared:
            raise ConfigError(
                f"targets has {images[0]}, but prepare has moved the pixels of the images and not "
                "its own; feed the original images"
            )
        self.sampler = (
            IndexSampler(len(manifest), shuffle=True)
            if sampler is None
            else adopt(sampler, len(manifest))
        )
        self._finds_shard = shard is None and self.sampler.own_shards == 1
        shard = shard or ShardOptions()
        self._found = FoundShard(shard, "")
        self._check_shard(shard)
        for name, value in (("num_threads", num_threads), ("prefetch", prefetch)):
            if value is None and name == "num_threads":
                continue
            if not is_integer(value) or value < 1:
                raise ConfigError(f"{name} is {short(value)}; it must be an integer of 1 or more")
        self._num_threads = num_threads or available_threads() + 1
        self._restart = restart
        self._sharded = sharding is not None
        self._schedule = Schedule(
            self.sampler.epoch_size,
            1 if restart else self.sampler.num_epochs,
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
            fields,
            "NHWC" if framework == "jax" else "NCHW",
            Companions.of(
                manifest,
                [each for each in targets if isinstance(each, str)],
                box_columns,
                flip_pairs,
                wide=framework != "jax",
            ),
            looks_up=bool(images),
            pairs=pairs,
        )
        self._box_format = box_format
        target_arrays = Targets(
            manifest,
            targets,
            box_format,
            max_boxes,
            collate_fn,
            itertools.chain(*self._planner.views),
            box_columns,
        )
        # Encoded here, so that settings no state can hold fail now rather than at a checkpoint.
        self._identities = {
            "sampler": encode(self.sampler.identity),
            "transforms": encode(self._planner.identities),
        }
        self.device = resolve_device(device, framework)
        refuse_two_builds()
        stages = self._planner.stages
        auto = default_kind(
            self._planner.images.most_pixels(),
            on_gpu=self.device.is_cuda,
            needs_threads=decoder is not None or cache == "host" or calls_functions(stages),
        )
        self._is_auto = opener == "auto"
        self._shares = resolve_shares(opener, auto, on_gpu=self.device.is_cuda)
        choice = Choice(self._shares, self._planner.images)
        on_host = choice.kinds == (THREADS,)
        check_functions(stages, on_host=on_host)
        if decoder is not None and not callable(decoder):
            raise ConfigError(
                f"decoder is {short(decoder)}; it must be callable and make a decoder, as a class "
                "does"
            )
        if decoder is not None and THREADS not in self._shares:
            raise ConfigError(
                "decoder is set, but here the DALI graph decodes the images; pass "
                'opener="threads" or leave out decoder'
            )
        caches = None if cache is None or isinstance(cache, str) else check_caches(cache)
        self._cache = make_settings(
            cache if caches is None else None,
            self._planner,
            max_pixels,
            gpu=self.device.gpu,
            own_decoder=decoder is not None,
            kinds=choice.kinds,
            further=bool(images),
        )
        self._adapter = make_adapter(framework, self.device, sharding)
        images_in_batch = max(self._schedule.sizes.values()) * (1 + len(pairs))
        if self.device.gpu is not None:
            check_whole_images(
                self._planner.images,
                self._shares,
                gpu=self.device.gpu,
                batch_size=images_in_batch,
                prefetch=prefetch,
            )
        outputs = [view.output for view in self._planner.stages.views]
        if framework == "numpy" and any(output.dtype == "bfloat16" for output in outputs):
            raise ConfigError(
                'an output format has dtype "bfloat16", which NumPy does not have; use "float32"'
            )
        self.ledger = self._make_ledger(ledger)
        policy = Policy(on_error, self.sampler, manifest)
        paths = manifest.frame["path"]
        self._failures = Failures(
            paths.__getitem__, manifest.source.name, len(manifest), max_failures
        )
        self._tiers: TieredSource | None = None
        if caches:
            run = TieredRun(
                len(manifest), self.sampler, self._schedule, restart, check_timeout(read_timeout)
            )
            self._tiers = TieredSource(manifest.source, caches, run)
        source = self._planner.images.source
        if self._tiers is not None:
            # Tiers keep the records' first images.
            if isinstance(source, Joined) and pairs:
                source = source.of_others([self._tiers, *source.sources[1:]])
            else:
                source = self._tiers
        self._spans = Spans(self._adapter.annotate)
        self._maker = Maker(
            self._planner,
            source,
            policy,
            self._failures,
            batch_size=images_in_batch,
            device=self.device,
            num_threads=self._num_threads,
            choice=choice,
            make_decoder=decoder,
            depth=prefetch,
            max_pixels=max_pixels,
            read_timeout=check_timeout(read_timeout),
            reduce_depth=manifest.reduce_depth,
            cache=self._cache,
            further=Further(images, [each.bind(manifest) for each in images]),
            pairs=[each.name for each in pairs],
            tiers=self._tiers,
            spans=self._spans,
        )
        marks_valid = last_batch in ("pad", None) or policy.blanks
        others: list[Field | ImageTarget | Pair] = [*fields, *images, *pairs]
        named = [each.name for each in others]
        self._images, self._pairs = images, pairs
        self.canary: Canary | None = None
        if canary is not None:
            self.canary = Canary(
                canary,
                manifest,
                self._planner,
                policy=Policy("raise", self.sampler, manifest),
                to_numpy=self._adapter.to_numpy,
                pairs=[each.name for each in pairs],
                max_pixels=max_pixels,
                read_timeout=check_timeout(read_timeout),
            )
        self._hand_over = HandOver(
            self._adapter,
            target_arrays,
            Columns(
                manifest, columns, (*BATCH_KEYS, *box_columns, *named), wide=framework != "jax"
            ),
            self.ledger,
            marks_valid=marks_valid,
            spans=self._spans,
            pairs=[each.name for each in pairs],
            canary=self.canary,
        )
        self._cursor = Cursor(self._schedule, self._maker, self._hand_over, prefetch)
        self._watch: Watch | None = None
        self._warned_of_order = self._warned_of_drops = False
        # Lightning announces epochs to it.
        epochs = TrainerEpochs(self._cursor, restart=restart)
        self.batch_sampler = BatchSampler(self._schedule.sizes[0], epochs)
        self._agreement = Agreement(sharding, self.sampler.own_shards)
        self._follow_processes(launched=False)

    @classmethod
    def for_evaluation(
        cls,
        manifest: Manifest | Subset,
        *,
        sampler: Sampler | Iterable[int] | None = None,
        transforms: Sequence[Transform] | Views | None = None,
        last_batch: LastBatch | None = None,
        **options: Any,
    ) -> Self:
        """Return a loader that yields each record exactly once, in order, in every iteration.

        Each `for` starts at the first batch, also after one that was left early. In one process,
        the last batch has the remaining records only. With several processes or `sharding`, it is
        padded, so that all have equal batches. `valid` marks the records that count, in either:

            loader = gpufeed.Loader.for_evaluation(test, batch_size=64, framework="torch")
            for batch in loader:
                right = model(batch["image"]).argmax(1) == batch["label"]
                correct += (right & batch["valid"]).sum()

        Args:
            manifest: the images and their labels.
            sampler: the records to evaluate; by default all, in the manifest's order. A list or
                array of record keys evaluates a subset. Several processes evaluate a part each: see
                `shard`, and pass `ShardOptions(0, 1)` where only one of them evaluates. Do not pass
                torch's DistributedSampler: it repeats records, which are then counted twice.
            transforms: as for `Loader`; the default is `presets.evaluate()`.
            last_batch: as for `Loader`; "drop" leaves out the same records each time. None looks at
                the number of processes when an iteration starts. Pass "pad" for batches of one
                shape in one process too, as for a step that `jax.jit` or `torch.compile` compiles.
            options: all other options of `Loader`, except `restart`, which is True.

        Raises:
            ConfigError: see `Loader`.
        """
        manifest = as_manifest(manifest)
        return cls(
            manifest,
            sampler=SequentialSampler(len(manifest)) if sampler is None else sampler,
            transforms=evaluate_preset() if transforms is None else transforms,
            last_batch=last_batch,
            restart=True,
            **options,
        )

    def __len__(self) -> int:
        """The number of batches in the current epoch."""
        schedule, _, step = self._upcoming()
        return len(schedule.steps_of(0 if self._restart else schedule.epoch_of(step)))

    @property
    def step(self) -> int:
        """The number of the batch that iterating hands out next."""
        return self._upcoming()[2]

    @property
    def epoch(self) -> int:
        """The epoch of the batch that iterating hands out next."""
        schedule, _, step = self._upcoming()
        return 0 if self._restart else schedule.epoch_of(step)

    def __getitem__(self, _: object) -> NoReturn:
        """Raise `TypeError`: a loader is no dataset for torch's DataLoader."""
        raise TypeError(
            "a gpufeed Loader makes whole batches itself and takes the place of a DataLoader: "
            "iterate over it, without a DataLoader around it; loader.batch(step) returns any "
            "batch, and loader.record(key) any record"
        )

    @property
    def dataset(self) -> NoReturn:
        """There is none; users of a DataLoader and libraries that skip its batches ask for it."""
        raise AttributeError(
            "a gpufeed Loader has no dataset: its records are loader.manifest; accelerate's "
            "skip_first_batches() takes only a torch DataLoader: go to any batch with seek(), as "
            "docs/how-to/trainers.md shows for transformers"
        )

    @property
    def quarantine(self) -> Quarantine:
        """The records whose images could not be read or decoded; part of the state."""
        return self._failures.quarantine

    @property
    def stats(self) -> Stats:
        """The figures of the current pass, or else of the last one."""
        return self._cursor.stats

    def report(self) -> Report:
        """Return what bounds the current pass, or else the last one, for `print`.

        It follows from `stats` alone. `gpufeed.doctor` measures more, and says what to change.
        """
        return report_of(self.stats, self._maker.readers)

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Write a timeline of the last thousand batches, for ui.perfetto.dev or chrome://tracing.

        It has tracks for each stage of `stats.stages`, and one for the consumer's waits and its own
        work between them. docs/how-to/observing.md tells how to read it.

        Raises:
            OSError: the file cannot be written.
        """
        atomic_write(path, timeline(self._spans.latest()))

    def __iter__(self) -> Pass:
        """Return an iterator from `step` to the end of its epoch; with `restart`, from batch 0.

        The iterator has this loader's `get_state` and `set_state`, as Grain's iterators do.

        With on_error="raise", the iterator raises `DecodeError` when an image of the next batch
        cannot be read or decoded. The loader then still stands before that batch, `skip()` passes
        it, and the same iterator continues.

        Raises:
            ConfigError: the processes of a group were given different things, or the sampler has
                changed since a batch was prepared; by the iterator.
            EpochsExhausted: the sampler has no epoch left.
            TooManyFailuresError: more records failed than max_failures allows.
        """
        self._follow_processes()
        if self._restart and (not self._cursor.placed or self.step == self._end):
            self._cursor.check_process()
            self._cursor.seek(0)
        return self._start()

    def forever(self) -> Pass:
        """Return an iterator from `step` on across epochs, to the end of the sampler's last one.

        A sampler has no last epoch unless it is given `num_epochs`. For loops that count steps:

            batches = loader.forever()
            for step in range(100_000):
                train_step(next(batches))

        Everything else is as in an iteration over one epoch. The loader always stands at the batch
        that comes next, so `state_dict` may be called at any time, and a loop that is left early is
        continued by the next iteration of either kind. `seek`, `skip`, `set_epoch` and
        `load_state_dict` may move to any epoch, and the iterator continues from there. `close`, and
        the end of a `with` over the loader, end the iterator. `stats` are those since its start.

        Raises:
            ConfigError: the loader has `restart`.
            EpochsExhausted: the sampler has no epoch left.
        """
        if self._restart:
            raise ConfigError(
                "restart is True, so that each iteration is the same epoch; forever() needs a "
                "loader with restart=False"
            )
        self._follow_processes()
        return self._start(range(self._end))

    def _start(self, steps: range | None = None) -> Pass:
        if self.step >= self._end:
            raise EpochsExhausted(
                f"all {self.sampler.num_epochs} epoch(s) of the sampler have been fed; use "
                "num_epochs=None for an endless sampler, or go back with seek(0)"
            )
        if self._watch is None:
            self._watch = watch(self._describe)
        if not self._warned_of_drops:
            self._warned_of_drops = True
            self._schedule.warn_if_dropping(self.epoch)
        return self._cursor.start(Pass(self, self._cursor, steps, self._begin, self._agree))

    def _begin(self) -> None:
        """Look, before the first batch of a pass, at what may have changed since the last one."""
        self._follow_processes()
        if isinstance(self.sampler, RecordedSampler) and not self._restart:
            self.sampler.check_announced(self.epoch)

    @property
    def _end(self) -> int:
        """The number of batches in all epochs."""
        steps = self._schedule.num_steps
        return self._schedule.first_step(MAX_EPOCHS) if steps is None else steps

    def batch(self, step: int) -> Batch:
        """Return batch `step`, made from its number alone, without moving the loader.

        Failed records are quarantined and counted as they are when iterating.

        Raises:
            IndexError: there is no such batch, or this shard has no records in it.
            TypeError: step is not an integer.
            DecodeError: an image cannot be read or decoded, and on_error is "raise".
            TooManyFailuresError: more records failed than max_failures allows.
        """
        with self._cursor.turn:
            batch: Batch = self._hand_over.collate(self._make(as_integer(step)))
        return batch

    def _make(self, step: int) -> Batch:
        """Return batch `step` before `collate_fn`."""
        self._cursor.check_process()
        self._follow_processes()
        with self._cursor.turn:
            return self._hand_over.batch(*self._maker.make(step))

    def show(
        self,
        batch: Batch | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        max_images: int = 64,
    ) -> Image:
        """Return a contact sheet of the next batch, or of a batch or record at hand.

        Notebooks display it.

        The next batch is made from its number, so the loader does not move:

            loader.show()
            loader.show(loader.batch(100), path="batch.png")
            loader.show(loader.record(5))

        Images are drawn pixel by pixel, without their normalisation, with the masks, boxes and
        points that `targets` requests. Next to them are depth maps, in grey, and in blue where they
        have the value `fill`, and the images of pairs. Captions are those of `gpufeed show`. Views
        stand side by side.

        Args:
            batch: a batch of this loader, or what `record` returns; None for the batch that
                iterating hands out next.
            path: a PNG file to write the sheet to, or a folder for `batch.png`; None for no file.
            max_images: the number of images to draw at most.

        Returns:
            An RGB image of Pillow.

        Raises:
            ConfigError: `batch` is not a batch of such a loader, as after a `collate_fn` of your
                own, or an argument is out of range.
            IndexError: no batch is left.
            DecodeError: see `batch`.
        """
        from gpufeed.sheets.batch import draw_batch
        from gpufeed.sheets.sheet import check_target, save_sheet

        target = None if path is None else check_target(path, "batch.png")
        if not is_integer(max_images) or max_images < 1:
            raise ConfigError(
                f"max_images is {short(max_images)}; it must be an integer of 1 or more"
            )
        facts = [f"device {self.device}"]
        if batch is None:
            self._follow_processes()
            step = self.step % self._end if self._restart else self.step
            facts = [f"step {step} (epoch {self._schedule.epoch_of(step)})", *facts]
            batch = self._make(step)
        sheet = draw_batch(
            batch,
            self.manifest,
            [view.output for view in self._planner.stages.views],
            facts,
            box_format=self._box_format,
            to_numpy=self._adapter.to_numpy,
            max_images=max_images,
            masks={each.name: each.fill for each in self._images if isinstance(each, Mask)},
            maps={each.name: each.fill for each in self._images if isinstance(each, Depth)},
            pairs=[each.name for each in self._pairs],
        )
        if target is not None:
            save_sheet(sheet, target)
        return sheet

    def record(self, key: int, *, epoch: int | None = None) -> Batch:
        """Return one record as it is fed in an epoch, without moving the loader.

        It is what the record's row is in the batch, of any shard, in which the record first comes
        in that epoch, whether or not the epoch's end is dropped. Records that are mixed with it are
        read too. The order is searched for the record, which takes a second for millions.

        Args:
            key: the record_key.
            epoch: the epoch; by default that of the batch that iterating hands out next, or the
                last one at the end. `batch["epoch"]` says that of a batch.

        Returns:
            A dict with the keys of a batch and values without their first dimension, such as an
            image (height, width, 3), as a `collate_fn` receives it.

        Raises:
            IndexError: there is no such record or epoch.
            ConfigError: the sampler's epoch does not have the record, or is not available; or the
                loader has `sharding`.
            DecodeError: see `batch`.
            TooManyFailuresError: see `batch`.
        """
        if self._sharded:
            raise ConfigError(
                "with sharding a batch has global arrays only; make a loader without sharding to "
                "look at a record"
            )
        self._cursor.check_process()
        self._follow_processes()
        key, epochs = as_integer(key), self._schedule.num_epochs or MAX_EPOCHS
        if not 0 <= key < len(self.manifest):
            raise IndexError(f"key is {key}; there are records 0 to {len(self.manifest) - 1}")
        epoch = min(self.epoch, epochs - 1) if epoch is None else as_integer(epoch)
        if not 0 <= epoch < epochs:
            raise IndexError(f"epoch is {epoch}; there are epochs 0 to {epochs - 1}")
        self.sampler.check_reachable(epoch)
        with self._cursor.turn:
            position = self._planner.first_visit(key, epoch)
            starts_at = self._schedule.records_before
            step = bisect.bisect_right(range(position + 2), position, key=starts_at) - 1
            plan, place = self._planner.plan_visit(step, position)
            batch = self._hand_over.batch(*self._maker.make_planned(plan))
            return self._hand_over.record(batch, place)

    def rows(self, batch: Batch) -> pl.DataFrame:
        """Return the manifest's rows for the records of a batch, in the batch's order.

        With `sharding`, these are the records of this process.
        """
        return self.manifest.rows(self._adapter.to_numpy(batch["record_key"]))

    def seek(self, step: int) -> None:
        """Move to batch `step`, forward or back, without making the batches between.

        A running iteration continues from there to the end of its epoch. If `step` lies in another
        epoch, start a new iteration; that of `forever` continues in any epoch.

        Raises:
            IndexError: `step` is neither a batch nor the end of the last epoch.
            ConfigError: a sampler of another library cannot go there.
        """
        self._follow_processes(launched=False)
        step = as_integer(step)
        if not 0 <= step <= self._end:
            raise IndexError(f"step is {step}; there are batches 0 to {self._end - 1}")
        self.sampler.check_reachable(self._schedule.epoch_of(min(step, self._end - 1)))
        self._cursor.seek(step)

    def skip(self, count: int = 1) -> None:
        """Skip the next `count` batches."""
        self._follow_processes(launched=False)
        self.seek(self._cursor.step + count)

    def set_epoch(self, epoch: int) -> None:
        """Move to the beginning of an epoch.

        A position in the epoch that `seek`, `skip` or `load_state_dict` chose is kept until a
        batch has been handed out, so that a resumed epoch goes on.

        Torch's distributed samplers need this call before each epoch. Here epochs advance by
        themselves, so the call is optional. Call it on the loader: where the sampler itself was
        set to another epoch than the one that begins, the iterator raises `ConfigError`. With
        `restart` it does nothing.

        Raises:
            IndexError: there is no such epoch.
        """
        if self._restart:
            return
        self._follow_processes(launched=False)
        resumed = self._cursor.placed and self.epoch == as_integer(epoch)
        first = self._schedule.first_step(epoch) if epoch >= 0 else -1
        if self.step != first and not resumed:
            self.seek(first)

    def state_dict(self) -> dict[str, Any]:
        """Return the state to resume from: small, JSON-serializable, O(1).

        `records` is the number of records handed out by all shards together, as a position in the
        sampler's order; prefetched batches do not count. `fingerprints` holds the manifest's hash
        and, as JSON, the settings of the sampler, the transforms and the opener. A sampler's keys,
        weights or labels are listed there up to 1,000; of more, there are the number and a
        SHA-256. `quarantine` lists the bad records that this process has met.

        Warns once if the sampler's order cannot be continued in another process, such as that of
        torch's RandomSampler.
        """
        if not (self.sampler.addressable or self._warned_of_order):
            self._warned_of_order = True
            warnings.warn(
                f"no other process can resume from this state: the order of {self.sampler!r} "
                "cannot be repeated; use a gpufeed sampler, such as "
                f"IndexSampler({len(self.manifest)}, shuffle=True) or WeightedSampler(weights)",
                stacklevel=2,
            )
        return states.make_state(
            self._schedule.records_before(self._cursor.step),
            self._fingerprints(),
            self._failures.state(),
        )

    def load_state_dict(self, state: Mapping[str, Any], ignore: Collection[str] = ()) -> None:
        """Resume from the position of the loader that saved `state`.

        The state does not include `on_error`, `max_pixels` and the manifest's `reduce_depth`; use
        the same values as before. The number of shards may change if the global batch size does
        not. With another global batch size, the state loads if a batch begins at its record, and
        the order continues there.

        Args:
            state: the result of `state_dict`.
            ignore: of "manifest", "sampler", "transforms" and "opener", those that may have
                changed. With another opener, such as on other hardware, the order and all random
                numbers stay the same, and pixels differ by a few grey levels.

        Raises:
            StateMismatchError: the state was saved with another manifest, sampler, transforms or
                opener; the message gives the old and the new value of each setting that differs.
            StateError: it is not the state of a gpufeed loader, or no batch begins at its position.
        """
        self._follow_processes(launched=False)
        records = states.check_state(state, self._fingerprints(), ignore, self.manifest._new_column)
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
        self._agreement.renew()

    def get_state(self) -> bytes:
        """Return `state_dict()` as JSON, under the name that Grain's iterators use."""
        return states.encode_state(self.state_dict())

    def set_state(self, state: bytes) -> None:
        """Load the result of `get_state`.

        Raises:
            StateError: see `load_state_dict`.
        """
        self.load_state_dict(states.decode_state(state))

    def start_prefetch(self) -> None:
        """Do nothing: prefetching starts with iterating.

        Grain's checkpoint handler calls this on an iterator it has restored.
        """

    def close(self) -> None:
        """Stop all work and free the pipelines; using the loader again makes new ones."""
        self._cursor.close()
        if self._watch is not None:
            self._watch.end()
            self._watch = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        """Raise `ConfigError`: a loader belongs to its process."""
        raise ConfigError(
            "a Loader cannot be pickled or copied; make it in the process that uses it, from a "
            "manifest, a sampler and transforms, which can, or save its state_dict()"
        )

    def __repr__(self) -> str:
        schedule, (shard, origin), step = self._upcoming()
        size = schedule.batch_size
        part = f"shard {shard.shard_index} of {shard.shard_count}, "
        if origin:
            part = f"{part.removesuffix(', ')} from {origin}, "
        elif shard.shard_count == 1:
            part = ""
        if dropped := schedule.dropped(self.epoch):
            part = f"drops {dropped} of {schedule.epoch_size} records an epoch, {part}"
        if self._cache is not None:
            cached = 0 if self._maker.cache is None else self._maker.cache.ready.sum()
            place = self._cache.place
            part += f"{cached} images in a {place} cache of up to {amount(self._cache.size)}, "
        if self._tiers is not None:
            part += f"cache {list(self._tiers.caches)}, "
        if not self._is_auto:
            part += f"opener {identify(self._shares)}, "
        epochs = "" if (count := schedule.num_epochs) is None else f" of {count}"
        within = f"batch {step - schedule.first_step(self.epoch)} of the epoch"
        if step == schedule.num_steps:
            within = "the end of all epochs"
        return (
            f"Loader({len(self.manifest)} records, {self.sampler!r}, {len(self)} batches of "
            f"{size} in epoch {self.epoch}{epochs}, {part}{self.device}, at step {step}, {within})"
        )

    def _check_shard(self, shard: ShardOptions) -> None:
        """Raise `ConfigError` if the sampler's order cannot be divided into these shards."""
        if shard.shard_count == 1:
            return
        if not self.sampler.addressable:
            raise ConfigError(
                f"{self.sampler!r} may have a different order in each of the {shard.shard_count} "
                "processes; use a gpufeed sampler, or torch's DistributedSampler without shard"
            )
        if self.sampler.own_shards > 1:
            raise ConfigError(
                f"the sampler makes {self.sampler.own_shards} shards itself, and shard={shard} "
                "would divide each of them again; leave out shard, or use a sampler without shards"
            )

    def _upcoming(self) -> tuple[Schedule, FoundShard, int]:
        """Return the schedule, the shard and the step that iterating goes on with.

        A running iteration goes on as it began, and any other finds the shard again.
        """
        if self._cursor.running:
            return self._schedule, self._found, self._cursor.step
        return self._find(launched=False)

    def _find(self, *, launched: bool) -> tuple[Schedule, FoundShard, int]:
        """Find the shard again, if it was not given, and the same place in it; change nothing."""
        found = find_shard(launched=launched) if self._finds_shard else self._found
        if found.shard == self._schedule.shard:
            return self._schedule, found, self._cursor.step
        self._check_shard(found.shard)
        changed = self._schedule.of_shard(found.shard)
        self._planner.check_batch_size(changed)
        records = self._schedule.records_before(self._cursor.step)
        try:
            return changed, found, changed.step_at(records)
        except StateError:
            raise ConfigError(
                f"the loader stands at record {records} of the order, where no batch begins "
                f"now that the number of processes is {found.shard.shard_count}; make the "
                "loader after the process group is initialized, or pass shard"
            ) from None

    def _follow_processes(self, *, launched: bool = True) -> None:
        """Find the shard again, if it was not given, and move to the same place in it."""
        # All checks come first, so that a loop that tries again meets the same error.
        changed, found, step = self._find(launched=launched)
        if changed is not self._schedule:
            if self._cursor.running:
                self._cursor.supersede()  # its steps are counted in other batches
            self._agreement.renew()
            self._schedule.become(changed)
            placed = self._cursor.placed
            self._cursor.seek(step)
            self._cursor.placed = placed
            if self.ledger is not None:
                self.ledger.run = self._run(self.ledger.run.pixels)
            warn_if_cut_twice(len(self.manifest), self.manifest.selected_from, found)
            if isinstance(self.sampler, SubsetSampler | GrainSampler | RecordedSampler):
                warn_if_cut_twice(self.sampler.epoch_size, len(self.manifest), found)
        self._found = found

    @cached_property
    def _source_name(self) -> str:
        """The `repr` of the source, made once: a user's own may be of a million paths."""
        return short(self.manifest.source)

    def _describe(self) -> dict[str, Any]:
        """Return what `gpufeed top` shows of this loader, as JSON has it; from any thread."""
        return {
            "images": len(self.manifest),
            "source": self._source_name,
            "device": self.device,
            "threads": self._num_threads,
            **asdict(self._schedule.shard),
            "tiers": [] if self._tiers is None else [type(c).__name__ for c in self._tiers.caches],
            "readers": self._maker.readers,
            "passes": self._cursor.passes,
            "waits": self._cursor.waits,
            "stats": asdict(self._cursor.stats),
        }

    def _fingerprints(self) -> dict[str, str]:
        return {"manifest": self.manifest.fingerprint(), **self._settings()}

    def _settings(self) -> dict[str, str]:
        settings = {**self._identities, "opener": identify(self._shares)}
        if not is_fixed(self.sampler):  # a state must not claim what it was
            settings["sampler"] = encode(self.sampler.identity)
        return settings

    def _agree(self) -> None:
        """Wait for the other processes and compare what they were given, if it is due."""
        self._agreement.reach(
            self._schedule.shard,
            lambda: facts_of(
                self.manifest,
                self._settings(),
                self._schedule,
                own_shards=self.sampler.own_shards,
                restart=self._restart,
                position=self._schedule.records_before(self._cursor.step),
            ),
        )

    def _make_ledger(self, mode: bool | Literal["pixels"]) -> Ledger | None:
        if mode not in (False, True, "pixels"):
            raise ConfigError(f'ledger is {short(mode)}; it must be True, False or "pixels"')
        if not mode:
            return None
        if self.sampler.own_shards > 1:
            raise ConfigError(
                "a ledger needs one order for all processes, but the sampler makes "
                f"{self.sampler.own_shards} shards itself; use a sampler without shards, and pass "
                "shard to the loader"
            )
        return Ledger(self._run(mode == "pixels"))

    def _run(self, pixels: bool) -> Run:
        return Run(
            manifest=self.manifest.fingerprint(),
            sampler=self._identities["sampler"],
            transforms=self._identities["transforms"],
            num_records=len(self.manifest),
            epoch_size=self.sampler.epoch_size,
            per_epoch=self._schedule.records_per_epoch,
            repeats=self.sampler.has_repeats,
            pixels=pixels,
        )
