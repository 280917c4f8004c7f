"""Finds out what data are that a path or URL names, and how they are read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gpufeed._util.sanitize import sanitize, short
from gpufeed._util.urls import location, public_url
from gpufeed.errors import ConfigError, ManifestError

if TYPE_CHECKING:
    import polars as pl

    from gpufeed.records import Manifest
    from gpufeed.source.base import Source

__all__ = ["Found", "ListOptions", "find_data"]

_NABIRDS_FILES = ("images.txt", "classes.txt", "train_test_split.txt")
_ARRAY_RECORD = re.compile(r"\.array_?record", re.IGNORECASE)
"""In a file's name; TFDS writes "birds-train.array_record-00000-of-00016"."""
_HDF5_FILES = (".h5", ".hdf5", ".hdf")
_LMDB_FILES = (".lmdb", ".mdb")


@dataclass(frozen=True)
class ListOptions:
    """How to read the list of images.

    Attributes:
        path: a table's column of paths; None for "path".
        label: a table's column of labels; None for "label" if there is one, or no labels.
        root: the folder, or its URL, that a table's paths are relative to; None as for
            `read_table`.
        follow_links: whether symbolic links may lead out of the root.
        image: a table's column of encoded images; None if it has their paths.
    """

    path: str | None = None
    label: str | None = None
    root: str | None = None
    follow_links: bool = False
    image: str | None = None


Images = tuple["pl.DataFrame", "Source", Sequence[str]]


class Found(NamedTuple):
    """Data of one kind.

    Attributes:
        reader: the name of the function that makes a manifest of them.
        read: makes one, given `labels` as for `open_manifest`, and `follow_links`, `on_bad_image`
            and `reduce_depth` as for `read_table`.
        listed: returns the columns of a manifest, without sizes if the list has none; the images,
            one for each row; and the names of the labels. They include symbolic links that leave
            the folder, for class folders as the last rows.
    """

    reader: str
    read: Callable[..., Manifest]
    listed: Callable[[], Images]


def find_data(path: str | Path, options: ListOptions) -> Found:
    """Return what the data are.

    They are a saved manifest, a table (CSV, Parquet or another file that `read_table` takes),
    ArrayRecord, HDF5, LMDB or .beton files, a dataset that Hugging Face's `save_to_disk` wrote,
    NABirds' folder, the course's metadata.parquet or its folder, a folder that `prepare` wrote, a
    folder of images without folders, tar shards (also with braces or wildcards), or class folders,
    also in a zip archive. A URL is one of a table, a pattern of several, tar shards, or class
    folders, also in a zip archive.

    Raises:
        ManifestError: there are no data, or they cannot be read.
        ConfigError: the options do not fit them.
    """
    from gpufeed.records.manifest import SAVED
    from gpufeed.records.nabirds.course import is_course
    from gpufeed.records.table_files import (
        TABLE_FILES,
        ending,
        file_name,
        find_files,
        is_pattern,
    )
    from gpufeed.tools import formats

    where = location(path)
    source: Any = where.expanduser() if isinstance(where, Path) else where
    is_folder = isinstance(source, Path) and source.is_dir()
    image, label = options.image, options.label
    if is_folder and not os.access(source, os.R_OK | os.X_OK):
        raise ManifestError(f"cannot read the folder {source}: permission denied")

    def check(what: str, *taken: str) -> None:
        for name in ("path", "image", "label", "root"):
            if getattr(options, name) is not None and name not in taken:
                raise ConfigError(f"{name} does not apply: {file_name(source)} is {what}")

    if ending(source) == ".tar" and not is_folder:
        check("a tar file", "label")
        return _of_shards(source, label or "cls")
    if _is_zip(source):
        check("a zip archive")
        return _of_folder(source, options.follow_links)
    if _ARRAY_RECORD.search(Path(file_name(source)).name) and not is_folder:
        check("an ArrayRecord file", "image", "label")
        return _of_array_records(source, image, label)
    if is_pattern(source):
        files = find_files(source) or []
        return _of_table(files, _columns(files[0], options))
    if isinstance(source, str):
        if ending(source) in TABLE_FILES:
            return _of_table(source, _columns(source, options))
        check("a folder")
        return _of_folder(source, options.follow_links)
    suffix = source.suffix.lower()
    if (source / "data.mdb").is_file() or (source.is_file() and suffix in _LMDB_FILES):
        check("an LMDB database")
        return _of_table(*formats.lmdb_table(source))
    if source.is_file():
        if source.suffix == SAVED:
            check("a saved manifest", "root")
            return _of_saved(source, _root(options))
        if suffix in _HDF5_FILES:
            check("an HDF5 file", "image", "label")
            return _of_table(*formats.hdf5_table(source, image, label))
        if suffix == ".beton":
            check("a .beton file", "image", "label")
            return _of_table(*formats.ffcv_table(source, image, label), reader="read_beton")
        if suffix not in TABLE_FILES:
            raise ManifestError(
                f"{source} is not a data set; pass a NABirds folder, a folder of class folders or "
                f"of images, a saved manifest ({SAVED}), a zip archive, tar shards, a file of "
                f"ArrayRecord, HDF5, LMDB or FFCV (.beton), or a table ({', '.join(TABLE_FILES)})"
            )
        if options == ListOptions(follow_links=options.follow_links) and is_course(source):
            return _of_nabirds(source, options.follow_links)
        return _of_table(source, _columns(source, options))
    if not source.is_dir():
        if source.exists():
            raise ManifestError(f"{source} is neither a file nor a folder")
        raise ManifestError(f"there is no file or folder {source}")
    if any((source / name).is_file() for name in ("state.json", "dataset_dict.json")):
        check("a dataset of Hugging Face", "image", "label")
        table = formats.huggingface_table(source, image, label)
        return _of_table(*table, reader="read_huggingface")
    check("a folder")
    prepared = source / f"prepared{SAVED}"
    if prepared.is_file():
        return _of_saved(prepared, None)
    if (source / "prepared.json").is_file():
        raise ManifestError(
            f"{source} has prepared.json but no {prepared.name}: it was not prepared to the end; "
            "call `gpufeed prepare` again as before, and it goes on"
        )
    parquet = source / "metadata.parquet"
    # Any of them, so that an incomplete distribution is reported as one.
    if any((source / name).is_file() for name in _NABIRDS_FILES) or (
        parquet.is_file() and is_course(parquet)
    ):
        return _of_nabirds(source, options.follow_links)
    if images := _flat_images(source):
        return _of_table({"path": images}, {"label": None, "root": source})
    return _of_folder(source, options.follow_links)


def _of_table(table: Any, columns: dict[str, Any], reader: str = "read_table") -> Found:
    from gpufeed.records.table import list_table, read_table

    def read(labels: object, **shared: Any) -> Manifest:  # noqa: ARG001
        return read_table(table, **columns, **shared)

    def listed() -> Images:
        found = list_table(table, **columns)
        return found.unopened(), found.source, found.classes

    return Found(reader, read, listed)


def _of_saved(file: Path, root: Path | str | None) -> Found:
    from gpufeed.records.saved import read_manifest

    manifest = read_manifest(file, root=root)
    listed = manifest.frame, manifest.source, manifest.classes
    return Found("read_manifest", lambda **_: manifest, lambda: listed)


def _of_nabirds(source: Path, follow_links: bool) -> Found:
    from gpufeed.records.nabirds import list_nabirds

    def read(labels: Any, **shared: Any) -> Manifest:
        listing = list_nabirds(source, labels or "species", follow_links=follow_links)
        return listing.manifest(**shared)

    def listed() -> Images:
        listing = list_nabirds(source, "species", follow_links=follow_links)
        return listing.unopened(), listing.files, listing.classes

    return Found("read_nabirds", read, listed)


def _of_shards(shards: Path | str, label: str) -> Found:
    from gpufeed.records import read_webdataset
    from gpufeed.records.webdataset import list_webdataset

    def read(labels: object, follow_links: object, **shared: Any) -> Manifest:  # noqa: ARG001
        return read_webdataset(shards, label=label, **shared)

    return Found("read_webdataset", read, lambda: (*list_webdataset(shards), ()))


def _of_array_records(paths: Path | str, image: str | None, label: str | None) -> Found:
    from gpufeed.records import read_array_record
    from gpufeed.tools.formats import array_record_table

    table, columns, features = array_record_table(str(paths), image)
    plain = _of_table(table, columns)
    if not features:
        return plain
    label = label or ("label" if "label" in features else None)

    def read(labels: object, follow_links: object, **shared: Any) -> Manifest:  # noqa: ARG001
        return read_array_record(paths, image=image or "image", label=label, **shared)

    return Found("read_array_record", read, plain.listed)


def _of_folder(folder: Path | str, follow_links: bool) -> Found:
    import polars as pl

    from gpufeed.records import read_folder
    from gpufeed.records.folder import list_folder
    from gpufeed.source.locate import source_of

    def read(labels: object, **shared: Any) -> Manifest:  # noqa: ARG001
        return read_folder(folder, **shared)

    def listed() -> Images:
        found = list_folder(
            folder, follow_links=follow_links, on_bad_image="drop", allow_splits=True
        )
        if not found.links:
            return found.frame, found.source, found.classes
        links = pl.DataFrame({"path": found.links}, schema={"path": pl.String})
        frame = pl.concat([found.frame, links], how="diagonal")
        return frame, source_of(folder, frame["path"]), found.classes

    return Found("read_folder", read, listed)


def _is_zip(source: Path | str) -> bool:
    """Return whether the data are in a zip archive."""
    if isinstance(source, str):
        return any(part.lower().endswith(".zip") for part in public_url(source).split("/"))
    return any(each.suffix == ".zip" and each.is_file() for each in (source, *source.parents))


def _columns(file: Path | str, options: ListOptions) -> dict[str, Any]:
    """Return the arguments of `read_table` for a table, given its first file.

    Raises:
        ManifestError: the table cannot be read, or lacks a column that `options` name.
    """
    from gpufeed.records.any_table import load_table
    from gpufeed.records.embedded.arrow_files import arrow_columns
    from gpufeed.records.table_files import PARQUET_FILES, ending, file_name, parquet_columns

    if ending(file) in PARQUET_FILES:
        names = parquet_columns(file)
    elif options.image is not None:
        names = arrow_columns(file)
    else:
        names = load_table(file, ()).frame.columns
    label = options.label or ("label" if "label" in names else None)
    columns = {"label": label, "image": options.image}
    if options.image is None or options.path is not None:
        columns["path"] = options.path or "path"
    for option, column in columns.items():
        if column is not None and column not in names:
            raise ManifestError(
                f"{file_name(file)}: there is no column {short(column)}; the columns are "
                f"{sanitize(str(names))}; pass {option}= with one of them"
            )
    return {**columns, "root": _root(options)}


def _root(options: ListOptions) -> Path | str | None:
    root = None if options.root is None else location(options.root)
    return root.expanduser() if isinstance(root, Path) else root


def _flat_images(folder: Path) -> list[str]:
    """Return the images of a folder that has no folders; else nothing."""
    from gpufeed.records.folder import EXTENSIONS

    with os.scandir(folder) as entries:
        visible = [entry for entry in entries if not entry.name.startswith(".")]
    if any(entry.is_dir() for entry in visible):
        return []
    names = [entry.name for entry in visible]
    return sorted(name for name in names if name.lower().endswith(EXTENSIONS))
