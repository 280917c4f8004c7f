"""Opening images on threads of the host: decoding windows, resizing and padding them.

DALI's own resize takes three times as long on the CPU, so this runs before the graph. Images that
the graph decodes are only checked here.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpufeed._util.memory import Memory
from gpufeed._util.spans import Spans
from gpufeed.decode.accept import Acceptor, as_ppm
from gpufeed.decode.decoders import Decoder, NvImageCodec
from gpufeed.decode.diagnose import Name, undecodable
from gpufeed.errors import (
    ConfigError,
    DecodeError,
    GpufeedError,
    PipelineError,
    TransformError,
)
from gpufeed.open.base import KEPT, Opened, Pixels, finished, out_of_memory, without_traceback
from gpufeed.open.further import Further, OpenedFurther
from gpufeed.open.graph import GraphDecoders
from gpufeed.open.inputs import declare_images, share
from gpufeed.open.kinds import THREADS, WHOLE, Kind
from gpufeed.open.opened_view import OpenedView
from gpufeed.open.resize import Resizer

if TYPE_CHECKING:
    from gpufeed.open.budget import Budget
    from gpufeed.open.cached import Cache
    from gpufeed.open.choice import Choice
    from gpufeed.plan.planner import BatchPlan
    from gpufeed.plan.stages import Stages
    from gpufeed.source.base import Content, Encoded

__all__ = ["HostOpener"]

_REMEMBERED = 1 << 24
"""Records whose accepted headers are remembered, at ten bytes each."""


class HostOpener:
    """Opens images on its own threads, and feeds the graph uint8 pixels, or what it decodes itself.

    Args:
        views: the number of views of a batch.
        name: from a record key to the name of its image in errors.
        num_threads: the number of threads.
        budget: the limit on large images that are decoded at the same time.
        choice: chooses the decoder of each record.
        make_decoder: makes a decoder for each thread.
        reduce_depth: as for `Manifest`.
        cache: keeps images; None to decode them every time.
        further: the further images of records.
        spans: notes when batches were opened.
    """

    def __init__(
        self,
        views: int,
        name: Name,
        num_threads: int,
        budget: Budget,
        choice: Choice,
        make_decoder: Callable[[], Decoder] = NvImageCodec,
        *,
        reduce_depth: bool = False,
        cache: Cache | None = None,
        further: Further | None = None,
        spans: Spans | None = None,
    ) -> None:
        self._spans = Spans() if spans is None else spans
        self._cache = cache
        self._further = Further() if further is None else further
        self._budget = budget
        self._choice = choice
        self._name = name
        remembered = min(choice.num_images, _REMEMBERED)
        self._acceptor = Acceptor(name, reduce_depth=reduce_depth, remembered=remembered)
        self._num_threads = num_threads
        self._workers = ThreadPoolExecutor(num_threads, "gpufeed-decode")
        self._closed = False
        self._make_decoder = make_decoder
        self._tools = threading.local()
        on_threads = THREADS in choice.kinds
        self._memory = [Memory() for _ in range(views if on_threads else 0)]
        self._graph: GraphDecoders | None = None
        in_graph = [kind for kind in choice.kinds if kind != THREADS]
        if in_graph:
            self._graph = GraphDecoders(in_graph, with_threads=on_threads, largest=choice.largest)

    def build(self, stages: Stages) -> list[Any]:
        """Declare an input for the images of each view, and decode others: see `Opener`."""
        images = [declare_images(_images(number), "HWC") for number in range(len(self._memory))]
        if self._graph is not None:
            return self._graph.build(stages, images)
        return images

    def open(
        self,
        plan: BatchPlan,
        encoded: Sequence[Content | DecodeError],
        before: Opened | None = None,
        further: Sequence[Sequence[Content]] = (),
    ) -> Future[Opened]:
        """Start to open a batch: see `Opener`. After `close`, the future is cancelled."""
        errors = {
            place: each for place, each in enumerate(encoded) if isinstance(each, DecodeError)
        }
        if errors:
            opened = Opened(plan, encoded) if before is None else before
            bad = replace(opened, plan=plan, encoded=encoded, feeds={}, errors=errors)
            return finished(replace(bad, further=further))
        contents = [each for each in encoded if not isinstance(each, DecodeError)]
        batch = _Batch(plan, contents, self, before, further)
        if not batch.pending:
            batch.finish()
        try:
            for _ in range(min(self._num_threads, batch.pending)):
                self._workers.submit(_work, weakref.ref(batch))
        except RuntimeError as error:
            if not self._closed:
                raise PipelineError(f"no thread to decode images could start: {error}") from None
            batch.cancel()
        return batch

    def blame(self, opened: Opened, message: str) -> dict[int, DecodeError]:
        """Return the errors of images that the graph cannot decode: see `Opener`.

        The images from the one on that DALI names are decoded again; all, if it names none. Where
        the graph decodes windows, only these are, so that a damaged image counts as bad in every
        batch or in none.
        """
        if self._graph is None:
            return {}
        kinds = self._choice.of(opened.plan.image_keys, opened.plan.sizes)
        places = [place for place, kind in enumerate(kinds) if kind != THREADS]
        first = self._graph.first_bad(message, kinds)
        if first is not None and self._blame(opened, first, kinds[first]) is not None:
            places = [place for place in places if place >= first]
        blamed = self._workers.map(lambda at: self._blame(opened, at, kinds[at]), places)
        return {place: error for place, error in zip(places, blamed, strict=True) if error}

    def _blame(self, opened: Opened, place: int, kind: Kind) -> DecodeError | None:
        content, plan = opened.encoded[place], opened.plan
        if isinstance(content, DecodeError) or self._graph is None:
            return None
        content = as_ppm(content)
        # Not the decoder of `make_decoder`, which may be a user's own.
        if not hasattr(self._tools, "like_graph"):
            self._tools.like_graph = NvImageCodec()
        window, size = plan.stages.window, plan.sizes[place].tolist()
        start, shape = window.start[place].tolist(), window.shape[place].tolist()
        if kind in WHOLE:
            start, shape = (0, 0), size
        with self._budget.take(size[0] * size[1]):
            decoded = self._tools.like_graph.decode(content, tuple(start), tuple(shape))
        if decoded is not None:
            return None
        return undecodable(content, int(plan.image_keys[place]), self._name)

    def close(self) -> None:
        """End the threads."""
        self._closed = True
        self._workers.shutdown(cancel_futures=True)
        self._cache = None  # an error's traceback may keep this opener alive


def _images(view: int) -> str:
    return f"images {view}"


def _work(reference: weakref.ref[_Batch]) -> None:
    """Open images of a batch until none is left, or the batch was dropped."""
    batch = reference()
    if batch is None:
        return
    with batch.range():
        while batch is not None and batch.open_next():
            del batch
            batch = reference()


def _decode(
    decoder: Decoder, content: Content, start: tuple[int, int], shape: tuple[int, int]
) -> Pixels | None:
    """Decode a window, and check what the decoder, which may be a user's, returns."""
    if isinstance(content, np.ndarray):
        (top, left), (height, width) = start, shape
        return content[top : top + height, left : left + width]
    window = decoder.decode(content, start, shape)
    if window is not None and (window.dtype != np.uint8 or window.shape != (*shape, 3)):
        raise ConfigError(
            f"{type(decoder).__name__}.decode returned {window.dtype} {window.shape}; it must "
            f"return uint8 {(*shape, 3)}, the window alone, or None"
        )
    return window


class _Batch(Future[Opened]):
    """A batch whose images are being opened."""

    def __init__(
        self,
        plan: BatchPlan,
        encoded: Sequence[Content],
        opener: HostOpener,
        before: Opened | None,
        further: Sequence[Sequence[Content]],
    ) -> None:
        super().__init__()
        self._begin = time.perf_counter_ns()
        self._plan = plan
        self._encoded = encoded
        self._opener = opener
        self._keys = plan.image_keys.tolist()
        self._sizes = plan.sizes.tolist()
        self._starts = plan.stages.window.start.tolist()
        self._shapes = plan.stages.window.shape.tolist()
        self._kinds = opener._choice.of(plan.image_keys, plan.sizes)
        self._accepted: list[Encoded | None] = [None] * len(encoded)
        stages = plan.stages if opener._cache is None else opener._cache.prefix.after(plan.stages)
        shapes = stages.window.shape.tolist()
        try:
            self._views = [
                OpenedView(view, shapes, self._kinds, memory)
                # No memory, and no views, if the graph decodes all.
                for view, memory in zip(stages.views, opener._memory)  # noqa: B905
            ]
        except MemoryError as error:
            raise out_of_memory(str(error)) from None
        self._errors: dict[int, BaseException] = {}
        self._lock = threading.Lock()
        on_threads = [place for place, kind in enumerate(self._kinds) if kind == THREADS]
        self._opened_here = frozenset(on_threads)
        if len(on_threads) < len(encoded):
            self._accept()
        self._further_contents = further
        self._further = OpenedFurther(opener._further, plan)
        self._places = [*range(len(encoded))] if opener._further.targets else on_threads
        self._ready = frozenset(self._places)
        if before is not None:
            self._reuse(before)
        self._started = self._done = 0

    def _reuse(self, before: Opened) -> None:
        self._places = [place for place in self._places if place not in before.ready]
        for view, images in zip(self._views, before.views):  # noqa: B905 - there may be no views
            for place in before.ready & self._opened_here:
                view.images[place] = images[place]
        if before.ready and self._opener._further.targets:
            self._further.reuse(before.fields, before.ready)

    def _accept(self) -> None:
        """Check the images that the graph decodes; here, as threads would compete for Python."""
        accept = self._opener._acceptor.accept
        for place, kind in enumerate(self._kinds):
            if kind == THREADS:
                continue
            size, key = tuple(self._sizes[place]), self._keys[place]
            try:
                self._accepted[place] = as_ppm(accept(self._encoded[place], size, key))
            except Exception as error:  # raised where the batch is waited for
                self._errors[place] = error

    def range(self) -> AbstractContextManager[object]:
        """Show the block to a profiler: a thread that opens images of the batch."""
        return self._opener._spans.range("open", self._plan.step)

    @property
    def pending(self) -> int:
        """The number of images for threads to open."""
        return len(self._places)

    def open_next(self) -> bool:
        """Open the next image; return False if none is left."""
        with self._lock:
            if self._started == len(self._places):
                return False
            if not self._started:
                self._begin = time.perf_counter_ns()
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
            self.finish()
        return True

    def finish(self) -> None:
        """Set the result, after the last image."""
        try:
            opened = self._collect()
            self._opener._spans.add("open", self._plan.step, self._begin)
            self.set_result(opened)
        except GpufeedError as error:
            self.set_exception(error)
        except BaseException as error:
            self.set_exception(self._unexpected(0, error))

    def _open(self, place: int) -> None:
        if place in self._opened_here:
            self._open_image(place)
        if self._opener._further.targets and place < len(self._plan):
            contents, key = self._further_contents[place], self._keys[place]
            self._further.open(place, contents, tuple(self._sizes[place]), key)

    def _open_image(self, place: int) -> None:
        content, key = self._encoded[place], self._keys[place]
        if content is not KEPT:
            content = self._opener._acceptor.accept(content, tuple(self._sizes[place]), key)
        tools = self._opener._tools
        if not hasattr(tools, "resizer"):
            tools.decoder, tools.resizer = self._opener._make_decoder(), Resizer()
        decode = None if content is KEPT else partial(_decode, tools.decoder, content)
        cache = self._opener._cache
        if cache is not None:
            window = cache.image(self._plan, place, decode, tools.resizer)
        else:
            start, shape = tuple(self._starts[place]), tuple(self._shapes[place])
            window = _decode(tools.decoder, content, start, shape)
        if window is None:
            raise undecodable(as_ppm(content), key, self._opener._name)
        for view in self._views:
            view.write(place, window, tools.resizer)

    def _collect(self) -> Opened:
        views = [view.images for view in self._views]
        fields = self._further.arrays
        if not self._errors:
            fed = {_images(number): share(images, "HWC") for number, images in enumerate(views)}
            # Without those that are opened, so that batches that wait take less memory.
            encoded: list[Content] = []
            if self._opener._graph is not None:
                fed |= self._opener._graph.feeds(self._plan.stages, self._accepted, self._kinds)
                encoded = [
                    KEPT if place in self._opened_here else content
                    for place, content in enumerate(self._encoded)
                ]
            further = [()] * len(self._further_contents)
            return Opened(
                self._plan, encoded, fed, {}, views, self._ready, further=further, fields=fields
            )
        bad = {}
        for place, error in sorted(self._errors.items()):
            if not isinstance(error, DecodeError):
                raise self._unexpected(place, error)
            bad[place] = without_traceback(error)
        self._errors.clear()
        ready = self._ready - bad.keys()
        return Opened(
            self._plan, self._encoded, {}, bad, views, ready, self._further_contents, fields
        )

    def _unexpected(self, place: int, error: BaseException) -> Exception:
        if isinstance(error, MemoryError):
            return out_of_memory(str(error))
        key = int(self._plan.record_keys[place % len(self._plan)])
        name, step = self._opener._name(self._keys[place]), self._plan.step
        if isinstance(error, ConfigError):
            error.add_note(f"raised for record {key} ({name}) in batch {step}")
            return error
        if isinstance(error, TransformError):
            error.step, error.record_key, error.path = step, key, name
            return error
        failure = PipelineError(f"record {key} ({name}) in batch {step} failed: {error!r}")
        failure.__cause__ = error
        return failure
