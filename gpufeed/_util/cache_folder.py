"""The folder of gpufeed's caches."""

from __future__ import annotations

import os
from pathlib import Path

from gpufeed.errors import ConfigError

__all__ = ["cache_folder"]


def cache_folder() -> Path:
    """Return `gpufeed` in the user's cache folder: $XDG_CACHE_HOME, or else ~/.cache.

    The folder need not exist.

    Raises:
        ConfigError: $XDG_CACHE_HOME is not set and the user has no home folder.
    """
    # The XDG specification says to ignore a relative path.
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if named.is_absolute():
        return named / "gpufeed"
    try:
        return Path.home() / ".cache" / "gpufeed"
    except RuntimeError:
        raise ConfigError(
            "this user has no home folder; set XDG_CACHE_HOME to an absolute folder for the cache"
        ) from None
