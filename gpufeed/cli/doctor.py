"""`gpufeed doctor`: what bounds a run on a data set, and what to change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpufeed.cli.app import app
from gpufeed.cli.console import keep_interruptible, say, stdout
from gpufeed.cli.options import (
    BatchSize,
    DataArgument,
    Device,
    FollowLinks,
    Framework,
    ImageColumn,
    LabelColumn,
    LabelsOption,
    PathColumn,
    Preset,
    PresetOption,
    Root,
    Split,
    Without,
    open_split,
)
from gpufeed.tools.find_data import ListOptions

__all__: list[str] = []


@app.command()
def doctor(
    data: DataArgument,
    preset: PresetOption = Preset.train,
    split: Split = None,
    labels: LabelsOption = None,
    path: PathColumn = None,
    image: ImageColumn = None,
    label: LabelColumn = None,
    root: Root = None,
    follow_links: FollowLinks = False,
    without: Without = None,
    size: Annotated[int, typer.Option(min=1, help="Side of the images in pixels.")] = 224,
    batch_size: BatchSize = 64,
    threads: Annotated[
        int | None, typer.Option(min=1, help="CPU threads; by default the `Loader`'s default.")
    ] = None,
    framework: Annotated[Framework, typer.Option(help="Kind of arrays.")] = Framework.numpy,
    device: Device = "auto",
    step_ms: Annotated[
        float | None, typer.Option(min=0.001, help="Time of a training step, if you know it.")
    ] = None,
    json: Annotated[Path | None, typer.Option(help="JSON file to write all figures to.")] = None,
    html: Annotated[Path | None, typer.Option(help="HTML page to write, with plots.")] = None,
) -> None:
    """Say what bounds a run, what its ceiling is, and what to change, with the gain expected."""
    from gpufeed.sheets.sheet import write_checked
    from gpufeed.tools.bench import check_json
    from gpufeed.tools.doctor.page import make_page
    from gpufeed.tools.doctor.run import doctor as diagnose
    from gpufeed.tools.resolve import make_transforms

    keep_interruptible()
    figures, page = (each and check_json(each) for each in (json, html))
    listed = ListOptions(path, label, root, follow_links, image)
    manifest, name = open_split(data, split, preset, labels, without, listed)
    found = diagnose(
        manifest,
        step=step_ms and step_ms / 1000,
        transforms=make_transforms(preset.value, size),
        framework=framework.value,
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
        title = f"{data} (split: {name}), {preset.value}"
        write_checked(page, make_page(found, title).encode())
        say(console, f"Page: {html}")
