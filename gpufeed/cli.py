"""The command line. Each command only reads its options, calls `gpufeed.tools` and prints.

What a command needs is imported within it, so that `gpufeed --help` and errors of usage are quick.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from gpufeed.errors import GpufeedError

if TYPE_CHECKING:
    from rich.console import Console

    from gpufeed.ledger import Ledger
    from gpufeed.tools.demo import Fed
    from gpufeed.tools.shuffle_report import Report

__all__ = ["main"]

_USAGE, _UNEXPECTED, _INTERRUPTED, _BROKEN_PIPE = 2, 1, 130, 1
_ON_DEMO_SHEET = 24
_REPORT_WIDTH = 110

# The parent of typer's own errors of usage; not imported, since it is not always click's.
_UsageError = cast("type[typer.BadParameter]", typer.BadParameter.__base__)


class _Preset(StrEnum):
    train = "train"
    evaluate = "evaluate"
    course_train = "course_train"
    course_evaluate = "course_evaluate"


class _Framework(StrEnum):
    numpy = "numpy"
    torch = "torch"
    jax = "jax"


class _LastBatch(StrEnum):
    drop = "drop"
    pad = "pad"
    partial = "partial"


class _Labels(StrEnum):
    class_ = "class"
    species = "species"


class _Split(StrEnum):
    train = "train"
    test = "test"
    all = "all"


class _Sampler(StrEnum):
    index_ = "index"
    repeated = "repeated"
    weighted = "weighted"
    balanced = "balanced"
    sequential = "sequential"


@dataclass
class _Settings:
    """What is given before the command."""

    debug: bool = False


app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

_BatchSize = Annotated[int, typer.Option(min=1, help="Pictures in a batch.")]
_Seed = Annotated[int, typer.Option(min=0, help="Of everything random.")]
_Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:1.")]
_Data = Annotated[
    Path, typer.Option(help="A NABirds folder, a metadata.parquet, or a folder of class folders.")
]
_LabelsOption = Annotated[
    _Labels | None, typer.Option(help="By default species, where the data have them.")
]
_PresetOption = Annotated[_Preset, typer.Option(help="What is done to the pictures.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        import gpufeed

        typer.echo(f"gpufeed {gpufeed.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _before(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """An image feed for GPU training, in which every batch has a number.

    Begin with `gpufeed demo`; it needs no data.
    """
    context.obj.debug = debug
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def demo(
    images: Annotated[int, typer.Option(min=2, help="Pictures to draw.")] = 1000,
    batch_size: _BatchSize = 64,
    preset: _PresetOption = _Preset.train,
    framework: Annotated[_Framework, typer.Option(help="Whose arrays to make.")] = _Framework.numpy,
    device: _Device = "auto",
    seed: _Seed = 0,
    out: Annotated[
        Path, typer.Option(help="Where the contact sheet goes, a PNG file or a folder.")
    ] = Path("gpufeed-demo.png"),
) -> None:
    """Feed a synthetic set, which is drawn once, and show what comes out."""
    from gpufeed.records import read_nabirds
    from gpufeed.tools.demo import check_usable, demo_set, feed_epoch
    from gpufeed.tools.sheet import check_target, save_sheet
    from gpufeed.tools.show import show_batch

    _keep_interruptible()
    target = check_target(out, "gpufeed-demo.png")
    check_usable(framework.value, device)
    console = _console()

    def told(folder: Path, finished: bool) -> None:
        done = "are in" if finished else "are drawn, this one time, in"
        _say(console, f"{images:,} synthetic pictures in the shape of NABirds {done} {folder}")

    birds = read_nabirds(demo_set(images, seed, told), labels="species")
    train = birds.split("train")
    fed = feed_epoch(
        train,
        preset=preset.value,
        batch_size=batch_size,
        seed=seed,
        device=device,
        framework=framework.value,
    )
    # Whatever the size of its batch, a record is given the same numbers.
    shown = show_batch(
        train,
        preset=preset.value,
        batch_size=min(_ON_DEMO_SHEET, batch_size, len(train)),
        seed=seed,
        device=device,
        split="train",
    )
    save_sheet(shown.sheet, target)
    _print_fed(console, fed, framework.value)
    _say(
        console,
        "Waiting is near 100 % since the demo does nothing with its batches; in training it should "
        "be near 0 %.",
    )
    _say(console, f"The first {shown.images} pictures: {target}")


@app.command()
def show(
    data: _Data,
    step: Annotated[int, typer.Option(min=0, help="Number of the batch, over all epochs.")] = 0,
    preset: _PresetOption = _Preset.train,
    split: Annotated[
        _Split | None,
        typer.Option(help="By default the preset's own, or all where the data have no split."),
    ] = None,
    labels: _LabelsOption = None,
    batch_size: _BatchSize = 64,
    seed: _Seed = 0,
    size: Annotated[int, typer.Option(min=1, help="Side of the pictures, pixels.")] = 224,
    device: _Device = "auto",
    out: Annotated[
        Path, typer.Option(help="Where the contact sheet goes, a PNG file or a folder.")
    ] = Path("gpufeed-show.png"),
) -> None:
    """Draw the contact sheet of any batch: what training gets at that step."""
    from gpufeed.tools.named import open_manifest, take_split
    from gpufeed.tools.sheet import check_target, save_sheet
    from gpufeed.tools.show import show_batch

    _keep_interruptible()
    target = check_target(out, "gpufeed-show.png")
    whole = open_manifest(data, labels.value if labels else None)
    manifest, name = take_split(whole, split.value if split else None, preset.value)
    shown = show_batch(
        manifest,
        step,
        preset=preset.value,
        size=size,
        batch_size=batch_size,
        seed=seed,
        device=device,
        split=name,
    )
    save_sheet(shown.sheet, target)
    place = step % shown.steps_per_epoch + 1
    console = _console()
    _say(
        console,
        f"Step {step}, batch {place:,} of {shown.steps_per_epoch:,} in epoch {shown.epoch}: "
        f"{shown.images} of {len(manifest):,} pictures (split: {name})",
    )
    if shown.incomplete:
        _say(
            console,
            f"The split fills no batch of {batch_size}: a Loader needs a smaller batch_size, or "
            'last_batch="pad" or "partial", to feed it.',
        )
    _say(console, f"Contact sheet: {target}")


@app.command("shuffle-report")
def shuffle_report(
    data: _Data,
    sampler: Annotated[
        _Sampler, typer.Option(help="Whose order; index is a plain shuffle.")
    ] = _Sampler.index_,
    split: Annotated[
        _Split | None,
        typer.Option(help="By default train, or all where the data have no split."),
    ] = None,
    labels: _LabelsOption = None,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Pictures in a batch, those of all processes together.")
    ] = 64,
    epochs: Annotated[int, typer.Option(min=2, help="Epochs to look at.")] = 3,
    many_epochs: Annotated[
        int, typer.Option(min=20, help="Epochs to follow some records through.")
    ] = 2000,
    repeats: Annotated[
        int, typer.Option(min=1, help="Of repeated: how many times in a row a record comes.")
    ] = 3,
    power: Annotated[
        float, typer.Option(min=0, help="Of weighted: 1 has every class come equally often.")
    ] = 1.0,
    records_per_class: Annotated[
        int, typer.Option(min=1, help="Of balanced: records of each class in a batch.")
    ] = 4,
    seed: _Seed = 0,
    out: Annotated[
        Path, typer.Option(help="Where the picture goes, a PNG file or a folder.")
    ] = Path("gpufeed-shuffle.png"),
) -> None:
    """Show how random a sampler's order is, beside numpy's and Grain's.

    Only the list of pictures is looked at; none is decoded.
    """
    from gpufeed.tools.named import open_manifest, take_split
    from gpufeed.tools.sheet import check_target, save_sheet
    from gpufeed.tools.shuffle_plot import check_plotting, draw_report
    from gpufeed.tools.shuffle_report import examine

    _keep_interruptible()
    target = check_target(out, "gpufeed-shuffle.png")
    check_plotting()
    whole = open_manifest(data, labels.value if labels else None)
    manifest, name = take_split(whole, split.value if split else None, "train")
    report = examine(
        manifest.frame["label"].to_numpy(),
        sampler.value,
        seed=seed,
        batch_size=batch_size,
        epochs=epochs,
        many_epochs=many_epochs,
        repeats=repeats,
        power=power,
        records_per_class=records_per_class,
    )
    source = data.expanduser().resolve()
    within = f"{source.parent.name}/" if source.is_file() else ""
    subject = f"{within}{source.name} (split: {name})"
    save_sheet(draw_report(report, subject), target)
    console = _console()
    _say(
        console,
        f"{subject}: {report.num_records:,} records of {report.num_classes:,} classes; the sampler "
        f"{sampler.value}, seed {seed}, epochs 0 to {epochs - 1}",
    )
    _print_report(console, report)
    _say(console, f"Picture: {target}")


@app.command()
def synth(
    folder: Annotated[Path, typer.Argument(help="Where to; new or empty.", metavar="DIR")],
    images: Annotated[int, typer.Option(min=2, help="How many.")] = 256,
    seed: _Seed = 0,
) -> None:
    """Write a synthetic data set in the shape of NABirds."""
    from gpufeed.records import read_nabirds
    from gpufeed.tools.synth import write_nabirds

    _keep_interruptible()
    written = write_nabirds(folder, images=images, seed=seed)
    birds = read_nabirds(written)
    train = int(birds.frame["is_training_img"].sum())
    _say(
        _console(),
        f"{len(birds):,} pictures ({train:,} train, {len(birds) - train:,} test) of "
        f"{len(birds.classes)} classes: {written}",
    )


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
    last_batch: Annotated[_LastBatch, typer.Option(help="As the run had it.")] = _LastBatch.drop,
    device: _Device = "auto",
    out: Annotated[
        Path, typer.Option(help="Where the contact sheet goes, a PNG file or a folder.")
    ] = Path("gpufeed-replay.png"),
) -> None:
    """Draw the contact sheet of a batch of a run, from a state that it saved."""
    from gpufeed.tools.replay import replay_batch
    from gpufeed.tools.sheet import check_target, save_sheet

    _keep_interruptible()
    target = check_target(out, "gpufeed-replay.png")
    replayed = replay_batch(
        state.expanduser().read_bytes(),
        data,
        step,
        batch_size=batch_size,
        last_batch=last_batch.value,
        device=device,
    )
    save_sheet(replayed.shown.sheet, target)
    console = _console()
    shown = replayed.shown
    _say(
        console,
        f"Step {replayed.step}, batch {replayed.step % shown.steps_per_epoch + 1:,} of "
        f"{shown.steps_per_epoch:,} in epoch {shown.epoch} (split: {replayed.split}); the state "
        f"stands before step {replayed.state_step}",
    )
    _say(console, f"Contact sheet: {target}")


@app.command()
def ledger(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Ledgers of one run: of its processes, and of its parts.", metavar="FILE..."
        ),
    ],
    against: Annotated[
        list[Path] | None,
        typer.Option(help="Ledgers of another run, to be compared; can be given several times."),
    ] = None,
) -> None:
    """Prove that a run was handed each record once, or the same as another run.

    The exit code is 1 where it was not. `loader.ledger.save(FILE)` writes a ledger.
    """
    from gpufeed.ledger import Ledger, merge

    console = _console()
    run = merge(Ledger.load(path) for path in files)
    right = _print_ledger(console, run)
    if against:
        right = _print_differences(console, run, merge(map(Ledger.load, against))) and right
    if not right:
        raise typer.Exit(_UNEXPECTED)


@app.command()
def info() -> None:
    """List versions and devices, what is missing, and how to get it."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from gpufeed.tools.info import list_devices, list_versions

    console = _console()
    for title, facts in (("Versions", list_versions()), ("Devices", list_devices())):
        table = Table(title=title, title_justify="left", box=box.SIMPLE, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for fact in facts:
            value = Text(fact.value)
            if fact.hint:
                value.append(f"\n{fact.hint}", style="yellow")
            table.add_row(fact.name, value)
        console.print(table)


def _keep_interruptible() -> None:
    """Have Ctrl-C end waits at once, as Python does.

    Polars puts a handler of its own before Python's, with system calls restarted: a main thread
    that waits for others would wait on. To be called before a command's work.
    """
    import polars  # noqa: F401 - whoever imports it later would undo what follows

    signal.siginterrupt(signal.SIGINT, True)


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, emoji=False)


def _say(console: Console, text: str) -> None:
    """Print a paragraph, unwrapped, so that a path in it stays in one piece."""
    console.print(text, markup=False, soft_wrap=True)


def _print_fed(console: Console, fed: Fed, framework: str) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    whole = fed.whole
    marks = fed.state["fingerprints"]
    for name, value in (
        ("device", fed.device),
        ("train split", f"{whole.images:,} images in {_counted(whole.batches, 'batch', 'es')}"),
        ("first batch", f"after {fed.first.seconds:.1f} s, with the start of the pipeline"),
        ("then", f"{fed.images_per_second:,.0f} images/s"),
        ("waiting", f"{whole.waiting_share:.1%} of the time"),
        ("a batch", _arrays(fed, framework)),
        (
            "state after that",
            f"records {fed.state['records']} of {marks['sampler']}, manifest "
            f"{marks['manifest'][:8]}",
        ),
    ):
        table.add_row(name, Text(value))
    console.print(table)


def _print_ledger(console: Console, run: Ledger) -> bool:
    """Print what came in each epoch; returns whether every epoch is as it should be."""
    from rich import box
    from rich.table import Table

    reports = [run.report(epoch) for epoch in run.epochs]
    table = Table(box=box.SIMPLE)
    for name in ("epoch", "delivered", "of", "records", "double", "digest"):
        table.add_column(name, justify="left" if name == "digest" else "right")
    for each in reports:
        distinct = run.run.num_records - each.missing
        numbers = (each.epoch, each.deliveries, each.expected, distinct, each.double)
        table.add_row(*(f"{number:,}" for number in numbers), each.digest)
    console.print(table)
    for each in reports:
        if each.right:
            continue
        if each.deliveries < each.expected or each.missing:
            _say(console, f"Epoch {each.epoch}: missing {_keys(each.missing, each.missing_keys)}")
        if each.double and not run.run.repeats:
            _say(console, f"Epoch {each.epoch}: double {_keys(each.double, each.double_keys)}")
    right = bool(reports) and all(each.right for each in reports)
    if right:
        how = "as often as its sampler says" if run.run.repeats else "no record twice"
        _say(console, f"{_counted(len(reports), 'epoch')}: every delivery is there, {how}.")
    return right


def _print_differences(console: Console, run: Ledger, other: Ledger) -> bool:
    """Print how two runs differ; returns whether they do not."""
    differences = run.compare(other)
    for each in differences:
        if each.same:
            continue
        _say(
            console,
            f"Epoch {each.epoch}: {each.counts:,} records came another number of times, "
            f"{each.pixels:,} with other pixels: {_keys(each.counts + each.pixels, each.keys)}",
        )
    same = all(each.same for each in differences)
    if same:
        what = "records and pixels" if run.run.pixels else "records"
        _say(console, f"{_counted(len(differences), 'epoch')}: the same {what} in both runs.")
    return same


def _keys(number: int, first: Sequence[int]) -> str:
    more = ", ..." if number > len(first) else ""
    return f"{_counted(number, 'record')}: {', '.join(map(str, first))}{more}"


def _print_report(console: Console, report: Report) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from gpufeed.tools.shuffle_table import notes_of, rows_of

    if not console.is_terminal:
        console.width = _REPORT_WIDTH
    table = Table(box=box.SIMPLE, padding=(0, 1, 1, 0), width=min(console.width, _REPORT_WIDTH))
    table.add_column("figure", ratio=2)
    for found in report.figures:
        table.add_column(found.name, ratio=1)
    table.add_column("a perfect shuffle", ratio=1)
    for row in rows_of(report):
        cells = [
            Text.assemble(
                (f"{cell.value}{' !' * cell.odd}", "bold yellow" if cell.odd else ""),
                (f"\n{cell.detail}" if cell.detail else "", "dim"),
            )
            for cell in row.cells
        ]
        name = Text.assemble((row.name, "bold"), (f"\n{row.meaning}", "dim"))
        table.add_row(name, *cells, Text(row.expected))
    console.print(table)
    for note in notes_of(report):
        _say(console, note)


def _counted(number: int, noun: str, ending: str = "s") -> str:
    return f"{number:,} {noun}{ending * (number != 1)}"


def _arrays(fed: Fed, framework: str) -> str:
    # torch names its dtypes torch.float32; the framework is named once, in front.
    lines = [
        f"{name} {'x'.join(map(str, shape))} {dtype.removeprefix('torch.')}"
        for name, shape, dtype in fed.arrays
    ]
    return "\n".join([f"{framework} arrays", *lines])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: without the program's name; those of the process where none are given.

    Returns:
        Exit code: 0; 2 for what a user can put right; 130 when interrupted; 1 for anything else.
    """
    settings = _Settings()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started the process
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - to the end
    try:
        code = _run(settings, arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read the output has gone; the interpreter's last flush must not fail as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE


def _run(settings: _Settings, arguments: Sequence[str] | None) -> int:
    try:
        given = None if arguments is None else list(arguments)
        # Not standalone, or typer would print and exit by itself; it gives an exit code, or None.
        code = int(app(given, standalone_mode=False, prog_name="gpufeed", obj=settings) or 0)
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        # A module that is interrupted while it is imported may say ImportError instead.
        if not _has_interrupt(error):
            return _report(error, settings.debug)
        code = _INTERRUPTED
    if code == _INTERRUPTED:
        print("gpufeed: interrupted", file=sys.stderr)
    return code


def _has_interrupt(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _report(error: Exception, debug: bool) -> int:
    """Print an error on one line; after its traceback, if that is wanted."""
    code, text = _USAGE, str(error)
    if isinstance(error, _UsageError):
        text = error.format_message()
        context = getattr(error, "ctx", None)
        text = f"{text.rstrip('.')}; see `{context.command_path if context else 'gpufeed'} --help`"
    elif isinstance(error, GpufeedError):
        text = "; ".join([text, *getattr(error, "__notes__", [])])
    elif isinstance(error, OSError):
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        text = ": ".join([*names, error.strerror or text])
    else:
        code = _UNEXPECTED
        text = f"unexpected {type(error).__name__}: {text}; for where, run `gpufeed --debug ...`"
    if debug:
        traceback.print_exception(error)
    print(f"gpufeed: error: {' '.join(text.split())}", file=sys.stderr)
    return code
