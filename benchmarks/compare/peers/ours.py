"""gpufeed."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import polars as pl

from benchmarks.compare.peer import Peer
from benchmarks.compare.work import Work

__all__ = ["IN_TORCH", "PEERS"]


def _open(
    work: Work, *, framework: Literal["torch", "numpy"] | None = None
) -> Iterator[tuple[Any, Any]]:
    import gpufeed

    preset = gpufeed.presets.evaluate if work.preset == "evaluate" else gpufeed.presets.train
    table = pl.DataFrame(
        {"path": list(work.paths), "label": np.arange(len(work.paths), dtype=np.int32)}
    )
    loader = gpufeed.Loader(
        gpufeed.read_table(table, root=work.root),
        transforms=preset(work.size),
        batch_size=work.batch_size,
        device=work.device,
        framework=framework or ("torch" if work.device == "cuda" else "numpy"),
        num_threads=work.cores,
    )
    while True:
        for batch in loader:
            yield batch["image"], batch["label"]


PEERS = [Peer("gpufeed", _open)]
IN_TORCH = Peer("gpufeed", functools.partial(_open, framework="torch"), needs=("torch",))
