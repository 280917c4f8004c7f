"""What counts as a number: Python's own and NumPy's, and never a bool."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

__all__ = ["is_integer", "is_number"]


def is_integer(value: Any) -> TypeGuard[int]:
    """Whether it is an integer."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a real number."""
    return isinstance(value, float | np.floating) or is_integer(value)
