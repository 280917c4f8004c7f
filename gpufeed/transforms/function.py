"""A user's own function of an image, on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.transforms.base import PixelTransform
from gpufeed.transforms.blame import Blaming

__all__ = ["Lambda"]

Pixels = npt.NDArray[np.uint8]


class Lambda(PixelTransform):
    """Apply a NumPy function to each image; with device="cpu" only.

    It is called on the threads that decode, so only crops, resizes, pads and flips may come before
    it. It gets nothing random: what draws is a class with `draw` and `build`. Boxes and points do
    not follow what it does, so it should not move pixels where there are any.

    Args:
        function: from uint8 (height, width, 3), which it may not keep, to another of this shape.
        name: what fingerprints know it by; the function's module and name where none is given.

    Raises:
        ConfigError: it is no function, or has no name of its own.
    """

    def __init__(self, function: Callable[[Pixels], Pixels], name: str | None = None) -> None:
        if not callable(function):
            raise ConfigError(f"function is {function!r}; it must take an image and return one")
        self._function = function
        own = getattr(function, "__qualname__", "")
        self.name: str = name or f"{getattr(function, '__module__', '')}.{own}"
        if not name and ("<" in own or not own):
            raise ConfigError(
                f"function is {function!r}, which has no name that tells it from others in a "
                'state; pass name="..."'
            )

    def __call__(self, picture: Pixels) -> Pixels:
        """Call the function.

        Raises:
            TransformError: it raises an error.
            ConfigError: it returns something else than an image of this size.
        """
        # After a flip it is a view that runs backwards, which torch and OpenCV refuse.
        with Blaming(self):
            made = self._function(np.ascontiguousarray(picture))
        if (
            not isinstance(made, np.ndarray)
            or made.dtype != np.uint8
            or made.shape != picture.shape
        ):
            what = f"{made.dtype} {made.shape}" if isinstance(made, np.ndarray) else repr(made)
            raise ConfigError(
                f"Lambda({self.name}) returned {what} for an image of uint8 {picture.shape}; it "
                "must return one of the same type and shape"
            )
        return made

    def misplaced(self) -> str:
        """Say that it stands where it cannot be called."""
        return (
            f'Lambda({self.name}) runs with device="cpu" only, and only crops, resizes, pads and '
            "flips may come before it; write a PixelTransform with DALI operators instead"
        )

    def build(self, image: Any, params: dict[str, Any]) -> Any:  # noqa: ARG002
        """Refuse: DALI's graph cannot call it."""
        raise ConfigError(self.misplaced())
