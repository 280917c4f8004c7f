"""The transforms that the command's options name."""

from __future__ import annotations

from gpufeed import presets
from gpufeed.errors import ConfigError
from gpufeed.transforms import BoxCrop, PadToSquare, Resize, ResizeLongest, Transform

__all__ = ["COURSE_QUALITY", "recipe"]

COURSE_QUALITY = 75
"""Of the JPEGs of the WestDRI course."""


def recipe(
    size: int | None, square: int | None, box_margin: float | None, *, course: bool
) -> list[Transform]:
    """Return the transforms: the box, and then one of the sizes.

    Args:
        size: the shorter side, pixels.
        square: the side of a black square that the image is fitted into, pixels.
        box_margin: crop to the box with this margin, as `BoxCrop`; None for the whole image.
        course: instead of all of these, `presets.course_cleaned`.

    Raises:
        ConfigError: options contradict each other, or a value is out of range.
    """
    if size is not None and square is not None:
        raise ConfigError("--size and --square exclude each other; leave out one of them")
    if course:
        if (size, square, box_margin) != (None, None, None):
            raise ConfigError(
                "the preset course has a size and a box margin of its own; leave out --size, "
                "--square and --box-margin, or --preset"
            )
        return presets.course_cleaned()
    transforms: list[Transform] = [] if box_margin is None else [BoxCrop(box_margin)]
    if size is not None:
        transforms.append(Resize(size))
    if square is not None:
        transforms += [ResizeLongest(square), PadToSquare(square)]
    return transforms
