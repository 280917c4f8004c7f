"""A model in training in its own process, which answers requests as a contender does.

    python -m benchmarks.step.trainee WORK NAME FD

Each step asks for a batch and trains on it: forward, backward, a step of SGD. A step's time runs
from the end of the previous step to its own end, and its waiting is the part of that until its
batch was there. On a GPU, events measure both in the training stream: a loader that works while the
model does costs nothing; a copy that the model must wait for counts as waiting, and so does
Python's own time when the GPU has run out of work. The only synchronisation is with the step before
the previous one, which limits how far Python may be ahead.

The part for a GPU (ResNet-50 in bfloat16) has not been run on one yet.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.utils.dlpack

from benchmarks.compare.contender import answer, cpu_seconds
from benchmarks.compare.work import Work
from benchmarks.step.clock import clock_of
from benchmarks.step.feeds import find_feed
from benchmarks.step.models import CLASSES, make
from benchmarks.step.utilisation import reader, sampled

__all__ = ["main"]

_AHEAD = 2
"""Steps that may be under way at once; their images are kept so long, whoever owns them."""


@dataclass
class _Steps:
    """What some steps left: marks of their ends (and the beginning), of their batches' arrival."""

    ends: list[Any]
    arrivals: list[Any] = field(default_factory=list)
    losses: list[torch.Tensor] = field(default_factory=list)
    images: int = 0


class Trainee:
    """Answers requests."""

    def __init__(self, work: Work, name: str) -> None:
        self._work = work
        self._feed = find_feed(name)
        self._clock = clock_of(work.device)
        self._batches: Iterator[tuple[Any, Any]] = iter(())
        self._read = None
        if work.device == "cuda":
            self._read = reader(str(getattr(torch.cuda.get_device_properties(0), "uuid", "")))

    def open(self, model: str) -> dict[str, Any]:
        """Make the loader, take its first batch, and make a new model."""
        self._batches = self._feed.open(self._work)
        image, _ = self._next()
        work = self._work
        wanted = (work.batch_size, 3, work.size, work.size)
        if tuple(image.shape) != wanted or image.dtype != torch.float32:
            raise ValueError(f"hands out {tuple(image.shape)} {image.dtype}, not {wanted} float32")
        # Some loaders leave torch one thread, for their workers' sake; all models get the same.
        torch.set_num_threads(work.cores)
        torch.backends.cudnn.benchmark = True
        torch.manual_seed(0)
        made = make(model, work.size).to(work.device)
        # What the annotations of `Module.to` leave out.
        self._model: Any = made.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.01, momentum=0.9)
        return {}

    def round(self, steps: int, settle: int) -> dict[str, Any]:
        """Take `settle` steps, which are not timed, then time `steps`."""
        self._steps(settle)
        with sampled(self._read) as utilisation:
            cpu = sum(cpu_seconds())
            taken = self._steps(steps)
            cpu = sum(cpu_seconds()) - cpu
        between = self._clock.seconds
        pairs = list(zip(taken.ends, taken.ends[1:], strict=False))
        begun = zip(taken.ends, taken.arrivals, strict=False)
        return {
            "images": taken.images,
            "cpu_ms": 1e3 * cpu / taken.images,
            "losses": [float(loss) for loss in taken.losses],
            "step_s": [between(begin, end) for begin, end in pairs],
            "waited_s": [between(begin, arrival) for begin, arrival in begun],
            "utilisation": utilisation,
        }

    def _steps(self, count: int) -> _Steps:
        taken = _Steps([self._clock.mark()])
        held: deque[tuple[Any, Any]] = deque()
        for _ in range(count):
            image, label = self._next()
            taken.arrivals.append(self._clock.mark())
            taken.losses.append(self._train(image, label))
            taken.ends.append(self._clock.mark())
            taken.images += len(image)
            held.append((image, taken.ends[-1]))
            if len(held) > _AHEAD:
                self._clock.wait(held.popleft()[1])
        self._clock.wait(taken.ends[-1])
        return taken

    def _next(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Image, and int64 labels below the model's classes, both on the device."""
        image, label = next(self._batches)
        device = torch.device(self._work.device)
        return _tensor(image, device), _tensor(label, device).long() % CLASSES

    def _train(self, image: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        """One step; returns its loss."""
        with torch.autocast("cuda", torch.bfloat16, enabled=self._work.device == "cuda"):
            scores = self._model(image.contiguous(memory_format=torch.channels_last))
            loss = torch.nn.functional.cross_entropy(scores, label)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        return loss.detach()


def _tensor(values: Any, device: torch.device) -> torch.Tensor:
    if not isinstance(values, torch.Tensor):
        host = isinstance(values, np.ndarray)
        values = torch.from_numpy(values) if host else torch.utils.dlpack.from_dlpack(values)
    tensor: torch.Tensor = values.to(device, non_blocking=True)
    return tensor


def main(work: Path, name: str, descriptor: int) -> None:
    """Answer requests until there are no more."""
    answer(Trainee(Work.load(work), name), descriptor)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
