"""`gpufeed demo`, `show`, `transforms` and `synth`: batches to look at, and synthetic data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpufeed.cli.app import app
from gpufeed.cli.console import cell, counted, keep_interruptible, say, stdout
from gpufeed.cli.options import (
    BatchSize,
    Device,
    Framework,
    Images,
    ImagesOrBirds,
    Out,
    PresetOption,
    Seed,
    Size,
    reads_data,
)

if TYPE_CHECKING:
    from rich.console import Console

    from gpufeed.tools.demo import Fed

__all__: list[str] = []

_ON_DEMO_SHEET = 24
_ON_TRANSFORMS_SET = 32


@app.command()
def demo(
    images: Annotated[int, typer.Option(min=2, help="Images to draw.")] = 1000,
    batch_size: BatchSize = 64,
    preset: PresetOption = "train",
    framework: Framework = "numpy",
    device: Device = "auto",
    seed: Seed = 0,
    out: Out = Path("gpufeed-demo.png"),
) -> None:
    """Draw a synthetic set once, feed an epoch of it, and write a contact sheet."""
    from gpufeed.records import read_nabirds
    from gpufeed.sheets.sheet import check_target, save_sheet
    from gpufeed.tools.demo import check_usable, demo_set, feed_epoch
    from gpufeed.tools.show import show_batch

    keep_interruptible()
    target = check_target(out, "gpufeed-demo.png")
    check_usable(framework, device)
    console = stdout()

    folder = demo_set(images, seed)
    say(console, f"{images:,} synthetic images in the format of NABirds, drawn once: {folder}")
    birds = read_nabirds(folder, labels="species")
    train = birds.split("train")
    fed = feed_epoch(
        train,
        preset=preset,
        batch_size=batch_size,
        seed=seed,
        device=device,
        framework=framework,
    )
    # A record looks the same at any batch size.
    shown = show_batch(
        train,
        preset=preset,
        batch_size=min(_ON_DEMO_SHEET, batch_size, len(train)),
        seed=seed,
        device=device,
        split="train",
    )
    save_sheet(shown.sheet, target)
    _print_fed(console, fed, framework)
    say(
        console,
        "Waiting is near 100 % because the demo does nothing with its batches; in training it "
        "should be near 0 %.",
    )
    say(console, f"The first {counted(shown.images, 'image')}: {target}")


def _print_fed(console: Console, fed: Fed, framework: str) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    whole = fed.whole
    batches = counted(whole.batches, "batch", "es")
    marks = fed.state["fingerprints"]
    for name, value in (
        ("device", fed.device),
        ("train split", f"{counted(whole.images, 'image')} in {batches}"),
        ("first batch", f"after {fed.first.seconds:.1f} s, including startup"),
        ("then", f"{fed.images_per_second:,.0f} images/s"),
        ("waiting", f"{whole.waiting_share:.1%} of the time"),
        ("a batch", _arrays(fed, framework)),
        (
            "a state",
            f"records {fed.state['records']} of {json.loads(marks['sampler'])['kind']}, manifest "
            f"{marks['manifest'][:8]}",
        ),
    ):
        table.add_row(name, Text("\n").join(map(cell, value.split("\n"))))
    console.print(table)


def _arrays(fed: Fed, framework: str) -> str:
    # The framework is named once, in front, so torch.float32 becomes float32.
    lines = [
        f"{name} {'x'.join(map(str, shape))} {dtype.removeprefix('torch.')}"
        for name, shape, dtype in fed.arrays
    ]
    return "\n".join([f"{framework} arrays", *lines])


@app.command()
@reads_data
def show(
    images: Images,
    step: Annotated[
        int, typer.Option(min=0, help="Number of the batch, counted over all epochs.")
    ] = 0,
    preset: PresetOption = "train",
    batch_size: BatchSize = 64,
    seed: Seed = 0,
    size: Size = 224,
    targets: Annotated[
        bool, typer.Option("--targets", help="Draw boxes and points on the images.")
    ] = False,
    device: Device = "auto",
    out: Out = Path("gpufeed-show.png"),
) -> None:
    """Write the contact sheet of any batch: what training receives at that step."""
    from gpufeed.sheets.sheet import check_target, save_sheet
    from gpufeed.tools.show import show_batch

    keep_interruptible()
    target = check_target(out, "gpufeed-show.png")
    manifest, name = images.open(preset)
    shown = show_batch(
        manifest,
        step,
        preset=preset,
        size=size,
        batch_size=batch_size,
        seed=seed,
        device=device,
        split=name,
        targets=targets,
    )
    save_sheet(shown.sheet, target)
    place = step % shown.steps_per_epoch + 1
    console = stdout()
    say(
        console,
        f"Step {step}, batch {place:,} of {shown.steps_per_epoch:,} in epoch {shown.epoch}: "
        f"{shown.images} of {len(manifest):,} images (split: {name})",
    )
    if shown.incomplete:
        say(
            console,
            f"The split has fewer images than a batch of {batch_size}: to feed it, pass the Loader "
            'a smaller batch_size, or last_batch="pad" or "partial".',
        )
    say(console, f"Contact sheet: {target}")


@app.command()
@reads_data
def transforms(
    images: ImagesOrBirds,
    record: Annotated[
        int | None,
        typer.Option(min=0, help="Number of the image; by default the one closest to a square."),
    ] = None,
    size: Annotated[int, typer.Option(min=16, help="Side of the images in pixels.")] = 128,
    seed: Seed = 0,
    device: Device = "auto",
    out: Out = Path("gpufeed-transforms.png"),
) -> None:
    """Write a contact sheet of all transforms applied to one image, eight draws of each.

    Without DATA it is a synthetic bird.
    """
    from gpufeed.sheets.sheet import check_target, save_sheet
    from gpufeed.tools.demo import demo_set
    from gpufeed.tools.gallery import draw_gallery

    keep_interruptible()
    target = check_target(out, "gpufeed-transforms.png")
    if not images.data:
        images = replace(images, data=str(demo_set(_ON_TRANSFORMS_SET, 0)))
    sheet = draw_gallery(images.open()[0], record, size=size, seed=seed, device=device)
    save_sheet(sheet, target)
    say(stdout(), f"Contact sheet: {target}")


@app.command()
def synth(
    folder: Annotated[
        Path, typer.Argument(help="Folder to write to; new or empty.", metavar="DIR")
    ],
    images: Annotated[int, typer.Option(min=2, help="Number of images.")] = 256,
    seed: Seed = 0,
) -> None:
    """Write a synthetic data set in the format of NABirds."""
    from gpufeed.records import read_nabirds
    from gpufeed.tools.synth import write_nabirds

    keep_interruptible()
    written = write_nabirds(folder, images=images, seed=seed)
    birds = read_nabirds(written)
    train = int(birds.frame["is_training_img"].sum())
    say(
        stdout(),
        f"{len(birds):,} images ({train:,} train, {len(birds) - train:,} test) of "
        f"{len(birds.classes)} classes: {written}",
    )
