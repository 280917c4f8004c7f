"""Opening images on threads of the host: decoding windows, resizing and padding them.

DALI's own resize takes three times as long on the CPU, so this runs before the graph.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpufeed._util.memory import Memory
from gpufeed.decode.accept import Acceptor
from gpufeed.decode.decoders import Decoder, NvImageCodec
from gpufeed.decode.diagnose import Name, undecodable
from gpufeed.errors import (
    ConfigError,
    DecodeError,
    GpufeedError,
    PipelineError,
    TransformError,
)
from gpufeed.open.base import Opened, Pixels, finished, out_of_memory, without_traceback
from gpufeed.open.inputs import declare_images, share
from gpufeed.open.resize import Resizer
from gpufeed.plan.stages import Resample, map_arrays
from gpufeed.transforms.function import Lambda

if TYPE_CHECKING:
    from gpufeed.open.budget import Budget
    from gpufeed.plan.planner import BatchPlan
    from gpufeed.plan.stages import Stages, View
    from gpufeed.source.base import Encoded

__all__ = ["HostOpener"]

Shapes = Sequence[Sequence[float]]
"""(height, width) for each image, whole numbers."""
_Call = Callable[[int, Pixels], Pixels]
"""A `Lambda` for one batch, which takes an image's place in it and the image."""


class HostOpener:
    """Opens images on its own threads, and feeds the graph uint8 pixels.

    Args:
        views: the number of views of a batch.
        name: from a record key to the name of its image in errors.
        num_threads: the number of threads.
        budget: the limit on large images that are decoded at the same time.
        make_decoder: makes a decoder for each thread.
        reduce_depth: as for `Manifest`.
    """

    def __init__(
        self,
        views: int,
        name: Name,
        num_threads: int,
        budget: Budget,
        make_decoder: Callable[[], Decoder] = NvImageCodec,
        *,
        reduce_depth: bool = False,
    ) -> None:
        self._budget = budget
        self._name = name
        self._acceptor = Acceptor(name, reduce_depth=reduce_depth)
        self._num_threads = num_threads
        self._workers = ThreadPoolExecutor(num_threads, "gpufeed-decode")
        self._closed = False
        self._make_decoder = make_decoder
        self._tools = threading.local()
        self._memory = [Memory() for _ in range(views)]

    def build(self, stages: Stages) -> list[Any]:
        """Declare an input for the images of each view: see `Opener`."""
        return [declare_images(_images(number), "HWC") for number in range(len(stages.views))]

    def open(
        self,
        plan: BatchPlan,
        encoded: Sequence[Encoded | DecodeError],
        before: Opened | None = None,
    ) -> Future[Opened]:
        """Start to open a batch: see `Opener`. After `close`, the future is cancelled."""
        errors = {
            place: each for place, each in enumerate(encoded) if isinstance(each, DecodeError)
        }
        if errors:
            if before is None:
                return finished(Opened(plan, encoded, errors=errors))
            return finished(Opened(plan, encoded, {}, errors, before.views, before.ready))
        contents = [each for each in encoded if not isinstance(each, DecodeError)]
        batch = _Batch(plan, contents, self, before)
        try:
            for _ in range(min(self._num_threads, batch.pending)):
                self._workers.submit(_work, weakref.ref(batch))
        except RuntimeError as error:
            if not self._closed:
                raise PipelineError(f"no thread to decode images could start: {error}") from None
            batch.cancel()
        return batch

    def blame(self, opened: Opened) -> dict[int, DecodeError]:  # noqa: ARG002
        """Blame no image: the graph's inputs are decoded pixels."""
        return {}

    def close(self) -> None:
        """End the threads."""
        self._closed = True
        self._workers.shutdown(cancel_futures=True)


def _images(view: int) -> str:
    return f"images {view}"


def _work(reference: weakref.ref[_Batch]) -> None:
    """Open images of a batch until none is left, or the batch was dropped."""
    while True:
        batch = reference()
        if batch is None or not batch.open_next():
            return
        del batch


class _Batch(Future[Opened]):
    """A batch whose images are being opened."""

    def __init__(
        self,
        plan: BatchPlan,
        encoded: Sequence[Encoded],
        opener: HostOpener,
        before: Opened | None,
    ) -> None:
        super().__init__()
        self._plan = plan
        self._encoded = encoded
        self._opener = opener
        self._keys = plan.record_keys.tolist()
        self._sizes = plan.sizes.tolist()
        self._starts = plan.stages.window.start.tolist()
        self._shapes = plan.stages.window.shape.tolist()
        try:
            self._views = [
                _View(view, self._shapes, memory)
                for view, memory in zip(plan.stages.views, opener._memory, strict=True)
            ]
        except MemoryError as error:
            raise out_of_memory(str(error)) from None
        self._errors: dict[int, BaseException] = {}
        self._lock = threading.Lock()
        self._places = list(range(len(encoded)))
        if before is not None:
            self._reuse(before)
        self._started = self._done = 0

    def _reuse(self, before: Opened) -> None:
        self._places = [place for place in self._places if place not in before.ready]
        for view, images in zip(self._views, before.views):  # noqa: B905 - there may be no views
            for place in before.ready:
                view.images[place] = images[place]

    @property
    def pending(self) -> int:
        """The number of images to open."""
        return len(self._places)

    def open_next(self) -> bool:
        """Open the next image; return False if none is left."""
        with self._lock:
            if self._started == len(self._places):
                return False
            place = self._places[self._started]
            self._started += 1
        try:
            height, width = self._sizes[place]
            with self._opener._budget.take(height * width):
                self._open(place)
        except BaseException as error:  # any error must reach the thread that waits for the batch
            self._errors[place] = error
        with self._lock:
            self._done += 1
            last = self._done == len(self._places)
        if last:
            try:
                self.set_result(self._collect())
            except GpufeedError as error:
                self.set_exception(error)
            except BaseException as error:
                self.set_exception(self._unexpected(0, error))
        return True

    def _open(self, place: int) -> None:
        tools = self._opener._tools
        if not hasattr(tools, "resizer"):
            tools.decoder, tools.resizer = self._opener._make_decoder(), Resizer()
        content, key, name = self._encoded[place], self._keys[place], self._opener._name
        content = self._opener._acceptor.accept(content, tuple(self._sizes[place]), key)
        start, shape = self._starts[place], self._shapes[place]
        window = tools.decoder.decode(content, tuple(start), tuple(shape))
        if window is None:
            raise undecodable(content, key, name)
        if window.dtype != np.uint8 or window.shape != (*shape, 3):
            raise ConfigError(
                f"{type(tools.decoder).__name__}.decode returned {window.dtype} {window.shape}; it "
                f"must return uint8 {(*shape, 3)}, the window alone, or None"
            )
        for view in self._views:
            view.write(place, window, tools.resizer)

    def _collect(self) -> Opened:
        views = [view.images for view in self._views]
        if not self._errors:
            fed = {_images(number): share(images, "HWC") for number, images in enumerate(views)}
            # Without the encoded images, so that batches that wait take less memory.
            return Opened(self._plan, [], fed, views=views)
        bad = {}
        for place, error in sorted(self._errors.items()):
            if not isinstance(error, DecodeError):
                raise self._unexpected(place, error)
            bad[place] = without_traceback(error)
        self._errors.clear()
        ready = frozenset(range(len(self._encoded))) - bad.keys()
        return Opened(self._plan, self._encoded, {}, bad, views, ready)

    def _unexpected(self, place: int, error: BaseException) -> Exception:
        if isinstance(error, MemoryError):
            return out_of_memory(str(error))
        key, step = self._keys[place], self._plan.step
        name = self._opener._name(key)
        if isinstance(error, ConfigError):
            error.add_note(f"raised for record {key} ({name}) in batch {step}")
            return error
        if isinstance(error, TransformError):
            error.step, error.record_key, error.path = step, key, name
            return error
        failure = PipelineError(f"record {key} ({name}) in batch {step} failed: {error!r}")
        failure.__cause__ = error
        return failure


class _View:
    """The opening of one view of one batch.

    Attributes:
        images: the n output arrays, uint8 (height, width, 3).
    """

    def __init__(self, view: View, shapes: Shapes, memory: Memory) -> None:
        self._stages: list[_Resampling | _Call] = []
        for stage in view.opening:
            if isinstance(stage, Resample):
                own = _Resampling(stage, shapes)
                self._stages.append(own)
                shapes = own.shapes
            elif isinstance(stage.transform, Lambda):
                self._stages.append(partial(stage.transform, stage.params))
                if stage.transform.size is not None:
                    shapes = [stage.transform.size] * len(shapes)
        self.images = _allocate(shapes, memory)

    def write(self, place: int, image: Pixels, resizer: Resizer) -> None:
        """Carry out the stages on a decoded window, and write the image at `place`."""
        *before, last = self._stages
        for stage in before:
            if not isinstance(stage, _Resampling):
                image = stage(place, image)
                continue
            height, width = (int(side) for side in stage.shapes[place])
            out = np.empty((height, width, 3), np.uint8)
            stage.write(image, place, resizer, out)
            image = out
        if isinstance(last, _Resampling):
            last.write(image, place, resizer, self.images[place])
        else:
            self.images[place][...] = last(place, image)


class _Resampling:
    """A `Resample` for one batch, with its arrays as lists, which are faster to index.

    Args:
        stage: the stage, with arrays.
        shapes: the input shape of each image.

    Attributes:
        shapes: the output shape of each image.
    """

    def __init__(self, stage: Resample, shapes: Shapes) -> None:
        listed: Any = map_arrays(np.ndarray.tolist, stage)
        self._stage = listed
        if listed.cut is not None:
            shapes = listed.cut.shape
        self._inner: Shapes = shapes if listed.resize is None else listed.resize.size
        self.shapes: Shapes = self._inner if listed.canvas is None else listed.canvas.shape

    def write(self, image: Pixels, place: int, resizer: Resizer, out: Pixels) -> None:
        """Resample an image into `out`."""
        stage = self._stage
        if stage.upturn is not None and stage.upturn[place]:
            out = out[::-1]  # writing in reverse order costs nothing
        if stage.mirror is not None and stage.mirror[place]:
            out = out[:, ::-1]
        if stage.cut is not None:
            (top, left), (height, width) = stage.cut.start[place], stage.cut.shape[place]
            image = image[top : top + height, left : left + width]
        if stage.canvas is not None:
            out[...] = np.rint(stage.canvas.fill)
            top, left = (-start for start in stage.canvas.start[place])
            if top < 0 or left < 0:  # the image lies outside of the canvas
                return
            height, width = (int(side) for side in self._inner[place])
            out = out[top : top + height, left : left + width]
        if stage.resize is None:
            out[...] = image
            return
        region = None
        if stage.resize.first is not None:
            region = (*stage.resize.first[place], *stage.resize.last[place])
        resizer.resize(image, stage.resize.interpolation, region, out)


def _allocate(shapes: Shapes, memory: Memory) -> list[Pixels]:
    """Return an array for each (height, width), all in one block."""
    sizes = [(int(height), int(width), 3) for height, width in shapes]
    ends = np.cumsum([height * width * 3 for height, width, _ in sizes]).tolist()
    whole = memory.take(ends[-1])
    return [
        whole[end - height * width * 3 : end].reshape(height, width, 3)
        for end, (height, width, _) in zip(ends, sizes, strict=True)
    ]
