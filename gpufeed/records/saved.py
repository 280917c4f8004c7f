"""Manifests in files, which the processes of a machine map into their memory together."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl
from polars import selectors as cs

from gpufeed._util.atomic_write import atomic_write
from gpufeed._util.sanitize import short
from gpufeed._util.urls import location
from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records.arrow_file import write_arrow
from gpufeed.records.fingerprint import fingerprint
from gpufeed.records.manifest import SAVED, Manifest
from gpufeed.records.probe import probed
from gpufeed.records.rules import check_images
from gpufeed.records.table_files import read_arrow
from gpufeed.source.base import Saved, Source
from gpufeed.source.locate import Root
from gpufeed.source.saved import open_paths, open_source, save_source

__all__ = ["read_again", "read_manifest", "save_manifest"]

_VERSION = 3
_KEY = b"gpufeed"
"""Key of the manifest's JSON in the metadata of the Arrow schema."""
_DIGEST = b"gpufeed.sha256"
"""Key of the digest of that JSON."""
_COLUMN = "gpufeed.source."
"""Prefix of the columns that the source is made of."""
_SOURCE = cs.starts_with(_COLUMN)


def save_manifest(
    manifest: Manifest,
    path: str | os.PathLike[str],
    *,
    source: Saved | None = None,
    seconds: int | None = None,
) -> None:
    """Write a manifest to a file: see `Manifest.save`.

    Args:
        manifest: the manifest.
        path: the file.
        source: what the images are opened with; None for what `save_source` returns.
        seconds: the time to give the file; None for now.
    """
    if not os.fspath(path).endswith(SAVED):
        raise ConfigError(f"path is {short(os.fspath(path))}; it must end in {SAVED}")
    seconds = int(time.time()) if seconds is None else seconds
    about, frame = _with_source(manifest, source or save_source(manifest.source))
    about |= {
        "version": _VERSION,
        "rows": frame.height,
        "source_fingerprint": fingerprint(frame.select(_SOURCE), ()),
        "saved": seconds,
        "fingerprint": manifest.fingerprint(),
        "classes": manifest.classes,
        "repairs": dict(manifest.repairs),
        "reduce_depth": manifest.reduce_depth,
        "point_names": manifest.point_names,
        "box_columns": manifest.box_columns,
        "prepared": manifest.prepared,
        "named": _misnamed(manifest.source, manifest.frame) is None,
    }

    def describe(schema: Any) -> dict[bytes, bytes]:
        text = json.dumps({**about, "schema": _digest_of(schema)}).encode()
        return {_KEY: text, _DIGEST: _digest(text).encode()}

    def write(file: BinaryIO) -> None:
        write_arrow(file, frame, describe)
        # Whatever changes the file later gives it another time, which is no whole second.
        file.flush()
        os.utime(file.fileno(), (seconds, seconds))

    atomic_write(path, write)


def _with_source(manifest: Manifest, saved: Saved | None) -> tuple[dict[str, Any], pl.DataFrame]:
    """Return as JSON what the images' source is saved as, and the rows with its columns."""
    frame = manifest.frame
    if saved is None:
        return {"source": None, "images": short(manifest.source)}, frame
    # Names of images are often their paths.
    texts = (each for each in saved.columns if each.dtype == pl.String)
    paths = [each.name for each in texts if each.equals(frame["path"])]
    own = saved.columns.drop(paths)
    about = {"source": saved.about, "columns": own.columns, "paths": paths}
    if not own.width:
        return about, frame
    named = (each.alias(_COLUMN + each.name) for each in own)
    return about, frame.with_columns(named)


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

    The metadata are always compared with their digest. The rows are checked, against their
    fingerprint, only if the file's modification time is not that of saving, as for a copy. That
    takes about a second for ten million rows each time, so copy such files with their times
    (`cp -p`). A pickle of the manifest holds the path of the file.

    The images are found where they were, in files of any kind. A tar shard, table or other file of
    several images that has changed since is noticed when it is read: its images are bad images.

    Args:
        file: the file.
        root: where the files of the images are now, if they were moved: a folder, its URL or a
            `RemoteStorage`, in which they have the same names. Images that were files of their own,
            or in a zip archive, may also be in a zip archive. Options of a `RemoteStorage` are not
            saved. What `prepare` wrote is looked for in the folder of `file`.
        source: the images, if they were in memory or of a source of your own: key i is the image of
            row i. The names of eight images are compared with their `path`, if they were alike when
            the manifest was saved.

    Raises:
        ManifestError: the file cannot be read, is damaged or not a saved manifest, or has been
            changed; the root has other files; or `source` is missing, or has other images.
        ConfigError: both `root` and `source` are given, or the images were below several roots.
        MissingExtraError: pyarrow is not installed, or what the images' format needs.
    """
    if root is not None and source is not None:
        raise ConfigError(f"root is {short(root)}, but source is given too; pass only one of them")
    file = Path(location(file)).absolute()
    about: dict[str, Any] = {}
    intact = False

    def is_intact(schema: Any) -> bool:
        nonlocal intact
        about.update(_read_about(file, schema.metadata or {}))
        in_time = file.stat().st_mtime_ns == about["saved"] * 10**9
        intact = in_time and bool(about["schema"] == _digest_of(schema))
        return intact

    whole, _ = read_arrow(file, is_intact)
    columns, frame = whole.select(_SOURCE), whole.select(~_SOURCE)
    classes, saved = tuple(about["classes"]), about["fingerprint"]
    changed = frame.height != about["rows"] or (
        not intact
        and (
            fingerprint(frame, classes) != saved
            or fingerprint(columns, ()) != about["source_fingerprint"]
        )
    )
    if changed:
        raise ManifestError(
            f"{file} has been changed since it was saved; make a manifest of the changed table, "
            "and save that"
        )
    if source is not None:
        images = check_images(source, frame, None)
        key = _misnamed(images, frame)
        if about["named"] and key is not None:
            raise ManifestError(
                f"{file} has {short(frame['path'][key])} in row {key}, but image {key} of source "
                f"is {short(images.name(key))}; pass the images in the order of the rows"
            )
    elif about["source"] is not None:
        own = [whole[_COLUMN + name].alias(name) for name in about["columns"]]
        own += [frame["path"].alias(name) for name in about["paths"]]
        beside = about["source"].get("root", "") is None
        where = file.parent if root is None and beside else root
        images = open_source(about["source"], pl.DataFrame(own), where)
    elif root is not None:
        images = open_paths(root, frame["path"])
    else:
        raise ManifestError(
            f"{file} does not say how to open its images, {about['images']}; pass source=, as that "
            "of the manifest that was saved"
        )
    manifest = Manifest._of_checked(
        frame,
        images,
        classes,
        repairs=about["repairs"],
        reduce_depth=about["reduce_depth"],
        point_names=tuple(about["point_names"]),
        box_columns=tuple(about.get("box_columns", ())),
        prepared=about["prepared"],
        fingerprint=saved,
    )
    if isinstance(root, str | os.PathLike) and isinstance(where := location(root), Path):
        root = where.absolute()
    manifest._file = file, root, source
    return manifest


def _read_about(file: Path, metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    """Return the JSON of a saved manifest.

    Raises:
        ManifestError: there is none, it is damaged, or of another version.
    """
    if _KEY not in metadata:
        raise ManifestError(
            f"{file} is not a manifest that Manifest.save wrote; read_table reads tables"
        )
    text = metadata[_KEY]
    if metadata.get(_DIGEST) != _digest(text).encode():
        raise ManifestError(
            f"{file} is damaged, or was saved by another version of gpufeed; save it again"
        )
    about: dict[str, Any] = json.loads(text)
    if about["version"] != _VERSION:
        raise ManifestError(
            f"{file} has version {about['version']} of saved manifests, and this gpufeed reads "
            f"version {_VERSION}; save it again with this gpufeed"
        )
    return about


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest_of(schema: Any) -> str:
    """Return a digest of an Arrow schema without its metadata; pyarrow may change its form."""
    return _digest(schema.remove_metadata().serialize())


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
