"""The speed of a loader, how long its consumer waited for it, and what each stage took."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpufeed._util.spans import STAGES

if TYPE_CHECKING:
    from gpufeed.feed.maker import Maker

__all__ = ["Clock", "Stats"]


@dataclass(frozen=True)
class Stats:
    """The figures of one pass over a loader, from its first request to its last batch.

    Attributes:
        batches: batches handed out.
        images: records handed out, without padding.
        seconds: wall time.
        waited: seconds of it that the consumer spent waiting for batches; not those in which its
            own work on a GPU was waited for.
        cache_hits: images read from each tier of `cache`, prefetched batches included.
        fetched_images: images read from the source, if there are tiers, those read ahead included.
        fetched_bytes: their bytes.
        stages: seconds that each stage took since the pass began, summed over threads, for
            prefetched batches too: "plan", "read", "open" (from a batch's first image to its last),
            "run" (feeding DALI and waiting for it) and "hand_over". docs/how-to/observing.md tells
            what they say.
        bad_images: records whose images were bad in this pass, each time that one came, and bad
            substitutes.
        ready: batches that are ready at this moment, from the next one on: all their images are
            open. Where DALI itself decodes, it may still be at work on them.
        step: number of the batch that is handed out next.
        epoch: its epoch; after the last batch of an epoch, that epoch until the next pass begins.
        steps_in_epoch: batches of that epoch.
        step_in_epoch: those of them that come before `step`.
    """

    batches: int
    images: int
    seconds: float
    waited: float
    cache_hits: tuple[int, ...] = ()
    fetched_images: int = 0
    fetched_bytes: int = 0
    stages: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    bad_images: int = 0
    ready: int = 0
    step: int = 0
    epoch: int = 0
    steps_in_epoch: int = 0
    step_in_epoch: int = 0

    @property
    def images_per_second(self) -> float:
        """Images divided by wall time; 0 before the first batch."""
        return self.images / self.seconds if self.seconds else 0.0

    @property
    def waiting_share(self) -> float:
        """Share of wall time that the consumer waited, 0 to 1; high if the loader is the limit."""
        return self.waited / self.seconds if self.seconds else 0.0

    def as_dict(self, prefix: str = "gpufeed/") -> dict[str, float]:
        """Return the figures as loggers take them: numbers by names such as gpufeed/stages/read."""
        figures = {"images_per_second": self.images_per_second, "waiting_share": self.waiting_share}
        for name, value in vars(self).items():
            if isinstance(value, Mapping):
                figures |= {f"{name}/{each}": number for each, number in value.items()}
            elif isinstance(value, tuple):
                figures |= {f"{name}/{place}": number for place, number in enumerate(value)}
            else:
                figures[name] = value
        return {f"{prefix}{name}": value for name, value in figures.items()}

    def __repr__(self) -> str:
        stages = ", ".join(f"{stage} {seconds:.3g} s" for stage, seconds in self.stages.items())
        more = f", {self.bad_images} bad images" * (self.bad_images > 0)
        if self.cache_hits:
            more += f", cache hits {[*self.cache_hits]}, {self.fetched_images} images fetched"
        return (
            f"Stats(epoch {self.epoch}, step {self.step_in_epoch} of {self.steps_in_epoch}; "
            f"{self.images} images in {self.seconds:.3g} s: {self.images_per_second:.0f} images/s, "
            f"waiting {self.waiting_share:.0%}; {stages}; {self.ready} ready{more})"
        )


class Clock:
    """Measures the times of one pass.

    Args:
        maker: makes the batches; what it has counted so far belongs to earlier passes.
    """

    def __init__(self, maker: Maker) -> None:
        self._maker = maker
        self._spans = maker.spans
        self._sums = self._spans.sums.copy()
        self._bad = maker.failures.total
        self._counts = maker.counts
        self._first: int | None = None
        self._asked = 0
        self._last = 0
        self._batches = 0
        self._images = 0

    def asked(self) -> None:
        """Record that the consumer requests a batch."""
        self._asked = time.perf_counter_ns()
        if self._first is None:
            self._first = self._asked

    def handed_out(self, step: int, images: int) -> None:
        """Record that the consumer received a batch with this many images."""
        self._last = self._spans.add("wait", step, self._asked)
        self._batches += 1
        self._images += images

    def read(self, ready: int, step: int, epoch: int, steps: range) -> Stats:
        """Return the figures so far.

        Args:
            ready: batches that are ready.
            step: number of the next batch.
            epoch: its epoch.
            steps: the epoch's steps.
        """
        sums = self._spans.sums.copy()
        taken = {stage: (sums[stage] - before) / 1e9 for stage, before in self._sums.items()}
        hits: tuple[int, ...] = ()
        images = read = 0
        counts, before = self._maker.counts, self._counts
        if counts is not None and before is not None:
            hits = tuple(now - then for now, then in zip(counts.hits, before.hits, strict=True))
            images, read = counts.images - before.images, counts.bytes - before.bytes
        return Stats(
            batches=self._batches,
            images=self._images,
            seconds=(self._last - self._first) / 1e9 if self._first and self._batches else 0.0,
            waited=taken.pop("wait"),
            cache_hits=hits,
            fetched_images=images,
            fetched_bytes=read,
            stages=taken,
            bad_images=self._maker.failures.total - self._bad,
            ready=ready,
            step=step,
            epoch=epoch,
            steps_in_epoch=len(steps),
            step_in_epoch=step - steps.start,
        )
