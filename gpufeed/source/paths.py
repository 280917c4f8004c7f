"""Rules that keep every path below its root."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import polars as pl

from gpufeed._util.rows import Where, first_true
from gpufeed._util.sanitize import sanitize
from gpufeed.errors import ManifestError

__all__ = [
    "LONGEST",
    "all_leave",
    "check_names",
    "inside",
    "links_out",
    "tell_link",
]

LONGEST = 1000
"""Letters of a whole path that are told: of a long one, what is at its end is to be seen too."""
_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
_RULES = [
    (pl.col("path") == "", "is empty"),
    (pl.col("path").str.contains("\0", literal=True), "holds a NUL character"),
    (pl.col("path").str.contains("\\", literal=True), "holds a backslash; write '/'"),
    (pl.col("path").str.starts_with("/"), "is absolute; paths are relative to the root"),
    (pl.col("path").str.contains(r"(^|/)\.\.(/|$)"), "leaves the root by '..'"),
    (pl.col("path").str.contains(r"(^|/)\.?$"), "names a folder, not a file"),
]


def check_names(paths: pl.Series, where: Where) -> None:
    """Check the paths as text.

    Args:
        paths: relative paths with `/` between their parts.
        where: names a row in an error message.

    Raises:
        ManifestError: a path is empty, absolute, goes up with `..`, names a folder, or holds a
            backslash or a NUL.
    """
    broken = paths.to_frame("path").select(rule.alias(str(i)) for i, (rule, _) in enumerate(_RULES))
    for column, (_, reason) in zip(broken, _RULES, strict=True):
        if (row := first_true(column)) is not None:
            raise ManifestError(f"{where(row)}: the path {sanitize(repr(paths[row]))} {reason}")


def links_out(root: Path, paths: pl.Series) -> pl.Series:
    """Which paths a symbolic link takes out of the root, as booleans; the root may be one itself.

    Each folder is listed once, whatever the number of files. What does not exist, or leads to
    itself, is no link out.

    Raises:
        ManifestError: a folder cannot be listed.
    """
    real_root = os.path.realpath(root)
    parents = paths.str.replace(r"[^/]*$", "")
    bad_folders: list[str] = []
    bad_files: list[str] = []
    for parent in parents.unique().to_list():
        folder = os.path.join(root, parent)  # noqa: PTH118 - keeps the path's spelling
        if not inside(folder, real_root):
            bad_folders.append(parent)
            continue
        try:
            with os.scandir(folder) as entries:
                bad_files += [
                    parent + entry.name
                    for entry in entries
                    if entry.is_symlink() and not inside(entry.path, real_root)
                ]
        except OSError as error:
            if error.errno in _NO_FOLDER:
                continue
            raise ManifestError(
                f"cannot list the folder {sanitize(folder, LONGEST)}: {error.strerror}"
            ) from error
    # A folder may hold many links out that no path asks for.
    asked = set(paths.to_list()).intersection(bad_files) if bad_files else ()
    return parents.is_in(bad_folders) | paths.is_in(sorted(asked))


def tell_link(root: Path, paths: pl.Series, out: pl.Series, where: Where) -> str:
    """Return what is wrong where symbolic links take paths out of the root.

    Args:
        root: the folder.
        paths: relative to it.
        out: which of them leave it, as `links_out` says; at least one.
        where: names a row.
    """
    row, others = first_true(out) or 0, int(out.sum()) - 1
    return (
        f"{where(row)}: the path {sanitize(repr(paths[row]))} leaves the root {root} by a "
        f"symbolic link, to {sanitize(os.path.realpath(root / paths[row]), LONGEST)}"
        + (f", as do {others:,} more rows" if others else "")
        + "; remove such links, copy there what they lead to, or leave them out with "
        'on_bad_image="drop"'
    )


def all_leave(root: Path) -> str:
    """What is said where on_bad_image="drop" would leave nothing."""
    return (
        f"all that is listed leaves the root {root} by symbolic links; copy there what they lead "
        "to, or give the folder as root that they lead to"
    )


def inside(path: str | Path, real_root: str) -> bool:
    """Whether the path, once its links are followed, is at or below the (resolved) root."""
    real = os.path.realpath(path)
    return real == real_root or real.startswith(real_root.rstrip(os.sep) + os.sep)
