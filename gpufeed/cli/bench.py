"""`gpufeed bench`: how fast one's own data are fed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpufeed.cli.app import app
from gpufeed.cli.console import cell, counted, keep_interruptible, say, stdout
from gpufeed.cli.options import (
    BatchSize,
    DataArgument,
    Device,
    Framework,
    LabelsOption,
    Preset,
    PresetOption,
    Seed,
    Split,
    Without,
)

if TYPE_CHECKING:
    from gpufeed.tools.bench import Bench
    from gpufeed.tools.median import Median

__all__: list[str] = []


@app.command()
def bench(
    data: DataArgument,
    preset: PresetOption = Preset.train,
    split: Annotated[
        Split | None,
        typer.Option(help="By default the preset's own, or all where the data have no split."),
    ] = None,
    labels: LabelsOption = None,
    without: Without = None,
    size: Annotated[int, typer.Option(min=1, help="Side of the images, pixels.")] = 224,
    batch_size: BatchSize = 64,
    threads: Annotated[
        int | None, typer.Option(min=1, help="CPU threads; by default as `Loader` has it.")
    ] = None,
    prefetch: Annotated[int, typer.Option(min=1, help="Batches worked on ahead.")] = 2,
    framework: Annotated[Framework, typer.Option(help="Whose arrays to make.")] = Framework.numpy,
    device: Device = "auto",
    seed: Seed = 0,
    step_ms: Annotated[
        float | None,
        typer.Option(min=0, help="Also wait for batches as a step of so many milliseconds would."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each figure is taken.")] = 5,
    seconds: Annotated[
        float, typer.Option(min=0.001, help="How long to feed in a round, about.")
    ] = 2.0,
    json: Annotated[Path | None, typer.Option(help="Write the figures there as well.")] = None,
) -> None:
    """Measure how fast your data are fed, beside plain decode of the same images."""
    from gpufeed.tools.bench import bench as measure
    from gpufeed.tools.bench import check_json, save_json
    from gpufeed.tools.named import open_manifest, take_split

    keep_interruptible()
    target = None if json is None else check_json(json)
    whole = open_manifest(data, labels.value if labels else None, without)
    manifest, name = take_split(whole, split.value if split else None, preset.value)
    found = measure(
        manifest,
        preset=preset.value,
        size=size,
        batch_size=batch_size,
        threads=threads,
        prefetch=prefetch,
        framework=framework.value,
        device=device,
        seed=seed,
        rounds=rounds,
        seconds=seconds,
        step_ms=step_ms,
    )
    feeding = f"{preset.value}, {size} x {size}, {batch_size} a batch, as {framework.value} arrays"
    _print_bench(found, f"{counted(len(manifest), 'image')} (split: {name})", feeding)
    if target is not None:
        asked = {
            "data": str(data),
            "split": name,
            "images": len(manifest),
            "preset": preset.value,
            "size": size,
            "batch_size": batch_size,
            "threads": threads,
            "prefetch": prefetch,
            "framework": framework.value,
            "seed": seed,
            "rounds": rounds,
            "seconds": seconds,
        }
        save_json(found, asked, target)
        say(stdout(), f"Figures: {target}")


def _print_bench(found: Bench, data: str, feeding: str) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    lines = [
        ("device", found.device),
        ("data", data),
        ("fed", feeding),
        ("first batch", f"after {found.first_batch_s:.1f} s, with the start of the pipeline"),
        ("then", _interval(found.fed.images_per_second, ",.0f", "images/s")),
        ("CPU time", _interval(found.fed.cpu_ms, ".2f", "ms an image")),
        ("host memory", f"{found.peak_mib:,.0f} MiB at most"),
        ("plain decode", _interval(found.decoded.images_per_second, ",.0f", "images/s")),
        ("", _interval(found.decoded.cpu_ms, ".2f", "CPU ms an image")),
        ("of plain decode", _interval(found.over_decoded, ".2f", "times its rate")),
    ]
    if found.waiting is not None:
        step = f"at steps of {found.waiting.step_ms:g} ms"
        lines += [
            (step, _interval(found.waiting.images_per_second, ",.0f", "images/s")),
            ("", _interval(found.waiting.share, ".1%", "of the time waiting")),
        ]
    for head, value in lines:
        table.add_row(head, cell(value))
    console = stdout()
    console.print(table)
    if found.over_decoded.median > 1:
        say(
            console,
            "Faster than plain decode, which makes all pixels of an image, where this preset may "
            "need a part of them only.",
        )
    rate = found.fed.images_per_second
    rounds = f"{counted(rate.rounds, 'round')} of {counted(found.batches, 'batch', 'es')}"
    if rate.rounds == 1:
        say(console, f"From {rounds}.")
        return
    say(
        console,
        f"Medians of {rounds}; in brackets their interval, {100 * rate.coverage:.0f} % sure.",
    )


def _interval(found: Median, form: str, unit: str) -> str:
    median, low, high = (
        format(each, form).replace("%", " %") for each in (found.median, found.low, found.high)
    )
    return f"{median} {unit}" if found.rounds == 1 else f"{median} {unit} ({low} to {high})"
