"""Draws a set's pictures into files: here and now, or shared out to processes.

Processes, since threads spend too long waiting for the interpreter's lock; and started by hand,
since `multiprocessing` would either fork beside another library's threads or run the caller's
script once more in every child.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from PIL import Image

import gpufeed
from gpufeed.errors import GpufeedError
from gpufeed.tools.synth.bird import Look, draw_look
from gpufeed.tools.synth.plan import Plan
from gpufeed.tools.synth.scene import draw_picture

__all__ = ["draw_rows", "draw_with_processes"]

QUALITY = 91  # about 2.5 bits a pixel, as in the real set
_WORKER = "gpufeed.tools.synth.worker"

PartLines = list[str]


def draw_rows(folder: Path, plan: Plan, rows: Iterable[int]) -> Iterator[tuple[int, PartLines]]:
    """Draw these rows of the plan into files below `folder`, whose class folders are there.

    Yields:
        The row, and its lines of part_locs.txt, as soon as its file is written.
    """
    looks: dict[int, Look] = {}
    for row in rows:
        label = int(plan.labels[row])
        if label not in looks:
            looks[label] = draw_look(plan.seed, label, plan.taxonomy.species[label])
        yield row, _draw_row(folder, plan, row, looks[label])


def _draw_row(folder: Path, plan: Plan, row: int, look: Look) -> PartLines:
    width, height = plan.sizes[row].tolist()
    x, y, w, h = plan.subjects[row].tolist()
    number = int(plan.numbers[row])
    picture, bird = draw_picture(plan.seed, number, (width, height), (x, y, w, h), look)
    path = folder / plan.paths[row]
    if plan.is_png[row]:
        opaque = picture.convert("RGB")
        opaque.putalpha(Image.new("L", opaque.size, 255))
        opaque.save(path, "PNG", compress_level=6)
    else:
        picture.save(path, "JPEG", quality=QUALITY, subsampling="4:2:0")
    return [
        f"{plan.uuids[row]} {part} " + ("-1 -1 0" if at is None else f"{at[0]} {at[1]} 1")
        for part, at in enumerate(bird.parts)
    ]


def draw_with_processes(
    folder: Path, arguments: dict[str, int], count: int, done: Callable[[int, PartLines], None]
) -> None:
    """Draw all rows of a plan with `count` processes; when one fails, the others are stopped.

    Args:
        folder: as for `draw_rows`.
        arguments: those of `plan_nabirds`; each process makes the plan again.
        count: how many processes.
        done: called with each row and its lines, from several threads.

    Raises:
        OSError: a file could not be written.
        GpufeedError: a process ended in another way before it was through.
    """
    # The children are to find this gpufeed, wherever this process found it.
    paths = [str(Path(gpufeed.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with contextlib.ExitStack() as stack:
        workers = []
        for first in range(count):
            worker = stack.enter_context(
                subprocess.Popen(  # noqa: S603 - this interpreter and a module of this package
                    [sys.executable, "-P", "-m", _WORKER],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=environment,
                    text=True,
                )
            )
            # On the way out a worker is stopped, then waited for.
            stack.callback(worker.kill)
            job = {"folder": str(folder), "plan": arguments, "first": first, "step": count}
            workers.append((worker, json.dumps(job)))
        readers = stack.enter_context(ThreadPoolExecutor(count))
        # Runs before the readers are waited for: without their workers they come to an end.
        for worker, _job in workers:
            stack.callback(worker.kill)
        for finished in as_completed([readers.submit(_follow, *w, done) for w in workers]):
            finished.result()


def _follow(
    worker: subprocess.Popen[str], job: str, done: Callable[[int, PartLines], None]
) -> None:
    """Hand a worker its job, and take in what it says until it ends."""
    assert worker.stdin is not None  # noqa: S101 - for the type checker; all three are pipes
    assert worker.stdout is not None  # noqa: S101
    assert worker.stderr is not None  # noqa: S101
    with contextlib.suppress(BrokenPipeError):  # it died at once: what it said comes below
        worker.stdin.write(job + "\n")
        worker.stdin.flush()
    for line in worker.stdout:
        said = json.loads(line)
        if "errno" in said:
            raise OSError(said["errno"], said["strerror"], said["filename"])
        done(said["row"], said["lines"])
    reason = worker.stderr.read().strip()
    if worker.wait() != 0:
        raise GpufeedError(
            f"a process that draws pictures ended with status {worker.returncode}: "
            f"{reason or 'it gave no reason'}"
        )
