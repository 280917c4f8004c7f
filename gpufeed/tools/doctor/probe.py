"""Measuring what an image costs in each part of a loader, one part after the other."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpufeed.decode.accept import Acceptor
from gpufeed.decode.decoders import NvImageCodec
from gpufeed.errors import DecodeError
from gpufeed.feed.loader import Loader
from gpufeed.feed.maker import await_result
from gpufeed.order.shard import ShardOptions
from gpufeed.order.uniform import IndexSampler
from gpufeed.records import Manifest
from gpufeed.source.base import Content
from gpufeed.source.memory import MemorySource
from gpufeed.tools.doctor.model import Costs

__all__ = ["Decoding", "Probe", "held", "make_loader", "measure_decoding"]

_LEAST = 0.05
"""Seconds that a round takes at least, so that small images are measured in several batches."""
_FORMATS = {b"\xff\xd8": "JPEG", b"\x89P": "PNG", b"RI": "WebP", b"II": "TIFF", b"MM": "TIFF"}


@dataclass(frozen=True)
class Decoding:
    """What images of one format cost on one thread.

    Attributes:
        format: such as JPEG.
        images: of the sample that have it.
        megapixels: of an image.
        header_ms: CPU time of checking the header.
        decode_ms: CPU time of decoding the whole image.
    """

    format: str
    images: int
    megapixels: float
    header_ms: float
    decode_ms: float


def held(manifest: Manifest, contents: Sequence[Content]) -> Manifest:
    """Return a manifest whose images are in memory."""
    made = copy.copy(manifest)
    made._source = MemorySource(list(contents))
    return made


def make_loader(manifest: Manifest, **options: Any) -> Loader:
    """Return the loader of a sample: one process, shuffled."""
    return Loader(
        manifest,
        sampler=IndexSampler(len(manifest), shuffle=True),
        shard=ShardOptions(),
        **options,
    )


def measure_decoding(
    manifest: Manifest, contents: Sequence[Content], seconds: float
) -> tuple[list[Decoding], list[int]]:
    """Decode images one by one on this thread, for some seconds.

    Returns:
        The costs by format, and the places of images that cannot be decoded.
    """
    acceptor = Acceptor(
        manifest.source.name, reduce_depth=manifest.reduce_depth, remembered=len(manifest)
    )
    decoder, deadline = NvImageCodec(), time.monotonic() + seconds
    by_format: dict[str, list[tuple[float, float, float]]] = {}
    bad = []
    for place, content in enumerate(contents):
        size = tuple(manifest.sizes([place])[0].tolist())
        try:
            acceptor.accept(content, size, place)  # as in the first epoch
            start = time.thread_time()
            accepted = acceptor.accept(content, size, place)
        except DecodeError:
            bad.append(place)
            continue
        header = time.thread_time() - start
        if time.monotonic() > deadline and by_format:
            continue  # headers of the others are checked nevertheless
        if not isinstance(accepted, np.ndarray) and decoder.decode(accepted, (0, 0), size) is None:
            bad.append(place)
            continue
        decode = time.thread_time() - start - header
        found = by_format.setdefault(_format(content), [])
        found.append((size[0] * size[1] / 1e6, 1000 * header, 1000 * decode))
    return [
        Decoding(name, len(each), *np.mean(each, axis=0).tolist())
        for name, each in by_format.items()
    ], bad


def _format(content: Content) -> str:
    if isinstance(content, np.ndarray):
        return "pixels"
    return _FORMATS.get(bytes(content[:2]), "other")


class Probe:
    """A loader of images in memory, whose parts are run one at a time; a context manager.

    Args:
        manifest: the sample, with its images in memory.
        options: of the loader.
    """

    def __init__(self, manifest: Manifest, **options: Any) -> None:
        self.loader = make_loader(manifest, **options)
        self._cached = options.get("cache") is not None
        self._decoder = NvImageCodec()

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        self.loader.close()

    def warm(self) -> None:
        """Make a batch, so that the graph is built; or all, so that a cache is full."""
        for step in range(len(self.loader) if self._cached else 1):
            self._batch(step)

    def round(self, number: int) -> Costs:
        """Return the costs of an image in round `number`, the same batches for every probe."""
        found: list[list[float]] = []
        steps, start = len(self.loader), time.perf_counter()
        while not found or time.perf_counter() - start < _LEAST:
            found.append(self._batch((number + len(found)) % steps))
        plan, opened, run, hand_over, gpu = np.mean(found, axis=0).tolist()
        on_gpu = gpu if self.loader.device.is_cuda else 0.0
        return Costs(plan, 0.0, opened, run, hand_over, gpu=on_gpu)

    def _batch(self, step: int) -> list[float]:
        """Make a batch; return what an image of it cost."""
        loader = self.loader
        maker, cpu = loader._maker, time.process_time
        marks = [cpu()]
        plan = loader._planner.plan(step)
        assert plan is not None  # noqa: S101 - there is one shard
        marks.append(cpu())
        with maker.reader() as reader:
            encoded, further = maker._read(plan, reader)
        opened = await_result(maker.opener.open(plan, encoded, None, further))
        marks.append(cpu())
        start = time.perf_counter()
        made = maker.finish(opened)
        gpu = time.perf_counter() - start
        marks.append(cpu())
        loader._hand_over.batch(*made)
        marks.append(cpu())
        return [seconds / len(plan) for seconds in (*np.diff(marks).tolist(), gpu)]

    def decode_window(self, number: int) -> tuple[float, float]:
        """Return the CPU seconds of checking a header and of decoding the window of an image.

        The images are those of the first batch of round `number`, as the loader decodes them.
        """
        loader = self.loader
        plan = loader._planner.plan(number % len(loader))
        assert plan is not None  # noqa: S101 - there is one shard
        window, source = plan.stages.window, loader.manifest.source
        acceptor = Acceptor(source.name, reduce_depth=loader.manifest.reduce_depth, remembered=1)
        seconds = np.zeros(2)
        for place, content in enumerate(source.read(plan.record_keys)):
            if isinstance(content, OSError):
                continue
            size, first, shape = (
                tuple(each[place].tolist()) for each in (plan.sizes, window.start, window.shape)
            )
            with contextlib.suppress(DecodeError):
                acceptor.accept(content, size, 0)  # as in the first epoch
                start = time.thread_time()
                accepted = acceptor.accept(content, size, 0)
                seconds[0] += time.thread_time() - start
                if not isinstance(accepted, np.ndarray):
                    start = time.thread_time()
                    self._decoder.decode(accepted, first, shape)
                    seconds[1] += time.thread_time() - start
        header, decode = (seconds / len(plan)).tolist()
        return header, decode
