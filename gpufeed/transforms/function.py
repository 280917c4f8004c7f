"""A user's function, applied to each image on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.transforms.base import PixelTransform
from gpufeed.transforms.error_context import errors_from

__all__ = ["Lambda"]

Pixels = npt.NDArray[np.uint8]


class Lambda(PixelTransform):
    """Apply a NumPy function to each image; only with device="cpu".

    The function runs on the threads that decode, so only crops, resizes, pads and flips may come
    before it. It gets no random numbers; a transform that draws is a class with `draw` and `build`.
    Boxes and points do not follow the function, so it should not move pixels if the batch has any.

    Args:
        function: takes uint8 (height, width, 3) and returns uint8 of the same shape. It must not
            keep its argument.
        name: identifies the function in fingerprints; by default its module and qualified name.

    Raises:
        ConfigError: `function` is not callable, or has no name and `name` is None.
    """

    def __init__(self, function: Callable[[Pixels], Pixels], name: str | None = None) -> None:
        if not callable(function):
            raise ConfigError(
                f"function is {short(function)}; it must take an image and return one"
            )
        self._function = function
        own = getattr(function, "__qualname__", "")
        self.name: str = name or f"{getattr(function, '__module__', '')}.{own}"
        if not name and ("<" in own or not own):
            raise ConfigError(
                f"function is {short(function)}, which has no name to identify it in a saved "
                'state; pass name="..."'
            )

    def __call__(self, image: Pixels) -> Pixels:
        """Call the function.

        Raises:
            TransformError: the function raised an error.
            ConfigError: the function returned something other than an image of this shape.
        """
        # Contiguous, since a flipped image is a view of negative strides, which torch and OpenCV
        # refuse.
        with errors_from(self):
            result = self._function(np.ascontiguousarray(image))
        if (
            not isinstance(result, np.ndarray)
            or result.dtype != np.uint8
            or result.shape != image.shape
        ):
            what = (
                f"{result.dtype} {result.shape}" if isinstance(result, np.ndarray) else repr(result)
            )
            raise ConfigError(
                f"Lambda({self.name}) returned {what} for an image of uint8 {image.shape}; it must "
                "return one of the same type and shape"
            )
        return result

    def misplaced(self) -> str:
        """Return the message that it is in a position where it cannot be called."""
        return (
            f'Lambda({self.name}) runs with device="cpu" only, and only crops, resizes, pads and '
            "flips may come before it; write a PixelTransform with DALI operators instead"
        )

    def build(self, image: Any, params: dict[str, Any]) -> Any:  # noqa: ARG002
        """Raise `ConfigError`: DALI's graph cannot call it."""
        raise ConfigError(self.misplaced())
