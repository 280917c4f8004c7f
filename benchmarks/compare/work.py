"""The work that every contender must do."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["MEAN", "PRESETS", "STD", "Work"]

PRESETS = ("train", "evaluate")

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Work:
    """Decode, crop, resize and normalise images, in shuffled epochs without end.

    To "train" means a random resized crop and a random flip. To "evaluate" means to resize the
    shorter side to 256/224 of `size` and to cut out the centre; shuffled too, which costs nothing
    and lets both be checked alike. A resize is antialiased.

    Each batch is (image, label): image float32 (batch_size, 3, size, size), on `device`; label the
    image's place in `paths`, so that a check can tell which image came. An epoch's tail that
    fills no batch is left out.

    Attributes:
        name: of the data.
        root: folder.
        paths: files below it.
        batch_size: images in a batch.
        size: side of the output, pixels.
        device: "cpu" or "cuda".
        cores: how many this process may use.
        preset: "train" or "evaluate".
        cold: whether the files are dropped from the page cache now and then, so that nobody should
            keep them mapped.
    """

    name: str
    root: str
    paths: tuple[str, ...]
    batch_size: int
    size: int
    device: str
    cores: int
    preset: str = "train"
    cold: bool = False

    @property
    def shorter(self) -> int:
        """What the shorter side is resized to, to evaluate."""
        return round(self.size * 256 / 224)

    @property
    def files(self) -> list[str]:
        """The files' full names."""
        return [f"{self.root}/{path}" for path in self.paths]

    def save(self, path: Path) -> None:
        """Write it down for another process."""
        path.write_text(json.dumps(asdict(self)))

    @staticmethod
    def load(path: Path) -> Work:
        """Read what `save` wrote."""
        found = json.loads(path.read_text())
        return Work(**{**found, "paths": tuple(found["paths"])})
