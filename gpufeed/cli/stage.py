"""`gpufeed stage`: images copied to a disk of this machine before they are fed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpufeed.cli.app import FAILED, app
from gpufeed.cli.console import counted, keep_interruptible, say, stdout
from gpufeed.cli.options import Images, reads_data

__all__: list[str] = []


@app.command()
@reads_data
def stage(
    images: Images,
    to: Annotated[Path, typer.Option(help="Folder of the DiskCache.", metavar="FOLDER")],
    size: Annotated[str, typer.Option(help='Most that it may take, such as "200 GB".')],
) -> None:
    """Copy encoded images to a disk of this machine; ended early, it goes on.

    A `Loader` of the same images that has `DiskCache(FOLDER, SIZE)` in `cache` reads them there.
    """
    from gpufeed.tiers.caches import DiskCache, bytes_of
    from gpufeed.tools.stage import stage as stage_images

    keep_interruptible()
    bytes_of(size)
    manifest, _ = images.open()
    done = stage_images(manifest, DiskCache(to, size))
    console = stdout()
    say(
        console,
        f"{done.kept:,} of {counted(len(manifest), 'image')} in {to}, {done.copied:,} of them new "
        f"({done.copied_bytes / 1e6:,.1f} MB)",
    )
    if done.full:
        say(console, f"There is no room for the others; {size} is full.")
    if done.bad:
        say(console, f"{counted(done.bad, 'image')} cannot be read; `gpufeed check` says why.")
        raise typer.Exit(FAILED)
