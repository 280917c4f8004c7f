"""The canary: now and then an image that was handed out is made again on the CPU, and compared."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpufeed._util.numbers import is_integer
from gpufeed._util.sanitize import short
from gpufeed.engine.device import resolve_device
from gpufeed.errors import CanaryError, ConfigError, GpufeedError
from gpufeed.faults.failures import Failures
from gpufeed.feed.maker import Maker, await_result
from gpufeed.open.choice import Choice
from gpufeed.open.kinds import THREADS
from gpufeed.sheets.batch import levels_of
from gpufeed.sheets.sheet import Caption, draw_sheet, save_sheet

if TYPE_CHECKING:
    from gpufeed.faults.policy import Policy
    from gpufeed.feed.batch import Batch
    from gpufeed.plan.planner import BatchPlan, Planner
    from gpufeed.records import Manifest
    from gpufeed.source.base import Encoded

__all__ = ["ALLOWED", "Canary", "distance"]

Pixels = npt.NDArray[np.uint8]

ALLOWED = 24.0
"""The largest `distance` of images that count as the same; docs/how-to/canary.md says why."""
_BLOCK = 16


class Canary:
    """Compares one record of every k-th batch with itself, made again on a thread of the host.

    It is read from its source, past all caches, and decoded by gpufeed's decoder on the CPU. All
    its numbers are those of its batch, so images that are mixed with it are made again too.

    Args:
        every: k, batches from one comparison to the next.
        manifest: the loader's manifest.
        planner: planned the batches.
        policy: raises the errors of bad images.
        to_numpy: from an array of a batch to one in host memory.
        pairs: the names of records' other images.
        max_pixels: as for `Loader`.
        read_timeout: as for `Loader`.

    Attributes:
        compared: the number of records that have been compared.
        furthest: the largest distance of an image from itself so far, in grey levels.

    Raises:
        ConfigError: `every` is not an integer of 1 or more.
    """

    def __init__(
        self,
        every: int,
        manifest: Manifest,
        planner: Planner,
        *,
        policy: Policy,
        to_numpy: Callable[[Any], npt.NDArray[Any]],
        pairs: Sequence[str],
        max_pixels: int,
        read_timeout: float | None,
    ) -> None:
        if not is_integer(every) or every < 1:
            raise ConfigError(f"canary is {short(every)}; it must be an integer of 1 or more")
        self.compared = 0
        self.furthest = 0.0
        self._every = int(every)
        self._planner = planner
        self._to_numpy = to_numpy
        self._names = ("image", *pairs)
        self._source = source = planner.images.source
        paths, choice = manifest.frame["path"], Choice({THREADS: 1.0}, planner.images)
        self._makers = [
            Maker(
                planner,
                source,
                policy,
                Failures(paths.__getitem__, source.name, len(manifest), 0),
                batch_size=planner.group * len(self._names),
                device=resolve_device("cpu"),
                num_threads=1,
                choice=choice,
                make_decoder=make_decoder,
                depth=1,
                max_pixels=max_pixels,
                read_timeout=read_timeout,
                reduce_depth=manifest.reduce_depth,
                pairs=pairs,
            )
            for make_decoder in (None, _Rough)
        ]
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: Future[CanaryError | None] | None = None

    def look(self, plan: BatchPlan, batch: Batch) -> None:
        """Start to compare a record of a batch that is handed out now, if it is a k-th one.

        Raises:
            CanaryError: a record of an earlier batch was different.
        """
        due = plan.step % self._every == 0
        if due or (self._under_way is not None and self._under_way.done()):
            self.settle()
        places = np.flatnonzero(plan.valid) if due else ()
        if not len(places):
            return
        place = int(places[plan.step // self._every % len(places)])
        # Copied now, since the consumer may change its arrays.
        rows = [[self._row(view, place) for view in _views(batch[n])] for n in self._names]
        # Planned here and not on the thread, where the sampler may have moved on.
        again = self._planner.plan_row(plan, place)
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "gpufeed-canary")
        handed_out = [np.stack(view) for view in zip(*rows, strict=True)]
        self._under_way = self._thread.submit(self._compare, *again, handed_out)

    def settle(self) -> None:
        """Wait for the comparison under way.

        Raises:
            CanaryError: the record was different.
        """
        under_way, self._under_way = self._under_way, None
        error = None if under_way is None else await_result(under_way)
        if error is not None:
            raise error

    def close(self) -> None:
        """Drop the comparison under way, and end the thread."""
        thread, self._thread, self._under_way = self._thread, None, None
        if thread is not None:
            thread.shutdown(cancel_futures=True)
        for maker in self._makers:
            maker.close()

    def _row(self, images: Any, place: int) -> npt.NDArray[Any]:
        if getattr(images, "is_fully_addressable", True):
            return np.array(self._to_numpy(images[place]))
        return np.array(self._to_numpy(images)[place])  # a jax.Array over several processes

    def _compare(
        self, plan: BatchPlan, place: int, handed_out: list[npt.NDArray[Any]]
    ) -> CanaryError | None:
        outputs = [view.output for view in plan.stages.views]
        given = [*itertools.chain(*map(levels_of, handed_out, outputs))]
        try:
            wanted = self._again(0, plan, place)
            apart = [*map(distance, given, wanted)]
            if max(apart) > ALLOWED:
                # Equalizing, solarizing and the like make much of a grey level.
                between = map(distance, self._again(1, plan, place), wanted)
                apart = [max(far - 2 * near, 0.0) for far, near in zip(apart, between, strict=True)]
        except GpufeedError as error:
            warnings.warn(
                f"canary: a record of batch {plan.step} was not compared, since it cannot be made "
                f"again: {error}",
                stacklevel=2,
            )
            return None
        self.compared += 1
        self.furthest = max(self.furthest, *apart)
        if max(apart) <= ALLOWED:
            return None
        worst = int(np.argmax(apart))
        image = int(plan.image_keys[place + worst % len(self._names) * len(plan)])
        key, path = int(plan.record_keys[place]), self._source.name(image)
        sheet = _save(given[worst], wanted[worst], apart[worst], plan.step, key, path)
        return CanaryError(plan.step, key, path, apart[worst], sheet)

    def _again(self, maker: int, plan: BatchPlan, place: int) -> list[Pixels]:
        """Return a record's images, view after view."""
        _, made = self._makers[maker].make_planned(plan)
        own = [np.from_dlpack(tensor)[place :: len(plan)] for tensor in made]
        return [*itertools.chain(*map(levels_of, own, (v.output for v in plan.stages.views)))]


class _Rough:
    """gpufeed's decoder on the CPU, but some blocks are a grey level or two off."""

    def __init__(self) -> None:
        from gpufeed.decode.decoders import NvImageCodec

        self._decoder = NvImageCodec()

    def decode(
        self, content: Encoded, start: tuple[int, int], shape: tuple[int, int]
    ) -> Pixels | None:
        """Decode a window of an image: see `Decoder`."""
        pixels = self._decoder.decode(content, start, shape)
        if pixels is None:
            return None
        coarse = np.random.default_rng(0).integers(-2, 3, [-(-size // 8) for size in shape])
        off = np.kron(coarse, np.ones((8, 8), np.int16))[: shape[0], : shape[1], None]
        return np.clip(pixels + off, 0, 255).astype(np.uint8)


def _views(images: Any) -> Sequence[Any]:
    return images if isinstance(images, list) else [images]


def distance(one: Pixels, other: Pixels) -> float:
    """Return how far apart two images are: the largest mean difference in a block.

    Blocks are 16 to 31 pixels high and wide, or the whole of a smaller image.

    Args:
        one: uint8 (height, width, 3).
        other: uint8 (height, width, 3).
    """
    means = np.abs(one.astype(np.int16) - other).mean(axis=2)
    for _ in range(2):  # down, then across
        size = len(means)
        count = max(size // _BLOCK, 1)
        edges = np.arange(count + 1) * size // count
        means = np.add.reduceat(means, edges[:-1]).T / np.diff(edges)
    return float(means.max())


def _save(
    given: Pixels, wanted: Pixels, apart: float, step: int, key: int, path: str
) -> str | None:
    """Write two images and their difference to the current folder; return the file, if it can."""
    difference = np.abs(given.astype(np.int16) - wanted).astype(np.uint8)
    captions = [
        Caption("handed out", ""),
        Caption("made again", "on the CPU"),
        Caption("difference", f"{apart:.0f} grey levels, where it is largest"),
    ]
    facts = [f"step {step}", f"record {key}", path]
    sheet = draw_sheet(np.stack([given, wanted, difference]), captions, facts, columns=3)
    try:
        target = Path.cwd() / f"canary-step{step}-record{key}.png"
        save_sheet(sheet, target)
    except (ConfigError, OSError):
        return None
    return str(target)
