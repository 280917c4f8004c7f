"""`gpufeed shuffle-report`: the randomness of a sampler's order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gpufeed._util.urls import location, public_url
from gpufeed.cli.app import app
from gpufeed.cli.console import keep_interruptible, say, stdout
from gpufeed.cli.options import Images, Out, Seed, reads_data

if TYPE_CHECKING:
    from rich.console import Console

    from gpufeed.tools.shuffle_report import Report

__all__: list[str] = []

_REPORT_WIDTH = 110


@app.command("shuffle-report")
@reads_data
def shuffle_report(
    images: Images,
    sampler: Annotated[
        Literal["index", "repeated", "weighted", "balanced", "node-local", "sequential"],
        typer.Option(help="Sampler to examine; index is a plain shuffle."),
    ] = "index",
    batch_size: Annotated[
        int, typer.Option(min=1, help="Images in the global batch of all processes.")
    ] = 64,
    repeats: Annotated[
        int, typer.Option(min=1, help="For repeated: times in a row that a record comes.")
    ] = 3,
    power: Annotated[
        float, typer.Option(min=0, help="For weighted: with 1, all classes come equally often.")
    ] = 1.0,
    records_per_class: Annotated[
        int, typer.Option(min=1, help="For balanced: records of each class in a batch.")
    ] = 4,
    nodes: Annotated[
        int, typer.Option(min=1, help="For node-local: machines, each with its own records.")
    ] = 8,
    seed: Seed = 0,
    out: Out = Path("gpufeed-shuffle.png"),
) -> None:
    """Measure and plot how random a sampler's order is, compared with NumPy's and Grain's.

    This reads only the list of images and decodes none.
    """
    from gpufeed.sheets.sheet import check_target, save_sheet
    from gpufeed.tools.shuffle_plot import check_plotting, draw_report
    from gpufeed.tools.shuffle_report import examine, verdict_of

    keep_interruptible()
    target = check_target(out, "gpufeed-shuffle.png")
    check_plotting()
    manifest, name = images.open("train")
    report = examine(
        manifest.labels.groups,
        sampler,
        seed=seed,
        batch_size=batch_size,
        repeats=repeats,
        power=power,
        records_per_class=records_per_class,
        nodes=nodes,
    )
    subject = f"{_title(images.data)} (split: {name})"
    save_sheet(draw_report(report, subject), target)
    console = stdout()
    say(console, f"{subject}, sampler {sampler}, seed {seed}: {verdict_of(report)}")
    _print_report(console, report)
    say(console, f"Plot: {target}")


def _title(data: str) -> str:
    """Return the name of data in a title: the last parts of their path, or their URL."""
    where = location(data)
    if isinstance(where, str):
        return public_url(where)
    source = where.expanduser().resolve()
    within = f"{source.parent.name}/" if source.is_file() else ""
    return f"{within}{source.name}"


def _print_report(console: Console, report: Report) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from gpufeed.tools.shuffle_report import notes_of, rows_of

    if not console.is_terminal:
        console.width = _REPORT_WIDTH
    table = Table(box=box.SIMPLE, padding=(0, 1, 1, 0), width=min(console.width, _REPORT_WIDTH))
    table.add_column("figure", ratio=2)
    for found in report.found:
        table.add_column(found.name, ratio=1)
    table.add_column("a perfect shuffle", ratio=1)
    for name, meaning, expected, cells in rows_of(report):
        texts = [
            Text.assemble(
                (f"{cell.value}{' !' * cell.odd}", "bold yellow" if cell.odd else ""),
                (f"\n{cell.detail}", "dim"),
            )
            for cell in cells
        ]
        head = Text.assemble((name, "bold"), (f"\n{meaning}", "dim"))
        table.add_row(head, *texts, expected)
    console.print(table)
    for note in notes_of(report):
        say(console, note)
