"""Type checks for numbers: Python's and NumPy's, but never bool."""

from __future__ import annotations

import operator
from typing import Any, TypeGuard

import numpy as np

__all__ = ["as_integer", "is_integer", "is_number"]


def is_integer(value: Any) -> TypeGuard[int]:
    """Return whether a value is an integer."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def as_integer(value: Any) -> int:
    """Return an integer, which may be an array of JAX or a tensor with no dimensions, as an int.

    Raises:
        TypeError: it is no integer.
    """
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{value} is a bool, and not an integer")
    return operator.index(value)


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is a real number."""
    return isinstance(value, float | np.floating) or is_integer(value)
