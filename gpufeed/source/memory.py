"""Encoded images in memory."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.source.base import Encoded, is_encoded

__all__ = ["MemorySource"]


class MemorySource:
    """Encoded images in memory; nothing is copied.

    Args:
        images: bytes-like objects, each the content of an image file. Key i is the i-th of them.
            The keys of a mapping are the images' names; in a sequence the names are "0", "1" and
            so on.

    Raises:
        ConfigError: `images` is not a sequence or mapping, or an item is not bytes-like.
    """

    def __init__(self, images: Sequence[Encoded] | Mapping[str, Encoded]) -> None:
        given: object = images
        if isinstance(given, str | bytes) or not isinstance(given, Sequence | Mapping):
            raise ConfigError(
                f"images is {type(given).__name__}; it must be a sequence or mapping of bytes"
            )
        names = list(images) if isinstance(images, Mapping) else None
        self._names = names
        self._images = list(images.values()) if isinstance(images, Mapping) else images
        for index, image in enumerate(self._images):
            if not is_encoded(image):
                name = index if names is None else repr(names[index])
                raise ConfigError(
                    f"images[{name}] is {type(image).__name__}; it must be the content of an image "
                    "file as bytes, a bytearray, or a contiguous memoryview of bytes"
                )

    def __len__(self) -> int:
        return len(self._images)

    def __repr__(self) -> str:
        return f"MemorySource({len(self)} images)"

    def read(self, keys: npt.NDArray[np.int64]) -> list[Encoded]:
        """Return the images themselves: see `Source`."""
        return [self._images[key] for key in keys]

    def name(self, key: int) -> str:
        """Return an image's name: see `Source`."""
        return str(key) if self._names is None else self._names[key]

    def open(self, key: int) -> BinaryIO:
        """Open an image: see `Source`."""
        return io.BytesIO(self._images[key])
