"""Check the arguments of transforms.

Each function returns the argument in its final form, or raises a `ConfigError` that names it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, get_args

from gpufeed._util.numbers import is_integer, is_number
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.transforms.base import DType, Layout
from gpufeed.transforms.frame import Fill, Interpolation, Sampling

__all__ = [
    "check_dtype",
    "check_fill",
    "check_integer",
    "check_integers",
    "check_interpolation",
    "check_jitter",
    "check_layout",
    "check_margin",
    "check_number",
    "check_odd_sizes",
    "check_padding",
    "check_probability",
    "check_range",
    "check_sampling",
    "check_size",
    "check_sizes",
    "check_span",
    "check_triple",
    "is_integer",
    "is_number",
]


def check_size(name: str, value: Any) -> int:
    """Return a number of pixels, 1 or more."""
    if not is_integer(value) or value < 1:
        raise ConfigError(
            f"{name} is {short(value)}; it must be an integer of 1 or more, in pixels"
        )
    return int(value)


def check_integer(name: str, value: Any, low: int | None = None, high: int | None = None) -> int:
    """Return an integer from `low` to `high`; None for no bound."""
    if is_integer(value) and (low is None or value >= low) and (high is None or value <= high):
        return int(value)
    bounds = (
        "" if low is None else f" of {low} or more" if high is None else f" from {low} to {high}"
    )
    raise ConfigError(f"{name} is {short(value)}; it must be an integer{bounds}")


def check_sizes(name: str, value: Any) -> tuple[int, int]:
    """Return (height, width) from one number or two."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) == 1:
            value = value[0]
        elif len(value) == 2:
            return check_size(name, value[0]), check_size(name, value[1])
        else:
            raise ConfigError(
                f"{name} is {short(value)}; it must be one integer or (height, width)"
            )
    return check_size(name, value), check_size(name, value)


def check_odd_sizes(name: str, value: Any) -> tuple[int, int]:
    """Return two odd numbers of pixels from one or two, in the given order."""
    first, second = check_sizes(name, value)
    if not (first % 2 and second % 2):
        raise ConfigError(
            f"{name} is {short(value)}; it must be odd, so that a window has a centre"
        )
    return first, second


def check_integers(name: str, value: Any, low: int, high: int) -> tuple[int, int]:
    """Return two integers, `low` <= first <= second <= `high`."""
    bounds = check_span(name, value, low, high)
    if any(bound != int(bound) for bound in bounds):
        raise ConfigError(f"{name} is {short(value)}; its numbers must be integers")
    return int(bounds[0]), int(bounds[1])


def check_number(name: str, value: Any, low: float, high: float = math.inf) -> float:
    """Return a finite number from `low` to `high`."""
    if not is_number(value):
        raise ConfigError(f"{name} is {short(value)}; it must be a number")
    if not (low <= value <= high and math.isfinite(value)):
        raise ConfigError(f"{name} is {short(value)}; it must be {_span(low, high)}")
    return float(value)


def check_span(name: str, value: Any, low: float, high: float = math.inf) -> tuple[float, float]:
    """Return two finite numbers, `low` <= first <= second <= `high`."""
    try:
        first, second = (float(bound) for bound in value)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{name} is {short(value)}; it must be two numbers, (low, high)"
        ) from None
    if not (low <= first <= second <= high and math.isfinite(second)):
        raise ConfigError(
            f"{name} is {short(value)}; its numbers must be {_span(low, high)}, the lower bound "
            "first"
        )
    return first, second


def check_jitter(
    name: str, value: Any, *, centre: float = 1.0, low: float = 0.0, high: float = math.inf
) -> tuple[float, float] | None:
    """Return the bounds of a factor, given in one of the ways that torchvision's ColorJitter takes.

    Args:
        name: of the argument.
        value: None; one number, the largest distance from `centre`; or (low, high).
        centre: the factor that changes nothing.
        low: the smallest factor; the range of a single number is clipped here.
        high: the largest factor.

    Returns:
        (low, high), or None if the factor would always be `centre`.
    """
    if value is None:
        return None
    if is_number(value):
        distance = check_number(name, value, 0, high - centre)
        bounds = max(centre - distance, low), centre + distance
    else:
        bounds = check_span(name, value, low, high)
    return None if bounds == (centre, centre) else bounds


def check_range(name: str, value: Any, *, above: float = 0.0) -> tuple[float, float]:
    """Return (low, high) with above < low <= high."""
    try:
        low, high = (float(bound) for bound in value)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{name} is {short(value)}; it must be two numbers, (low, high)"
        ) from None
    if not (above < low <= high < math.inf):
        raise ConfigError(f"{name} is {short(value)}; it must satisfy {above:g} < low <= high")
    return low, high


def check_padding(value: Any) -> tuple[int, int, int, int]:
    """Return (left, top, right, bottom) from one, two or four numbers of pixels, as torchvision."""
    numbers = list(value) if isinstance(value, list | tuple) else [value]
    integers = all(is_integer(n) for n in numbers)
    if len(numbers) not in (1, 2, 4) or not integers or any(n < 0 for n in numbers):
        raise ConfigError(
            f"padding is {short(value)}; it must be an integer of 0 or more, (left and right, top "
            "and bottom) or (left, top, right, bottom), in pixels"
        )
    left, top, right, bottom = (int(n) for n in numbers * (4 // len(numbers)))
    return left, top, right, bottom


def check_margin(value: Any) -> float | tuple[float, float]:
    """Return a fraction of 0 or more, or the bounds (low, high) of one."""
    if is_number(value) and 0 <= value < math.inf:
        return float(value)
    if isinstance(value, list | tuple) and len(value) == 2:
        low, high = value
        if all(is_number(bound) for bound in value) and 0 <= low <= high < math.inf:
            return float(low), float(high)
    raise ConfigError(f"margin is {short(value)}; it must be a number of 0 or more, or (low, high)")


def check_probability(name: str, value: Any) -> float:
    """Return a number from 0 to 1."""
    if not is_number(value) or not 0 <= value <= 1:
        raise ConfigError(f"{name} is {short(value)}; it must be a number from 0 to 1")
    return float(value)


def check_triple(name: str, value: Any) -> tuple[float, float, float]:
    """Return three finite numbers, one per channel, from one or three."""
    numbers = (value,) * 3 if is_number(value) else value
    try:
        red, green, blue = (float(number) for number in numbers)
    except (TypeError, ValueError):
        raise ConfigError(
            f"{name} is {short(value)}; it must be one number or three (RGB)"
        ) from None
    if not all(map(math.isfinite, (red, green, blue))):
        raise ConfigError(f"{name} is {short(value)}; its numbers must be finite")
    return red, green, blue


def check_fill(value: Any) -> Fill:
    """Return the RGB value of a padding, 0 to 255 each."""
    fill = check_triple("fill", value)
    if not all(0 <= channel <= 255 for channel in fill):
        raise ConfigError(f"fill is {short(value)}; it must be from 0 to 255")
    return fill


def check_interpolation(value: Any) -> Interpolation:
    """Return the name of a resize filter."""
    chosen: Interpolation = _check_name("interpolation", value, Interpolation)
    return chosen


def check_sampling(value: Any) -> Sampling:
    """Return the name of a warp's sampling."""
    chosen: Sampling = _check_name("interpolation", value, Sampling)
    return chosen


def check_dtype(value: Any) -> DType:
    """Return the name of an output type, which may be a dtype of NumPy, torch or JAX."""
    name = getattr(value, "__name__", None) or str(value).removeprefix("torch.")
    chosen: DType = _check_name("dtype", name if name in get_args(DType) else value, DType)
    return chosen


def check_layout(value: Any) -> Layout | None:
    """Return the name of an output layout, or None."""
    chosen: Layout | None = None if value is None else _check_name("layout", value, Layout)
    return chosen


def _check_name(argument: str, value: Any, literal: Any) -> Any:
    if value not in get_args(literal):
        names = ", ".join(f'"{name}"' for name in get_args(literal))
        raise ConfigError(f"{argument} is {short(value)}; it must be one of {names}")
    return value


def _span(low: float, high: float) -> str:
    return f"from {low:g} to {high:g}" if high < math.inf else f"{low:g} or more"
