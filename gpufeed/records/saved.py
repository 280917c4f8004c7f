"""Manifests in files, which the processes of a machine map into their memory together."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import BinaryIO

import polars as pl

from gpufeed._util.atomic_write import atomic_write
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.arrow_file import write_arrow
from gpufeed.records.fingerprint import fingerprint
from gpufeed.records.manifest import SAVED, Manifest, check_images
from gpufeed.records.packed import Packing, open_packed
from gpufeed.records.probe import probed
from gpufeed.records.table_files import read_arrow
from gpufeed.source.base import Source
from gpufeed.source.files import FileSource
from gpufeed.source.locate import Root, storage_of
from gpufeed.source.objects import ObjectSource
from gpufeed.source.storage import LocalStorage
from gpufeed.source.zipped import open_archive

__all__ = ["read_again", "read_manifest", "save_manifest"]

_VERSION = 1
_KEY = b"gpufeed"
"""Key of the manifest's JSON in the metadata of the Arrow schema."""


def save_manifest(
    manifest: Manifest,
    path: str | os.PathLike[str],
    *,
    packing: Packing | None = None,
    seconds: int | None = None,
) -> None:
    """Write a manifest to a file: see `Manifest.save`.

    Args:
        manifest: the manifest.
        path: the file.
        packing: how the images are packed, in files of the same folder, if `prepare` wrote them.
        seconds: the time to give the file; None for now.
    """
    if not os.fspath(path).endswith(SAVED):
        raise ConfigError(f"path is {short(os.fspath(path))}; it must end in {SAVED}")
    source, root = manifest.source, None
    seconds = int(time.time()) if seconds is None else seconds
    if packing is None and (type(source) is FileSource or isinstance(source, ObjectSource)):
        root = os.fspath(source.root)
    about = {
        "version": _VERSION,
        "saved": seconds,
        "fingerprint": manifest.fingerprint(),
        "classes": manifest.classes,
        "repairs": dict(manifest.repairs),
        "reduce_depth": manifest.reduce_depth,
        "point_names": manifest.point_names,
        "prepared": manifest.prepared,
        "root": root,
        "packing": packing,
        "named": _misnamed(source, manifest.frame) is None,
    }

    def write(file: BinaryIO) -> None:
        write_arrow(file, manifest.frame, {_KEY: json.dumps(about).encode()})
        # Whatever changes the file later gives it another time, which is no whole second.
        file.flush()
        os.utime(file.fileno(), (seconds, seconds))

    atomic_write(path, write)


def read_manifest(
    file: str | os.PathLike[str],
    *,
    root: Root | None = None,
    source: Source | None = None,
) -> Manifest:
    """Read a manifest that `Manifest.save` wrote, without reading, checking or copying its rows.

    The file is mapped into memory, so that the processes of a machine share one copy, and only the
    parts that are used are read. Do not write to it while it is in use; saving again is safe, since
    that makes another file. Needs pyarrow.

    The rows are checked against their fingerprint only if the file's modification time is not that
    of saving, as for a copy. That takes about a second for ten million rows each time, so copy such
    files with their times (`cp -p`). A pickle of the manifest holds the path of the file.

    Args:
        file: the file.
        root: the folder of the images, a zip archive of them, its URL or a `RemoteStorage`, if it
            is not the one that was saved; options of a `RemoteStorage` are not saved. Of a manifest
            that `prepare` made, the folder of what it wrote, by default that of `file`.
        source: the images, if they are not files: key i is the image of row i. The names of eight
            images are compared with their `path`, if they were alike when the manifest was saved.

    Raises:
        ManifestError: the file cannot be read, is not a saved manifest, or has been changed; or
            its images are not files and `source` is missing, or has other images.
        ConfigError: both `root` and `source` are given.
        MissingExtraError: pyarrow is not installed.
    """
    if root is not None and source is not None:
        raise ConfigError(f"root is {short(root)}, but source is given too; pass only one of them")
    file = Path(file).absolute()
    frame, metadata = read_arrow(file)
    if _KEY not in metadata:
        raise ManifestError(
            f"{file} is not a manifest that Manifest.save wrote; read_table reads tables"
        )
    about = json.loads(metadata[_KEY])
    if about["version"] != _VERSION:
        raise ManifestError(
            f"{file} has version {about['version']} of saved manifests, and this gpufeed reads "
            f"version {_VERSION}; save it again with this gpufeed"
        )
    classes, saved = tuple(about["classes"]), about["fingerprint"]
    in_time = file.stat().st_mtime_ns == about["saved"] * 10**9
    if not in_time and fingerprint(frame, classes) != saved:
        raise ManifestError(
            f"{file} has been changed since it was saved; make a manifest of the changed table, "
            "and save that"
        )
    at: Root | None = None
    if source is not None:
        images = check_images(source, frame, None)
        key = _misnamed(images, frame)
        if about["named"] and key is not None:
            raise ManifestError(
                f"{file} has {short(frame['path'][key])} in row {key}, but image {key} of source "
                f"is {short(images.name(key))}; pass the images in the order of the rows"
            )
    elif about["packing"] is not None:
        images, at = open_packed(about["packing"], root or file.parent, frame), root
    elif root is None and about["root"] is None:
        raise ManifestError(
            f"{file} is a list of images that are not files in one folder; pass source=, as that "
            "of the manifest that was saved"
        )
    elif isinstance(root, str | os.PathLike) and (archive := open_archive(root)) is not None:
        images, at = archive.find(frame["path"]), archive.root or root
    else:
        at = storage_of(root or about["root"])
        if isinstance(at, LocalStorage):
            images = FileSource.of_checked(at.root, frame["path"])
        else:
            images = ObjectSource(at, frame["path"])
    manifest = Manifest._of_checked(
        frame,
        images,
        classes,
        repairs=about["repairs"],
        reduce_depth=about["reduce_depth"],
        point_names=tuple(about["point_names"]),
        prepared=about["prepared"],
        fingerprint=saved,
    )
    # A pickle needs the options of a storage too.
    manifest._file = file, at, source
    return manifest


def _misnamed(source: Source, frame: pl.DataFrame) -> int | None:
    """Return the first of eight records whose image's name does not end in its `path`, if any."""
    keys = probed(frame.height)
    return next((key for key in keys if not source.name(key).endswith(frame["path"][key])), None)


def read_again(fingerprint: str, file: Path, root: Root | None, source: Source | None) -> Manifest:
    """Return the manifest that was pickled as the path of its file.

    Raises:
        ManifestError: the file holds another manifest by now, or as for `read_manifest`.
    """
    manifest = read_manifest(file, root=root, source=source)
    if manifest.fingerprint() != fingerprint:
        raise ManifestError(f"{file} holds another manifest than when it was pickled")
    return manifest
