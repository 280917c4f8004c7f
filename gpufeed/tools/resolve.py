"""Resolving the names of the command line: presets, data of any kind, splits."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from gpufeed import presets
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError
from gpufeed.tools.find_data import ListOptions, find_data

if TYPE_CHECKING:
    import polars as pl

    from gpufeed.records import Manifest
    from gpufeed.source.base import Source
    from gpufeed.transforms import DType, Layout, Transform, Views

__all__ = [
    "Labels",
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


def open_manifest(
    path: str | Path,
    labels: Labels | None = None,
    without: Path | None = None,
    options: ListOptions | None = None,
    *,
    drop: bool = False,
) -> Manifest:
    """Read data of any kind: see `find_data`.

    Images are probed only if a table gives their sizes, since some commands need none and the
    others feed a batch at once. Images of 16 bits per channel are reduced to 8, whether a run does
    so or not.

    Args:
        path: the data.
        labels: "class" or "species"; None for species if the data have them.
        without: a list of bad images to leave out, as `Manifest.without` takes it. Symbolic links
            that leave the folder are then left out too, and images whose size is needed but whose
            header cannot be read.
        options: how to read the list; None for the defaults.
        drop: whether to leave out images that cannot be listed even without such a list.

    Raises:
        ManifestError: there are no data at the path, or they cannot be read.
        ConfigError: labels is "species" for data without species, or `options` do not fit the data.
    """
    from gpufeed.records.manifest import DROPPED

    options = options or ListOptions()
    found = find_data(path, options)
    if labels == "species" and found.reader != "read_nabirds":
        raise ConfigError(
            f"{path} is not NABirds, and the images have no species; use class labels"
        )
    manifest = found.read(
        labels=labels,
        follow_links=options.follow_links,
        on_bad_image="drop" if drop or without is not None else "raise",
        reduce_depth=True,
    )
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
        classes: the names of the labels; empty if they have none, or are not listed.
        reader: the name of the function that makes a manifest of them.
    """

    frame: pl.DataFrame
    source: Source
    classes: Sequence[str]
    reader: str

    @property
    def sized(self) -> bool:
        """Whether the list has the images' sizes, so that no header needs to be read."""
        return "width" in self.frame.columns


def list_images(path: str | Path, options: ListOptions | None = None) -> Listed:
    """List the images of data of any kind, opening at most a few of them.

    Raises:
        ManifestError: there are no data at the path, or the list cannot be read.
        ConfigError: as `open_manifest`.
    """
    found = find_data(path, options or ListOptions())
    return Listed(*found.listed(), found.reader)


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
