"""Imports packages that are optional."""

from __future__ import annotations

import importlib
from types import ModuleType

from gpufeed.errors import MissingExtraError

__all__ = ["import_extra"]


def import_extra(module: str, extra: str) -> ModuleType:
    """Import a module of an optional package.

    Args:
        module: the module.
        extra: the extra of gpufeed that installs its package.

    Raises:
        MissingExtraError: the package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise MissingExtraError(error.name, extra=extra) from None
