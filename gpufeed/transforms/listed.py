"""Checks of lists of transforms: what may stand where."""

from __future__ import annotations

from collections.abc import Sequence

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
from gpufeed.transforms.nested import flat
from gpufeed.transforms.output import ToDtype

__all__ = ["check_transforms"]

_LATE = (LateTransform, MixTransform)
_KINDS = (GeometricTransform, PixelTransform, OutputFormat, *_LATE)


def check_transforms(transforms: Sequence[Transform]) -> tuple[Transform, ...]:
    """Return the list with an `OutputFormat` in it: untouched levels where it has none.

    Raises:
        ConfigError: something is no transform, or stands on the wrong side of the output format.
    """
    listed = tuple(flat(transforms))
    for place, transform in enumerate(listed):
        if not isinstance(transform, _KINDS):
            hint = " (pass an instance, not the class)" if isinstance(transform, type) else ""
            if getattr(transform, "makes_views", False):
                hint = "; it makes several views, and is not for one of several or inside a list"
            raise ConfigError(f"transforms[{place}] is {transform!r}, no gpufeed transform{hint}")
    if len(listed) > MAX_TRANSFORMS:
        raise ConfigError(f"{len(listed)} transforms; {MAX_TRANSFORMS} are the most")
    late = [place for place, each in enumerate(listed) if isinstance(each, _LATE)]
    if not any(isinstance(each, OutputFormat) for each in listed):
        end = late[0] if late else len(listed)
        listed = (*listed[:end], ToDtype("uint8"), *listed[end:])
    _check_order(listed)
    return listed


def _check_order(listed: tuple[Transform, ...]) -> None:
    output = next(place for place, each in enumerate(listed) if isinstance(each, OutputFormat))
    for place, transform in enumerate(listed):
        name, last = type(transform).__name__, type(listed[output]).__name__
        if place < output and isinstance(transform, _LATE):
            raise ConfigError(f"transforms[{place}] is {name}, which must come after {last}")
        if place > output and not isinstance(transform, _LATE):
            raise ConfigError(
                f"transforms[{place}] is {name}, which must come before {last}, transforms"
                f"[{output}]; of output formats there is one"
            )
    if sum(isinstance(each, MixTransform) for each in listed) > 1:
        raise ConfigError("there are several mixes; give one, or RandomChoice of them")
