"""Verifying prepared images: each must be as it was written."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gpufeed._util.limits import available_threads
from gpufeed._util.progress import progress as show_progress
from gpufeed._util.thread_map import thread_map
from gpufeed.errors import ManifestError
from gpufeed.records import read_manifest
from gpufeed.records.fingerprint import fingerprint
from gpufeed.source.base import read_images
from gpufeed.tools.prepare.rows import SHA256
from gpufeed.tools.prepare.run import MANIFEST

__all__ = ["verify"]


def verify(
    folder: str | os.PathLike[str], *, threads: int | None = None, progress: bool | None = None
) -> pl.DataFrame:
    """Compare all images that `prepare` wrote with their SHA-256.

    Args:
        folder: what `prepare` wrote.
        threads: the number of threads; None for one per core.
        progress: whether to show a progress bar; None shows it on a terminal only.

    Returns:
        The images that are not as they were written: `record_key` (Int64), `path` and `problem`
        (String). It is empty if all are.

    Raises:
        ManifestError: there is no prepared data set in the folder, or its manifest was changed.
    """
    folder = Path(folder).expanduser()
    file = folder / MANIFEST
    if not folder.is_dir():
        raise ManifestError(f"there is no folder {folder}")
    if not file.is_file():
        raise ManifestError(
            f"{folder} has no {MANIFEST}; it was not made by prepare, or not to the end"
        )
    manifest = read_manifest(file)
    if SHA256 not in manifest.frame.columns:
        raise ManifestError(f"{file} was not written by prepare: it has no column {SHA256}")
    if fingerprint(manifest.frame, manifest.classes) != manifest.fingerprint():
        raise ManifestError(
            f"{file} has been changed since it was written; delete the folder and prepare again"
        )
    digests, source = manifest.frame[SHA256], manifest.source

    def problem(key: int) -> str | None:
        (image,) = read_images(source, np.array([key]))
        if isinstance(image, OSError):
            return f"cannot be read: {image.strerror or image}"
        content: Any = image  # the stubs of hashlib know no arrays
        return None if hashlib.sha256(content).hexdigest() == digests[key] else "other bytes"

    with show_progress("Verifying", len(manifest), show=progress, unit="images") as done:
        problems = thread_map(
            problem,
            range(len(manifest)),
            threads=threads or available_threads(),
            done=done,
            name="gpufeed-verify",
        )
    found = pl.DataFrame(
        {"path": manifest.frame["path"], "problem": pl.Series(problems, dtype=pl.String)}
    )
    return found.with_row_index("record_key").cast({"record_key": pl.Int64}).drop_nulls("problem")
