"""What object stores and web servers have in common: requests, and what their failures mean."""

from __future__ import annotations

import errno
from typing import NamedTuple, Protocol

from gpufeed._util.open_regular import EmptyFileError, FileTooLongError
from gpufeed._util.sanitize import sanitize
from gpufeed.source.storage import Stamp

__all__ = [
    "CHANGED",
    "Backend",
    "Get",
    "Part",
    "TransientError",
    "check_length",
    "past_end",
    "refusal",
]

CHANGED = "the file has changed since it was indexed"


class TransientError(OSError):
    """A failure that may be gone when the request is made again."""


class Get(NamedTuple):
    """A request for a file or a part of it.

    Attributes:
        url: of the file.
        start: the first byte.
        stop: the byte after the last one; None for the file's end.
        stamp: the stamp that the file must have; None for any.
        limit: length in bytes above which a file is not read.
    """

    url: str
    start: int = 0
    stop: int | None = None
    stamp: Stamp | None = None
    limit: int = 1 << 62


class Part(NamedTuple):
    """Bytes of a file, fewer than wanted where the file ends before; and the file's stamp."""

    content: bytes | memoryview
    stamp: Stamp


class Backend(Protocol):
    """Makes requests, each once. Its methods run on the loop that it was made in."""

    async def get(self, wanted: Get) -> Part:
        """Read a file or a part of it.

        Raises:
            TransientError: the request may succeed if it is made again.
            OSError: it cannot succeed.
        """
        ...

    async def stamp(self, url: str) -> Stamp:
        """Return the stamp of a file; errors as for `get`."""
        ...

    async def find(self, url: str) -> list[tuple[str, Stamp]]:
        """Return the URLs and stamps of all files below a URL; errors as for `get`."""
        ...


def check_length(wanted: Get, length: int) -> None:
    """Raise `OSError` for a file that is empty, or longer than the limit."""
    if length > wanted.limit:
        raise FileTooLongError(f"the file has {length:,} bytes; the limit is {wanted.limit:,}")
    if not length and not wanted.start:
        raise EmptyFileError("the file is empty")


def past_end(wanted: Get) -> OSError:
    """Return the error for a part that begins after the file's end."""
    if not wanted.start:
        return EmptyFileError("the file is empty")
    return OSError(f"the file ends before byte {wanted.start:,}")


def refusal(status: int, said: str, *, denied: str = "", region: str | None = None) -> OSError:
    """Return the error for an answer other than success.

    Args:
        status: the status of HTTP.
        said: what the server said, such as "NoSuchKey"; may be empty.
        denied: what to do about a denied access.
        region: what to do about a redirect, if it means another region.
    """
    answer = f"{status} {sanitize(said)}".strip()
    if status in (408, 425, 429) or status >= 500:
        return TransientError(f"the server answered {answer}")
    if status in (404, 410):
        what = "bucket" if said in ("NoSuchBucket", "ContainerNotFound") else "file"
        return FileNotFoundError(errno.ENOENT, f"there is no such {what} ({answer})")
    if region is not None:
        return OSError(f"the bucket is in another region ({answer}); {region}")
    if status in (401, 403, 407):
        return PermissionError(errno.EACCES, f"access was denied ({answer}){denied}")
    if status == 412:
        return OSError(CHANGED)
    return OSError(f"the server answered {answer}")
