"""A folder in which each class has a folder of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from gpufeed._util.sanitize import sanitize
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.manifest import Manifest
from gpufeed.records.sizes import OnBadImage, check_on_bad_image, with_sizes
from gpufeed.source.files import FileSource
from gpufeed.source.paths import LONGEST, all_leave, inside

__all__ = ["EXTENSIONS", "list_folder", "read_folder"]

_TOLD = 5
"""Links that an error names."""
EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")


def read_folder(
    path: str | Path,
    *,
    extensions: Sequence[str] = EXTENSIONS,
    on_bad_image: OnBadImage = "raise",
    progress: bool | None = None,
) -> Manifest:
    """Read `path/class name/.../image`, in the order torchvision's `ImageFolder` gives.

    The columns are `path`, `label`, `width`, `height` and `class_name`. Sizes are read from the
    images' headers and kept for the next time. Hidden files and folders are passed over.

    Args:
        path: the folder of the class folders.
        extensions: how an image's file name ends, in small letters or capitals.
        on_bad_image: "raise", or "drop" to leave out images whose header cannot be read and
            symbolic links that leave the folder, and to count them in `repairs`, `images_dropped`
            and `links_dropped`. All classes stay, also those of which no image is left.
        progress: whether to show a progress bar; None on a terminal only.

    Raises:
        ManifestError: there is no class folder, or none of the images of a class; an image
            cannot be read; a symbolic link leaves the folder.
        ConfigError: an extension does not begin with a dot, or `on_bad_image` is none of the above.
    """
    check_on_bad_image(on_bad_image)
    root = Path(path)
    frame, classes, away = list_folder(path, extensions=extensions, on_bad_image=on_bad_image)
    if frame.is_empty():
        raise ManifestError(all_leave(root))
    files = FileSource(root, frame["path"], where=lambda row: f"{root}, file {row}")
    frame, source, repairs = with_sizes(frame, files, show=progress, on_bad_image=on_bad_image)
    frame = frame.select("path", "label", "width", "height", "class_name")
    if away:
        repairs["links_dropped"] = len(away)
    return Manifest(frame, source, classes, repairs=repairs)


def list_folder(
    path: str | Path,
    *,
    extensions: Sequence[str] = EXTENSIONS,
    on_bad_image: OnBadImage = "raise",
) -> tuple[pl.DataFrame, list[str], list[str]]:
    """List the images of class folders without opening any.

    Returns:
        The columns `path`, `label` (Int32) and `class_name`; the classes; and, with "drop", the
        symbolic links that leave the folder, as paths in it, which are not among the former.

    Raises:
        ManifestError: as `read_folder`, but that no image can be read.
        ConfigError: an extension does not begin with a dot.
    """
    if isinstance(extensions, str) or not all(end.startswith(".") for end in extensions):
        raise ConfigError(f"extensions must be a sequence of endings as '.jpg', not {extensions!r}")
    root = Path(path)
    if not root.is_dir():
        raise ManifestError(f"there is no folder {root}")
    ends = tuple(end.lower() for end in extensions)
    away = _Away(root)
    names, links = _entries(root, "", ends, away)
    # A folder that is a link out is a class as well, so that labels do not hang on what is dropped.
    classes = sorted([name for name, is_folder in names if is_folder] + links)
    listed: list[list[str]] = []
    empty: list[str] = []
    for name in classes:
        if name in links:
            listed.append([])
            continue
        met = away.met
        found = _below(root, name, ends, frozenset(), away)
        # By folder and then by name, so that "a-b/" comes before "a/c/".
        listed.append([file for _, files in sorted(found) for file in files])
        if not listed[-1] and away.met == met:
            empty.append(name)
    if away.links and on_bad_image != "drop":
        raise ManifestError(_tell_away(root, away.paths()))
    if not classes:
        raise ManifestError(
            f"{root} has no class folder; images belong in a folder for each class, as "
            "root/wren/1.jpg, or in a table for read_table, which takes any paths and labels"
        )
    if empty:
        raise ManifestError(
            f"the class folder {root / empty[0]} holds no image (no file ends in {', '.join(ends)})"
        )
    frame = pl.DataFrame(
        {
            "path": [file for found in listed for file in found],
            "label": [label for label, found in enumerate(listed) for _ in found],
            "class_name": [classes[label] for label, found in enumerate(listed) for _ in found],
        },
        schema={"path": pl.String, "label": pl.Int32, "class_name": pl.String},
    )
    return frame, classes, away.paths()


class _Away:
    """Links that leave the root, to folders or to what is named as an image.

    Attributes:
        real_root: the root, its own links followed.
        links: where each is in truth, and its path from the root.
        met: how often one was met, by whatever links within the root.
    """

    def __init__(self, root: Path) -> None:
        self.real_root = os.path.realpath(root)
        self.links: dict[str, str] = {}
        self.met = 0

    def add(self, folder: Path, name: str, path: str) -> None:
        """Note one."""
        self.links.setdefault(os.path.join(os.path.realpath(folder), name), path)  # noqa: PTH118
        self.met += 1

    def paths(self) -> list[str]:
        """All of them, each once, as paths from the root."""
        return sorted(self.links.values())


def _below(
    root: Path, folder: str, ends: tuple[str, ...], above: frozenset[str], away: _Away
) -> list[tuple[str, list[str]]]:
    """This folder and each one below it, with its images in order, as paths from the root."""
    above |= {os.path.realpath(root / folder)}
    entries, _ = _entries(root / folder, f"{folder}/", ends, away)
    found = [
        (folder, [path for path, deeper in entries if not deeper and path.lower().endswith(ends)])
    ]
    for path, deeper in entries:
        if deeper and os.path.realpath(root / path) not in above:  # a link may form a ring
            found += _below(root, path, ends, above, away)
    return found


def _entries(
    folder: Path, before: str, ends: tuple[str, ...], away: _Away
) -> tuple[list[tuple[str, bool]], list[str]]:
    """What is in a folder and not hidden, in order, `before` before it, and which are folders.

    Links that leave the root are not among them. Those that matter are added to `away`: to folders,
    which are returned too, and below the root what is named as an image.
    """
    found, links = [], []
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
                try:
                    is_folder = entry.is_dir()
                except OSError:  # a link to itself, which cannot be read as an image either
                    is_folder = False
                if not entry.is_symlink() or inside(entry.path, away.real_root):
                    found.append((path, is_folder))
                elif is_folder or (before and path.lower().endswith(ends)):
                    away.add(folder, entry.name, path)
                    links += [path] if is_folder else []
    except OSError as error:
        raise ManifestError(f"cannot list the folder {folder}: {error.strerror}") from error
    return sorted(found), links


def _tell_away(root: Path, links: Sequence[str]) -> str:
    def tell(link: str) -> str:
        target = os.path.realpath(root / link)
        return f"{sanitize(str(root / link), LONGEST)} to {sanitize(target, LONGEST)}"

    told = "; ".join(tell(link) for link in links[:_TOLD])
    if len(links) == 1:
        return (
            f"a symbolic link leaves the folder {root}: {told}; remove it, copy there what it "
            'leads to, or leave it out with on_bad_image="drop"'
        )
    more = f"; and {len(links) - _TOLD:,} more" if len(links) > _TOLD else ""
    return (
        f"{len(links):,} symbolic links leave the folder {root}: {told}{more}; remove them, copy "
        'there what they lead to, or leave them out with on_bad_image="drop"'
    )
