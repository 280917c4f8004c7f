"""The event loop of this process's requests, on one thread, which is made when first used."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from gpufeed._util.exits import before_threads_end
from gpufeed.source.daemon_threads import DaemonThreads
from gpufeed.source.wrapper import ReadCancelled

__all__ = ["Loop", "event_loop", "result", "then"]

T = TypeVar("T")
_Changed = TypeVar("_Changed")
_Foreign = weakref.WeakSet[asyncio.Future[Any] | Future[Any]]

_POLL_SECONDS = 0.2
"""Interval at which a wait checks for signals."""

_RELEASE_SECONDS = 5.0
"""How long the loop's end waits at most for calls on other threads."""


class Loop:
    """An event loop on a thread of its own, which ends when nothing refers to this object.

    Attributes:
        loop: the event loop.
        shared: what requests on this loop share, by name.
        closers: called on the loop before it ends.
        foreign: futures that other threads complete.
    """

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.shared: dict[str, Any] = {}
        self.closers: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self.foreign: _Foreign = weakref.WeakSet()
        arguments = (self.loop, self.closers, self.foreign)
        self._thread = threading.Thread(None, _run, "gpufeed-requests", arguments, daemon=True)
        self._thread.start()
        weakref.finalize(self, _stop, self.loop).atexit = False
        _loops.add(self)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine on the loop; callable from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def watch(self, future: asyncio.Future[T]) -> asyncio.Future[T]:
        """Return a future that another thread completes, after noting it."""
        self.foreign.add(future)
        return future

    def end(self) -> None:
        """Cancel what is under way, and end the thread."""
        _stop(self.loop)
        self._thread.join()


def event_loop() -> Loop:
    """Return the event loop of this process."""
    global _current
    with _lock:
        loop = _current()
        if loop is None:
            loop = Loop()
            _current = weakref.ref(loop)
        return loop


def result(future: Future[T]) -> T:
    """Wait for a result without blocking Ctrl-C.

    Raises:
        ReadCancelled: the future was cancelled, or the interpreter is exiting.
    """
    # Polling, since with polars' signal handler a blocked main thread never sees Ctrl-C.
    try:
        while not future.done():
            wait([future], timeout=_POLL_SECONDS)
        return future.result()
    except (CancelledError, asyncio.CancelledError):
        raise ReadCancelled from None
    except BaseException:
        future.cancel()
        raise


def then(future: Future[T], change: Callable[[T], _Changed]) -> Future[_Changed]:
    """Return what a function makes of a result, on a thread for calls that block."""
    loop = event_loop()

    async def changed() -> _Changed:
        value = await asyncio.wrap_future(future)
        return await loop.loop.run_in_executor(None, change, value)

    return loop.start(changed())


def _run(
    loop: asyncio.AbstractEventLoop,
    closers: list[Callable[[], Coroutine[Any, Any, None]]],
    foreign: _Foreign,
) -> None:
    asyncio.set_event_loop(loop)
    loop.set_default_executor(_DaemonExecutor(foreign))
    loop.run_forever()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    del tasks
    loop.run_until_complete(_released(foreign))
    for close in closers:
        loop.run_until_complete(close())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


class _DaemonExecutor(ThreadPoolExecutor):
    """Makes calls that block, each on a daemon thread.

    The interpreter waits for the threads of `ThreadPoolExecutor`, of which asyncio demands a
    subclass, and one call that hangs would keep a thread from all others.

    Args:
        foreign: has the futures of the calls that are under way.
    """

    def __init__(self, foreign: _Foreign) -> None:
        super().__init__()
        self._foreign = foreign
        self._daemons = DaemonThreads("gpufeed-calls")

    def submit(self, call: Callable[..., T], /, *args: Any, **options: Any) -> Future[T]:
        """Make a call on an idle thread, or on a new one."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # it is made even if nobody waits for it any more
        self._foreign.add(future)

        def work() -> None:
            try:
                future.set_result(call(*args, **options))
            except BaseException as error:
                future.set_exception(error)
            finally:
                self._foreign.discard(future)  # a traceback may keep it alive

        self._daemons.run(work)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """End the threads that are idle, and the others after their calls, without waiting."""
        self._daemons.stop()


async def _released(foreign: _Foreign) -> None:
    """Wait until other threads have let go of their futures, but not for those that hang.

    A thread that asks for Python's lock while the interpreter exits could abort it.
    """
    clock = asyncio.get_running_loop().time
    end = clock() + _RELEASE_SECONDS
    while len(foreign) and clock() < end:
        await asyncio.sleep(0.001)


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    with contextlib.suppress(RuntimeError):  # it has ended
        loop.call_soon_threadsafe(loop.stop)


def _no_loop() -> None:
    return None


_lock = threading.Lock()
_current: Callable[[], Loop | None] = _no_loop
_loops: weakref.WeakSet[Loop] = weakref.WeakSet()


def _forget() -> None:
    """Let a forked process make a loop of its own: threads do not survive a fork."""
    global _lock, _current
    _lock, _current = threading.Lock(), _no_loop
    _loops.clear()


def _end_all() -> None:
    for loop in list(_loops):
        loop.end()


os.register_at_fork(after_in_child=_forget)


before_threads_end(_end_all)
