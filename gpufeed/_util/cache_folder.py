"""Where gpufeed keeps what it can make again."""

from __future__ import annotations

import os
from pathlib import Path

from gpufeed.errors import ConfigError

__all__ = ["cache_folder"]


def cache_folder() -> Path:
    """Return `gpufeed` in the user's cache folder: $XDG_CACHE_HOME, or else ~/.cache.

    It need not exist.

    Raises:
        ConfigError: there is neither, as for a user without a home.
    """
    # The XDG specification has a relative path ignored.
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if named.is_absolute():
        return named / "gpufeed"
    try:
        return Path.home() / ".cache" / "gpufeed"
    except RuntimeError:
        raise ConfigError(
            "this user has no home folder; set XDG_CACHE_HOME to an absolute folder for the cache"
        ) from None
