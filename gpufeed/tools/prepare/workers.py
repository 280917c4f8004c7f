"""Making shards on all cores of this machine."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from gpufeed.errors import PipelineError
from gpufeed.tools.prepare.shard import Job

__all__ = ["make_in_processes"]

_POLL_SECONDS = 0.2
"""Interval at which a wait checks for signals, which polars would otherwise keep from it."""

_held: tuple[Job, AbstractContextManager[Any]] | None = None
"""The job of this worker process, and the turn of its large images among all workers."""


def make_in_processes(
    job: Job, numbers: Sequence[int], workers: int, done: Callable[[int], None]
) -> None:
    """Make shards in processes; with one worker, in this one.

    Args:
        job: what to make.
        numbers: the shards.
        workers: the number of processes.
        done: called with the number of each shard that is finished.

    Raises:
        DecodeError: as `Job.make`.
        OSError: as `Job.make`.
        PipelineError: a worker process has ended.
    """
    workers = min(workers, len(numbers))
    if workers <= 1:
        for number in numbers:
            job.make(number)
            done(number)
        return
    # Spawned, since threads of libraries do not survive a fork.
    context = multiprocessing.get_context("spawn")
    # Workers end when the other end of the pipe is closed, also by the end of this process.
    reader, writer = context.Pipe(duplex=False)
    # In a file: a worker that ends before it has read a long job from a pipe would leave this
    # process waiting for ever.
    file = tempfile.NamedTemporaryFile(prefix="gpufeed-")  # noqa: SIM115 - closed at the end
    pickle.dump(job, file)
    file.flush()
    pool = ProcessPoolExecutor(workers, context, _begin, (file.name, context.Lock(), reader))
    try:
        futures = {pool.submit(_make, number): number for number in numbers}
        pending = {*futures}
        while pending:
            finished, pending = wait(pending, _POLL_SECONDS, FIRST_COMPLETED)
            for future in finished:
                future.result()
                done(futures[future])
        pool.shutdown()
    except BrokenProcessPool:
        raise PipelineError(
            "a process that prepared images ended abruptly; the shards that are finished are "
            "kept, so call prepare again, with fewer workers if memory was short; a script needs "
            'if __name__ == "__main__": around what it does'
        ) from None
    finally:
        writer.close()
        pool.shutdown(cancel_futures=True)
        reader.close()
        file.close()


def _begin(file: str, turn: AbstractContextManager[Any], reader: Connection) -> None:
    global _held
    _held = pickle.loads(Path(file).read_bytes()), turn  # noqa: S301 - its parent wrote it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    threading.Thread(target=_end_with, args=(reader,), daemon=True).start()


def _end_with(reader: Connection) -> None:
    """End this process when its parent wants no more, or is killed."""
    reader.poll(None)
    os._exit(1)


def _make(number: int) -> None:
    if _held is not None:
        job, turn = _held
        job.make(number, turn)
