"""What a source is, and the one place that calls it and judges its answers."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence, Sized
from typing import BinaryIO, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ManifestError, SourceError

__all__ = [
    "Encoded",
    "Source",
    "check_source",
    "fetcher",
    "is_encoded",
    "open_image",
    "read_images",
]

Encoded = bytes | bytearray | memoryview
"""An encoded image: the content of a JPEG file, say."""

Keys = npt.NDArray[np.int64]


class Source(Protocol):
    """Where the encoded images of a manifest are; key i is the image of row i.

    Write your own for images that gpufeed cannot read yet, and pass it to `read_table`. `read` and
    `name` are called from several threads at a time. A source that goes to worker processes must
    pickle.

    Two methods are optional. `open(key) -> BinaryIO` returns an image as a file that can seek, and
    raises `OSError` where there is none; with it, sizes are read from headers without reading
    whole images. `fetch(keys) -> None` is told which keys will be read soon, and must not block.
    """

    def read(self, keys: Keys) -> Sequence[Encoded | OSError]:
        """Read images.

        Args:
            keys: int64 (n,), in any order, repeats included.

        Returns:
            For each key, in order, the encoded image, or an `OSError` that says why there is none.
            It is returned and not raised, so that one bad image costs no other.
        """
        ...

    def name(self, key: int) -> str:
        """Return what errors and pages call an image: its path or URL, say."""
        ...


def is_encoded(value: object) -> TypeGuard[Encoded]:
    """Whether it is a sequence of bytes in memory, as decoders take it."""
    if isinstance(value, memoryview):
        return value.c_contiguous and value.ndim == 1 and value.format == "B"
    return isinstance(value, bytes | bytearray)


def check_source(source: object, count: int) -> None:
    """Check that something is a source, and has as many images as there are rows, if it says so.

    Raises:
        ManifestError: it is not, or has not.
    """
    if not all(callable(getattr(source, name, None)) for name in ("read", "name")):
        raise ManifestError(
            f"source is {source!r}; it must be a folder, or have the methods read and name of "
            "gpufeed.Source"
        )
    if isinstance(source, Sized) and len(source) != count:
        raise ManifestError(f"there are {count} rows, but {source!r} has {len(source)} images")


def read_images(source: Source, keys: Keys) -> list[Encoded | OSError]:
    """Read images, and check what the source returns.

    Args:
        source: any source.
        keys: int64 (n,).

    Returns:
        For each key the image, or why there is none.

    Raises:
        SourceError: the source raised an exception, or did not return what it should.
    """
    try:
        found = list(source.read(keys))
    except MemoryError:
        raise
    except Exception as error:
        raise SourceError(
            f"{_kind(source)}.read raised {type(error).__name__}: {error}; a source returns an "
            "OSError for an image that it cannot read, and raises nothing"
        ) from error
    if len(found) != len(keys):
        raise SourceError(f"{_kind(source)}.read returned {len(found)} items for {len(keys)} keys")
    for key, each in zip(keys, found, strict=True):
        if not isinstance(each, OSError) and not is_encoded(each):
            raise SourceError(
                f"{_kind(source)}.read returned {_kind(each)} for key {key}; an image is bytes, a "
                "bytearray, or a contiguous memoryview of bytes"
            )
    return found


def open_image(source: Source, key: int) -> BinaryIO:
    """Open an image as a file that can seek.

    Raises:
        OSError: it cannot be read.
        SourceError: the source does not keep its contract.
    """
    opener = getattr(source, "open", None)
    if opener is not None:
        opened: BinaryIO = opener(key)
        return opened
    (found,) = read_images(source, np.array([key], dtype=np.int64))
    if isinstance(found, OSError):
        raise found
    return io.BytesIO(found)


def fetcher(source: Source) -> Callable[[Keys], None] | None:
    """Return the `fetch` of a source; None where it wants to know nothing beforehand."""
    found: Callable[[Keys], None] | None = getattr(source, "fetch", None)
    return found


def _kind(value: object) -> str:
    return type(value).__name__
