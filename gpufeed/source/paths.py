"""Checks that every path stays below its root."""

from __future__ import annotations

import errno
import functools
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl

from gpufeed._util.limits import available_threads
from gpufeed._util.rows import RowName, first_true, pieces
from gpufeed._util.sanitize import sanitize
from gpufeed._util.urls import URL, is_url, public_url
from gpufeed.errors import ManifestError

__all__ = [
    "PATH_CHARS",
    "all_escape_message",
    "check_inside",
    "check_names",
    "escape_message",
    "find_escapes",
    "is_inside",
    "make_relative",
]

PATH_CHARS = 1000
"""Characters of a full path that a message shows: more than usual, since its end matters most."""
_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
_RULES = [
    (pl.col("path") == "", "is empty"),
    (pl.col("path").str.contains("\0", literal=True), "contains a NUL character"),
    (pl.col("path").str.contains("\\", literal=True), "contains a backslash; use '/'"),
    (pl.col("path").str.starts_with("/"), "is absolute; paths must be relative to the root"),
    (pl.col("path").str.contains(r"(^|/)\.\.(/|$)"), "leaves the root through '..'"),
    (pl.col("path").str.contains(r"(^|/)\.?$"), "names a folder, not a file"),
]


def make_relative(
    paths: pl.Series, root: Path | str | None, folder: Path | str, row_name: RowName
) -> tuple[Path | str, pl.Series]:
    """Return the root of paths, and the paths relative to it.

    Args:
        paths: relative, absolute or URLs.
        root: their root or its URL, or None to find it: the folder that all have in common if they
            are absolute or URLs, otherwise `folder`.
        folder: the default root.
        row_name: names a row in an error message.

    Raises:
        ManifestError: an absolute path is not below the root, or is beside relative ones.
    """
    urls = paths.str.contains(URL)
    absolute = urls | paths.str.starts_with("/")
    if not absolute.any():
        return folder if root is None else root, paths

    def describe(row: int) -> str:
        path = public_url(paths[row]) if is_url(paths[row]) else paths[row]
        return f"{row_name(row)}: the path {sanitize(repr(path))}"

    if root is not None:
        above = f"{root}/" if isinstance(root, str) else os.path.join(root.absolute(), "")  # noqa: PTH118
        if (row := first_true(absolute & ~paths.str.starts_with(above))) is not None:
            shown = public_url(root) if isinstance(root, str) else root
            raise ManifestError(
                f"{describe(row)} is absolute and not below the root {shown}; leave out root "
                "if all paths are absolute"
            )
    else:
        if (row := first_true(~absolute)) is not None:
            raise ManifestError(
                f"{describe(row)} is relative, but {row_name(first_true(absolute) or 0)} has an "
                "absolute one; make all of them absolute, or pass a root that all are below"
            )
        schemes = paths.str.extract(f"({URL})")
        if (row := first_true(schemes.ne_missing(schemes[0]))) is not None:
            raise ManifestError(
                f"{describe(row)} and that of {row_name(0)} are not in the same kind of storage; "
                "make a table of each, and join their manifests with concat"
            )
        # Those of the first and the last in order have in common what all have.
        above = os.path.commonprefix([str(paths.min()), str(paths.max())])  # noqa: RUF071
        # A query string, which only comes after the name, may contain slashes.
        above = above.partition("?")[0] if urls.any() else above
        above = above[: above.rindex("/") + 1]
    return (above if urls.any() else Path(above)), paths.str.strip_prefix(above)


def check_names(paths: pl.Series, row_name: RowName) -> None:
    """Check the text of paths, without accessing the file system.

    Args:
        paths: relative paths with `/` as the separator.
        row_name: names a row in an error message.

    Raises:
        ManifestError: a path is empty or absolute, leaves the root through `..`, names a folder, or
            contains a backslash or NUL.
    """
    broken = paths.to_frame("path").select(rule.alias(str(i)) for i, (rule, _) in enumerate(_RULES))
    for column, (_, reason) in zip(broken, _RULES, strict=True):
        if (row := first_true(column)) is not None:
            raise ManifestError(f"{row_name(row)}: the path {sanitize(repr(paths[row]))} {reason}")


def find_escapes(root: Path, paths: pl.Series) -> pl.Series:
    """Return, as booleans, which paths leave the root through a symbolic link.

    The root itself may be a link. Each folder is listed once, whatever the number of files. A path
    that does not exist, or a link to itself, does not count.

    Raises:
        ManifestError: a folder cannot be listed.
    """
    real_root = os.path.realpath(root)
    bad_folders: list[str] = []
    bad_files: list[str] = []
    with ThreadPoolExecutor(available_threads()) as pool:
        parents = {each for found in pool.map(_parents, pieces(paths)) for each in found}
    for parent in parents:
        folder = os.path.join(root, parent)  # noqa: PTH118 - keeps the path's spelling
        if not is_inside(folder, real_root):
            bad_folders.append(parent)
            continue
        try:
            with os.scandir(folder) as entries:
                bad_files += [
                    parent + entry.name
                    for entry in entries
                    if entry.is_symlink() and not is_inside(entry.path, real_root)
                ]
        except OSError as error:
            if error.errno in _NO_FOLDER:
                continue
            raise ManifestError(
                f"cannot list the folder {sanitize(folder, PATH_CHARS)}: {error.strerror}"
            ) from error
    if not bad_folders and not bad_files:
        return pl.repeat(False, len(paths), eager=True)
    return _parent(paths).is_in(bad_folders) | paths.is_in(bad_files)


def _parents(paths: pl.Series) -> list[str]:
    return _parent(paths).unique().to_list()


def _parent(paths: pl.Series) -> pl.Series:
    return paths.str.replace(r"[^/]*$", "")


def escape_message(root: Path, paths: pl.Series, escapes: pl.Series, row_name: RowName) -> str:
    """Return the error message for paths that leave the root through symbolic links.

    Args:
        root: the folder.
        paths: relative to it.
        escapes: which of them leave it, as `find_escapes` returns; at least one.
        row_name: names a row.
    """
    row, others = first_true(escapes) or 0, int(escapes.sum()) - 1
    return (
        f"{row_name(row)}: the path {sanitize(repr(paths[row]))} leaves the root {root} through a "
        f"symbolic link to {sanitize(os.path.realpath(root / paths[row]), PATH_CHARS)}"
        + (f", as do {others:,} more rows" if others else "")
        + "; follow such links with follow_links=True if you trust them, or leave them out with "
        'on_bad_image="drop"'
    )


def all_escape_message(root: Path | str) -> str:
    """Return the error message for on_bad_image="drop" when every path leaves the root."""
    return (
        f"every image listed leaves the root {root} through a symbolic link; follow the links "
        "with follow_links=True if you trust them, or pass the folder they lead to as the root"
    )


def is_inside(path: str | Path, real_root: str) -> bool:
    """Return whether a path, with its links resolved, is at or below the (resolved) root."""
    real = os.path.realpath(path)
    return real == real_root or real.startswith(real_root.rstrip(os.sep) + os.sep)


_is_inside = functools.lru_cache(1 << 16)(is_inside)


def check_inside(path: str, real_root: str) -> None:
    """Check that no symbolic link leads a file out of the (resolved) root; folders are kept.

    Raises:
        OSError: one does.
    """
    links = os.path.islink(path) and not is_inside(path, real_root)  # noqa: PTH114 - a hot path
    if links or not _is_inside(path.rpartition("/")[0], real_root):
        raise OSError(
            f"a symbolic link leads it out of the root, to "
            f"{sanitize(os.path.realpath(path), PATH_CHARS)}; follow such links with "
            "follow_links=True if you trust them"
        )
