"""Writes a synthetic set: all of it or, when something stops it, nothing."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import PIL

import gpufeed
from gpufeed._util.limits import available_threads
from gpufeed._util.progress import progress as progress_bar
from gpufeed.errors import ConfigError
from gpufeed.tools.synth.bird import PART_NAMES
from gpufeed.tools.synth.pictures import draw_rows, draw_with_processes
from gpufeed.tools.synth.plan import MAX_SIDE, Plan, plan_nabirds

__all__ = ["FORMAT", "is_finished", "write_nabirds"]

FORMAT = 1
"""Goes up with every change to the bytes of a set; a set of another format is not reused."""

_RECORD = "synth.json"
# A process takes about as long to start as this many pixels take to draw.
_PIXELS_WORTH_A_PROCESS = 15_000_000


def write_nabirds(
    folder: str | os.PathLike[str],
    *,
    images: int = 256,
    classes: int | None = None,
    seed: int = 0,
    max_side: int = MAX_SIDE,
    workers: int | None = None,
    progress: bool | None = None,
) -> Path:
    """Write a synthetic data set with the files, formats and oddities of NABirds.

    The same arguments give the same bytes in every file, on any number of workers. A set that is
    already there, finished and of the same arguments, is left as it is. The set is written beside
    its place and moved there at the end, so that an interrupted call leaves nothing behind.

    Args:
        folder: where to; it is created, and so are the folders above it.
        images: how many, at least 2. From 32 on the set has every oddity of the real one.
        classes: how many classes, 1 to 555, with at least two images each; None takes about one
            for 16 images.
        seed: from 0 to 2**64 - 1; another seed gives other ids, pictures and classes' looks.
        max_side: the longest side of a picture in pixels, 64 to 1024; all sizes shrink with it.
        workers: at most this many processes draw, and only as many as there is work for; None
            takes one for each core this process may use.
        progress: True or False to force or silence it; None shows it on a terminal.

    Returns:
        The folder, as an absolute path.

    Raises:
        ConfigError: an argument is out of range, or the folder holds something else.
        OSError: a file could not be written.
    """
    plan, record = _planned(images, classes, seed, max_side)
    if workers is None:
        workers = available_threads()
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise ConfigError(f"workers = {workers!r} is out of range: it must be at least 1")
    target = Path(folder).expanduser().resolve()
    arguments = {name: value for name, value in record.items() if name != "format"}
    if _is_finished(target, plan, record):
        return target
    _check_free(target)

    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = f".{target.name}.unfinished-"
    _remove_abandoned(target.parent, unfinished)
    beside, lock = _make_beside(target, unfinished)
    try:
        # The set is a folder within, since a temporary folder can be read by its owner only.
        made = beside / "set"
        made.mkdir()
        _write_set(made, plan, arguments, workers, progress)
        versions = {"gpufeed": gpufeed.__version__, "pillow": PIL.__version__}
        _write_lines(made / _RECORD, [json.dumps(record | versions)])
        try:
            made.replace(target)
        except OSError:
            # Someone else may have finished the same set in the meantime.
            if not _is_finished(target, plan, record):
                _check_free(target)
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        os.close(lock)
    return target


def is_finished(
    folder: str | os.PathLike[str],
    *,
    images: int = 256,
    classes: int | None = None,
    seed: int = 0,
    max_side: int = MAX_SIDE,
) -> bool:
    """Whether `write_nabirds` with these arguments would find its set in the folder, finished.

    Raises:
        ConfigError: an argument is out of range.
    """
    plan, record = _planned(images, classes, seed, max_side)
    return _is_finished(Path(folder).expanduser().resolve(), plan, record)


def _planned(
    images: int, classes: int | None, seed: int, max_side: int
) -> tuple[Plan, dict[str, int]]:
    """What is to be drawn, and the format and arguments that a finished set has on record."""
    plan = plan_nabirds(images, classes=classes, seed=seed, max_side=max_side)
    return plan, {
        "format": FORMAT,
        "images": images,
        "classes": len(plan.taxonomy.class_ids),
        "seed": seed,
        "max_side": max_side,
    }


def _make_beside(target: Path, prefix: str) -> tuple[Path, int]:
    """Make a folder beside the target, and lock it: whatever ends this process ends the lock."""
    while True:
        try:
            beside = Path(tempfile.mkdtemp(dir=target.parent, prefix=prefix))
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(target)) from None
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(beside, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if beside.exists():
                return beside, lock
            os.close(lock)  # another call took it for abandoned before it was locked


def _remove_abandoned(folder: Path, prefix: str) -> None:
    """Remove what calls left that were killed: nobody holds their locks any more."""
    for path in folder.iterdir():
        if not path.name.startswith(prefix):
            continue
        with contextlib.suppress(OSError):
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)


def _is_finished(target: Path, plan: Plan, record: dict[str, int]) -> bool:
    """Whether the folder is a whole set, made with the format and arguments on record."""
    try:
        found = json.loads((target / _RECORD).read_bytes())
    except (OSError, ValueError):
        return False
    if not isinstance(found, dict) or any(found.get(k) != v for k, v in record.items()):
        return False
    needed = [target / name for name in _TEXT_FILES]
    needed += [target / "images" / path for path in plan.paths]
    return all(path.is_file() for path in needed)


def _check_free(target: Path) -> None:
    if target.is_dir() and not any(target.iterdir()):
        return
    if target.exists():
        raise ConfigError(
            f"{target} exists and is not a finished synthetic set of these arguments; give a "
            "folder that is new or empty, or remove this one first"
        )


_TEXT_FILES = (
    "images.txt",
    "image_class_labels.txt",
    "sizes.txt",
    "bounding_boxes.txt",
    "photographers.txt",
    "train_test_split.txt",
    "classes.txt",
    "hierarchy.txt",
    "parts/parts.txt",
    "parts/part_locs.txt",
)


def _write_set(
    folder: Path, plan: Plan, arguments: dict[str, int], workers: int, progress: bool | None
) -> None:
    taxonomy = plan.taxonomy
    for class_id in taxonomy.class_ids:
        (folder / "images" / f"{class_id:04d}").mkdir(parents=True)
    part_lines = _draw_all(folder / "images", plan, arguments, workers, progress)
    columns: dict[str, Iterable[object]] = {
        "images.txt": plan.paths,
        "image_class_labels.txt": [taxonomy.class_ids[label] for label in plan.labels.tolist()],
        "sizes.txt": _rows(plan.sizes.tolist()),
        "bounding_boxes.txt": _rows(plan.boxes.tolist()),
        "photographers.txt": plan.photographers,
        "train_test_split.txt": plan.is_training.astype(int).tolist(),
    }
    for name, values in columns.items():
        _write_lines(
            folder / name, (f"{key} {value}" for key, value in zip(plan.uuids, values, strict=True))
        )
    _write_lines(folder / "classes.txt", (f"{i} {name}" for i, name in enumerate(taxonomy.names)))
    _write_lines(
        folder / "hierarchy.txt",
        (f"{child} {parent}" for child, parent in enumerate(taxonomy.parents) if child),
    )
    (folder / "parts").mkdir()
    _write_lines(folder / "parts/parts.txt", (f"{i} {name}" for i, name in enumerate(PART_NAMES)))
    _write_lines(folder / "parts/part_locs.txt", part_lines)


def _draw_all(
    folder: Path, plan: Plan, arguments: dict[str, int], workers: int, progress: bool | None
) -> list[str]:
    """Draw and write all pictures; returns the lines that say where the subjects' parts are."""
    lines: list[list[str]] = [[]] * len(plan)
    pixels = int(plan.sizes.prod(axis=1).sum())
    processes = min(workers, pixels // _PIXELS_WORTH_A_PROCESS)
    with progress_bar("drawing", len(plan), show=progress, unit="images") as advance:

        def done(row: int, part_lines: list[str]) -> None:
            lines[row] = part_lines
            advance(1)

        if processes > 1 and sys.executable:
            draw_with_processes(folder, arguments, processes, done)
        else:
            for row, part_lines in draw_rows(folder, plan, range(len(plan))):
                done(row, part_lines)
    return [line for part_lines in lines for line in part_lines]


def _rows(table: list[list[int]]) -> list[str]:
    return [" ".join(map(str, row)) for row in table]


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    text = "".join(itertools.chain.from_iterable((line, "\n") for line in lines))
    path.write_bytes(text.encode("ascii"))
