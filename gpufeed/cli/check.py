"""`gpufeed check`: what is wrong with a dataset's images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpufeed.cli.app import FAILED, app
from gpufeed.cli.console import cell, counted, keep_interruptible, say, stdout
from gpufeed.cli.options import DataArgument

if TYPE_CHECKING:
    from gpufeed.tools.check.dataset import Report
    from gpufeed.tools.named import Listed

__all__: list[str] = []


@app.command()
def check(
    data: DataArgument,
    parquet: Annotated[
        Path | None,
        typer.Option(help="Write all findings there; `Manifest.without` leaves out what fails."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with thumbnails of the worst there.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="How many work at a time; by default one a core.")
    ] = None,
    max_pixels: Annotated[
        int | None, typer.Option(min=1, help="The most an image may have; by default as `Loader`.")
    ] = None,
) -> None:
    """Look into every image: what would end a run, what it would not notice, what is odd.

    The exit code is 1 where a run would fail over an image, 2 where the data cannot be listed.
    Records are numbered over the whole list, whatever its splits.
    """
    from gpufeed.feed.loader import MAX_PIXELS
    from gpufeed.tools.check.dataset import check as look
    from gpufeed.tools.check.page import save_page
    from gpufeed.tools.named import list_images

    keep_interruptible()
    for target in (parquet, html):
        if target is not None and not target.expanduser().parent.is_dir():
            raise typer.BadParameter(f"there is no folder {target.expanduser().parent}")
        if target is not None and target.expanduser().is_dir():
            raise typer.BadParameter(f"{target} is a folder; name a file")
    for target, endings in ((parquet, (".parquet", ".pq")), (html, (".html", ".htm"))):
        if target is not None and not target.name.lower().endswith(endings):
            raise typer.BadParameter(
                f"{target} does not end in {endings[0]}, which is what it will be"
            )
    pictures = list_images(data)
    report = look(
        pictures.frame, pictures.files, max_pixels=max_pixels or MAX_PIXELS, threads=threads
    )
    _print_report(report, data, pictures)
    console = stdout()
    if parquet is not None:
        report.save(parquet.expanduser())
        say(console, f"Findings: {parquet}")
    if html is not None:
        save_page(report, str(data), html.expanduser())
        say(console, f"Page: {html}")
    if report.failing:
        raise typer.Exit(FAILED)


def _print_report(report: Report, data: Path, pictures: Listed) -> None:
    from rich import box
    from rich.table import Table

    from gpufeed.tools.check.kinds import HEADERLESS, KINDS, Kind

    console = stdout()
    rate = report.images / max(report.seconds, 1e-9)
    say(console, f"{data}: {counted(report.images, 'image')}, {rate:,.0f} a second")
    if report.findings.is_empty():
        say(console, "Nothing was found.")
        return
    table = Table(box=box.SIMPLE)
    for name, how in (("found", "left"), ("images", "right"), ("", "left"), ("first", "left")):
        table.add_column(name, justify=how, overflow="fold")  # type: ignore[arg-type]
    for kind, (weight, meaning) in KINDS.items():
        rows = report.findings.filter(report.findings["kind"] == kind.value)
        if rows.is_empty():
            continue
        first = rows.row(0, named=True)
        style = {"fails": "red", "doubtful": "yellow", "note": ""}[weight]
        table.add_row(
            cell(kind.value, style=style),
            f"{rows.height:,}",
            cell(meaning),
            cell(f"{first['path']}: {first['detail']}"),
        )
    console.print(table)
    links = report.findings.filter(report.findings["kind"] == Kind.leads_out.value).height
    if report.failing > links:
        say(
            console,
            f"A run would fail over {counted(report.failing - links, 'image')}, unless on_error "
            "tells it what to do, or Manifest.without leaves them out by what --parquet writes.",
        )
    elif not links:
        say(console, "A run would not fail over any.")
    unlisted = (Kind.leads_out,) if pictures.sized else (Kind.leads_out, *HEADERLESS)
    if report.findings["kind"].is_in(unlisted).any():
        say(console, f'To list the data at all takes {pictures.reader}(..., on_bad_image="drop").')
