"""Measuring what an image costs in each part of a loader, one part after the other."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from gpufeed.feed.loader import Loader
from gpufeed.feed.maker import await_result
from gpufeed.order.shard import ShardOptions
from gpufeed.order.uniform import IndexSampler
from gpufeed.records import Manifest
from gpufeed.tools.doctor.model import Costs
from gpufeed.tools.doctor.sample import Decode

__all__ = ["Probe", "make_loader"]

_LEAST = 0.05
"""Seconds that a round takes at least, so that small images are measured in several batches."""


def make_loader(manifest: Manifest, **options: Any) -> Loader:
    """Return the loader of a sample: one process, shuffled."""
    return Loader(
        manifest,
        sampler=IndexSampler(len(manifest), shuffle=True),
        shard=ShardOptions(),
        **options,
    )


class Probe:
    """A loader of images in memory, whose parts are run one at a time; a context manager.

    Args:
        manifest: the sample, with its images in memory.
        options: of the loader.
    """

    def __init__(self, manifest: Manifest, **options: Any) -> None:
        self.loader = make_loader(manifest, **options)
        self.cached = options.get("cache") is not None

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        self.loader.close()

    def warm(self) -> None:
        """Make a batch, so that the graph is built; or all, so that a cache is full."""
        for step in range(len(self.loader) if self.cached else 1):
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

    def decode(self, number: int) -> float:
        """Return the CPU seconds of decoding, of an image, the window that the loader decodes."""
        plan = self.loader._planner.plan(number % len(self.loader))
        assert plan is not None  # noqa: S101 - there is one shard
        manifest, window = self.loader.manifest, plan.stages.window
        decode, images = Decode(manifest), manifest.source.read(plan.record_keys)
        places = zip(images, plan.sizes, window.start, window.shape, strict=False)
        return sum(decode.seconds(*place) for place in places) / len(plan)
