"""Files below one URL, of an object store or a web server."""

from __future__ import annotations

import asyncio
import fnmatch
import io
import os
import random
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, BinaryIO, NamedTuple, TypeVar

from gpufeed._util.numbers import is_integer, is_number
from gpufeed._util.sanitize import short
from gpufeed._util.urls import public_url
from gpufeed.errors import ConfigError
from gpufeed.source.remote.backend import CHANGED, Backend, Get, Part, TransientError
from gpufeed.source.remote.loop import Loop, event_loop, result
from gpufeed.source.storage import Stamp, StoredRange
from gpufeed.source.window import Window

__all__ = ["RemoteStorage", "WholeFile"]

T = TypeVar("T")

BLOCK = 1 << 16
"""Bytes that an open file reads at a time, at least: enough for the header of nearly any image."""

_FIRST_WAIT, _LONGEST_WAIT = 0.1, 10.0
"""Seconds between two attempts: they double from one to the other."""

_BUCKETS = ("s3", "s3a", "gs", "az", "abfs", "abfss")


class WholeFile(NamedTuple):
    """A file to read whole.

    Attributes:
        path: relative to the root.
        limit: length in bytes above which it is not read.
    """

    path: str
    limit: int


class RemoteStorage:
    """Files below a URL: see `Storage`.

    Requests run on one thread of the process, `max_requests` at a time, from whatever threads they
    come. A copy in another process, by pickle, has connections of its own.

    Args:
        root: `s3://bucket/folder`, `gs://`, `az://container/folder`, `https://host/folder`, or
            another URL that fsspec knows. `s3://` alone is the root of all buckets.
        max_requests: how many requests are under way at a time.
        retry_seconds: how long a request that fails for a passing reason is made again.
        timeout: seconds without an answer after which a request fails, and is made again.
        options: arguments of obstore's store (`region`, `endpoint`, `skip_signature`, ...), of
            aiohttp's requests (`headers`, ...) for `https://`, or of fsspec's file system.

    Raises:
        ConfigError: an argument is out of range, or nothing can read such a URL.
        MissingExtraError: a package for such URLs is not installed.
    """

    def __init__(
        self,
        root: str,
        *,
        max_requests: int = 64,
        retry_seconds: float = 120.0,
        timeout: float = 20.0,
        **options: Any,
    ) -> None:
        if not is_integer(max_requests) or max_requests < 1:
            raise ConfigError(
                f"max_requests is {short(max_requests)}; it must be an integer of 1 or more"
            )
        for name, seconds in (("retry_seconds", retry_seconds), ("timeout", timeout)):
            if not is_number(seconds) or not seconds > 0:
                raise ConfigError(f"{name} is {short(seconds)}; it must be a number above 0")
        self.root = root
        self.options = {
            "max_requests": max_requests,
            "retry_seconds": retry_seconds,
            "timeout": timeout,
            **options,
        }
        self._max_requests = max_requests
        self.retry_seconds = retry_seconds
        self._make = _maker(root.partition("://")[0].lower(), timeout, options)
        self._lock = threading.Lock()
        self._connection: _Connection | None = None

    def __repr__(self) -> str:
        return f"RemoteStorage({public_url(self.root)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.root, self.options)

    def read(self, ranges: Sequence[StoredRange | WholeFile]) -> list[bytes | memoryview | OSError]:
        """Read byte ranges, all at the same time: see `Storage`."""
        return result(self.start(ranges))

    def start(
        self, ranges: Sequence[StoredRange | WholeFile | OSError], seconds: float | None = None
    ) -> Future[list[bytes | memoryview | OSError]]:
        """Start to read byte ranges, and return at once.

        Args:
            ranges: what to read; an error is returned in its place.
            seconds: how long each of them may take from its first request; None for no limit.
        """
        connection = self._connect()

        async def read(each: StoredRange | WholeFile | OSError) -> bytes | memoryview | OSError:
            if isinstance(each, OSError):
                return each
            try:
                if isinstance(each, WholeFile):
                    wanted = Get(self._url(each.path), limit=each.limit)
                else:
                    stop = each.start + each.length
                    wanted = Get(self._url(each.path), each.start, stop, each.stamp)
                part = await connection.get(wanted, seconds)
                if wanted.stop is not None and len(part.content) < wanted.stop - wanted.start:
                    raise OSError(
                        f"the file ends at byte {wanted.start + len(part.content):,}, within the "
                        "image"
                    )
            except OSError as error:
                # The frames of its traceback would keep the whole batch alive.
                return error.with_traceback(None)
            return part.content

        async def read_all() -> list[bytes | memoryview | OSError]:
            return await asyncio.gather(*map(read, ranges))

        return connection.loop.start(read_all())

    def open(self, path: str) -> BinaryIO:
        """Open a file, of which blocks are read as they are needed: see `Storage`."""
        return self.open_stamped(path)[0]

    def open_stamped(self, path: str) -> tuple[BinaryIO, Stamp]:
        """Open a file, and return its stamp from the same answer; errors as for `open`."""
        first, stamp = self._get(path, 0, BLOCK, None)

        def read(start: int, length: int) -> bytes | memoryview:
            if start + length <= len(first):
                return first[start : start + length]
            return self._get(path, start, start + length, stamp).content

        return io.BufferedReader(Window(read, stamp.length), BLOCK), stamp

    def stamp(self, path: str) -> Stamp:
        """Return a file's length and ETag, or what it has instead: see `Storage`."""
        (stamp,) = self.stamps([path])
        if isinstance(stamp, OSError):
            raise stamp
        return stamp

    def stamps(self, paths: Sequence[str]) -> list[Stamp | OSError]:
        """Return the stamps of files, or why there is none; all are requested at the same time."""
        connection = self._connect()

        async def stamp(path: str) -> Stamp | OSError:
            url = self._url(path)
            try:
                return await connection.call(lambda: connection.backend.stamp(url))
            except OSError as error:
                return error.with_traceback(None)

        async def all_stamps() -> list[Stamp | OSError]:
            return await asyncio.gather(*map(stamp, paths))

        return result(connection.loop.start(all_stamps()))

    def find(self, pattern: str) -> list[str]:
        """Find files by one listing: see `Storage`."""
        parts = pattern.split("/")
        wild = [number for number, part in enumerate(parts) if re.search(r"[*?[]", part)]
        folder = "/".join(parts[: min(wild, default=len(parts) - 1)])
        return [path for path in self.find_all(folder) if _matches(path.split("/"), parts)]

    def find_all(self, folder: str = "") -> dict[str, Stamp]:
        """Return the stamps of all files below a folder, by their paths, sorted.

        Raises:
            OSError: the files cannot be listed.
        """
        connection = self._connect()
        url = self._url(folder) if folder else self.root
        request = connection.call(lambda: connection.backend.find(url))
        found = result(connection.loop.start(request))
        above = len(self._url(""))
        return {url[above:]: stamp for url, stamp in sorted(found)}

    def name(self, path: str) -> str:
        """Return a file's URL, without query string and credentials: see `Storage`."""
        return public_url(self._url(path))

    def close(self) -> None:
        """Close the connections; reading again opens new ones."""
        with self._lock:
            self._connection = None

    def _get(self, path: str, start: int, stop: int, stamp: Stamp | None) -> Part:
        """Read a part of a file, fewer bytes where the file ends before."""
        connection = self._connect()
        return result(
            connection.loop.start(connection.get(Get(self._url(path), start, stop, stamp)))
        )

    def _url(self, path: str) -> str:
        return f"{self.root}{'' if self.root.endswith('/') else '/'}{path}"

    def _connect(self) -> _Connection:
        with self._lock:
            if self._connection is None or self._connection.process != os.getpid():
                loop = event_loop()
                backend = self._make(loop)
                self._connection = _Connection(
                    loop, backend, self._max_requests, self.retry_seconds
                )
            return self._connection


def _restore(root: str, options: Mapping[str, Any]) -> RemoteStorage:
    return RemoteStorage(root, **options)


def _maker(scheme: str, timeout: float, options: Mapping[str, Any]) -> Callable[[Loop], Backend]:
    """Return what makes the backend for a scheme; its package is imported."""
    if scheme in _BUCKETS:
        from gpufeed.source.remote.buckets import Buckets

        return lambda loop: Buckets(loop, scheme, timeout, options)
    if scheme in ("http", "https"):
        from gpufeed.source.remote.web import Web

        return lambda loop: Web(loop, timeout, options)
    from gpufeed.source.remote.others import Others

    Others(scheme, options)  # which raises its errors now
    return lambda _: Others(scheme, options)


class _Connection:
    """A backend in this process, with the requests that it is making."""

    def __init__(
        self, loop: Loop, backend: Backend, max_requests: int, retry_seconds: float
    ) -> None:
        self.loop = loop
        self.backend = backend
        self.process = os.getpid()
        self._free = asyncio.Semaphore(max_requests)
        self._retry_seconds = retry_seconds

    async def get(self, wanted: Get, seconds: float | None = None) -> Part:
        """Read a part of a file that has the stamp."""
        part = await self.call(lambda: self.backend.get(wanted), seconds)
        # A server may ignore If-Match.
        if wanted.stamp is not None and part.stamp != wanted.stamp:
            raise OSError(CHANGED)
        return part

    async def call(self, request: Callable[[], Awaitable[T]], seconds: float | None = None) -> T:
        """Make a request, again while it fails for a passing reason.

        Args:
            request: makes it once.
            seconds: how long it may take, all attempts together, once it is its turn.

        Raises:
            TimeoutError: it took longer.
            OSError: it failed for good.
        """
        # Held between attempts too, so that a store that is too busy gets fewer requests.
        async with self._free:
            try:
                async with asyncio.timeout(seconds):
                    return await self._retry(request)
            except TimeoutError:
                raise TimeoutError(f"no answer within {seconds:g} s") from None

    async def _retry(self, request: Callable[[], Awaitable[T]]) -> T:
        clock = asyncio.get_running_loop().time
        begun, pause, attempts = clock(), _FIRST_WAIT, 0
        while True:
            try:
                return await request()
            except TransientError as error:
                attempts += 1
                waited = random.uniform(pause / 2, pause)  # noqa: S311 - so that not all come at once
                if clock() + waited - begun > self._retry_seconds:
                    raise OSError(
                        f"{error}; given up after {clock() - begun:.0f} s (attempts: {attempts})"
                    ) from None
            await asyncio.sleep(waited)
            pause = min(2 * pause, _LONGEST_WAIT)


def _matches(path: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether the parts of a path match those of a pattern as of `pathlib.Path.glob`."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        rest = pattern[1:] or ["*"]
        return any(_matches(path[start:], rest) for start in range(len(path)))
    return (
        bool(path) and fnmatch.fnmatchcase(path[0], pattern[0]) and _matches(path[1:], pattern[1:])
    )
