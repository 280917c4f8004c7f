"""A user's function, applied to each image on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.rng import BatchRng, generator
from gpufeed.transforms import arguments
from gpufeed.transforms.base import Params, PixelTransform, Records, Tree
from gpufeed.transforms.error_context import errors_from

__all__ = ["Lambda"]

Pixels = npt.NDArray[np.uint8]


class Lambda(PixelTransform):
    """Apply a NumPy function to each image; only with device="cpu".

    The function runs on the threads that decode, so only crops, resizes, pads and flips may come
    before it. Boxes and points do not follow the function, so it should not move pixels if the
    batch has any.

    With random=True the function gets random numbers as a second argument, as in Grain's
    `random_map`: a `np.random.Generator` of its own for this visit to the record and this place in
    the list of transforms. No function may draw from anything else, such as `np.random`: batches
    would not be the same each time, and nothing would say so.

    Args:
        function: takes uint8 (height, width, 3) and returns uint8 of the same shape, or of `size`.
            It must not keep its argument.
        name: identifies the function in fingerprints; by default its module and qualified name. A
            method of an object needs one, as does a lambda.
        random: whether the function takes a generator as its second argument.
        size: size of the images that the function returns in pixels, one number for a square or
            (height, width), if it differs from that of its argument. The batch can then have no
            boxes or points.

    Raises:
        ConfigError: `function` is not callable, or has no name and `name` is None; or `size` is not
            a size.
    """

    def __init__(
        self,
        function: Callable[[Pixels], Pixels] | Callable[[Pixels, np.random.Generator], Pixels],
        name: str | None = None,
        *,
        random: bool = False,
        size: int | Sequence[int] | None = None,
    ) -> None:
        if not callable(function):
            raise ConfigError(
                f"function is {short(function)}; it must take an image and return one"
            )
        self._function: Callable[..., Pixels] = function
        own = getattr(function, "__qualname__", "")
        # What a method does depends on its object too; classes and modules have names.
        if not isinstance(getattr(function, "__self__", None), type | ModuleType | None):
            own = ""
        self.name: str = name or f"{getattr(function, '__module__', '')}.{own}"
        if not name and ("<" in own or not own):
            raise ConfigError(
                f"function is {short(function)}, which has no name of its own to identify it in a "
                'saved state; pass name="...", with the settings that it depends on'
            )
        self.random = bool(random)
        self.size = None if size is None else arguments.check_sizes("size", size)

    @property
    def loses_targets(self) -> bool:
        """Whether the size changes."""
        return self.size is not None

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Draw `key`, uint64 (n, 2), of each image's generator; {} for a function without one."""
        return {"key": rng.keys()} if self.random else {}

    def __call__(self, params: Tree, row: int, image: Pixels) -> Pixels:
        """Call the function for one image of a batch.

        Args:
            params: what `draw` returned.
            row: the image's row in `params`.
            image: uint8 (height, width, 3).

        Raises:
            TransformError: the function raised an error.
            ConfigError: the function returned something other than an image of the expected shape.
        """
        # Contiguous, since a flipped image is a view of negative strides, which torch and OpenCV
        # refuse.
        image = np.ascontiguousarray(image)
        with errors_from(self):
            drawn = [generator(np.asarray(params["key"])[row])] if self.random else []
            result: Any = self._function(image, *drawn)
        shape = image.shape if self.size is None else (*self.size, 3)
        if not isinstance(result, np.ndarray) or result.dtype != np.uint8 or result.shape != shape:
            known = isinstance(result, np.ndarray)
            what = f"{result.dtype} {result.shape}" if known else short(type(result))
            raise ConfigError(
                f"Lambda({self.name}) returned {what} for an image of uint8 {image.shape}; it must "
                "return a NumPy array of "
                + (
                    "this type and shape, or be given the size that it returns"
                    if self.size is None
                    else f"uint8 {shape}, as its size says"
                )
            )
        return result

    def misplaced(self) -> str:
        """Return the message that it is in a position where it cannot be called."""
        return (
            f'Lambda({self.name}) runs with opener="threads" only, and only crops, resizes, pads '
            "and flips may come before it; move it, or write a PixelTransform with DALI operators"
        )

    def build(self, image: Any, params: dict[str, Any]) -> Any:  # noqa: ARG002
        """Raise `ConfigError`: DALI's graph cannot call it."""
        raise ConfigError(self.misplaced())
