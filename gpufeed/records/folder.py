"""A folder in which each class has a folder of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.manifest import Manifest
from gpufeed.records.paths import LONGEST, check_names, inside
from gpufeed.records.sizes import OnUnreadable, check_on_error, with_sizes
from gpufeed.shown import shown

__all__ = ["EXTENSIONS", "list_folder", "read_folder"]

_TOLD = 5
"""Links that an error names."""
EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")


def read_folder(
    path: str | Path,
    *,
    extensions: Sequence[str] = EXTENSIONS,
    on_error: OnUnreadable = "raise",
    progress: bool | None = None,
) -> Manifest:
    """Read `path/class name/.../picture`, in the order torchvision's `ImageFolder` gives.

    The columns are `path`, `label`, `width`, `height` and `class_name`. Sizes are read from the
    pictures' headers and kept for the next time. Hidden files and folders are passed over.

    Args:
        path: the folder of the class folders.
        extensions: how a picture's file name ends, in small letters or capitals.
        on_error: "drop" leaves out pictures whose header can not be read and symbolic links that
            leave the folder, and counts them in `repairs`, `pictures_dropped`, `links_dropped`.
        progress: whether to show a progress bar; None on a terminal only.

    Raises:
        ManifestError: there is no class folder, or none of the pictures of a class; a picture
            can not be read; a symbolic link leaves the folder.
        ConfigError: an extension does not begin with a dot, or `on_error` is none of the above.
    """
    check_on_error(on_error)
    root = Path(path)
    frame, classes, away = list_folder(path, extensions=extensions)
    if away and on_error != "drop":
        raise ManifestError(_tell_away(root, away))
    frame, repairs = with_sizes(frame, root, show=progress, on_error=on_error)
    frame = frame.select("path", "label", "width", "height", "class_name")
    if away:
        repairs["links_dropped"] = len(away)
    return Manifest(frame, root, classes, repairs=repairs)


def list_folder(
    path: str | Path, *, extensions: Sequence[str] = EXTENSIONS
) -> tuple[pl.DataFrame, list[str], list[str]]:
    """List the pictures of class folders without opening any.

    Returns:
        The columns `path`, `label` (Int32) and `class_name`; the classes; and the symbolic links
        that leave the folder, as paths in it, which are not among the former.

    Raises:
        ManifestError: there is no class folder, or none of the pictures of a class.
        ConfigError: an extension does not begin with a dot.
    """
    if isinstance(extensions, str) or not all(end.startswith(".") for end in extensions):
        raise ConfigError(f"extensions must be a sequence of endings as '.jpg', not {extensions!r}")
    root = Path(path)
    if not root.is_dir():
        raise ManifestError(f"there is no folder {root}")
    ends = tuple(end.lower() for end in extensions)
    away = _Away(root)
    classes = [name for name, is_folder in _entries(root, "", away) if is_folder]
    listed = [_below(root, name, ends, frozenset(), away) for name in classes]
    if not classes and not away.links:
        raise ManifestError(
            f"{root} has no class folder; pictures belong in a folder for each class, as "
            "root/wren/1.jpg, or in a table for read_table, which takes any paths and labels"
        )
    pictures = [
        # By folder and then by name, so that "a-b/" comes before "a/c/".
        [file for _, files in sorted(folders) for file in files]
        for folders in listed
    ]
    for name, found in zip(classes, pictures, strict=True):
        if not found and not any(link.startswith(f"{name}/") for link in away.links.values()):
            raise ManifestError(
                f"the class folder {root / name} holds no picture (no file ends in "
                f"{', '.join(ends)})"
            )
    frame = pl.DataFrame(
        {
            "path": [file for found in pictures for file in found],
            "label": [label for label, found in enumerate(pictures) for _ in found],
            "class_name": [classes[label] for label, found in enumerate(pictures) for _ in found],
        },
        schema={"path": pl.String, "label": pl.Int32, "class_name": pl.String},
    )
    # Before anything is opened, so that no odd name is looked up.
    check_names(frame["path"], lambda row: f"{root}, file {row}")
    return frame, classes, sorted(away.links.values())


class _Away:
    """Links that leave the root: where each is in truth, and its path from the root."""

    def __init__(self, root: Path) -> None:
        self.real_root = os.path.realpath(root)
        self.links: dict[str, str] = {}

    def add(self, folder: Path, name: str, path: str) -> None:
        """Note one, once, whatever links within the root its folder is reached by."""
        self.links.setdefault(os.path.join(os.path.realpath(folder), name), path)  # noqa: PTH118


def _below(
    root: Path, folder: str, ends: tuple[str, ...], above: frozenset[str], away: _Away
) -> list[tuple[str, list[str]]]:
    """This folder and each one below it, with its pictures in order, as paths from the root."""
    above |= {os.path.realpath(root / folder)}
    entries = _entries(root / folder, f"{folder}/", away)
    found = [
        (folder, [path for path, deeper in entries if not deeper and path.lower().endswith(ends)])
    ]
    for path, deeper in entries:
        if deeper and os.path.realpath(root / path) not in above:  # a link may form a ring
            found += _below(root, path, ends, above, away)
    return found


def _entries(folder: Path, before: str, away: _Away) -> list[tuple[str, bool]]:
    """What is in a folder and not hidden, in order, `before` before it, and which are folders.

    Links that leave the root are not among them; they are added to `away`.
    """
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                try:
                    entry.name.encode()
                except UnicodeEncodeError:
                    raise ManifestError(f"a file name is not UTF-8: {entry.path!r}") from None
                path = before + entry.name
                if entry.is_symlink() and not inside(entry.path, away.real_root):
                    away.add(folder, entry.name, path)
                    continue
                found.append((path, entry.is_dir()))
    except OSError as error:
        raise ManifestError(f"can not list the folder {folder}: {error.strerror}") from error
    return sorted(found)


def _tell_away(root: Path, links: Sequence[str]) -> str:
    told = "; ".join(
        f"{shown(str(root / link), LONGEST)} to {shown(os.path.realpath(root / link), LONGEST)}"
        for link in links[:_TOLD]
    )
    if len(links) == 1:
        return (
            f"a symbolic link leaves the folder {root}: {told}; remove it, copy there what it "
            'leads to, or leave it out with on_error="drop"'
        )
    more = f"; and {len(links) - _TOLD:,} more" if len(links) > _TOLD else ""
    return (
        f"{len(links):,} symbolic links leave the folder {root}: {told}{more}; remove them, copy "
        'there what they lead to, or leave them out with on_error="drop"'
    )
