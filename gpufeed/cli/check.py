"""`gpufeed check`: the bad and doubtful images of a data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpufeed.cli.app import FAILED, app
from gpufeed.cli.console import cell, counted, keep_interruptible, say, stdout
from gpufeed.cli.options import Listing, reads_data

if TYPE_CHECKING:
    from gpufeed.tools.check.dataset import Report
    from gpufeed.tools.resolve import Listed

__all__: list[str] = []


@app.command()
@reads_data
def check(
    images: Listing,
    parquet: Annotated[
        Path | None,
        typer.Option(
            help="Parquet file to write all findings to; `Manifest.without` reads it and leaves "
            "out the images that fail."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="HTML page to write, with thumbnails of the worst images.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="CPU threads; by default one for each core.")
    ] = None,
    max_pixels: Annotated[
        int | None,
        typer.Option(min=1, help="Most pixels of an image; by default the `Loader`'s limit."),
    ] = None,
    reduce_depth: Annotated[
        bool,
        typer.Option("--reduce-depth", help="Allow images of 16 bits per channel."),
    ] = False,
    mask: Annotated[
        list[str] | None,
        typer.Option(help="A table's column of paths of masks, to check too; may be repeated."),
    ] = None,
    depth: Annotated[list[str] | None, typer.Option(help="The same for depth maps.")] = None,
) -> None:
    """Check every image: which would fail in a run, which are doubtful, which are unusual.

    The exit code is 1 if a run would fail on an image, and 2 if the data cannot be listed.
    Records are numbered over the whole list, across splits.
    """
    from gpufeed.decode.diagnose import MAX_PIXELS
    from gpufeed.plan.image_targets import Depth, Mask
    from gpufeed.sheets.sheet import check_file
    from gpufeed.tools.check.dataset import check as check_images
    from gpufeed.tools.check.page import save_page
    from gpufeed.tools.resolve import list_images

    keep_interruptible()
    table, page = check_file(parquet, ".parquet", ".pq"), check_file(html, ".html", ".htm")
    listed = list_images(images.data, images.options)
    report = check_images(
        listed.frame,
        listed.source,
        classes=listed.classes,
        max_pixels=max_pixels or MAX_PIXELS,
        reduce_depth=reduce_depth,
        follow_links=images.follow_links,
        threads=threads,
        targets=[
            *(Mask(column, follow_links=images.follow_links) for column in mask or ()),
            *(Depth(column, follow_links=images.follow_links) for column in depth or ()),
        ],
    )
    _print_report(report, images.data, listed)
    console = stdout()
    if table is not None:
        report.save(table)
        say(console, f"Findings: {parquet}")
    if page is not None:
        save_page(report, images.data, page)
        say(console, f"Page: {html}")
    if report.failing:
        raise typer.Exit(FAILED)


def _print_report(report: Report, data: str, listed: Listed) -> None:
    from rich import box
    from rich.table import Table

    from gpufeed.tools.check.kinds import HEADERLESS, KINDS, Problem

    console = stdout()
    rate = report.images / max(report.seconds, 1e-9)
    say(console, f"{data}: {counted(report.images, 'image')}, {rate:,.0f} images/s")
    if report.findings.is_empty():
        say(console, "No problems found.")
        return
    table = Table(box=box.SIMPLE)
    table.add_column("finding", overflow="fold")
    table.add_column("images", justify="right", overflow="fold")
    table.add_column("", overflow="fold")
    table.add_column("first", overflow="fold")
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
    links = report.findings.filter(report.findings["kind"] == Problem.leads_out.value).height
    if report.failing > links:
        say(
            console,
            f"A run would fail on {counted(report.failing - links, 'image')}, unless on_error "
            'is "substitute" or "blank", or Manifest.without(FILE) leaves out what --parquet FILE '
            "lists.",
        )
    elif not links:
        say(console, "A run would not fail on any image.")
    unlisted = (Problem.leads_out,) if listed.sized else (Problem.leads_out, *HEADERLESS)
    if report.findings["kind"].is_in(unlisted).any():
        say(console, f'To list these data, use {listed.reader}(..., on_bad_image="drop").')
