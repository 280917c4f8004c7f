"""`gpufeed doctor`: what bounds a run on a data set, and what to change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpufeed.cli.app import app
from gpufeed.cli.console import keep_interruptible, say, stdout
from gpufeed.cli.options import (
    BatchSize,
    Device,
    Framework,
    Images,
    PresetOption,
    Size,
    Threads,
    reads_data,
)

__all__: list[str] = []


@app.command()
@reads_data
def doctor(
    images: Images,
    preset: PresetOption = "train",
    size: Size = 224,
    batch_size: BatchSize = 64,
    threads: Threads = None,
    framework: Framework = "numpy",
    device: Device = "auto",
    step_ms: Annotated[
        float | None, typer.Option(min=0.001, help="Time of a training step, if you know it.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="JSON file to write all figures to.")] = None,
    html: Annotated[Path | None, typer.Option(help="HTML page to write, with plots.")] = None,
) -> None:
    """Say what bounds a run, what its ceiling is, and what to change, with the gain expected."""
    from gpufeed.sheets.sheet import check_file, write_checked
    from gpufeed.tools.doctor.page import make_page
    from gpufeed.tools.doctor.run import doctor as diagnose
    from gpufeed.tools.resolve import make_transforms

    keep_interruptible()
    figures, page = check_file(json), check_file(html, ".html", ".htm")
    manifest, name = images.open(preset)
    found = diagnose(
        manifest,
        step=step_ms and step_ms / 1000,
        transforms=make_transforms(preset, size),
        framework=framework,
        device=device,
        batch_size=batch_size,
        num_threads=threads,
    )
    console = stdout()
    for line in str(found).split("\n"):
        say(console, line)
    if figures is not None:
        write_checked(figures, found.to_json().encode())
        say(console, f"Figures: {json}")
    if page is not None:
        title = f"{images.data} (split: {name}), {preset}"
        write_checked(page, make_page(found, title).encode())
        say(console, f"Page: {html}")
