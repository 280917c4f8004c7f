"""The cache on the device: what transforms do alike in every epoch is opened once, and stays."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from nvidia.dali import fn, tensors

from gpufeed._util.spans import Spans
from gpufeed.engine.device_store import DeviceStore
from gpufeed.engine.engine import Engine
from gpufeed.errors import ConfigError, DecodeError, PipelineError
from gpufeed.open.base import KEPT, Opened, finished
from gpufeed.open.geometry import PLACES, carry_out
from gpufeed.open.inputs import declare, feeds
from gpufeed.plan.stages import Resample, Stages, View, Window, map_arrays
from gpufeed.transforms.output import ToDtype

if TYPE_CHECKING:
    from gpufeed.engine.device import Device
    from gpufeed.open.base import Opener
    from gpufeed.plan.planner import BatchPlan
    from gpufeed.plan.prefix import Prefix
    from gpufeed.source.base import Content

__all__ = ["DeviceCache"]

_KEPT = "kept images"
_AS_THEY_ARE = ToDtype("uint8", layout="NHWC")
Int = npt.NDArray[np.integer[Any]]
Bool = npt.NDArray[np.bool_]


class DeviceCache:
    """An opener that opens an image once, by another opener, and keeps its prefix on the device.

    What is not kept yet is run through an engine of its own, and written into one block of memory.
    The batch's graph takes one image for each record from there, and goes on after the prefix.

    Blank images are not kept, nor those that are damaged, but good in the part that a visit shows;
    these are opened for each visit, as without a cache.

    Args:
        prefix: what is kept of each record.
        opener: opens what is not kept, in one view.
        batch_size: the most records of a batch.
        device: the device that runs the graphs and keeps the images.
        num_threads: CPU threads of DALI for what is not kept.

    Attributes:
        ready: bool (n,), which records are kept; changes as they come.

    Raises:
        ConfigError: the device does not give the memory.
    """

    def __init__(
        self,
        prefix: Prefix,
        opener: Opener,
        *,
        batch_size: int,
        device: Device,
        num_threads: int,
        spans: Spans,
    ) -> None:
        self._spans = spans
        self.ready = np.zeros(len(prefix.sizes), np.bool_)
        self._images: dict[int, Any] = {}
        try:
            self._store = DeviceStore(prefix.sizes, device)
        except MemoryError as error:
            raise ConfigError(
                f'cache="device" gets no memory of {device}: {error}; leave out cache'
            ) from error
        self._prefix = prefix
        self._opener = opener
        self._batch_size = batch_size
        self._device = device
        self._num_threads = num_threads
        self._engine: Engine | None = None
        # One batch after the other, so that no record is opened twice.
        self._worker = ThreadPoolExecutor(1, "gpufeed-cache")
        self._closed = False

    def build(self, stages: Stages) -> list[Any]:
        """Declare the input of kept images, and carry out each view's opening: see `Opener`."""
        where = "gpu" if self._device.is_cuda else "cpu"
        image = fn.external_source(name=_KEPT, no_copy=True, layout="HWC", device=where)
        # Any records do: only the structure matters.
        keys = np.zeros(len(stages.window.start), np.int64)
        window, openings = declare(self._parts(stages, keys, np.ones(len(keys), np.bool_)), "kept")
        if window is not None:
            image = fn.slice(image, window.start, window.shape, **PLACES)
        return carry_out(openings, image)

    def open(
        self,
        plan: BatchPlan,
        encoded: Sequence[Content | DecodeError],
        before: Opened | None = None,  # noqa: ARG002 - bad images are rare
        further: Sequence[Sequence[Content]] = (),  # noqa: ARG002 - `Loader` refuses them
    ) -> Future[Opened]:
        """Start to open what is not kept of a batch: see `Opener`."""
        if not self._closed and self.ready[plan.image_keys].all() and not plan.blank.any():
            with self._spans("open", plan.step):
                return finished(self._opened(plan, plan.blank_images, {}))
        future: Future[Opened] = Future()
        try:
            self._worker.submit(self._work, weakref.ref(future), plan, encoded)
        except RuntimeError:
            future.cancel()  # it is closed
        return future

    def blame(self, opened: Opened, message: str) -> dict[int, DecodeError]:  # noqa: ARG002
        """Return no errors: what the batch's graph takes has been decoded."""
        return {}

    def close(self) -> None:
        """End the threads, and free the images; after this, `open` is cancelled."""
        self._closed = True
        self._worker.shutdown(cancel_futures=True)
        self._engine = None
        self._opener.close()
        self._images.clear()
        self._store.close()

    def _work(
        self,
        reference: weakref.ref[Future[Opened]],
        plan: BatchPlan,
        encoded: Sequence[Content | DecodeError],
    ) -> None:
        future = reference()
        if future is None:
            return  # the batch was dropped
        try:
            with self._spans("open", plan.step):
                opened = self._open(plan, encoded)
            future.set_result(opened)
        except BaseException as error:  # any error must reach the thread that waits for the batch
            future.set_exception(error)
        finally:
            del future  # which has the error, whose traceback has this frame

    def _open(self, plan: BatchPlan, encoded: Sequence[Content | DecodeError]) -> Opened:
        keys = plan.image_keys
        own = plan.blank_images | [isinstance(each, DecodeError) for each in encoded]
        while True:
            new = np.flatnonzero(~own & ~self.ready[keys])
            _, firsts = np.unique(keys[new], return_index=True)
            places = np.sort([*np.flatnonzero(own), *new[firsts]])
            if not len(places):
                return self._opened(plan, own, {})
            images = self._make(plan, encoded, places, own)
            if not isinstance(images, dict):
                break
            # A damaged image may be good in the part that this visit shows.
            again = [place for place in images if not own[place]]
            if self._prefix.resize is not None or not again:
                return Opened(plan, encoded, errors=images)
            own[again] = True
        made = dict(zip(places.tolist(), images, strict=True))
        for place in [place for place in made if not own[place]]:
            key = int(keys[place])
            self._images[key] = self._store.put(key, made.pop(place))
            self.ready[key] = True
        return self._opened(plan, own, made)

    def _make(
        self,
        plan: BatchPlan,
        encoded: Sequence[Content | DecodeError],
        places: Int,
        own: Bool,
    ) -> list[Any] | dict[int, DecodeError]:
        """Return the images at these places of a batch, or the errors of those that are bad."""
        part = replace(
            plan,
            record_keys=plan.image_keys[places],
            image_keys=plan.image_keys[places],
            blank=plan.blank_images[places],
            sizes=plan.sizes[places],
            stages=self._first(plan, places, own[places]),
        )
        contents = [encoded[place] for place in places]
        if any(each is KEPT for each in contents):
            raise PipelineError("the cache was closed while a batch of it was made")
        opened = self._opener.open(part, contents).result()
        outcome: list[Any] | dict[int, DecodeError] = {**opened.errors}
        if not outcome:
            if self._engine is None or self._engine.broken:
                self._engine = Engine(
                    part.stages,
                    self._opener,
                    batch_size=self._batch_size,
                    device=self._device,
                    num_threads=self._num_threads,
                    depth=1,
                    dense=False,
                )
            outcome = self._engine.result(self._engine.begin(opened))
        if isinstance(outcome, list):
            (images,) = outcome
            return [images[number] for number in range(len(places))]
        return {int(places[number]): error for number, error in outcome.items()}

    def _first(self, plan: BatchPlan, places: Int, own: Bool) -> Stages:
        """Return the stages that make what is kept; `own` records have the window of the visit."""
        window: Window = map_arrays(lambda values: values[places], plan.stages.window)
        if self._prefix.resize is None:
            kept = self._prefix.window
            keys, mine = plan.image_keys[places], own[:, None]
            start = np.where(mine, window.start, kept.start[keys])
            window = Window(start, np.where(mine, window.shape, kept.shape[keys]))
            first = Resample()
        else:
            stage: Any = plan.stages.views[0].stages[0]  # a view always begins with a Resample
            resize = map_arrays(lambda values: values[places], stage.resize)
            first = Resample(resize=resize)
        return Stages(window, (View((first,), _AS_THEY_ARE, (), (0, 0)),))

    def _parts(self, stages: Stages, keys: Int, own: Bool) -> tuple[Window | None, Any]:
        """Return the window of each image to show, None for all of it, and each view's opening."""
        if self._prefix.resize is not None:
            return None, self._prefix.after(stages).openings
        start, shape = vars(stages.window).values()
        first = np.where(own[:, None], start, self._prefix.window.start[keys])
        return Window(start - first, shape), stages.openings

    def _opened(self, plan: BatchPlan, own: Bool, made: dict[int, Any]) -> Opened:
        images = [self._images.get(key) for key in plan.image_keys.tolist()]
        for place, image in made.items():
            images[place] = image
        tensor_list = tensors.TensorListGPU if self._device.is_cuda else tensors.TensorListCPU
        fed = {
            _KEPT: tensor_list(images, "HWC", contiguous=False),
            **feeds(self._parts(plan.stages, plan.image_keys, own), "kept"),
        }
        return Opened(plan, (), fed)
