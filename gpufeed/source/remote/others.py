"""Files of all other kinds of storage that fsspec knows, such as `memory://` and `hf://`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError, MissingExtraError
from gpufeed.source.remote.backend import Get, Part, TransientError, check_length
from gpufeed.source.storage import Stamp

try:
    import fsspec
except ImportError:
    raise MissingExtraError("fsspec", extra="remote") from None

__all__ = ["Others"]

T = TypeVar("T")

_PERMANENT = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)


class Others:
    """Makes requests by a file system of fsspec, on threads.

    Args:
        scheme: of all URLs.
        options: arguments of the file system.

    Raises:
        ConfigError: fsspec does not know the scheme, or a package for it is missing.
    """

    def __init__(self, scheme: str, options: Mapping[str, Any]) -> None:
        self._scheme = scheme
        self._given_up: dict[str, Future[None]] = {}
        try:
            self._files = fsspec.filesystem(scheme, **options)
        except (ImportError, ValueError, TypeError) as error:
            raise ConfigError(f"{scheme}:// cannot be read: {short(str(error))}") from None

    async def get(self, wanted: Get) -> Part:
        """Read a file: see `Backend`."""

        def read() -> Part:
            info = self._files.info(wanted.url)
            stamp = self._stamp_of(info)
            check_length(wanted, stamp.length)
            content = self._files.cat_file(wanted.url, wanted.start, wanted.stop)
            stop = stamp.length if wanted.stop is None else min(wanted.stop, stamp.length)
            if len(content) < stop - wanted.start:
                raise TransientError(f"only {len(content):,} bytes arrived")
            return Part(content, stamp)

        return await self._on_thread(wanted.url, read)

    async def stamp(self, url: str) -> Stamp:
        """Return a file's length and what tells it from others: see `Backend`."""
        return await self._on_thread(url, lambda: self._stamp_of(self._files.info(url)))

    async def find(self, url: str) -> list[tuple[str, Stamp]]:
        """List files: see `Backend`."""

        def find() -> list[tuple[str, Stamp]]:
            found = self._files.find(url, detail=True)
            return [
                (f"{self._scheme}://{path.lstrip('/')}", self._stamp_of(info))
                for path, info in found.items()
            ]

        return await self._on_thread(url, find)

    def _stamp_of(self, info: Mapping[str, Any]) -> Stamp:
        # Names of what changes with a file, in the file systems of fsspec.
        names = ("ETag", "etag", "mtime", "created", "last_modified", "LastModified", "sha", "oid")
        version = next((str(info[name]) for name in names if info.get(name)), "")
        return Stamp(int(info["size"]), version)

    async def _on_thread(self, url: str, work: Callable[[], T]) -> T:
        # While a read that was given up hangs, its thread is the only one that the file has.
        if url in self._given_up:
            await asyncio.wrap_future(self._given_up[url])
        ended: Future[None] = Future()
        ended.set_running_or_notify_cancel()

        def run() -> T:
            try:
                return work()
            finally:
                ended.set_result(None)

        try:
            return await asyncio.to_thread(run)
        except asyncio.CancelledError:
            self._given_up[url] = ended
            raise
        except (TransientError, *_PERMANENT):
            raise
        except (TimeoutError, ConnectionError) as error:
            raise TransientError(f"the request failed: {type(error).__name__}") from None
        except OSError:
            raise
        except Exception as error:
            raise OSError(f"{type(error).__name__}: {short(str(error))}") from error
