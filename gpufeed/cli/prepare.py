"""`gpufeed prepare` and `verify`: a data set written once as transforms leave it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from gpufeed.cli.app import FAILED, app
from gpufeed.cli.console import counted, keep_interruptible, say, stdout
from gpufeed.cli.options import Images, reads_data

__all__: list[str] = []

_SHOWN = 20
"""Images named one by one."""


@app.command()
@reads_data
def prepare(
    images: Images,
    destination: Annotated[
        Path,
        typer.Argument(
            help="Folder to write to; new, empty, or unfinished.", metavar="DESTINATION"
        ),
    ],
    to: Annotated[
        Literal["files", "tar", "parquet", "arrayrecord", "raw"],
        typer.Option(
            help="Image files in class folders, tar shards, Parquet or ArrayRecord files, or raw "
            "pixels that are not decoded again."
        ),
    ] = "tar",
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
        Literal["course"] | None,
        typer.Option(help="course: the box with a margin of 0.2 in a square of 269, quality 75."),
    ] = None,
    image_format: Annotated[
        Literal["jpeg", "png", "webp"] | None, typer.Option(help="By default jpeg.")
    ] = None,
    quality: Annotated[
        int | None, typer.Option(help="Quality of JPEG or WebP, 1 to 100; by default 95.")
    ] = None,
    subsampling: Annotated[
        Literal["4:4:4", "4:2:2", "4:2:0"] | None, typer.Option(help="Of JPEG; by default 4:2:0.")
    ] = None,
    shard_size: Annotated[int, typer.Option(min=1, help="Images in a shard.")] = 1000,
    on_error: Annotated[
        Literal["drop", "raise"], typer.Option(help="What to do about bad images.")
    ] = "drop",
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
    if preset is not None and to != "raw" and image_format in (None, "jpeg"):
        quality = COURSE_QUALITY if quality is None else quality
    drop = on_error == "drop"
    manifest, _ = images.open(drop=drop)
    started = time.monotonic()
    prepared = prepare_images(
        manifest,
        destination,
        transforms,
        to=to,
        image_format=image_format,
        quality=quality,
        subsampling=subsampling,
        shard_size=shard_size,
        workers=workers,
        ray=ray,
        on_error=on_error,
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
