"""Making shards on all cores of this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from typing import Any

from gpufeed.errors import PipelineError
from gpufeed.tools.prepare.shard import Job

__all__ = ["make_in_processes"]

_POLL_SECONDS = 0.2
"""Interval at which a wait checks for signals, which polars would otherwise keep from it."""

_ENDED = (
    "a process that prepared images ended abruptly; the shards that are finished are kept, so call "
    "prepare again, with fewer workers if memory was short; a script needs "
    'if __name__ == "__main__": around what it does'
)

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
    # One that ends before it has taken a long job from its pipe would leave this process waiting.
    probe = context.Process(target=_nothing)
    probe.start()
    probe.join()
    if probe.exitcode:
        raise PipelineError(_ENDED)
    # Workers end when the other end of the pipe is closed, also by the end of this process.
    reader, writer = context.Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, context, _begin, (job, context.Lock(), reader))
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
        raise PipelineError(_ENDED) from None
    finally:
        writer.close()
        pool.shutdown(cancel_futures=True)
        reader.close()


def _nothing() -> None:
    """Do nothing, in a process that can start."""


def _begin(job: Job, turn: AbstractContextManager[Any], reader: Connection) -> None:
    global _held
    _held = job, turn
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
