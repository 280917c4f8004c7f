"""URLs: which texts are URLs, and their names in errors, without query strings and credentials."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError

__all__ = ["URL", "is_url", "is_web", "location", "public_url", "split_url"]

URL = r"^[A-Za-z][A-Za-z0-9+.-]*://"
"""A regular expression that matches the beginning of a URL."""

_BROKEN = re.compile(r"^(s3a?|gs|gcs|az|abfss?|https?|file|memory|hf):/[^/]")


def is_url(path: object) -> bool:
    """Return whether a path is a URL."""
    return isinstance(path, str) and re.match(URL, path) is not None


def location(path: str | os.PathLike[str]) -> Path | str:
    """Return a path on this machine as a `Path`, and any other URL as text without a last slash.

    Raises:
        ConfigError: it is neither a path nor text, a `Path` was made of a URL, which loses one of
            its slashes, or the URL of a file names another machine.
    """
    if not is_url(path):
        if isinstance(path, Path) and _BROKEN.match(str(path)):
            raise ConfigError(
                f"the path is {short(str(path))}; pass a URL as text, since pathlib.Path drops one "
                "of its slashes"
            )
        if not isinstance(path, str | os.PathLike):
            raise ConfigError(f"the path is {short(path)}; pass a path or a URL")
        return Path(path)
    url = str(path)
    scheme, _, rest = url.partition("://")
    if scheme.lower() != "file":
        # Nothing but the scheme is the root of several buckets.
        return f"{scheme.lower()}://{rest.rstrip('/')}"
    if not rest.startswith("/") and not rest.startswith("localhost/"):
        raise ConfigError(f"the URL {short(url)} names another machine; write file:///folder")
    return Path(unquote(rest.removeprefix("localhost")))


def is_web(url: str) -> bool:
    """Return whether a URL is one of a web server, which may have a query string."""
    return re.match("https?://", url, re.IGNORECASE) is not None


def public_url(url: str) -> str:
    """Return a URL without user, password, query string and fragment, as errors show it."""
    scheme, _, rest = url.partition("://")
    if is_web(url):
        rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    host, slash, path = rest.partition("/")
    user, _, name = host.rpartition("@")
    # In abfss://container@account there is no user.
    no_user = ":" not in user and re.fullmatch("az|abfss?|wasbs?", scheme, re.IGNORECASE)
    return f"{scheme}://{host if no_user else name}{slash}{path}"


def split_url(url: str) -> tuple[str, str]:
    """Return the URL of the folder that a URL is in, and the name in that folder.

    A query string belongs to the name.
    """
    scheme, _, rest = url.partition("://")
    end = len(re.split(r"\?", rest, maxsplit=1)[0]) if is_web(url) else len(rest)
    slash = rest.rfind("/", 0, end)
    return f"{scheme}://{rest[: max(slash, 0)]}", rest[slash + 1 :]
