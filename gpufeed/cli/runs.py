"""`gpufeed replay` and `ledger`: what a run was, or will be, handed."""

from __future__ import annotations

from collections.abc import Sequence
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpufeed.cli.app import FAILED, app
from gpufeed.cli.console import counted, keep_interruptible, say, stdout
from gpufeed.cli.options import Device, LastBatch, OnError

if TYPE_CHECKING:
    from rich.console import Console

    from gpufeed.ledger import Ledger

__all__: list[str] = []


@app.command()
def replay(
    state: Annotated[
        Path,
        typer.Option(help="A loader's state as JSON: what `loader.get_state()` gives."),
    ],
    data: Annotated[Path, typer.Option(help="The data of that run, as for `show`.")],
    step: Annotated[
        int | None,
        typer.Option(min=0, help="Number of the batch; by default the one that was to come next."),
    ] = None,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Global batch of the run: of all its processes together.")
    ] = 64,
    last_batch: Annotated[LastBatch, typer.Option(help="As the run had it.")] = LastBatch.drop,
    on_error: Annotated[OnError, typer.Option(help="As the run had it.")] = OnError.raise_,
    device: Device = "auto",
    out: Annotated[
        Path, typer.Option(help="Where the contact sheet goes, a PNG file or a folder.")
    ] = Path("gpufeed-replay.png"),
) -> None:
    """Draw the contact sheet of a batch of a run, from a state that it saved."""
    from gpufeed._util.open_regular import read_file
    from gpufeed.errors import StateError
    from gpufeed.tools.replay import replay_batch
    from gpufeed.tools.sheet import check_target, save_sheet

    keep_interruptible()
    target = check_target(out, "gpufeed-replay.png")
    try:
        saved = read_file(state.expanduser())
    except OSError as error:
        if error.errno is not None:
            raise
        raise StateError(
            f"{state} is no state: {error}; loader.get_state() gives what is to be in such a file"
        ) from None
    replayed = replay_batch(
        saved,
        data,
        step,
        batch_size=batch_size,
        last_batch=last_batch.value,
        on_error=on_error.value,
        device=device,
    )
    save_sheet(replayed.shown.sheet, target)
    console = stdout()
    shown = replayed.shown
    say(
        console,
        f"Step {replayed.step}, batch {replayed.step % shown.steps_per_epoch + 1:,} of "
        f"{shown.steps_per_epoch:,} in epoch {shown.epoch} (split: {replayed.split}); the state "
        f"stands before step {replayed.state_step}",
    )
    say(console, f"Contact sheet: {target}")


@app.command()
def ledger(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Ledgers of one run: of its processes, and of its parts.", metavar="FILE..."
        ),
    ],
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="Ledgers of another run, to be compared: a file, or a quoted pattern, "
            "'other/*.ledger'; can be given several times."
        ),
    ] = None,
) -> None:
    """Prove that a run was handed each record once, or the same as another run.

    The exit code is 1 where it was not. `loader.ledger.save(FILE)` writes a ledger.
    """
    from gpufeed.ledger import Ledger, merge

    console = stdout()
    run = merge(Ledger.load(path) for path in files)
    right = _print_ledger(console, run)
    if against:
        # A pattern, since an option takes one value; a name without any stands for itself.
        others = [path for text in against for path in sorted(glob(text)) or [text]]  # noqa: PTH207
        right = _print_differences(console, run, merge(map(Ledger.load, others))) and right
    if not right:
        raise typer.Exit(FAILED)


def _print_ledger(console: Console, run: Ledger) -> bool:
    """Print what came in each epoch; returns whether every epoch is as it should be."""
    from rich import box
    from rich.table import Table

    reports = [run.report(epoch) for epoch in run.epochs]
    table = Table(box=box.SIMPLE)
    for name in ("epoch", "delivered", "of", "records", "digest"):
        digest = name == "digest"
        table.add_column(name, justify="left" if digest else "right", no_wrap=digest)
    for each in reports:
        numbers = (each.epoch, each.deliveries, each.expected, each.records)
        table.add_row(*(f"{number:,}" for number in numbers), each.digest)
    console.print(table)
    for each in reports:
        for what, number, names in (
            ("missing", each.missing, each.missing_names),
            ("double", each.double, each.double_names),
        ):
            if number:
                said = _names(number, each.named, names)
                say(console, f"Epoch {each.epoch}: {what} {said}")
    right = bool(reports) and all(each.right for each in reports)
    if right:
        how = "no place of the order" if run.run.repeats else "no record"
        say(console, f"{counted(len(reports), 'epoch')}: all is there, and {how} came twice.")
    elif not reports:
        say(console, "Nothing was delivered.")
    return right


def _print_differences(console: Console, run: Ledger, other: Ledger) -> bool:
    """Print how two runs differ; returns whether they do not."""
    differences = run.compare(other)
    for each in differences:
        if each.same:
            continue
        number = each.counts + each.pixels
        if not number:
            say(console, f"Epoch {each.epoch}: the same records, in another order.")
            continue
        said = _names(number, "record", each.keys)
        say(
            console,
            f"Epoch {each.epoch}: {each.counts:,} records came another number of times, "
            f"{each.pixels:,} with other pixels: {said}",
        )
    same = all(each.same for each in differences)
    if same:
        what = "records and pixels" if run.run.pixels else "records"
        say(console, f"{counted(len(differences), 'epoch')}: the same {what} in both, in order.")
    return same


def _names(number: int, noun: str, first: Sequence[int]) -> str:
    more = ", ..." if number > len(first) else ""
    return f"{counted(number, noun)}: {', '.join(map(str, first))}{more}"
