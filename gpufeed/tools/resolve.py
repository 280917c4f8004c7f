"""Resolving the names of the command line: presets, data of any kind, splits."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from gpufeed import presets
from gpufeed._util.sanitize import sanitize, short
from gpufeed._util.urls import location, public_url
from gpufeed.errors import ConfigError, ManifestError

if TYPE_CHECKING:
    import polars as pl

    from gpufeed.records import Manifest
    from gpufeed.source.base import Source
    from gpufeed.transforms import DType, Layout, Transform, Views

__all__ = [
    "Labels",
    "ListOptions",
    "Listed",
    "Preset",
    "is_training",
    "list_images",
    "make_transforms",
    "open_manifest",
    "split_names",
    "take_split",
]

Preset = Literal[
    "train",
    "evaluate",
    "torchvision_train",
    "timm_train",
    "simclr",
    "dino",
    "course_train",
    "course_evaluate",
]
Labels = Literal["class", "species"]

_COURSE_SIZE = 224
_NABIRDS_FILES = ("images.txt", "classes.txt", "train_test_split.txt")


def is_training(preset: Preset) -> bool:
    """Return whether a preset is for training: shuffled, with random transforms."""
    return not preset.endswith("evaluate")


def make_transforms(
    preset: Preset, size: int = 224, *, dtype: DType = "float32", layout: Layout | None = None
) -> list[Transform] | Views:
    """Return the transforms of a preset by its name.

    Args:
        preset: the name of a function in `gpufeed.presets`.
        size: the side of the output in pixels; the course's presets support 224 only.
        dtype: "float32", "float16", "bfloat16" or "uint8".
        layout: "NCHW" or "NHWC"; None for the framework's.

    Raises:
        ConfigError: there is no such preset, or it does not support this size.
    """
    if preset not in get_args(Preset):
        raise ConfigError(
            f"preset is {short(preset)}; it must be one of {', '.join(get_args(Preset))}"
        )
    make: Callable[..., list[Transform] | Views] = getattr(presets, preset)
    if not preset.startswith("course"):
        return make(size, dtype=dtype, layout=layout)
    if size != _COURSE_SIZE:
        raise ConfigError(f"size is {size}; the preset {preset} supports {_COURSE_SIZE} only")
    return make(dtype=dtype, layout=layout)


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


def open_manifest(
    path: str | Path,
    labels: Labels | None = None,
    without: Path | None = None,
    options: ListOptions = ListOptions(),
    *,
    drop: bool = False,
) -> Manifest:
    """Read data of any kind: see `_find`.

    Images are probed only if a table gives their sizes, since some commands need none and the
    others feed a batch at once. Images of 16 bits per channel are reduced to 8, whether a run does
    so or not.

    Args:
        path: the data.
        labels: "class" or "species"; None for species if the data have them.
        without: a list of bad images to leave out, as `Manifest.without` takes it. Symbolic links
            that leave the folder are then left out too, and images whose size is needed but whose
            header cannot be read.
        options: how to read the list.
        drop: whether to leave out images that cannot be listed even without such a list.

    Raises:
        ManifestError: there are no data at the path, or they cannot be read.
        ConfigError: labels is "species" for data without species, or `options` has columns or a
            root for data that are not a table.
    """
    from gpufeed.records import read_folder, read_table, read_webdataset
    from gpufeed.records.manifest import DROPPED
    from gpufeed.records.nabirds import list_nabirds

    found = _find(path, options)
    if labels == "species" and not found.is_nabirds:
        raise ConfigError(
            f"{path} is not NABirds, and the images have no species; use class labels"
        )
    shared: dict[str, Any] = {
        "follow_links": options.follow_links,
        "on_bad_image": "drop" if drop or without is not None else "raise",
        "reduce_depth": True,
    }
    if found.is_nabirds:
        listing = list_nabirds(found.source, labels or "species", follow_links=options.follow_links)
        manifest = listing.manifest(**shared)
    elif found.saved is not None:
        manifest = found.saved
    elif found.table is not None:
        manifest = read_table(found.table, **found.columns, **shared)
    elif found.is_tar:
        shared.pop("follow_links")
        manifest = read_webdataset(found.source, label=options.label or "cls", **shared)
    else:
        manifest = read_folder(found.source, **shared)
    if without is None:
        return manifest
    with warnings.catch_warnings():
        if set(DROPPED) & set(manifest.repairs):
            # Reading may have dropped all listed images already.
            warnings.filterwarnings("ignore", "none of the .* in this manifest")
        return manifest.without(without.expanduser())


@dataclass(frozen=True)
class Listed:
    """The images that data list, before all of them have been opened.

    Attributes:
        frame: the columns of a manifest; without sizes if the list has none. It includes symbolic
            links that leave the folder, for class folders as the last rows.
        source: the images, one for each row.
        reader: the name of the function that makes a manifest of them.
    """

    frame: pl.DataFrame
    source: Source
    reader: str

    @property
    def sized(self) -> bool:
        """Whether the list has the images' sizes, so that no header needs to be read."""
        return "width" in self.frame.columns


def list_images(path: str | Path, options: ListOptions = ListOptions()) -> Listed:
    """List the images of data of any kind, opening at most a few of them.

    Raises:
        ManifestError: there are no data at the path, or the list cannot be read.
        ConfigError: as `open_manifest`.
    """
    import polars as pl

    from gpufeed.records.folder import list_folder
    from gpufeed.records.nabirds import list_nabirds
    from gpufeed.records.table import list_table
    from gpufeed.records.webdataset import list_webdataset
    from gpufeed.source.locate import source_of

    found = _find(path, options)
    follow_links = options.follow_links
    if found.is_nabirds:
        listing = list_nabirds(found.source, "species", follow_links=follow_links)
        return Listed(listing.unopened(), listing.files, "read_nabirds")
    if found.saved is not None:
        return Listed(found.saved.frame, found.saved.source, "read_manifest")
    if found.table is not None:
        table = list_table(found.table, **found.columns)
        return Listed(table.unopened(), table.source, "read_table")
    if found.is_tar:
        return Listed(*list_webdataset(found.source), "read_webdataset")
    folder = list_folder(
        found.source, follow_links=follow_links, on_bad_image="drop", allow_splits=True
    )
    if not folder.links:
        return Listed(folder.frame, folder.source, "read_folder")
    links = pl.DataFrame({"path": folder.links}, schema={"path": pl.String})
    frame = pl.concat([folder.frame, links], how="diagonal")
    return Listed(frame, source_of(found.source, frame["path"]), "read_folder")


@dataclass(frozen=True)
class _Found:
    """Data, and what they are: class folders if nothing else.

    Attributes:
        source: the file or folder, or its URL.
        is_nabirds: whether they are NABirds.
        is_tar: whether they are tar shards.
        table: a table for `read_table`, if they are one.
        columns: the arguments of `read_table` that go with it.
        saved: the manifest, if they are a saved one.
    """

    source: Any
    is_nabirds: bool = False
    is_tar: bool = False
    table: Path | str | list[Path | str] | Mapping[str, list[str]] | None = None
    columns: dict[str, Any] = field(default_factory=dict)
    saved: Manifest | None = None


def _find(path: str | Path, options: ListOptions) -> _Found:
    """Return what the data are.

    They are a saved manifest, a table (CSV, Parquet or another file that `read_table` takes),
    NABirds' folder, the course's metadata.parquet or its folder, a folder that `prepare` wrote, a
    folder of images without folders, tar shards (also with braces or wildcards), or class folders,
    also in a zip archive. A URL is one of a table, a pattern of several, tar shards, or class
    folders, also in a zip archive.
    """
    from gpufeed.records.manifest import SAVED
    from gpufeed.records.nabirds.course import is_course
    from gpufeed.records.saved import read_manifest
    from gpufeed.records.table_files import (
        TABLE_FILES,
        ending,
        file_name,
        find_files,
        is_pattern,
    )

    where = location(path)
    source = where.expanduser() if isinstance(where, Path) else where
    named = ("path", "image", "label", "root")
    given = [name for name in named if getattr(options, name) is not None]
    is_tar = ending(source) == ".tar" and not (isinstance(source, Path) and source.is_dir())
    if is_tar or _is_zip(source):
        unfit = [name for name in given if not (is_tar and name == "label")]
        if unfit:
            raise ConfigError(
                f"{unfit[0]} is given, which goes with a table; {file_name(source)} is not one"
            )
        return _Found(source, is_tar=is_tar)
    if is_pattern(source):
        files = find_files(source) or []
        return _Found(source, table=files, columns=_columns(files[0], options))
    if isinstance(source, str):
        if ending(source) in TABLE_FILES:
            return _Found(source, table=source, columns=_columns(source, options))
        _check_no_table(given, file_name(source))
        return _Found(source)
    if source.is_file():
        if source.suffix == SAVED:
            if given and given != ["root"]:
                raise ConfigError(
                    f"{given[0]} is given, which goes with a table; {source} is a saved manifest"
                )
            return _Found(source, saved=read_manifest(source, root=_root(options)))
        if source.suffix.lower() not in TABLE_FILES:
            raise ManifestError(
                f"{source} is not a data set; pass a NABirds folder, a folder of class folders or "
                f"of images, a saved manifest ({SAVED}), a zip archive, tar shards, or a table "
                f"({', '.join(TABLE_FILES)})"
            )
        if not given and is_course(source):
            return _Found(source, is_nabirds=True)
        return _Found(source, table=source, columns=_columns(source, options))
    if not source.is_dir():
        if source.exists():
            raise ManifestError(f"{source} is neither a file nor a folder")
        raise ManifestError(f"there is no file or folder {source}")
    _check_no_table(given, source)
    prepared = source / f"prepared{SAVED}"
    if prepared.is_file():
        return _Found(source, saved=read_manifest(prepared))
    parquet = source / "metadata.parquet"
    # Any of them, so that an incomplete distribution is reported as one.
    if any((source / name).is_file() for name in _NABIRDS_FILES) or (
        parquet.is_file() and is_course(parquet)
    ):
        return _Found(source, is_nabirds=True)
    if images := _flat_images(source):
        return _Found(source, table={"path": images}, columns={"label": None, "root": source})
    return _Found(source)


def _is_zip(source: Path | str) -> bool:
    """Return whether the data are in a zip archive."""
    if isinstance(source, str):
        return any(part.lower().endswith(".zip") for part in public_url(source).split("/"))
    return any(each.suffix == ".zip" and each.is_file() for each in (source, *source.parents))


def _check_no_table(given: Sequence[str], folder: object) -> None:
    if given:
        raise ConfigError(f"{given[0]} is given, which goes with a table; {folder} is a folder")


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
                f"{sanitize(str(names))}; pass one of them as --{option}"
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


def split_names(manifest: Manifest) -> list[str]:
    """Return the names of a manifest's splits, and "all"."""
    import polars as pl

    columns = manifest.frame.columns
    if "split" in columns and manifest.frame["split"].dtype in (pl.String, pl.Categorical, pl.Enum):
        splits = manifest.frame["split"].cast(pl.String).drop_nulls()
        return [*splits.unique(maintain_order=True), "all"]
    return ["train", "test", "all"] if "is_training_img" in columns else ["all"]


def take_split(manifest: Manifest, split: str | None, preset: Preset) -> tuple[Manifest, str]:
    """Return one split of a manifest, and its name.

    Args:
        manifest: the whole set.
        split: the name of a split, as for `Manifest.split`, or "all"; None for the preset's split,
            or for all if the set has no splits.
        preset: the preset that decides if `split` is None.

    Raises:
        ConfigError: there is no such split.
        ManifestError: the split is empty.
    """
    unsplit = split_names(manifest) == ["all"]
    if split == "all" or (unsplit and split is None):
        return manifest, "all"
    if unsplit:
        raise ConfigError(f'split is {short(split)}, but the data have no splits; use "all"')
    name = split or ("train" if is_training(preset) else "test")
    return manifest.split(name), name
