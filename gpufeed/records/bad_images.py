"""What becomes of images that cannot be listed: `on_bad_image`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import polars as pl

from gpufeed._util.rows import RowName
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.source.base import Source
from gpufeed.source.files import FileSource, PathSource
from gpufeed.source.paths import all_escape_message, escape_message, find_escapes

__all__ = ["OnBadImage", "bad_images_error", "check_on_bad_image", "drop_links"]

_MAX_SHOWN = 3

OnBadImage = Literal["raise", "drop"]
"""What to do with an image whose header cannot be read or that a link leads to outside the root."""


def check_on_bad_image(on_bad_image: object) -> None:
    """Check an argument `on_bad_image`.

    Raises:
        ConfigError: it is neither "raise" nor "drop".
    """
    if on_bad_image not in get_args(OnBadImage):
        raise ConfigError(f'on_bad_image is {short(on_bad_image)}; it must be "raise" or "drop"')


def bad_images_error(
    source: Source, failures: Mapping[int, Exception], count: int, examined: str, advice: str
) -> ManifestError:
    """Return the error for bad images.

    Args:
        source: the images.
        failures: the errors of the bad ones, by their keys.
        count: the number of images that were examined.
        examined: what these are, such as "images".
        advice: what to do about a few bad ones.
    """
    first = min(failures)
    missing = all(isinstance(error, FileNotFoundError) for error in failures.values())
    if missing and len(failures) == count and isinstance(source, PathSource):
        return ManifestError(
            f"none of the {count} {examined} exists, such as {source.name(first)}; the root "
            f"{source.root} looks wrong: pass the folder that the paths are relative to as "
            "root=..., in read_nabirds as images=..."
        )

    def reason(error: Exception) -> str:
        return (error.strerror if isinstance(error, OSError) else "") or str(error)

    shown = [
        f"{source.name(key)}: {reason(failures[key])}" for key in sorted(failures)[:_MAX_SHOWN]
    ]
    rest = f"; and {len(failures) - _MAX_SHOWN} more" if len(failures) > _MAX_SHOWN else ""
    return ManifestError(
        f"{len(failures)} of {count} {examined} are bad: {'; '.join(shown)}{rest}; {advice}"
    )


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
