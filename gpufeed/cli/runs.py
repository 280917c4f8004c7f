"""`gpufeed replay` and `ledger`: the batches that a run received."""

from __future__ import annotations

from collections.abc import Sequence
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gpufeed.cli.app import FAILED, app
from gpufeed.cli.console import counted, keep_interruptible, say, stdout
from gpufeed.cli.options import Device, Out, Readable, reads_data

if TYPE_CHECKING:
    from rich.console import Console

    from gpufeed.ledger import Ledger

__all__: list[str] = []


@app.command()
@reads_data
def replay(
    images: Readable,
    state: Annotated[
        Path,
        typer.Option(help="A loader's state as JSON: `json.dumps(loader.state_dict())`."),
    ],
    step: Annotated[
        int | None,
        typer.Option(min=0, help="Number of the batch; by default the next one after the state."),
    ] = None,
    batch_size: Annotated[
        int, typer.Option(min=1, help="The run's global batch size, over all its processes.")
    ] = 64,
    last_batch: Annotated[
        Literal["drop", "pad", "partial"], typer.Option(help="The run's last_batch.")
    ] = "drop",
    on_error: Annotated[
        Literal["raise", "substitute", "blank"], typer.Option(help="The run's on_error.")
    ] = "raise",
    device: Device = "auto",
    out: Out = Path("gpufeed-replay.png"),
) -> None:
    """Write the contact sheet of a batch of a run, from a state that the run saved.

    DATA are those of the run, or its saved manifest.
    """
    from gpufeed._util.open_regular import read_file
    from gpufeed.errors import StateError
    from gpufeed.feed.state import decode_state
    from gpufeed.sheets.sheet import check_target, save_sheet
    from gpufeed.tools.replay import replay_batch

    keep_interruptible()
    target = check_target(out, "gpufeed-replay.png")
    try:
        saved = read_file(state.expanduser())
        decode_state(saved)
    except (OSError, StateError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise StateError(
            f"{state} is not a state: {error}; it must be a file with what loader.get_state() "
            "returned"
        ) from None
    replayed = replay_batch(
        saved,
        images.data,
        step,
        options=images.options,
        without=images.without,
        batch_size=batch_size,
        last_batch=last_batch,
        on_error=on_error,
        device=device,
    )
    save_sheet(replayed.shown.sheet, target)
    console = stdout()
    shown = replayed.shown
    say(
        console,
        f"Step {replayed.step}, batch {replayed.step % shown.steps_per_epoch + 1:,} of "
        f"{shown.steps_per_epoch:,} in epoch {shown.epoch} (split: {replayed.split}); the state "
        f"is before step {replayed.state_step}",
    )
    say(console, f"Contact sheet: {target}")


@app.command()
def ledger(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="The ledgers of all processes and all restarts of one run.", metavar="FILE..."
        ),
    ],
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="Ledgers of another run to compare with: a file, or a quoted pattern such as "
            "'other/*.ledger'. Repeatable."
        ),
    ] = None,
) -> None:
    """Prove that a run received each record once, or the same records as another run.

    The exit code is 1 if it did not. `loader.ledger.save(FILE)` writes a ledger.
    """
    from gpufeed.ledger import Ledger, merge

    console = stdout()
    run = merge(Ledger.load(path) for path in files)
    complete = _print_ledger(console, run)
    if against:
        # Patterns are expanded here, since an option takes one value.
        others = [path for text in against for path in sorted(glob(text)) or [text]]  # noqa: PTH207
        same = _print_differences(console, run, merge(map(Ledger.load, others)))
        complete = complete and same
    if not complete:
        raise typer.Exit(FAILED)


def _print_ledger(console: Console, run: Ledger) -> bool:
    """Print the deliveries of each epoch; return whether every epoch is complete."""
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
            ("duplicate", each.double, each.double_names),
        ):
            if number:
                say(console, f"Epoch {each.epoch}: {what} {_names(number, each.named, names)}")
    complete = bool(reports) and all(each.right for each in reports)
    if complete:
        what = "position of the order" if run.run.repeats else "record"
        say(console, f"{counted(len(reports), 'epoch')}: every {what} came exactly once.")
    elif not reports:
        say(console, "Nothing was delivered.")
    return complete


def _print_differences(console: Console, run: Ledger, other: Ledger) -> bool:
    """Print how two runs differ; return whether they are the same."""
    differences = run.compare(other)
    for each in differences:
        if each.same:
            continue
        number = each.counts + each.pixels
        if not number:
            say(console, f"Epoch {each.epoch}: the same records in a different order.")
            continue
        say(
            console,
            f"Epoch {each.epoch}: {each.counts:,} records came a different number of times, "
            f"{each.pixels:,} with different pixels: {_names(number, 'record', each.keys)}",
        )
    same = all(each.same for each in differences)
    if same:
        what = "records and pixels" if run.run.pixels else "records"
        epochs = counted(len(differences), "epoch")
        say(console, f"{epochs}: both runs have the same {what} in the same order.")
    return same


def _names(number: int, noun: str, first: Sequence[int]) -> str:
    more = ", ..." if number > len(first) else ""
    return f"{counted(number, noun)}: {', '.join(map(str, first))}{more}"
