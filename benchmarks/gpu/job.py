"""What a step is given, and what it may say instead of figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Absent", "Cases", "Facts", "Job"]

Facts = dict[str, Any]
"""The figures of a case: numbers, text and booleans by name.

Some names are special. `goal` says in words what is wanted and `found` what came of it, `ok` is
whether the case is as it should be, and `error` is what failed. `rows` has further facts by name,
each reported as a case.
"""

Cases = Mapping[str, Callable[[], Facts]]
"""The cases of a step, in order: by name a function that carries one out."""


class Absent(Exception):  # noqa: N818 - not an error
    """A case cannot be run here; the message says why."""


@dataclass(frozen=True)
class Job:
    """What the steps of a run share.

    Attributes:
        device: "cpu" or "cuda".
        photos: the folder of images, JPEGs of the size that NABirds' originals have.
        out: the folder of the report.
        cores: CPU cores that this process may use.
        quick: whether to do little, which only tries the program.
        known: the cases of the step that have been carried out, in this run or before.
    """

    device: str
    photos: str
    out: str
    cores: int
    quick: bool
    known: dict[str, Facts] = field(default_factory=dict)

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU is asked for."""
        return self.device == "cuda"

    def pick(self, cuda: Any, cpu: Any, quick: Any) -> Any:
        """Return the value for a run on this device, or for a quick run on either."""
        return quick if self.quick else cuda if self.on_gpu else cpu

    @property
    def batch(self) -> int:
        """Images in a batch."""
        return int(self.pick(256, 32, 4))

    @property
    def records(self) -> int:
        """Records of a manifest that is fed for its speed; photos are listed repeatedly."""
        return int(self.pick(8192, 256, 32))

    @property
    def seconds(self) -> float:
        """The time of one measurement."""
        return float(self.pick(0.7, 0.5, 0.02))

    def needs_gpu(self, why: str) -> None:
        """Raise `Absent` on the CPU."""
        if not self.on_gpu:
            raise Absent(f"needs a GPU: {why}")

    def save(self, path: Path) -> None:
        """Write it down for another process."""
        path.write_text(json.dumps(asdict(self)))

    @staticmethod
    def load(path: Path) -> Job:
        """Read what `save` wrote."""
        return Job(**json.loads(path.read_text()))
