"""Resolving the names of the command line: presets, data of any kind, splits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from gpufeed import presets
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError, ManifestError

if TYPE_CHECKING:
    import polars as pl

    from gpufeed.records import Manifest
    from gpufeed.records.bad_images import OnBadImage
    from gpufeed.source.files import FileSource
    from gpufeed.transforms import DType, Layout, Transform, Views

__all__ = [
    "Labels",
    "Listed",
    "Preset",
    "Split",
    "is_training",
    "list_images",
    "make_transforms",
    "open_manifest",
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
Split = Literal["train", "test", "all"]

_COURSE_SIZE = 224
_NABIRDS_FILES = ("images.txt", "classes.txt", "train_test_split.txt", "metadata.parquet")


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
        dtype: "float32", "float16" or "uint8".
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
    path: str | Path, labels: Labels | None = None, without: Path | None = None
) -> Manifest:
    """Read data of any kind: NABirds, the course's metadata.parquet, or a folder of class folders.

    No image is probed, since some commands need none and the others feed a batch at once. Images of
    16 bits per channel are reduced to 8, whether a run does so or not.

    Args:
        path: a folder, or a metadata.parquet.
        labels: "class" or "species"; None for species if the data have them.
        without: a list of bad images to leave out, as `Manifest.without` takes it. Symbolic links
            that leave the folder are then left out too, and images whose size is needed but whose
            header cannot be read.

    Raises:
        ManifestError: there are no data at the path, or they cannot be read.
        ConfigError: labels is "species" for a folder of class folders.
    """
    from gpufeed.records import read_folder
    from gpufeed.records.manifest import DROPPED
    from gpufeed.records.nabirds import list_nabirds

    source, is_nabirds = _found(path)
    if labels == "species" and not is_nabirds:
        raise ConfigError(
            f"{source} is a folder of class folders, which have no species; use class labels"
        )
    on_bad_image: OnBadImage = "raise" if without is None else "drop"
    if is_nabirds:
        listing = list_nabirds(source, labels or "species")
        manifest = listing.manifest(on_bad_image=on_bad_image, reduce_depth=True)
    else:
        manifest = read_folder(source, on_bad_image=on_bad_image, reduce_depth=True)
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
        files: the images, one for each row.
        reader: the name of the function that makes a manifest of them.
    """

    frame: pl.DataFrame
    files: FileSource
    reader: str

    @property
    def sized(self) -> bool:
        """Whether the list has the images' sizes, so that no header needs to be read."""
        return "width" in self.frame.columns


def list_images(path: str | Path) -> Listed:
    """List the images of data of any kind, opening at most a few of them.

    Raises:
        ManifestError: there are no data at the path, or the list cannot be read.
    """
    import polars as pl

    from gpufeed.records.folder import list_folder
    from gpufeed.records.nabirds import list_nabirds
    from gpufeed.source.files import FileSource

    source, is_nabirds = _found(path)
    if is_nabirds:
        listing = list_nabirds(source, "species")
        return Listed(listing.unopened(), listing.files, "read_nabirds")
    frame, _, away = list_folder(source, on_bad_image="drop", allow_splits=True)
    links = pl.DataFrame({"path": away}, schema={"path": pl.String})
    frame = pl.concat([frame, links], how="diagonal")
    return Listed(frame, FileSource(source, frame["path"]), "read_folder")


def _found(path: str | Path) -> tuple[Path, bool]:
    """Return the path of the data, and whether they are NABirds."""
    source = Path(path).expanduser()
    if source.is_file():
        if source.suffix.lower() != ".parquet":
            raise ManifestError(
                f"{source} is not a data set; pass a NABirds folder, a metadata.parquet, or a "
                "folder of class folders"
            )
        return source, True
    if not source.is_dir() and source.exists():
        raise ManifestError(f"{source} is neither a file nor a folder")
    if not source.is_dir():
        raise ManifestError(f"there is no file or folder {source}")
    # Any of them, so that an incomplete distribution is reported as one.
    return source, any((source / name).is_file() for name in _NABIRDS_FILES)


def take_split(manifest: Manifest, split: Split | None, preset: Preset) -> tuple[Manifest, str]:
    """Return one split of a manifest, and its name.

    Args:
        manifest: the whole set.
        split: "train", "test" or "all"; None for the preset's split, or for all if the set has no
            splits.
        preset: the preset that decides if `split` is None.

    Raises:
        ConfigError: the set has no splits, and `split` is "train" or "test".
        ManifestError: the split is empty.
    """
    if split == "all":
        return manifest, "all"
    if "is_training_img" not in manifest.frame.columns:
        if split is None:
            return manifest, "all"
        raise ConfigError(
            f'split is {short(split)}, but the data have no train and test splits; use "all"'
        )
    name = split or ("train" if is_training(preset) else "test")
    return manifest.split(name), name
