"""Lists of transforms: flattened, and checked for what may follow what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.rng import MAX_TRANSFORMS
from gpufeed.transforms.base import (
    GeometricTransform,
    LateTransform,
    MixTransform,
    OutputFormat,
    PixelTransform,
    Transform,
)
from gpufeed.transforms.output import ToDtype

__all__ = ["check_transforms", "flatten"]

_LATE = (LateTransform, MixTransform)
_KINDS = (GeometricTransform, PixelTransform, OutputFormat, *_LATE)


def flatten(transforms: Iterable[Any]) -> list[Any]:
    """Return the transforms of a list and of the lists inside it, in order."""
    flat: list[Any] = []
    for each in transforms:
        flat += flatten(each) if isinstance(each, list | tuple) else [each]
    return flat


def check_transforms(transforms: Sequence[Transform]) -> tuple[Transform, ...]:
    """Return the flattened list, with `ToDtype("uint8")` added if it has no `OutputFormat`.

    Raises:
        ConfigError: an element is not a transform, or is on the wrong side of the output format.
    """
    flat = tuple(flatten(transforms))
    for index, transform in enumerate(flat):
        if not isinstance(transform, _KINDS):
            hint = "; pass a function of an image as Lambda(function), and one that takes random "
            hint += "numbers, such as random_map of Grain, as Lambda(function, random=True)"
            if isinstance(transform, type):
                hint = " (pass an instance, not the class)"
            if getattr(transform, "makes_views", False):
                hint = "; it makes several views, so it cannot be used in a view or another list"
            raise ConfigError(
                f"transforms[{index}] is {short(transform)}, which is not a gpufeed transform{hint}"
            )
    if len(flat) > MAX_TRANSFORMS:
        raise ConfigError(f"the list has {len(flat)} transforms; the limit is {MAX_TRANSFORMS}")
    if not any(isinstance(each, OutputFormat) for each in flat):
        late = [index for index, each in enumerate(flat) if isinstance(each, _LATE)]
        end = late[0] if late else len(flat)
        flat = (*flat[:end], ToDtype("uint8"), *flat[end:])
    _check_order(flat)
    return flat


def _check_order(flat: tuple[Transform, ...]) -> None:
    output = next(index for index, each in enumerate(flat) if isinstance(each, OutputFormat))
    output_name = type(flat[output]).__name__
    for index, transform in enumerate(flat):
        name, late = type(transform).__name__, isinstance(transform, _LATE)
        if index < output and late:
            raise ConfigError(f"transforms[{index}] is {name}, which must come after {output_name}")
        if index > output and not late:
            raise ConfigError(
                f"transforms[{index}] is {name}, which must come before {output_name}, transforms"
                f"[{output}]; a list has one output format"
            )
    if sum(isinstance(each, MixTransform) for each in flat) > 1:
        raise ConfigError("the list has several mixes; use one, or RandomChoice of them")
