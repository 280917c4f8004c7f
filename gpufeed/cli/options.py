"""The options that several commands share, and the images that they name."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gpufeed.records import Manifest
    from gpufeed.tools.find_data import ListOptions

__all__ = [
    "BatchSize",
    "Data",
    "DataArgument",
    "Device",
    "FollowLinks",
    "Framework",
    "ImageColumn",
    "LabelColumn",
    "Labels",
    "LabelsOption",
    "LastBatch",
    "OnError",
    "PathColumn",
    "Preset",
    "PresetOption",
    "Root",
    "Sampler",
    "Seed",
    "Split",
    "Without",
    "open_split",
]


class Preset(StrEnum):
    """The transforms: the name of a function in `gpufeed.presets`."""

    train = "train"
    evaluate = "evaluate"
    torchvision_train = "torchvision_train"
    timm_train = "timm_train"
    simclr = "simclr"
    dino = "dino"
    course_train = "course_train"
    course_evaluate = "course_evaluate"


class Framework(StrEnum):
    """The framework whose arrays a batch holds."""

    numpy = "numpy"
    torch = "torch"
    jax = "jax"


class LastBatch(StrEnum):
    """How to treat the end of an epoch that fills no batch."""

    drop = "drop"
    pad = "pad"
    partial = "partial"


class OnError(StrEnum):
    """How to treat bad images."""

    raise_ = "raise"
    substitute = "substitute"
    blank = "blank"


class Labels(StrEnum):
    """The kind of labels."""

    class_ = "class"
    species = "species"


class Sampler(StrEnum):
    """A sampler whose order is examined."""

    index_ = "index"
    repeated = "repeated"
    weighted = "weighted"
    balanced = "balanced"
    node_local = "node-local"
    sequential = "sequential"


BatchSize = Annotated[int, typer.Option(min=1, help="Images in a batch.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")]
Device = Annotated[
    str, typer.Option(help="auto, cpu, cuda or cuda:1; auto is the CPU for NumPy arrays.")
]
_DATA = (
    "A table of images (CSV, Parquet, ...), a pattern of several, a folder with a folder for each "
    "class, also in a zip archive, a folder of images, tar shards, files of ArrayRecord, HDF5, "
    "LMDB or FFCV, a dataset of Hugging Face's save_to_disk, a NABirds folder, or its "
    "metadata.parquet; a folder that `gpufeed prepare` wrote; or the URL (s3://, gs://, ...) of a "
    "table, class folders, a zip archive or tar shards. Or any manifest, as the file of "
    "Manifest.save."
)
Data = Annotated[str, typer.Option(help=_DATA)]
DataArgument = Annotated[str, typer.Argument(help=_DATA, metavar="DATA")]
LabelsOption = Annotated[
    Labels | None, typer.Option(help="Kind of labels; species by default, if the data have them.")
]
Split = Annotated[
    str | None,
    typer.Option(
        help="A split, such as train or test, or all. By default the preset's split, or all if the "
        "data have none."
    ),
]
PathColumn = Annotated[
    str | None, typer.Option("--path", help="A table's column of paths; by default path.")
]
ImageColumn = Annotated[
    str | None,
    typer.Option(
        "--image",
        help="A table's column of encoded images, if it holds these; or an HDF5 file's dataset.",
    ),
]
LabelColumn = Annotated[
    str | None,
    typer.Option("--label", help="A table's column of labels; by default label, if there is one."),
]
Root = Annotated[
    str | None,
    typer.Option(
        help="Folder, or its URL, that a table's paths are relative to, by default its own; or "
        "where the files of a saved manifest are now."
    ),
]
FollowLinks = Annotated[
    bool, typer.Option("--follow-links", help="Follow symbolic links that leave the folder.")
]
PresetOption = Annotated[Preset, typer.Option(help="Transforms of the images.")]

Without = Annotated[
    Path | None,
    typer.Option(
        help="Leave out the bad images in this list, which `gpufeed check --parquet` writes, "
        "links that leave the folder, and images without a readable header."
    ),
]


def open_split(
    data: str,
    split: str | None,
    preset: Preset,
    labels: Labels | None,
    without: Path | None = None,
    listed: ListOptions | None = None,
    *,
    drop: bool = False,
) -> tuple[Manifest, str]:
    """Return one split of data, and its name: see `open_manifest` and `take_split`."""
    from gpufeed.tools.resolve import open_manifest, take_split

    whole = open_manifest(data, labels.value if labels else None, without, listed, drop=drop)
    return take_split(whole, split, preset.value)
