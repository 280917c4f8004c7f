"""Reads the images and numbers of FFCV's .beton files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import polars as pl

from gpufeed._util.urls import location
from gpufeed.errors import ManifestError
from gpufeed.records.bad_images import OnBadImage
from gpufeed.records.manifest import Manifest
from gpufeed.records.table import read_table
from gpufeed.source.beton import BetonSource, open_beton
from gpufeed.source.storage import LocalStorage

__all__ = ["beton_table", "read_beton"]


def read_beton(
    path: str | os.PathLike[str],
    *,
    image: str = "image",
    label: str | None = "label",
    classes: Sequence[str] | Manifest | Literal["renumber"] | None = None,
    on_bad_image: OnBadImage = "raise",
    reduce_depth: bool = False,
    progress: bool | None = None,
) -> Manifest:
    """Make a manifest from a .beton file, as FFCV 1 writes it; FFCV is not needed.

    Images may be of FFCV's `RGBImageField` with any `write_mode`, JPEGs or pixels, which are not
    decoded; or of its `BytesField`, each an encoded image. Fields of one number become columns;
    other fields are left out. `path` is the file's name and the number of the sample, such as
    "train.beton/17".

    Args:
        path: the file.
        image: the field of the images.
        label: the field of the labels; otherwise as for `read_table`. If it has another name than
            `label`, a field of that name is left out.
        classes: as for `read_table`; the file has no names.
        on_bad_image: as for `read_table`.
        reduce_depth: as for `read_table`.
        progress: whether to show a progress bar where the file gives no sizes, as for `BytesField`;
            None shows it on a terminal only.

    Raises:
        ManifestError: the file cannot be read, is no .beton file or truncated, or has a field of a
            type of the user's own, or no such fields; or as `read_table`.
        ConfigError: as `read_table`.
    """
    table, source = beton_table(path, image)
    return read_table(
        table,
        label=label,
        classes=classes,
        source=source,
        on_bad_image=on_bad_image,
        reduce_depth=reduce_depth,
        progress=progress,
    )


def beton_table(path: str | os.PathLike[str], image: str) -> tuple[pl.DataFrame, BetonSource]:
    """Return the numbers in a file as a table with `path`, and its images; errors as above."""
    file = Path(location(path)).absolute()
    try:
        beton = open_beton(LocalStorage(file.parent), file.name, image)
    except OSError as error:
        raise ManifestError(f"cannot read {file}: {error.strerror or error}") from error
    names = [f"{file.name}/{number}" for number in range(len(beton.source))]
    table = pl.DataFrame(beton.columns).with_columns(path=pl.Series(names, dtype=pl.String))
    return table, beton.source
