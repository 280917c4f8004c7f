"""`gpufeed bench`: the speed of feeding a data set."""

from __future__ import annotations

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
    PresetOption,
    Seed,
    Size,
    Threads,
    reads_data,
)

if TYPE_CHECKING:
    from gpufeed.tools.bench import Bench
    from gpufeed.tools.median import Median

__all__: list[str] = []


@app.command()
@reads_data
def bench(
    images: Images,
    preset: PresetOption = "train",
    size: Size = 224,
    batch_size: BatchSize = 64,
    threads: Threads = None,
    prefetch: Annotated[int, typer.Option(min=1, help="Batches to prepare ahead.")] = 2,
    framework: Framework = "numpy",
    device: Device = "auto",
    seed: Seed = 0,
    step_ms: Annotated[
        float | None,
        typer.Option(min=0, help="Also measure the waiting of training steps this long."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Number of measurements.")] = 5,
    seconds: Annotated[
        float, typer.Option(min=0.001, help="Approximate duration of one measurement.")
    ] = 2.0,
    json: Annotated[Path | None, typer.Option(help="JSON file to write the figures to.")] = None,
) -> None:
    """Measure how fast your data are fed, compared with plain decode of the same images."""
    from gpufeed.sheets.sheet import check_file
    from gpufeed.tools.bench import bench as measure
    from gpufeed.tools.bench import save_json

    keep_interruptible()
    target = check_file(json)
    manifest, name = images.open(preset)
    result = measure(
        manifest,
        preset=preset,
        size=size,
        batch_size=batch_size,
        threads=threads,
        prefetch=prefetch,
        framework=framework,
        device=device,
        seed=seed,
        rounds=rounds,
        seconds=seconds,
        step_ms=step_ms,
    )
    feeding = f"{preset}, {size} x {size}, batches of {batch_size}, {framework} arrays"
    _print_bench(result, f"{counted(len(manifest), 'image')} (split: {name})", feeding)
    if target is not None:
        arguments = {
            "data": images.data,
            "split": name,
            "images": len(manifest),
            "preset": preset,
            "size": size,
            "batch_size": batch_size,
            "threads": threads,
            "prefetch": prefetch,
            "framework": framework,
            "seed": seed,
            "rounds": rounds,
            "seconds": seconds,
        }
        save_json(result, arguments, target)
        say(stdout(), f"Figures: {target}")


def _print_bench(result: Bench, data: str, feeding: str) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    lines = [
        ("device", result.device),
        ("data", data),
        ("preset", feeding),
        ("first batch", f"after {result.first_batch_s:.1f} s, including startup"),
        ("then", _interval(result.fed.images_per_second, ",.0f", "images/s")),
        ("CPU time", _interval(result.fed.cpu_ms, ".2f", "ms per image")),
        ("peak host memory", f"{result.peak_mib:,.0f} MiB"),
        ("plain decode", _interval(result.decoded.images_per_second, ",.0f", "images/s")),
        ("", _interval(result.decoded.cpu_ms, ".2f", "ms of CPU time per image")),
        ("relative speed", _interval(result.over_decoded, ".2f", "times plain decode")),
    ]
    if result.waiting is not None:
        step = f"{result.waiting.step_ms:g} ms steps"
        lines += [
            (step, _interval(result.waiting.images_per_second, ",.0f", "images/s")),
            ("", _interval(result.waiting.share, ".1%", "of the time waiting")),
        ]
    for head, value in lines:
        table.add_row(head, cell(value))
    console = stdout()
    console.print(table)
    if result.over_decoded.median > 1:
        say(
            console,
            "Plain decode is slower because it decodes whole images; this preset may decode only "
            "a window of each.",
        )
    rate = result.fed.images_per_second
    rounds = f"{counted(rate.rounds, 'round')} of {counted(result.batches, 'batch', 'es')}"
    if rate.rounds == 1:
        say(console, f"From {rounds}.")
        return
    say(
        console,
        f"Medians of {rounds}, with their {100 * rate.coverage:.0f} % intervals in parentheses.",
    )


def _interval(median: Median, form: str, unit: str) -> str:
    middle, low, high = (
        format(value, form).replace("%", " %") for value in (median.median, median.low, median.high)
    )
    return f"{middle} {unit}" if median.rounds == 1 else f"{middle} {unit} ({low} to {high})"
