"""What becomes of images that cannot be listed: `on_bad_image`."""

from __future__ import annotations

from typing import Literal, get_args

import polars as pl

from gpufeed._util.rows import RowName
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.source.files import FileSource
from gpufeed.source.paths import all_escape_message, escape_message, find_escapes

__all__ = ["OnBadImage", "check_on_bad_image", "drop_links"]

OnBadImage = Literal["raise", "drop"]
"""What to do with an image whose header cannot be read or that a link leads to outside the root."""


def check_on_bad_image(on_bad_image: object) -> None:
    """Check an argument `on_bad_image`.

    Raises:
        ConfigError: it is neither "raise" nor "drop".
    """
    if on_bad_image not in get_args(OnBadImage):
        raise ConfigError(f'on_bad_image is {on_bad_image!r}; it must be "raise" or "drop"')


def drop_links(
    frame: pl.DataFrame, source: FileSource, row_name: RowName, on_bad_image: OnBadImage
) -> tuple[pl.DataFrame, FileSource, dict[str, int]]:
    """Drop the rows whose path leaves the root through a symbolic link.

    Returns:
        The frame and the source without these rows; and how many were dropped, for `repairs`.

    Raises:
        ManifestError: there are such rows, and `on_bad_image` is "raise" or no others are left.
    """
    escapes = find_escapes(source.root, source.paths)
    if not escapes.any():
        return frame, source, {}
    if on_bad_image != "drop":
        raise ManifestError(escape_message(source.root, source.paths, escapes, row_name))
    if escapes.all():
        raise ManifestError(all_escape_message(source.root))
    kept = source.take((~escapes).arg_true().to_numpy())
    return frame.filter(~escapes), kept, {"links_dropped": int(escapes.sum())}
