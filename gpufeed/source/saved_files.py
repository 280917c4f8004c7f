"""The files of a source in a saved manifest: where they are, and their stamps."""

from __future__ import annotations

import base64
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpufeed._util.thread_map import thread_map
from gpufeed._util.urls import is_url, is_web, public_url
from gpufeed.errors import ManifestError
from gpufeed.source.chunks import Chunks, ChunkStorage
from gpufeed.source.locate import Root, storage_of
from gpufeed.source.remote.storage import RemoteStorage
from gpufeed.source.storage import LocalStorage, Stamp

__all__ = ["beside", "find_files", "save_files"]

_THREADS = 16


def save_files(
    storage: Any, files: Sequence[str], stamps: Sequence[Stamp]
) -> dict[str, Any] | None:
    """Return as JSON where files are; None if they are neither in a folder nor at a URL.

    Query strings on a web server are left out, since they may be credentials.
    """
    chunks: Mapping[str, Chunks] = {}
    if isinstance(storage, ChunkStorage):
        storage, chunks = storage.storage, storage.chunks
    if type(storage) not in (LocalStorage, RemoteStorage):
        return None
    root = os.fspath(storage.root)
    if is_web(root):
        files = [re.split(r"[?#]", file, maxsplit=1)[0] for file in files]
        chunks = {re.split(r"[?#]", file, maxsplit=1)[0]: each for file, each in chunks.items()}
    about = {"root": public_url(root) if is_url(root) else root, "files": files, "stamps": stamps}
    return {**about, "chunks": {file: _pack(each) for file, each in chunks.items()}}


def beside(files: Sequence[str]) -> dict[str, Any]:
    """Return as JSON that files are in the folder of their manifest, with whatever stamps."""
    return {"root": None, "files": files, "stamps": [], "chunks": {}}


def find_files(
    about: dict[str, Any], root: Root | None
) -> tuple[LocalStorage | RemoteStorage | ChunkStorage, list[str], list[Stamp]]:
    """Return the storage, the paths and the stamps of saved files.

    Args:
        about: what `save_files` or `beside` returned.
        root: where the files are now; they may then have other stamps, but not other lengths. None
            for where they were, if `save_files` knew it.

    Raises:
        ManifestError: a file is not below the root, or has another length.
        ConfigError: as `storage_of`.
    """
    files, stamps = about["files"], [Stamp(*each) for each in about["stamps"]]
    storage = storage_of(about["root"] if root is None else root)
    if about["root"] is None:
        # A file that is missing is so for each of its images, when they are read.
        found = _stamps(storage, files)
        stamps = [each if isinstance(each, Stamp) else Stamp(0, "missing") for each in found]
    elif root is not None:
        found = _stamps(storage, files)
        for file, stamp, now in zip(files, stamps, found, strict=True):
            if isinstance(now, OSError):
                raise ManifestError(
                    f"cannot read {storage.name(file)}: {now.strerror or now}; root must have the "
                    "files of the manifest that was saved"
                )
            if now.length != stamp.length:
                raise ManifestError(
                    f"{storage.name(file)} has {now.length:,} bytes, and the file of the manifest "
                    f"that was saved had {stamp.length:,}; root must have the same files"
                )
        stamps = [stamp for stamp in found if isinstance(stamp, Stamp)]
    chunks = {file: _unpack(packed) for file, packed in about["chunks"].items()}
    return ChunkStorage(storage, chunks) if chunks else storage, files, stamps


def _stamps(
    storage: LocalStorage | RemoteStorage, files: Sequence[str]
) -> Sequence[Stamp | OSError]:
    if isinstance(storage, RemoteStorage):
        return storage.stamps(files)

    def stamp(file: str) -> Stamp | OSError:
        try:
            return storage.stamp(file)
        except OSError as error:
            return error.with_traceback(None)

    return thread_map(stamp, files, threads=_THREADS, done=lambda _: None, name="gpufeed-stamps")


def _pack(chunks: Chunks) -> list[str]:
    """Return arrays as text, compressed."""
    return [
        base64.b64encode(zlib.compress(values.tobytes(), 1)).decode()
        for values in (chunks.begins, chunks.offsets, chunks.sizes, chunks.codecs)
    ]


def _unpack(packed: Sequence[str]) -> Chunks:
    *numbers, codecs = (zlib.decompress(base64.b64decode(each)) for each in packed)
    begins, offsets, sizes = (np.frombuffer(each, np.int64) for each in numbers)
    return Chunks(begins, offsets, sizes, np.frombuffer(codecs, np.uint8))
