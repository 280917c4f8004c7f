"""`gpufeed prepare` and `verify`: a data set written once as transforms leave it."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from gpufeed.cli.app import FAILED, app
from gpufeed.cli.console import counted, keep_interruptible, say, stdout
from gpufeed.cli.options import (
    DataArgument,
    FollowLinks,
    ImageColumn,
    LabelColumn,
    LabelsOption,
    PathColumn,
    Preset,
    Root,
    Without,
    open_split,
)
from gpufeed.tools.find_data import ListOptions

if TYPE_CHECKING:
    from gpufeed.tools.prepare.settings import ImageFormat, OnBadFile, Subsampling

__all__: list[str] = []

_SHOWN = 20
"""Images named one by one."""


class To(StrEnum):
    """How images are packed."""

    files = "files"
    tar = "tar"
    parquet = "parquet"
    arrayrecord = "arrayrecord"
    raw = "raw"


class Recipe(StrEnum):
    """A well-known way to prepare images."""

    course = "course"


@app.command()
def prepare(
    data: DataArgument,
    destination: Annotated[
        Path,
        typer.Argument(
            help="Folder to write to; new, empty, or unfinished.", metavar="DESTINATION"
        ),
    ],
    to: Annotated[
        To,
        typer.Option(
            help="Image files in class folders, tar shards, Parquet or ArrayRecord files, or raw "
            "pixels that are not decoded again."
        ),
    ] = To.tar,
    size: Annotated[int | None, typer.Option(min=1, help="Shorter side, pixels.")] = None,
    square: Annotated[
        int | None, typer.Option(min=1, help="Side of a black square around the image, pixels.")
    ] = None,
    box_margin: Annotated[
        float | None,
        typer.Option(
            min=0, help="Crop to the bounding box, with this share of its sides on each side."
        ),
    ] = None,
    preset: Annotated[
        Recipe | None,
        typer.Option(help="course: the box with a margin of 0.2 in a square of 269, quality 75."),
    ] = None,
    image_format: Annotated[
        str | None, typer.Option(help="jpeg (the default), png or webp.")
    ] = None,
    quality: Annotated[
        int | None, typer.Option(help="Quality of JPEG or WebP, 1 to 100; by default 95.")
    ] = None,
    subsampling: Annotated[
        str | None, typer.Option(help="Of JPEG: 4:4:4, 4:2:2 or 4:2:0, the default.")
    ] = None,
    shard_size: Annotated[int, typer.Option(min=1, help="Images in a shard.")] = 1000,
    on_error: Annotated[str, typer.Option(help="What to do about bad images: drop or raise.")] = (
        "drop"
    ),
    max_pixels: Annotated[
        int | None,
        typer.Option(min=1, help="Most pixels of an image; by default the `Loader`'s limit."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; by default one for each core.")
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(help="Address of a Ray cluster to work on; local starts one here."),
    ] = None,
    split: Annotated[str, typer.Option(help="A split, such as train; by default all.")] = "all",
    labels: LabelsOption = None,
    path: PathColumn = None,
    image: ImageColumn = None,
    label: LabelColumn = None,
    root: Root = None,
    follow_links: FollowLinks = False,
    without: Without = None,
) -> None:
    """Crop, resize and encode all images once, and pack them; ended early, it goes on.

    `gpufeed.read_manifest("DESTINATION/prepared.manifest")` reads them.
    """
    from gpufeed.decode.diagnose import MAX_PIXELS
    from gpufeed.records.manifest import DROPPED
    from gpufeed.tools.prepare.recipe import COURSE_QUALITY, recipe
    from gpufeed.tools.prepare.run import MANIFEST
    from gpufeed.tools.prepare.run import prepare as prepare_images

    keep_interruptible()
    transforms = recipe(size, square, box_margin, course=preset is not None)
    if preset is not None and to is not To.raw and image_format in (None, "jpeg"):
        quality = COURSE_QUALITY if quality is None else quality
    listed = ListOptions(path, label, root, follow_links, image)
    drop = on_error == "drop"
    manifest, _ = open_split(data, split, Preset.train, labels, without, listed, drop=drop)
    started = time.monotonic()
    prepared = prepare_images(
        manifest,
        destination,
        transforms,
        to=to.value,
        image_format=cast("ImageFormat | None", image_format),
        quality=quality,
        subsampling=cast("Subsampling | None", subsampling),
        shard_size=shard_size,
        workers=workers,
        ray=ray,
        on_error=cast("OnBadFile", on_error),
        max_pixels=max_pixels or MAX_PIXELS,
    )
    seconds = time.monotonic() - started
    console = stdout()
    say(
        console,
        f"{counted(len(prepared), 'image')} in {seconds:,.0f} s: {destination / MANIFEST}",
    )
    unlisted = manifest.repairs.get(DROPPED[0], 0)
    if unlisted:
        say(
            console,
            f"{counted(unlisted, 'image')} could not be listed; `gpufeed check` says why.",
        )
    dropped = len(manifest) - len(prepared)
    if dropped:
        say(console, f"{counted(dropped, 'image')} dropped: {destination / 'dropped.csv'}")


@app.command()
def verify(
    folder: Annotated[
        Path, typer.Argument(help="Folder that `gpufeed prepare` wrote.", metavar="FOLDER")
    ],
    threads: Annotated[
        int | None, typer.Option(min=1, help="CPU threads; by default one for each core.")
    ] = None,
) -> None:
    """Compare all prepared images with their SHA-256; the exit code is 1 if some differ."""
    from gpufeed.tools.prepare.verify import verify as verify_images

    keep_interruptible()
    bad = verify_images(folder, threads=threads)
    console = stdout()
    for _, path, problem in bad.head(_SHOWN).iter_rows():
        say(console, f"{path}: {problem}")
    if bad.height:
        say(
            console,
            f"{counted(bad.height, 'image')} not as written; delete {folder} and prepare again.",
        )
        raise typer.Exit(FAILED)
    say(console, "All images are as they were written.")
