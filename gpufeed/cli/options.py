"""The options that several commands share, and the images that they name."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from gpufeed.tools.find_data import ListOptions

if TYPE_CHECKING:
    from gpufeed.records import Manifest

__all__ = [
    "BatchSize",
    "Device",
    "Framework",
    "Images",
    "ImagesOrBirds",
    "Listing",
    "Out",
    "PresetOption",
    "Readable",
    "Seed",
    "Size",
    "Threads",
    "reads_data",
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
"""The transforms: the name of a function in `gpufeed.presets`."""

BatchSize = Annotated[int, typer.Option(min=1, help="Images in a batch.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")]
Device = Annotated[
    str, typer.Option(help="auto, cpu, cuda or cuda:1; auto is the CPU for NumPy arrays.")
]
PresetOption = Annotated[Preset, typer.Option(help="Transforms of the images.")]
Size = Annotated[int, typer.Option(min=1, help="Side of the images in pixels.")]
Threads = Annotated[
    int | None, typer.Option(min=1, help="CPU threads; by default the `Loader`'s default.")
]
Framework = Annotated[Literal["numpy", "torch", "jax"], typer.Option(help="Kind of arrays.")]
Out = Annotated[Path, typer.Option(help="PNG file or folder to write the picture to.")]
DATA = typer.Argument(
    metavar="DATA",
    help="A table of images (CSV, Parquet, ...), a pattern of several, a folder with a folder for "
    "each class, also in a zip archive, a folder of images, tar shards, files of ArrayRecord, "
    "HDF5, LMDB or FFCV, a dataset of Hugging Face's save_to_disk, a NABirds folder, or its "
    "metadata.parquet; a folder that `gpufeed prepare` wrote; or the URL (s3://, gs://, ...) of a "
    "table, class folders, a zip archive or tar shards. Or any manifest, as the file of "
    "Manifest.save.",
)
_how = functools.partial(typer.Option, rich_help_panel="Reading DATA")


@dataclass(frozen=True)
class Listing:
    """DATA, and how the list of its images is read."""

    data: Annotated[str, DATA]
    path: Annotated[str | None, _how(help="A table's column of paths; by default path.")] = None
    image: Annotated[
        str | None,
        _how(help="A table's column of encoded images, if it holds these; or an HDF5 dataset."),
    ] = None
    label: Annotated[
        str | None, _how(help="A table's column of labels; by default label, if there is one.")
    ] = None
    root: Annotated[
        str | None,
        _how(
            help="Folder, or its URL, that a table's paths are relative to, by default its own; "
            "or where the files of a saved manifest are now."
        ),
    ] = None
    follow_links: Annotated[
        bool, _how("--follow-links", help="Follow symbolic links that leave the folder.")
    ] = False

    @property
    def options(self) -> ListOptions:
        """How to read the list."""
        return ListOptions(self.path, self.label, self.root, self.follow_links, self.image)


@dataclass(frozen=True)
class Readable(Listing):
    """A listing without its bad images."""

    without: Annotated[
        Path | None,
        _how(
            help="Leave out the bad images in this list, which `gpufeed check --parquet` writes, "
            "links that leave the folder, and images without a readable header."
        ),
    ] = None


@dataclass(frozen=True)
class Images(Readable):
    """The records of a split, with their labels."""

    split: Annotated[
        str | None,
        _how(
            help="A split, such as train or test, or all. By default the preset's (shuffle-report: "
            "train) if the data have splits; all for prepare, stage and transforms."
        ),
    ] = None
    labels: Annotated[
        Literal["class", "species"] | None,
        _how(help="Kind of labels; species by default, if the data have them."),
    ] = None

    def open(self, preset: Preset | None = None, *, drop: bool = False) -> tuple[Manifest, str]:
        """Return a split, and its name: see `take_split`; without a preset all by default."""
        from gpufeed.tools.resolve import open_manifest, take_split

        whole = open_manifest(self.data, self.labels, self.without, self.options, drop=drop)
        split = self.split if preset else self.split or "all"
        return take_split(whole, split, preset or "train")


@dataclass(frozen=True)
class ImagesOrBirds(Images):
    """Images that may be left out, for synthetic birds."""

    data: Annotated[str, DATA] = ""


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command take the fields of its argument `images` as its own argument and options."""
    own = dict(inspect.signature(command, eval_str=True).parameters)
    group = own["images"].annotation
    hints = get_type_hints(group, include_extras=True)
    shared = {
        each.name: inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(group)
    }
    own["images"] = shared.pop("data")

    def call(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in hints}
        command(images=group(**chosen), **given)

    # DATA stands where `images` did; the options come last.
    parameters = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (own | shared).values()
    ]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    call.__name__, call.__doc__ = command.__name__, command.__doc__
    return call
