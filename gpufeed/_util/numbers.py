"""Type checks for numbers: Python's and NumPy's, but never bool."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

__all__ = ["is_integer", "is_number"]


def is_integer(value: Any) -> TypeGuard[int]:
    """Return whether a value is an integer."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is a real number."""
    return isinstance(value, float | np.floating) or is_integer(value)
