"""The `Source` protocol, and functions that call a source and check what it returns."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence, Sized
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from gpufeed._util.sanitize import short
from gpufeed.errors import GpufeedError, ManifestError, SourceError

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Content",
    "Encoded",
    "Pixels",
    "Saved",
    "Source",
    "Values",
    "as_file",
    "as_image",
    "as_rgb",
    "check_read",
    "check_source",
    "describe",
    "fetcher",
    "fingerprint_of",
    "is_content",
    "open_image",
    "ppm_header",
    "read_images",
    "starter",
    "tell",
]

Encoded = bytes | bytearray | memoryview
"""An encoded image, such as the content of a JPEG file."""

Pixels = npt.NDArray[np.uint8]
"""The pixels of an image, uint8 (height, width, 3), RGB."""

Values = npt.NDArray[Any]
"""The values of a mask or depth map, numbers or booleans, (height, width)."""

Content = Encoded | Pixels | Values

Keys = npt.NDArray[np.int64]


class Saved(NamedTuple):
    """What a source is saved as with a manifest.

    Attributes:
        about: JSON.
        columns: a row for each key; or no columns.
    """

    about: dict[str, Any]
    columns: pl.DataFrame


class Source(Protocol):
    """Reads the images of a manifest, encoded or as pixels; key i is the image of row i.

    Implement it for storage that gpufeed does not support, and pass it to `read_table`. `read` and
    `name` are called from several threads at once. A source that is sent to worker processes must
    be picklable.

    Four methods are optional. `open(key) -> BinaryIO` opens an image as a seekable file and raises
    `OSError` if it cannot; sizes are then read from headers, without reading whole images. For
    pixels, the file is only the header of a PPM of their size. `fetch(keys) -> None` is a hint that
    these keys will be read soon; it must not block. `fingerprint() -> str` returns text that
    changes whenever an image does; processes with the same fingerprint share the memory of
    `Loader(cache="host")`. `start(keys, seconds) -> concurrent.futures.Future` starts reading and
    returns at once. The future's result is what `read` returns; an image that takes more than
    `seconds` (None for no limit) is a `TimeoutError` in it. A loader then requests whole batches,
    rather than single images on many threads.
    """

    def read(self, keys: Keys) -> Sequence[Content | OSError]:
        """Read images.

        Args:
            keys: int64 (n,), in any order, possibly with repeats.

        Returns:
            For each key, in order, the encoded image; or its pixels, uint8 (height, width, 3),
            RGB, which nothing may change later; or an `OSError` that says why it cannot be read.
            The error is returned, not raised, so that one bad image does not affect others. Masks
            and depth maps may be their values instead, numbers (height, width).
        """
        ...

    def name(self, key: int) -> str:
        """Return the name of an image in errors and reports, such as its path or URL."""
        ...


def is_content(value: object) -> TypeGuard[Content]:
    """Return whether a value is an image.

    It is if it is bytes, a bytearray, a contiguous memoryview of bytes, or an array that is not
    empty: uint8 (height, width, 3), or numbers (height, width).
    """
    if isinstance(value, np.ndarray):
        values = value.dtype.kind in "biuf" and value.ndim == 2
        return value.size > 0 and (values or _is_pixels(value))
    if isinstance(value, memoryview):
        return value.c_contiguous and value.ndim == 1 and value.format == "B"
    return isinstance(value, bytes | bytearray)


def as_rgb(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a grey image, uint8 (..., height, width), with three channels; other arrays as is."""
    if array.dtype != np.uint8:
        return array
    return np.broadcast_to(array[..., None], (*array.shape, 3))


def as_image(content: Content | OSError) -> Encoded | Pixels | OSError:
    """Return what a source gave for an image, or an error if that is the values of a mask."""
    if not isinstance(content, np.ndarray) or _is_pixels(content):
        return content
    return OSError(
        f"it is an array {content.dtype} {content.shape}, which only Mask and Depth take; images "
        "are uint8 (height, width, 3), RGB, with values from 0 to 255"
    )


def describe(value: object) -> str:
    """Return what a value is that is no image, for an error message."""
    if isinstance(value, np.ndarray):
        return f"{_kind(value)} {value.dtype} {value.shape}"
    return _kind(value)


def ppm_header(height: int, width: int) -> bytes:
    """Return the header that makes a PPM file of pixels after it."""
    return b"P6 %d %d 255\n" % (width, height)


def check_source(source: object, count: int) -> None:
    """Check that an object is a source and, if it has a length, that it has `count` images.

    Raises:
        ManifestError: it is not a source, or has another number of images.
    """
    if not all(callable(getattr(source, name, None)) for name in ("read", "name")):
        raise ManifestError(
            f"source is {short(source)}; it must be a folder, or have the methods read and name of "
            "gpufeed.Source"
        )
    if isinstance(source, Sized) and len(source) != count:
        raise ManifestError(f"there are {count} rows, but {short(source)} has {len(source)} images")


def read_images(source: Source, keys: Keys) -> list[Content | OSError]:
    """Read images, and check what the source returns.

    Args:
        source: any source.
        keys: int64 (n,).

    Returns:
        For each key, in order, the image or the `OSError` that says why it cannot be read.

    Raises:
        SourceError: the source raised an exception or violated the protocol.
    """
    return check_read(source, lambda: source.read(keys), keys)


def check_read(
    source: Source, read: Callable[[], Iterable[Content | OSError]], keys: Keys
) -> list[Content | OSError]:
    """Call what reads images of a source, and check what it returns: see `read_images`."""
    try:
        images = list(read())
    except (MemoryError, GpufeedError):
        raise
    except Exception as error:
        raise SourceError(
            f"{_kind(source)}.read raised {type(error).__name__}: {error}; for an image that it "
            "cannot read, a source must return an OSError and not raise it"
        ) from error
    if len(images) != len(keys):
        raise SourceError(f"{_kind(source)}.read returned {len(images)} items for {len(keys)} keys")
    for key, image in zip(keys, images, strict=True):
        if not isinstance(image, OSError) and not is_content(image):
            raise SourceError(
                f"{_kind(source)}.read returned {describe(image)} for key {key}; an image must be "
                "bytes, a bytearray, or a contiguous memoryview of bytes; or its pixels, a uint8 "
                "array (height, width, 3); masks and depth maps may be numbers (height, width)"
            )
    return images


def open_image(source: Source, key: int) -> BinaryIO:
    """Open an image as a seekable file; of pixels, the file is the header alone.

    Raises:
        OSError: the image cannot be read.
        SourceError: the source violates the protocol.
    """
    opener = getattr(source, "open", None)
    if opener is not None:
        try:
            opened: BinaryIO = opener(key)
        except (OSError, MemoryError, GpufeedError):
            raise
        except Exception as error:
            raise SourceError(
                f"{_kind(source)}.open raised {type(error).__name__}: {error}; it must raise an "
                "OSError for an image that cannot be opened"
            ) from error
        return opened
    (image,) = read_images(source, np.array([key], dtype=np.int64))
    return as_file(image)


def as_file(image: Content | OSError) -> BinaryIO:
    """Return an image as a file, or raise its error; of pixels, the file is the header alone."""
    image = as_image(image)
    if isinstance(image, OSError):
        raise image
    if isinstance(image, np.ndarray):
        return io.BytesIO(ppm_header(*image.shape[:2]))
    return io.BytesIO(image)


def tell(source: Source, fetch: Callable[[Keys], None], keys: Keys) -> None:
    """Call the `fetch` of a source.

    Raises:
        SourceError: it raised an exception.
    """
    try:
        fetch(keys)
    except Exception as error:
        raise SourceError(
            f"{_kind(source)}.fetch raised {type(error).__name__}: {error}"
        ) from error


def fetcher(source: Source) -> Callable[[Keys], None] | None:
    """Return the `fetch` of a source, or None if it has none."""
    found: Callable[[Keys], None] | None = getattr(source, "fetch", None)
    return found


def starter(
    source: Source,
) -> Callable[[Keys, float | None], Future[Sequence[Content | OSError]]] | None:
    """Return the `start` of a source, or None if it has none."""
    found: Callable[[Keys, float | None], Future[Sequence[Content | OSError]]] | None
    found = getattr(source, "start", None)
    return found


def fingerprint_of(source: Source) -> str | None:
    """Return the `fingerprint` of a source, or None if it has none.

    Raises:
        SourceError: it raised an exception.
    """
    own: Callable[[], str | None] | None = getattr(source, "fingerprint", None)
    if own is None:
        return None
    try:
        return own()
    except Exception as error:
        raise SourceError(
            f"{_kind(source)}.fingerprint raised {type(error).__name__}: {error}"
        ) from error


def _kind(value: object) -> str:
    return type(value).__name__


def _is_pixels(array: npt.NDArray[Any]) -> TypeGuard[Pixels]:
    """Return whether an array has the dtype and shape of an image's pixels."""
    return array.dtype == np.uint8 and array.shape[2:] == (3,)
