"""Checks all images of a list, on all cores."""

from __future__ import annotations

import io
import os
import threading
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from gpufeed._util.atomic_write import atomic_write
from gpufeed._util.limits import available_threads
from gpufeed._util.progress import progress as progress_bar
from gpufeed._util.sanitize import sanitize
from gpufeed._util.thread_map import thread_map
from gpufeed.feed.loader import MAX_PIXELS
from gpufeed.records.bounding_box import BOX_COLUMNS
from gpufeed.records.headers import max_file_bytes
from gpufeed.source.base import Source, check_source
from gpufeed.source.files import FileSource
from gpufeed.source.paths import find_escapes
from gpufeed.tools.check.kinds import KINDS, Finding, Kind
from gpufeed.tools.check.picture import Examiner, Looked, Size

__all__ = ["Report", "check"]

_COLUMNS = {
    "record_key": pl.Int64,
    "path": pl.String,
    "kind": pl.String,
    "fails": pl.Boolean,
    "detail": pl.String,
}
_TRAINING = "is_training_img"


@dataclass(frozen=True)
class Report:
    """What was found.

    Attributes:
        findings: one row each, the worst kinds first: `record_key` (Int64), `path`, `kind`
            (String), `fails` (Boolean, whether a run would fail over it), `detail` (String).
        images: how many were looked at.
        source: the images, in the order of their records.
        seconds: how long it took.
    """

    findings: pl.DataFrame
    images: int
    source: Source
    seconds: float

    def save(self, path: Path) -> None:
        """Write the findings as Parquet, whole or not at all; `Manifest.without` takes them.

        Raises:
            OSError: the file cannot be written; the error names `path`.
        """
        buffer = io.BytesIO()
        self.findings.write_parquet(buffer)
        atomic_write(path, buffer.getvalue())

    @property
    def failing(self) -> int:
        """How many images a run, or the reading of its list, would fail over."""
        return self.findings.filter("fails")["record_key"].n_unique()


def check(
    frame: pl.DataFrame,
    source: Source | str | Path,
    *,
    max_pixels: int = MAX_PIXELS,
    threads: int | None = None,
    progress: bool | None = None,
) -> Report:
    """Look into the image of each row.

    Args:
        frame: `path`; and, where there are any, `label`, `width` and `height`, the box, and
            `is_training_img`, as a manifest has them.
        source: the images, key i being that of row i; or the folder that the paths are relative to.
        max_pixels: as the `Loader` has it.
        threads: how many work at a time; one for each core where none is given.
        progress: whether to show a progress bar; None on a terminal only.

    Raises:
        ManifestError: a folder cannot be listed.
    """
    began = time.perf_counter()
    expected: Sequence[Size | None] = [None] * frame.height
    if "width" in frame.columns:
        expected = frame.select("height", "width").rows()
    if isinstance(source, str | Path):
        source = FileSource(source, frame["path"])
    check_source(source, frame.height)
    away: set[int] = set()
    if isinstance(source, FileSource):
        source = source.limited(np.full(len(source), max_file_bytes(max_pixels)))
        away = set(find_escapes(source.root, source.paths).arg_true().to_list())
    within = [key for key in range(frame.height) if key not in away]
    threads = threads or available_threads()
    items = [(key, expected[key]) for key in within]
    looked = [Looked() for _ in range(frame.height)]
    all_looked = _look_at_all(source, items, max_pixels, threads, progress)
    for key, each in zip(within, all_looked, strict=True):
        looked[key] = each
    found: list[tuple[int, Finding]] = [
        (key, Finding(Kind.leads_out, f"to {sanitize(os.path.realpath(source.name(key)))}"))
        for key in away
    ]
    for key, each in enumerate(looked):
        found += [(key, finding) for finding in each.findings]
    found += _outside(frame, looked)
    found += _repeated(frame, looked)
    rank = {kind: number for number, kind in enumerate(KINDS)}
    found.sort(key=lambda each: (rank[each[1].kind], each[0]))
    names = frame["path"]
    rows = [
        (key, names[key], finding.kind.value, KINDS[finding.kind][0] == "fails", finding.detail)
        for key, finding in found
    ]
    findings = pl.DataFrame(rows, schema=_COLUMNS, orient="row")
    return Report(findings, frame.height, source, time.perf_counter() - began)


def _look_at_all(
    source: Source,
    items: Sequence[tuple[int, Size | None]],
    max_pixels: int,
    threads: int,
    progress: bool | None,
) -> list[Looked]:
    examiners = threading.local()

    def look(item: tuple[int, Size | None]) -> Looked:
        if not hasattr(examiners, "own"):
            examiners.own = Examiner(source, max_pixels)
        looked: Looked = examiners.own.look(*item)
        return looked

    # Around all threads, since the filters are the process's.
    with (
        warnings.catch_warnings(action="ignore"),
        progress_bar("Checking images", len(items), show=progress, unit="images") as done,
    ):
        return thread_map(look, items, threads=threads, done=done, name="gpufeed-check")


def _outside(frame: pl.DataFrame, looked: Sequence[Looked]) -> list[tuple[int, Finding]]:
    """Boxes that reach out of images, by the images' own sizes."""
    if not set(BOX_COLUMNS) <= set(frame.columns):
        return []
    x, y, width, height = (frame[name].to_numpy().astype(np.int64) for name in BOX_COLUMNS)
    sizes = np.array([each.size or (2**31, 2**31) for each in looked], dtype=np.int64)
    outside = (x < 0) | (y < 0) | (x + width > sizes[:, 1]) | (y + height > sizes[:, 0])
    found = []
    for key in np.flatnonzero(outside).tolist():
        tall, broad = sizes[key]
        box = f"{x[key]} {y[key]} {width[key]} {height[key]}"
        said = f"the box {box} (x y width height) in {broad} x {tall} (width x height)"
        found.append((key, Finding(Kind.box_outside, said)))
    return found


def _repeated(frame: pl.DataFrame, looked: Sequence[Looked]) -> list[tuple[int, Finding]]:
    """Files of the same bytes, each but the first; and what is wrong with that."""
    names, labels, training = (
        frame[column].to_list() if column in frame.columns else [None] * frame.height
        for column in ("path", "label", _TRAINING)
    )
    first: dict[bytes, int] = {}
    found = []
    for key, each in enumerate(looked):
        if each.digest is None:
            continue
        other = first.setdefault(each.digest, key)
        if other == key:
            continue
        as_well = f"as record {other}, {names[other]}"
        found.append((key, Finding(Kind.duplicate, as_well)))
        if training[key] != training[other]:
            found.append((key, Finding(Kind.twice, as_well)))
        if labels[key] != labels[other]:
            said = f"{as_well}: label {labels[key]} here, {labels[other]} there"
            found.append((key, Finding(Kind.two_labels, said)))
    return found
