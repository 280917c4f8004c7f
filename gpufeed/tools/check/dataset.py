"""Checking all images of a list, on all cores."""

from __future__ import annotations

import io
import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from gpufeed._util.limits import available_threads, quarter_of_memory
from gpufeed._util.progress import progress as progress_bar
from gpufeed._util.sanitize import sanitize
from gpufeed._util.thread_map import thread_map
from gpufeed.decode.diagnose import MAX_PIXELS
from gpufeed.decode.headers import max_file_bytes
from gpufeed.open.budget import Budget
from gpufeed.open.further import Further
from gpufeed.plan.image_targets import ImageTarget
from gpufeed.records.annotations import ANNOTATIONS
from gpufeed.records.bounding_box import BOX_COLUMNS
from gpufeed.records.label_kinds import describe_label
from gpufeed.records.manifest import Manifest
from gpufeed.sheets.sheet import write_checked
from gpufeed.source.base import Source, check_source, starter
from gpufeed.source.files import FileSource
from gpufeed.source.locate import source_of
from gpufeed.source.paths import find_escapes
from gpufeed.source.stored import StoredSource
from gpufeed.tools.check.examiner import Examined, Examiner, Size
from gpufeed.tools.check.kinds import KINDS, Finding, Problem

__all__ = ["Report", "check"]

_WAITING = 16
"""Threads that examine images of an object store, for which most of them wait."""
_NO_PATH = "(the cell is empty)"
"""Stands for the path of a mask or depth map where a table has none; there is no such file."""
_COLUMNS = {
    "record_key": pl.Int64,
    "path": pl.String,
    "kind": pl.String,
    "fails": pl.Boolean,
    "detail": pl.String,
}


@dataclass(frozen=True)
class Report:
    """The result of a check.

    Attributes:
        findings: one row for each finding, the worst kinds first: `record_key` (Int64), `path`,
            `kind` (String), `fails` (Boolean, whether a run would fail on the image) and `detail`
            (String).
        images: the number of images checked.
        source: the images, in the order of their records.
        seconds: the time it took.
    """

    findings: pl.DataFrame
    images: int
    source: Source
    seconds: float

    def save(self, path: Path) -> None:
        """Write the findings as Parquet, atomically; `Manifest.without` reads them.

        Raises:
            ConfigError: the file cannot be written.
        """
        buffer = io.BytesIO()
        self.findings.write_parquet(buffer)
        write_checked(path, buffer.getvalue())

    @property
    def failing(self) -> int:
        """The number of images on which a run, or reading its list, would fail."""
        return self.findings.filter("fails")["record_key"].n_unique()


def check(
    frame: pl.DataFrame,
    source: Source | str | Path,
    *,
    max_pixels: int = MAX_PIXELS,
    reduce_depth: bool = False,
    follow_links: bool = False,
    threads: int | None = None,
    progress: bool | None = None,
    targets: Sequence[ImageTarget] = (),
    classes: Sequence[str] = (),
) -> Report:
    """Check the image of each row.

    Args:
        frame: the column `path`, and optionally `label`, `width` and `height`, the box, and
            `split` or `is_training_img`, as in a manifest.
        source: the images, key i being that of row i; or the folder that the paths are relative to.
        max_pixels: as for `Loader`.
        reduce_depth: as for `Manifest`.
        follow_links: whether symbolic links may lead out of the folder.
        threads: CPU threads; None for one per core.
        progress: whether to show a progress bar; None to show it on a terminal only.
        targets: the masks and depth maps to check with their images, as for `Loader`.
        classes: the names of the labels, if they have any.

    Raises:
        ManifestError: a folder cannot be listed, or a path of `targets` is invalid.
        ConfigError: the frame does not have a column of `targets`, or not of this kind.
    """
    start = time.perf_counter()
    expected: Sequence[Size | None] = [None] * frame.height
    if "width" in frame.columns:
        expected = frame.select("height", "width").rows()
    if isinstance(source, str | Path):
        source = source_of(source, frame["path"])
    check_source(source, frame.height)
    leads_out: set[int] = set()
    if isinstance(source, StoredSource):
        source = source.limited(np.full(len(source), max_file_bytes(max_pixels)))
    if isinstance(source, FileSource) and not follow_links:
        leads_out = set(find_escapes(source.root, source.paths).arg_true().to_list())
    within = [key for key in range(frame.height) if key not in leads_out]
    further = _bind(targets, frame, source, max_pixels)
    if threads is None:
        # Reading waits where requests are made.
        remote = any(starter(each) for each in (source, *further.sources))
        threads = max(available_threads(), _WAITING if remote else 1)
    items = [(key, expected[key]) for key in within]
    examined = [Examined() for _ in range(frame.height)]
    budget = Budget(max_pixels, threads, quarter_of_memory())

    def make_examiner() -> Examiner:
        return Examiner(source, max_pixels, budget, reduce_depth=reduce_depth, further=further)

    results = _examine_all(make_examiner, items, threads, progress)
    for key, result in zip(within, results, strict=True):
        examined[key] = result
    found: list[tuple[int, Finding]] = [
        (key, Finding(Problem.leads_out, f"to {sanitize(os.path.realpath(source.name(key)))}"))
        for key in leads_out
    ]
    for key, result in enumerate(examined):
        found += [(key, finding) for finding in result.findings]
    found += _boxes_outside(frame, examined)
    found += _duplicates(frame, examined, classes)
    rank = {kind: number for number, kind in enumerate(KINDS)}
    found.sort(key=lambda item: (rank[item[1].kind], item[0]))
    names = frame["path"]
    rows = [
        (key, names[key], finding.kind.value, KINDS[finding.kind][0] == "fails", finding.detail)
        for key, finding in found
    ]
    findings = pl.DataFrame(rows, schema=_COLUMNS, orient="row")
    return Report(findings, frame.height, source, time.perf_counter() - start)


def _bind(
    targets: Sequence[ImageTarget], frame: pl.DataFrame, source: Source, max_pixels: int
) -> Further:
    """Return the masks and depth maps of the images."""
    if not targets:
        return Further()
    # The largest sizes, of which nothing but the limit of the files' lengths follows.
    sizes = dict.fromkeys(("width", "height"), pl.lit(math.isqrt(max_pixels)))
    listed = frame.drop("label", *BOX_COLUMNS, *ANNOTATIONS, strict=False).with_columns(**sizes)
    paths = {each.column for each in targets if frame.schema.get(each.column) == pl.String}
    # A loader refuses the whole column; here its record alone lacks a file.
    listed = listed.with_columns(pl.col(*paths).fill_null(_NO_PATH)) if paths else listed
    manifest = Manifest(listed, source)
    return Further(targets, [target.bind(manifest) for target in targets])


def _examine_all(
    make_examiner: Callable[[], Examiner],
    items: Sequence[tuple[int, Size | None]],
    threads: int,
    progress: bool | None,
) -> list[Examined]:
    local = threading.local()

    def examine(item: tuple[int, Size | None]) -> Examined:
        if not hasattr(local, "examiner"):
            local.examiner = make_examiner()
        examined: Examined = local.examiner.examine(*item)
        return examined

    # Around all threads, since warning filters belong to the process.
    with (
        warnings.catch_warnings(action="ignore"),
        progress_bar("Checking images", len(items), show=progress, unit="images") as done,
    ):
        return thread_map(examine, items, threads=threads, done=done, name="gpufeed-check")


def _boxes_outside(frame: pl.DataFrame, examined: Sequence[Examined]) -> list[tuple[int, Finding]]:
    """Find boxes that extend beyond their images, by the sizes in the images' headers."""
    if not set(BOX_COLUMNS) <= set(frame.columns):
        return []
    x, y, width, height = (frame[name].to_numpy().astype(np.int64) for name in BOX_COLUMNS)
    sizes = np.array([each.size or (2**31, 2**31) for each in examined], dtype=np.int64)
    outside = (x < 0) | (y < 0) | (x + width > sizes[:, 1]) | (y + height > sizes[:, 0])
    found = []
    for key in np.flatnonzero(outside).tolist():
        image_height, image_width = sizes[key]
        box = f"{x[key]} {y[key]} {width[key]} {height[key]}"
        size = f"{image_width} x {image_height} (width x height)"
        detail = f"the box {box} (x y width height) in {size}"
        found.append((key, Finding(Problem.box_outside, detail)))
    return found


def _duplicates(
    frame: pl.DataFrame, examined: Sequence[Examined], classes: Sequence[str]
) -> list[tuple[int, Finding]]:
    """Find files with the same bytes as an earlier one, and conflicts of split and label."""
    split = "split" if "split" in frame.columns else "is_training_img"
    names, labels, splits = (
        frame[column].to_list() if column in frame.columns else [None] * frame.height
        for column in ("path", "label", split)
    )
    first: dict[bytes, int] = {}
    found = []
    for key, each in enumerate(examined):
        if each.digest is None:
            continue
        other = first.setdefault(each.digest, key)
        if other == key:
            continue
        identical = f"identical to record {other}, {names[other]}"
        found.append((key, Finding(Problem.duplicate, identical)))
        if splits[key] != splits[other]:
            found.append((key, Finding(Problem.twice, identical)))
        if labels[key] != labels[other]:
            here, there = (
                describe_label(labels[each], classes) if classes else labels[each]
                for each in (key, other)
            )
            detail = f"{identical}: label {here} here, {there} there"
            found.append((key, Finding(Problem.two_labels, detail)))
    return found
