"""Opens views on CPU threads: decodes windows, resizes them, lays them on their canvas.

In front of DALI's other operators, since its own resize takes three times as long on the CPU.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError, DecodeError, PipelineError, TransformError
from gpufeed.open.decoders import WindowDecoder
from gpufeed.open.diagnose import check_header, undecodable
from gpufeed.open.job import BadPictures, Failed, Job, bare, finished, out_of_memory, wrap
from gpufeed.open.memory import Memory
from gpufeed.open.resize import Resizer
from gpufeed.plan.stages import Resample, map_arrays
from gpufeed.transforms.function import Lambda

if TYPE_CHECKING:
    from gpufeed.open.budget import Budget
    from gpufeed.plan.planner import BatchPlan
    from gpufeed.plan.stages import View

Pixels = npt.NDArray[np.uint8]
Shapes = Sequence[Sequence[float]]
"""(height, width) for each image; whole numbers."""

__all__ = ["HostStages"]


class HostStages:
    """The openings of views, carried out on threads of its own.

    An opening's last flip left to right is left to the graph.

    Args:
        views: how many a batch has.
        path: from a record key to the name of its file.
        num_threads: how many pictures are worked on at a time.
        budget: how large they may be together.
    """

    def __init__(
        self, views: int, path: Callable[[int], str], num_threads: int, budget: Budget
    ) -> None:
        self._budget = budget
        self._path = path
        self._num_threads = num_threads
        self._workers = ThreadPoolExecutor(num_threads, "gpufeed-decode")
        self._closed = False
        self._tools = threading.local()
        self._memory = [Memory() for _ in range(views)]

    def begin(
        self, plan: BatchPlan, encoded: Sequence[bytes], kept: Opened | None = None
    ) -> Future[Job | Failed]:
        """Begin work on a batch, after those begun before; for any thread.

        Letting go of what is returned ends the work. It is cancelled where all work has ended.

        Args:
            plan: the batch.
            encoded: its pictures.
            kept: what was opened of it when it failed; those of the same bytes are taken over.
        """
        try:
            batch = _Batch(plan, encoded, self._path, self._budget, self._memory, kept)
        except MemoryError as error:
            return finished(Failed(plan.step, out_of_memory(str(error))))
        try:
            for _ in range(min(self._num_threads, batch.pending)):
                self._workers.submit(_work, weakref.ref(batch), self._tools)
        except RuntimeError as error:
            if not self._closed:
                failed = PipelineError(f"there is no thread to decode in: {error}")
                return finished(Failed(plan.step, failed))
            batch.cancel()  # this error, kept, would keep the batch with it
        return batch

    def close(self) -> None:
        """End the threads."""
        self._closed = True
        self._workers.shutdown(cancel_futures=True)


class _Tools:
    """What one thread works with."""

    def __init__(self) -> None:
        self.decoder = WindowDecoder()
        self.resizer = Resizer()


def _work(reference: weakref.ref[_Batch], local: threading.local) -> None:
    """Make pictures of a batch until none is left, or nobody wants them any more."""
    while True:
        batch = reference()
        if batch is None or not batch.make_next(local):
            return
        del batch


@dataclass(frozen=True)
class Opened:
    """What there is of a batch of which some pictures are bad.

    Attributes:
        encoded: the encoded pictures.
        views: of each view, its pictures.
        good: which of them were made.
    """

    encoded: Sequence[bytes | DecodeError | None]
    views: Sequence[Sequence[Pixels]]
    good: Sequence[bool]


class _Batch(Future["Job | Failed"]):
    """A batch whose pictures are being made."""

    def __init__(
        self,
        plan: BatchPlan,
        encoded: Sequence[bytes],
        path: Callable[[int], str],
        budget: Budget,
        memory: Sequence[Memory],
        kept: Opened | None,
    ) -> None:
        super().__init__()
        self._plan = plan
        self._encoded = encoded
        self._path = path
        self._budget = budget
        self._keys = plan.record_keys.tolist()
        self._sizes = plan.sizes.tolist()
        self._starts = plan.stages.window.start.tolist()
        self._shapes = plan.stages.window.shape.tolist()
        self._views = [
            _View(view, self._shapes, own)
            for view, own in zip(plan.stages.views, memory, strict=True)
        ]
        self._errors: dict[int, BaseException] = {}
        self._lock = threading.Lock()
        self._places = list(range(len(encoded)))
        if kept is not None:
            self._take_over(kept)
        self._begun = self._made = 0

    def _take_over(self, kept: Opened) -> None:
        same = [
            good and content is before
            for good, content, before in zip(kept.good, self._encoded, kept.encoded, strict=True)
        ]
        self._places = [place for place in self._places if not same[place]]
        for view, pictures in zip(self._views, kept.views, strict=True):
            for place, alike in enumerate(same):
                if alike:
                    view.pictures[place] = pictures[place]

    @property
    def pending(self) -> int:
        """How many pictures are to be made."""
        return len(self._places)

    def make_next(self, local: threading.local) -> bool:
        """Make one picture that nobody has begun; False where none is left.

        Args:
            local: keeps the calling thread's tools.
        """
        with self._lock:
            if self._begun == len(self._places):
                return False
            place = self._places[self._begun]
            self._begun += 1
        try:
            if not hasattr(local, "tools"):
                local.tools = _Tools()
            height, width = self._sizes[place]
            with self._budget.take(height * width):
                self._make(place, local.tools)
        except BaseException as error:  # whatever it is, who waits for the batch must hear of it
            self._errors[place] = error
        with self._lock:
            self._made += 1
            last = self._made == len(self._places)
        if last:
            try:
                outcome = self._finished()
            except BaseException as error:
                outcome = Failed(self._plan.step, self._unexpected(0, error))
            self.set_result(outcome)
        return True

    def _make(self, place: int, tools: _Tools) -> None:
        content, key = self._encoded[place], self._keys[place]
        check_header(content, tuple(self._sizes[place]), key, self._path)
        start, shape = self._starts[place], self._shapes[place]
        window = tools.decoder.decode(content, tuple(start), tuple(shape))
        if window is None:
            raise undecodable(content, key, self._path)
        for view in self._views:
            view.make(place, window, tools.resizer)

    def _finished(self) -> Job | Failed:
        if not self._errors:
            return Job(self._plan, [wrap(view.pictures, "HWC") for view in self._views])
        bad = {}
        for place, error in sorted(self._errors.items()):
            if not isinstance(error, DecodeError):
                return Failed(self._plan.step, self._unexpected(place, error))
            bad[place] = bare(error)
        self._errors.clear()
        good = [place not in bad for place in range(len(self._encoded))]
        opened = Opened(self._encoded, [view.pictures for view in self._views], good)
        return Failed(self._plan.step, BadPictures(bad, opened))

    def _unexpected(self, place: int, error: BaseException) -> Exception:
        if isinstance(error, MemoryError):
            return out_of_memory(str(error))
        key = self._keys[place]
        if isinstance(error, ConfigError):
            error.add_note(f"met with record {key} ({self._path(key)}) of batch {self._plan.step}")
            return error
        if isinstance(error, TransformError):
            error.step, error.record_key, error.path = self._plan.step, key, self._path(key)
            return error
        failed = PipelineError(
            f"record {key} ({self._path(key)}) of batch {self._plan.step} could not be made: "
            f"{error!r}"
        )
        failed.__cause__ = error
        return failed


class _View:
    """One view's opening for one batch.

    Attributes:
        pictures: n arrays (height, width, 3), what becomes of them.
    """

    def __init__(self, view: View, shapes: Shapes, memory: Memory) -> None:
        self._stages: list[_Resampling | Lambda] = []
        for stage in view.opening:
            if isinstance(stage, Resample):
                own = _Resampling(stage, shapes)
                self._stages.append(own)
                shapes = own.shapes
            elif isinstance(stage.transform, Lambda):
                self._stages.append(stage.transform)
        self.pictures = _allocate(shapes, memory)

    def make(self, place: int, picture: Pixels, resizer: Resizer) -> None:
        """Make one picture of what was decoded."""
        *before, last = self._stages
        for stage in before:
            if isinstance(stage, Lambda):
                picture = stage(picture)
                continue
            height, width = (int(side) for side in stage.shapes[place])
            out = np.empty((height, width, 3), np.uint8)
            stage.write(picture, place, resizer, out)
            picture = out[:, ::-1] if stage.mirrors(place) else out
        if isinstance(last, Lambda):
            self.pictures[place][...] = last(picture)
        else:
            last.write(picture, place, resizer, self.pictures[place])


class _Resampling:
    """A `Resample` for one batch, its arrays as lists, which cost less to look into.

    Args:
        stage: with its arrays.
        shapes: of what it is given, for each image.

    Attributes:
        shapes: of what it makes.
    """

    def __init__(self, stage: Resample, shapes: Shapes) -> None:
        listed: Any = map_arrays(np.ndarray.tolist, stage)
        self._stage = listed
        if listed.cut is not None:
            shapes = listed.cut.shape
        self._inner: Shapes = shapes if listed.resize is None else listed.resize.size
        self.shapes: Shapes = self._inner if listed.canvas is None else listed.canvas.shape

    def mirrors(self, place: int) -> bool:
        """Whether an image is flipped left to right."""
        return self._stage.mirror is not None and bool(self._stage.mirror[place])

    def write(self, picture: Pixels, place: int, resizer: Resizer, out: Pixels) -> None:
        """Write what becomes of an image, the flip left to right aside."""
        stage = self._stage
        if stage.upturn is not None and stage.upturn[place]:
            out = out[::-1]  # the order in which rows are written costs nothing
        if stage.cut is not None:
            (top, left), (height, width) = stage.cut.start[place], stage.cut.shape[place]
            picture = picture[top : top + height, left : left + width]
        if stage.canvas is not None:
            out[...] = np.rint(stage.canvas.fill)
            top, left = (-start for start in stage.canvas.start[place])
            if top < 0 or left < 0:  # nothing of the image is on the canvas
                return
            height, width = (int(side) for side in self._inner[place])
            out = out[top : top + height, left : left + width]
        if stage.resize is None:
            out[...] = picture
            return
        region = None
        if stage.resize.first is not None:
            region = (*stage.resize.first[place], *stage.resize.last[place])
        resizer.resize(picture, stage.resize.interpolation, region, out)


def _allocate(shapes: Shapes, memory: Memory) -> list[Pixels]:
    """Return a picture's memory for each (height, width), all in one piece."""
    sizes = [(int(height), int(width), 3) for height, width in shapes]
    ends = np.cumsum([height * width * 3 for height, width, _ in sizes]).tolist()
    whole = memory.take(ends[-1])
    return [
        whole[end - height * width * 3 : end].reshape(height, width, 3)
        for end, (height, width, _) in zip(ends, sizes, strict=True)
    ]
