"""Reads a folder that contains one folder of images for each class."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from gpufeed._util.sanitize import sanitize, short
from gpufeed._util.urls import location, public_url
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.bad_images import OnBadImage, check_on_bad_image
from gpufeed.records.labels import number_labels
from gpufeed.records.manifest import Manifest, class_names
from gpufeed.records.sizes import with_sizes
from gpufeed.records.splits import canonical_split, is_split
from gpufeed.source.files import FileSource, PathSource
from gpufeed.source.locate import Root, storage_of
from gpufeed.source.objects import ObjectSource
from gpufeed.source.paths import PATH_CHARS, all_escape_message, is_inside
from gpufeed.source.remote.storage import RemoteStorage
from gpufeed.source.storage import LocalStorage, Stamp
from gpufeed.source.zipped import ZipSource, open_archive

__all__ = ["EXTENSIONS", "FolderListing", "list_folder", "read_folder"]

_MAX_LINKS_SHOWN = 5
EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")


def read_folder(
    path: Root,
    *,
    classes: Sequence[str] | Manifest | None = None,
    extensions: Sequence[str] = EXTENSIONS,
    follow_links: bool = False,
    on_bad_image: OnBadImage = "raise",
    reduce_depth: bool = False,
    progress: bool | None = None,
) -> Manifest:
    """Read `path/class name/.../image`, in the order of torchvision's `ImageFolder`.

    The columns are `path`, `label`, `width`, `height` and `class_name`. Sizes are read from the
    images' headers and cached. Hidden files and folders are skipped. A zip archive of the folder
    gives the same manifest.

    Args:
        path: folder that contains the class folders, its URL, or a `RemoteStorage`; or a zip
            archive of it, "photos.zip", or a folder in one, "photos.zip/train". An object store is
            listed once; a web server has no listing, and needs a table.
        classes: the names of the class folders, in the order of their labels; or a manifest, whose
            classes are taken. By default, the folders in sorted order. Folders of the list may be
            missing or empty.
        extensions: file name extensions of images, each with its dot; case does not matter.
        follow_links: whether symbolic links may lead out of the folder. Pass True only if you trust
            whoever made them: a link may lead to any file.
        on_bad_image: "raise", or "drop" to leave out images whose header cannot be read or that
            are too deep, and symbolic links that leave the folder. They are counted in `repairs` as
            `images_dropped` and `links_dropped`. All classes are kept, even those without any image
            left.
        reduce_depth: whether to reduce images of 16 bits per channel to 8: see `Manifest`. By
            default they are bad images.
        progress: whether to show a progress bar; None shows it on a terminal only.

    Raises:
        ManifestError: there is no class folder; a class folder has no image, or is not in
            `classes`; the folders are splits such as "train" and "val" rather than classes; an
            image cannot be read or is too deep; a symbolic link leaves the folder.
        ConfigError: an extension does not begin with a dot, `classes` is not a list of names, or
            `on_bad_image` is neither value.
    """
    check_on_bad_image(on_bad_image)
    listing = list_folder(
        path,
        classes=class_names(classes),
        extensions=extensions,
        follow_links=follow_links,
        on_bad_image=on_bad_image,
    )
    if listing.frame.is_empty():
        raise ManifestError(all_escape_message(listing.source.root))
    frame, source, repairs = with_sizes(
        listing.frame,
        listing.source,
        show=progress,
        on_bad_image=on_bad_image,
        reduce_depth=reduce_depth,
    )
    frame = frame.select("path", "label", "width", "height", "class_name")
    if listing.links:
        repairs["links_dropped"] = len(listing.links)
    return Manifest(frame, source, listing.classes, repairs=repairs, reduce_depth=reduce_depth)


@dataclass(frozen=True)
class FolderListing:
    """The images of class folders, before any of them has been opened.

    Attributes:
        frame: has `path`, `label` (Int32) and `class_name`.
        source: the images, one for each row.
        classes: names of the labels.
        links: with on_bad_image="drop", the symbolic links that leave the folder, as paths relative
            to it; the frame does not contain them.
    """

    frame: pl.DataFrame
    source: PathSource | ZipSource
    classes: Sequence[str]
    links: Sequence[str]


def list_folder(
    path: Root,
    *,
    classes: Sequence[str] | None = None,
    extensions: Sequence[str] = EXTENSIONS,
    follow_links: bool = False,
    on_bad_image: OnBadImage = "raise",
    allow_splits: bool = False,
) -> FolderListing:
    """List the images of class folders without opening any of them.

    Arguments as for `read_folder`; with `allow_splits`, splits may take the place of classes.

    Raises:
        ManifestError: as `read_folder`, except that no image is read.
        ConfigError: an extension does not begin with a dot.
    """
    if isinstance(extensions, str) or not all(str(each).startswith(".") for each in extensions):
        raise ConfigError(
            f"extensions must be a sequence such as ('.jpg', '.png'), not {short(extensions)}"
        )
    suffixes = tuple(each.lower() for each in extensions)
    if isinstance(path, LocalStorage | RemoteStorage):
        given, archive = path.root, None
    else:
        given, archive = location(path), open_archive(path)
    root = public_url(given) if isinstance(given, str) else given
    links: list[str] = []
    packed: dict[str, dict[str, list[str]]] = {}
    if archive is not None:
        packed = _packed_folders(archive.paths, suffixes)
        files_of = {
            # By folder and then by name, so that "a-b/" comes before "a/c/".
            name: [file for _, files in sorted(packed[name].items()) for file in sorted(files)]
            for name in sorted(packed)
        }
        empty = [name for name, files in files_of.items() if not files]
    elif isinstance(storage := storage_of(path), RemoteStorage):
        files_of, stamps = _list_remote(storage, suffixes)
        empty = [name for name, files in files_of.items() if not files]
    else:
        files_of, empty, escapes = _list_local(Path(root), suffixes, follow_links=follow_links)
        links = escapes.paths()
    folders = list(files_of)
    if not allow_splits and not set(folders) <= set(classes or ()):
        _check_no_splits(root, folders)
    (images,) = packed.values() if len(packed) == 1 else ({},)
    if classes is None and images and folders[0] not in images:
        raise ManifestError(
            f"{root} has one folder, {folders[0]}, with nothing but folders in it; pass "
            f"{root}/{folders[0]} if they are the classes, or classes=[{folders[0]!r}] if it is one"
        )
    if links and on_bad_image != "drop":
        raise ManifestError(_escapes_message(Path(root), links))
    if not folders:
        raise ManifestError(
            f"{root} has no class folder; put the images of each class into a folder of their own, "
            "such as root/wren/1.jpg, or use read_table, which takes any paths and labels"
        )
    if empty and (classes is None or len(empty) == len(folders)):
        raise ManifestError(
            f"the class folder {root}/{empty[0]} has no image (no file ends in "
            f"{', '.join(suffixes)}); remove it, or pass classes= if it is to be a class without "
            "images"
        )
    if classes is None:
        classes = folders
    numbers = number_labels(pl.Series(folders), classes, str(root), "class folder")
    label_of = dict(zip(folders, numbers, strict=True))
    rows = [(file, name) for name, files in files_of.items() for file in files]
    frame = pl.DataFrame(
        {
            "path": [file for file, _ in rows],
            "label": [label_of[name] for _, name in rows],
            "class_name": [name for _, name in rows],
        },
        schema={"path": pl.String, "label": pl.Int32, "class_name": pl.String},
    )
    source: PathSource | ZipSource
    if archive is not None:
        source = archive.find(frame["path"])
    elif isinstance(storage, RemoteStorage):
        source = ObjectSource(storage, frame["path"], stamps=stamps)
    else:
        source = FileSource(root, frame["path"], where=lambda row: f"{root}, file {row}")
    return FolderListing(frame, source, classes, links)


def _packed_folders(paths: pl.Series, suffixes: tuple[str, ...]) -> dict[str, dict[str, list[str]]]:
    """Return the class folders of an archive, each with its folders and their images.

    Files that are hidden, in a hidden folder, or added by macOS are left out, and so are those that
    are in no folder.
    """
    classes: dict[str, dict[str, list[str]]] = {}
    for path in paths:
        name, slash, _ = path.partition("/")
        if not slash or name == "__MACOSX" or path.startswith(".") or "/." in path:
            continue
        folders = classes.setdefault(name, {})
        if path.lower().endswith(suffixes):
            folders.setdefault(path.rpartition("/")[0], []).append(path)
    return classes


def _list_local(
    root: Path, suffixes: tuple[str, ...], *, follow_links: bool
) -> tuple[dict[str, list[str]], list[str], _EscapingLinks]:
    """List class folders of this machine.

    Returns:
        The images of each class folder; those without any image; and the links that leave the root.

    Raises:
        ManifestError: there is no such folder, or a folder cannot be listed.
    """
    if not root.is_dir():
        raise ManifestError(
            f"{root} is not a folder" if root.exists() else f"there is no folder {root}"
        )
    escapes = _EscapingLinks(root, allowed=follow_links)
    names, linked_folders = _entries(root, "", suffixes, escapes)
    # An escaping folder is a class too, so that labels do not depend on what is dropped.
    folders = sorted([name for name, is_folder in names if is_folder] + linked_folders)
    files_of: dict[str, list[str]] = {name: [] for name in folders}
    empty: list[str] = []
    for name in folders:
        if name in linked_folders:
            continue
        count = escapes.count
        found = _walk(root, name, suffixes, frozenset(), escapes)
        # By folder and then by name, so that "a-b/" comes before "a/c/".
        files_of[name] = [file for _, files in sorted(found) for file in files]
        if not files_of[name] and escapes.count == count:
            empty.append(name)
    return files_of, empty, escapes


def _list_remote(
    storage: RemoteStorage, suffixes: tuple[str, ...]
) -> tuple[dict[str, list[str]], dict[str, Stamp]]:
    """List class folders of an object store, as `_list_local` lists others.

    Returns:
        The images of each class folder, and the stamps of all of them.

    Raises:
        ManifestError: the store cannot be listed, or has nothing there.
    """
    try:
        found = storage.find_all()
    except OSError as error:
        raise ManifestError(
            f"cannot list {public_url(storage.root)}: {error.strerror or error}"
        ) from error
    if not found:
        raise ManifestError(f"there is nothing below {public_url(storage.root)}")
    visible = [path for path in found if "/" in path and not re.search(r"(^|/)\.", path)]
    files_of: dict[str, list[str]] = {path.partition("/")[0]: [] for path in sorted(visible)}
    files_of = dict(sorted(files_of.items()))
    for path in sorted(visible, key=lambda path: path.rpartition("/")[::2]):
        if path.lower().endswith(suffixes):
            files_of[path.partition("/")[0]].append(path)
    return files_of, {path: found[path] for files in files_of.values() for path in files}


def _check_no_splits(root: Path | str, folders: Sequence[str]) -> None:
    """Check that the folders are not the splits of a dataset.

    They are if all have names of splits, or if two different splits are among them: "train" and
    "bus" may be two classes, "train" and "val" are not.

    Raises:
        ManifestError: the folders are splits.
    """
    splits = [name for name in folders if is_split(name)]
    if not splits or (len(splits) < len(folders) and len({*map(canonical_split, splits)}) < 2):
        return
    # Train, if it is there, gives the classes.
    first, *others = sorted(splits, key=lambda name: canonical_split(name) != "train")
    advice = f"pass {root}/{first}"
    if others:
        advice = (
            f"read {root}/{first} first, as `{first.lower()}`, and {root}/{others[0]} with "
            f"classes={first.lower()}, so that their labels are the same"
        )
    raise ManifestError(
        f"the folders of {root} are splits rather than classes: {', '.join(splits)}; {advice}; or "
        "list them in classes= if they are classes after all"
    )


class _EscapingLinks:
    """Symbolic links that leave the root and lead to folders or are named like images.

    Attributes:
        links: maps each link's resolved location to its path relative to the root.
        count: number of encounters; links within the root may lead to the same link several times.
    """

    def __init__(self, root: Path, *, allowed: bool) -> None:
        self._allowed = allowed
        self._real_root = os.path.realpath(root)
        self.links: dict[str, str] = {}
        self.count = 0

    def includes(self, entry: os.DirEntry[str]) -> bool:
        """Return whether an entry is a link that leaves the root, unless such links are allowed."""
        if self._allowed or not entry.is_symlink():
            return False
        return not is_inside(entry.path, self._real_root)

    def add(self, folder: Path, name: str, path: str) -> None:
        """Record an encounter of a link."""
        self.links.setdefault(os.path.join(os.path.realpath(folder), name), path)  # noqa: PTH118
        self.count += 1

    def paths(self) -> list[str]:
        """Return the path of each link, relative to the root."""
        return sorted(self.links.values())


def _walk(
    root: Path,
    folder: str,
    suffixes: tuple[str, ...],
    ancestors: frozenset[str],
    escapes: _EscapingLinks,
) -> list[tuple[str, list[str]]]:
    """Return this folder and all folders below it, each with its sorted images.

    All paths are relative to the root.
    """
    ancestors |= {os.path.realpath(root / folder)}
    entries, _ = _entries(root / folder, f"{folder}/", suffixes, escapes)
    files = [path for path, is_folder in entries if not is_folder]
    found = [(folder, [path for path in files if path.lower().endswith(suffixes)])]
    for path, is_folder in entries:
        if is_folder and os.path.realpath(root / path) not in ancestors:  # links may form a cycle
            found += _walk(root, path, suffixes, ancestors, escapes)
    return found


def _entries(
    folder: Path, prefix: str, suffixes: tuple[str, ...], escapes: _EscapingLinks
) -> tuple[list[tuple[str, bool]], list[str]]:
    """List a folder's entries, without hidden ones.

    Escaping links to folders, and below the root also those named like images, are added to
    `escapes`; other escaping links are ignored.

    Returns:
        The entries, sorted, as (path with `prefix`, whether it is a folder), without escaping
        links; and the escaping links to folders.
    """
    found, linked_folders = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                try:
                    entry.name.encode()
                except UnicodeEncodeError:
                    raise ManifestError(f"a file name is not UTF-8: {entry.path!r}") from None
                path = prefix + entry.name
                try:
                    is_folder = entry.is_dir()
                except OSError:  # a link to itself; reading it as an image fails later
                    is_folder = False
                if not escapes.includes(entry):
                    found.append((path, is_folder))
                elif is_folder or (prefix and path.lower().endswith(suffixes)):
                    escapes.add(folder, entry.name, path)
                    linked_folders += [path] if is_folder else []
    except OSError as error:
        raise ManifestError(f"cannot list the folder {folder}: {error.strerror}") from error
    return sorted(found), linked_folders


def _escapes_message(root: Path, links: Sequence[str]) -> str:
    def describe(link: str) -> str:
        target = os.path.realpath(root / link)
        return f"{sanitize(str(root / link), PATH_CHARS)} to {sanitize(target, PATH_CHARS)}"

    shown = "; ".join(describe(link) for link in links[:_MAX_LINKS_SHOWN])
    if len(links) == 1:
        return (
            f"a symbolic link leaves the folder {root}: {shown}; follow it with "
            'follow_links=True if you trust it, or leave it out with on_bad_image="drop"'
        )
    hidden = len(links) - _MAX_LINKS_SHOWN
    more = f"; and {hidden:,} more" if hidden > 0 else ""
    return (
        f"{len(links):,} symbolic links leave the folder {root}: {shown}{more}; follow them with "
        'follow_links=True if you trust them, or leave them out with on_bad_image="drop"'
    )
