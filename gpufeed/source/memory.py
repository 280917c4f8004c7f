"""Images in memory: encoded, or as pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.source.base import Content, Encoded, as_rgb, describe, is_content

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["MemorySource"]

_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK")
"""The modes of Pillow's images that are converted as if they were decoded from a file."""


class MemorySource:
    """Images in memory, encoded or as pixels, mixed as you like.

    Pixels are used like those of a decoded image, so batches equal those of the same images in PNG
    files. Arrays and bytes are not copied: do not change them later.

    Args:
        images: for each image the content of its file, bytes-like; or its pixels, a uint8 array
            (height, width, 3), RGB, or (height, width), grey; or a PIL image. Key i is the i-th of
            them. The keys of a mapping are the images' names; in a sequence the names are "0", "1"
            and so on. All pixels may also be in one uint8 array, (n, height, width, 3) or
            (n, height, width), which may be memory-mapped. As the `source` of a `Mask` or `Depth`,
            arrays (height, width) or (n, height, width) may be of any dtype of numbers or booleans.

    PIL images are loaded and converted to RGB now, without their alpha channel. Their modes may be
    1, L, LA, P, RGB, RGBA and CMYK. Their EXIF orientation is not applied, since code that made an
    image may have applied it already; `PIL.ImageOps.exif_transpose` applies it.

    Raises:
        ConfigError: `images` is not a sequence, mapping or array; or an item is not an image, has
            another dtype, shape or mode.
    """

    def __init__(
        self,
        images: Sequence[Encoded | npt.NDArray[Any] | Image]
        | Mapping[str, Encoded | npt.NDArray[Any] | Image]
        | npt.NDArray[Any],
    ) -> None:
        given: object = images
        self._names: list[str] | None = None
        self._images: Sequence[Content] | npt.NDArray[Any]
        if isinstance(given, np.ndarray):
            self._images = _pixels("images", given, ("n", "height", "width"))
            return
        if isinstance(given, str | bytes) or not isinstance(given, Sequence | Mapping):
            raise ConfigError(
                f"images is {type(given).__name__}; it must be a sequence or mapping of bytes, "
                "arrays or PIL images, or an array"
            )
        if isinstance(given, Mapping):
            self._names = list(given)
            given = list(given.values())
        self._images = [
            _content(f"images[{index if self._names is None else repr(self._names[index])}]", each)
            for index, each in enumerate(given)
        ]

    def __len__(self) -> int:
        return len(self._images)

    def __repr__(self) -> str:
        return f"MemorySource({len(self)} images)"

    def read(self, keys: npt.NDArray[np.int64]) -> list[Content]:
        """Return the images themselves: see `Source`."""
        return [self._images[key] for key in keys]

    def name(self, key: int) -> str:
        """Return an image's name: see `Source`."""
        return str(key) if self._names is None else self._names[key]


def _content(name: str, image: Any) -> Content:
    """Return an image as a source does.

    Raises:
        ConfigError: it is not one.
    """
    if isinstance(image, np.ndarray):
        return _pixels(name, image, ("height", "width"))
    if is_content(image):
        return image
    if not hasattr(image, "convert") or not hasattr(image, "mode"):
        raise ConfigError(
            f"{name} is {describe(image)}; it must be the content of an image file as bytes, a "
            "bytearray, or a contiguous memoryview of bytes; or pixels as a uint8 array or a PIL "
            "image"
        )
    if image.mode not in _MODES:
        raise ConfigError(
            f"{name} is a PIL image of mode {image.mode!r}; convert it to one of "
            f"{', '.join(_MODES)}"
        )
    # By way of RGBA, since Pillow warns where a palette's transparent colours are dropped.
    rgb = (image.convert("RGBA") if image.mode == "P" else image).convert("RGB")
    return np.asarray(rgb)


def _pixels(name: str, given: npt.NDArray[Any], axes: tuple[str, ...]) -> npt.NDArray[Any]:
    """Return an array of images with three channels, or of values of masks.

    Raises:
        ConfigError: its dtype or shape is that of neither.
    """
    single = given.ndim == len(axes) and given.dtype.kind in "biuf"
    rgb = given.dtype == np.uint8 and given.shape[len(axes) :] == (3,)
    if given.size == 0 or not (single or rgb):
        shapes = " or ".join(f"({', '.join(shape)})" for shape in ((*axes, "3"), axes))
        raise ConfigError(
            f"{name} is an array {given.dtype} {given.shape}; it must be uint8, RGB or grey, with "
            f"values from 0 to 255, of the shape {shapes}; or, for Mask and Depth, other numbers "
            f"of the shape ({', '.join(axes)})"
        )
    return as_rgb(given) if single else given
