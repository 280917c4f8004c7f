"""The command line as a user meets it: what it prints, its exit codes, its errors."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import typer
from PIL import Image

import gpufeed
from gpufeed import cli
from gpufeed.cli.as_options import ELSEWHERE, as_options
from gpufeed.tools.synth import write_nabirds
from tests.support.nabirds_data import write_picture
from tests.support.waiting import wait_until

HEAVY = ("nvidia.dali", "torch", "jax", "numpy", "polars", "PIL")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder and a cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpufeed", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def imported_by(code: str) -> list[str]:
    """Heavy packages that some code imports; and those with NumPy, which this must then find."""
    heavy = f"print(*[m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    probe = f"import sys\n{code}\n{heavy}\nimport numpy\n{heavy}"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()


def test_demo(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demo = ["demo", "--images", "24", "--batch-size", "8"]
    done = run(*demo, "--device", "cpu")
    assert (done.returncode, done.stderr) == (0, "")
    assert "24 synthetic images in the format of NABirds, drawn once: " in done.stdout
    train = len(
        gpufeed.read_nabirds(next((here.parent / "cache/gpufeed").iterdir())).split("train")
    )
    for pattern in (
        r"device\s+cpu",
        rf"train split\s+{train} images in {-(-train // 8)} batches",
        r"then\s+[\d,]+ images/s",
        r"waiting\s+[\d.]+% of the time",
        r"image 8x3x224x224 float32",
        r"a state\s+records 8 of IndexSampler, manifest \w{8}\b",
        r"Waiting is near 100 % because the demo does nothing with its batches",
    ):
        assert re.search(pattern, done.stdout), (pattern, done.stdout)
    assert str(here / "gpufeed-demo.png") in done.stdout
    first = (here / "gpufeed-demo.png").read_bytes()

    out = here / "again.png"
    assert cli.main([*demo, "--framework", "torch", "--out", str(out)]) == 0
    again = capsys.readouterr().out
    assert re.search(r"torch arrays\s+image 8x3x224x224 float32\s+label 8 int64", again)
    if "cpu" in again:
        assert out.read_bytes() == first


def test_show(birds: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show = ["show", str(birds), "--step", "3", "--batch-size", "5", "--device", "cpu"]
    assert cli.main(show) == 0
    printed = capsys.readouterr()
    assert re.search(
        r"Step 3, batch 4 of \d+ in epoch 0: 5 of \d+ images \(split: train\)", printed.out
    )
    assert str(here / "gpufeed-show.png") in printed.out
    with Image.open("gpufeed-show.png") as sheet:
        assert sheet.size[0] > 224
    assert printed.err == ""


def test_demo_says_what_to_do_without_a_cache(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    assert cli.main(["demo", "--images", "32", "--device", "cpu"]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("gpufeed: error: cannot write the demonstration's data to /proc")
    assert printed.endswith("set XDG_CACHE_HOME to a writable folder\n")


def test_show_says_when_training_would_get_none(
    birds: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show = ["show", str(birds), "--size", "32", "--device", "cpu"]
    assert cli.main(show) == 0
    assert "The split has fewer images than a batch of 64: to feed it" in capsys.readouterr().out
    assert cli.main([*show, "--batch-size", "8"]) == 0
    assert "fills no batch" not in capsys.readouterr().out


def test_show_takes_every_option(
    birds: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ["show", str(birds), "--size", "64", "--batch-size", "4", "--device", "cpu"]
    for name, options in {
        "a": [],
        "same": [],
        "step": ["--step", "1"],
        "seed": ["--seed", "1"],
        "split": ["--split", "test", "--preset", "train"],
        "preset": ["--preset", "evaluate", "--labels", "class"],
        "targets": ["--targets"],
    }.items():
        assert cli.main([*common, *options, "--out", f"{name}.png"]) == 0, capsys.readouterr()
    made = {path.stem: path.read_bytes() for path in here.glob("*.png")}
    assert made["same"] == made["a"]
    assert len(set(made.values())) == len(made) - 1


def test_synth(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["synth", "set", "--images", "32", "--seed", "7"]) == 0
    printed = capsys.readouterr().out
    whole = gpufeed.read_nabirds("set")
    train = len(whole.split("train"))
    assert f"32 images ({train} train, {32 - train} test)" in printed
    assert str(here / "set") in printed


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info"]) == 0
    printed = capsys.readouterr().out
    assert re.search(rf"gpufeed\s+{re.escape(gpufeed.__version__)}", printed)
    for name in ("torch", "jax", "numpy", "pillow", "polars"):
        assert metadata.version(name) in printed
    for name in ("CPU", "NVIDIA driver", "DALI sees", "PyTorch sees", "JAX sees"):
        assert name in printed
    assert "fails:" not in printed


def test_version_and_entry_point(capsys: pytest.CaptureFixture[str]) -> None:
    (script,) = metadata.entry_points(group="console_scripts", name="gpufeed")
    assert script.load() is cli.main
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"gpufeed {gpufeed.__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["demo", "--help"], ["show", "-h"]])
def test_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 0
    assert "Usage: gpufeed" in capsys.readouterr().out


def test_data_are_an_argument_of_every_command_that_reads_them() -> None:
    reading = {
        "show", "transforms", "replay", "shuffle-report", "check", "bench", "doctor", "prepare",
        "stage",
    }  # fmt: skip
    for name, command in typer.main.get_command(cli.app).commands.items():  # type: ignore[attr-defined]
        given = {each.name: each.param_type_name for each in command.params}
        assert given.pop("data", None) == ("argument" if name in reading else None)
        shared = {"path", "image", "label", "root", "follow_links"}
        assert shared & set(given) == (shared if name in reading else set())


def test_help_imports_nothing_heavy() -> None:
    run_help = "from gpufeed.cli import main\nassert main(['show', '--help']) == 0"
    assert imported_by(run_help) == ["", "numpy"]


def test_errors_have_no_traceback_unless_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run("show", tmp_path / "nowhere")
    assert done.returncode == 2
    assert done.stderr == f"gpufeed: error: there is no file or folder {tmp_path}/nowhere\n"
    assert done.stdout == ""
    assert cli.main(["--debug", "show", str(tmp_path / "nowhere")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("Traceback (most recent call last):")
    assert said.endswith(f"gpufeed: error: there is no file or folder {tmp_path}/nowhere\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["--bogus"], "No such option: --bogus"),
        (["show"], "Missing argument 'DATA'; see `gpufeed show --help`"),
        (["show", "{birds}", "--step", "-1"], "Invalid value for '--step'"),
        (
            ["show", "{birds}", "--step", "9999999999999"],
            "step is 9999999999999: there is no batch",
        ),
        (["show", "{birds}", "--seed", "99999999999999999999"], "seed is 9999999999"),
        (["show", "{birds}", "--preset", "other"], "Invalid value for '--preset'"),
        (["show", "{birds}", "--device", "tpu"], "device is 'tpu'; it must be"),
        (
            ["show", "{birds}", "--device", "cuda:99"],
            "device is 'cuda:99', but DALI sees",
        ),
        (["show", "{birds}", "--out", "x.jpg"], "x.jpg is neither a folder nor a name"),
        (["show", "{birds}", "--out", "/proc/no/x.png"], "cannot write /proc/no/x.png: No such"),
        (["show", "{birds}", "--out", "{birds}/classes.txt/x.png"], "x.png: Not a directory"),
        (["show", "{birds}/classes.txt"], "classes.txt is not a data set"),
        (["demo", "--images", "x"], "Invalid value for '--images'"),
        (["demo", "--device", "tpu"], "device is 'tpu'; it must be"),
        (["synth", "{birds}", "--images", "9"], "is not a synthetic set of these arguments"),
        (["synth", "/proc/set"], "/proc/set: No such file or directory"),
        (["demo", "--out", "/proc/x.png"], "cannot write /proc/x.png: No such file"),
        (["show", "{birds}/parts"], "put the images of each class into a folder"),
        (["bench"], "Missing argument 'DATA'; see `gpufeed bench --help`"),
        (["show", "{birds}", "--device", "cuda:99"], '; use --device "cpu", or run'),
        (["verify", "none"], "there is no folder none"),
        (["stage", "{birds}", "--to", "{birds}/classes.txt", "--size", "1 GB"], "name a new fold"),
        (["transforms", "{birds}", "--without", "none"], "cannot read none: No such file"),
        (["bench", "{birds}/none"], "there is no file or folder"),
        (["bench", "{birds}", "--batch-size", "999"], "has no full batch of 999 x 1 shard(s)"),
        (["bench", "{birds}", "--json", "/proc/x/x.json"], "cannot write /proc/x/x.json: No such"),
        (["bench", "{birds}", "--json", "."], "cannot write .: it is a folder; name a file"),
        (["bench", "{birds}", "--size", "96", "--preset", "course_train"], "supports 224 only"),
        (
            ["bench", "{birds}", "--batch-size", "4", "--device", "tpu"],
            "device is 'tpu'; it must be",
        ),
        (["bench", "{birds}", "--seconds", "nan"], "Invalid value for '--seconds'"),
    ],
)
def test_every_error_of_a_user_is_one_line(
    arguments: list[str],
    message: str,
    birds: Path,
    here: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main([argument.format(birds=birds) for argument in arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("gpufeed: error: ")
    assert printed.err.count("\n") == 1
    assert message in printed.err
    assert list(here.iterdir()) == []


OPTIONS = {"root": "--root", "on_error": "--on-error", "follow_links": "--follow-links"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("root is 'x'; pass root= with a folder", "--root is 'x'; pass --root with a folder"),
        ("as in follow_links=True, or (root='/x')", "as in --follow-links, or (--root '/x')"),
        ('pass on_error="blank"', 'pass --on-error "blank"'),
        ("a root is here; see /a/root=x.jpg", "a root is here; see /a/root=x.jpg"),
        ("leave out root", "leave out root"),
        ("pass fields=", f"pass fields=; {ELSEWHERE}"),
        ('or on_bad_image="drop"', f'or on_bad_image="drop"; {ELSEWHERE}'),
    ],
)
def test_arguments_are_shown_as_options(text: str, shown: str) -> None:
    assert " ".join(as_options(text, OPTIONS).split()) == shown


def test_errors_of_a_command_name_its_options(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "list.csv").write_text("file,kind\na.jpg,x\n")
    for arguments, said in (
        (["check", "list.csv"], "; pass --path with one of them\n"),
        (["check", ".", "--label", "x"], "error: --label does not apply: . is a folder"),
        (["shuffle-report", "list.csv"], "; pass --path with one of them\n"),
    ):
        assert cli.main(arguments) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["show"], ["bench", "--seconds", "0.01"]], ids=lambda each: each[0]
)
def test_a_bad_picture_is_named(
    command: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = write_nabirds(here / "set", images=32, max_side=64)
    for picture in sorted((broken / "images").rglob("*.jpg")):
        picture.write_bytes(b"no picture")
    assert cli.main([*command, str(broken), "--batch-size", "3"]) == 2
    printed = capsys.readouterr().err
    assert re.fullmatch(
        r"gpufeed: error: record \d+ \(\S+/images/\d{4}/\w+\.jpg\): .*; at least 3 images of this "
        r"batch are bad; `gpufeed check DATA --parquet FILE` lists all bad images, and "
        r"`--without FILE` leaves them out\n",
        printed,
    ), printed


@pytest.mark.parametrize(
    "command",
    [["show"], ["bench", "--seconds", "0.01", "--rounds", "1"]],
    ids=lambda each: each[0],
)
def test_bad_pictures_are_left_out(
    command: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a folder of class folders those too of which no size can be read."""
    broken = write_nabirds(here / "set", images=32, max_side=64)
    bad = sorted((broken / "images").rglob("*.jpg"))[::5]
    for picture in bad:
        picture.write_bytes(b"no picture")
    assert cli.main(["check", str(broken), "--parquet", "bad.parquet"]) == 1
    feed = [*command, str(broken), "--split", "all", "--batch-size", "8", "--device", "cpu"]
    assert cli.main([*feed, "--preset", "evaluate"]) == 2
    capsys.readouterr()
    assert cli.main([*feed, "--preset", "evaluate", "--without", "bad.parquet"]) == 0
    left = 32 - len(bad)
    assert f"{left} images" in capsys.readouterr().out
    feed[len(command)] = str(broken / "images")
    assert cli.main([*feed, "--preset", "evaluate", "--without", "bad.parquet"]) == 0
    assert f"{left} images" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [["check"], ["show", "--preset", "evaluate"], ["bench", "--seconds", "0.01"]],
    ids=lambda each: each[0],
)
def test_tables_are_data(
    command: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the columns and the root that the options name, and links that they allow."""
    for name in ("photos/a.jpg", "elsewhere/b.jpg"):
        write_picture(here / name, (40, 30))
    (here / "photos" / "b.jpg").symlink_to(here / "elsewhere" / "b.jpg")
    (here / "list.csv").write_text("file,kind\na.jpg,x\nb.jpg,y\n")
    of_table = ["list.csv", "--path", "file", "--label", "kind", "--root", "photos"]
    feed = [] if command[0] == "check" else ["--batch-size", "2", "--device", "cpu"]
    assert cli.main([*command, *of_table, *feed]) == 1 + len(feed) // 4
    said = "".join(capsys.readouterr())
    assert re.search(r"symbolic link (leads out|to .*--follow-links if .* --without FILE)", said)
    for data in (of_table, ["photos"]):
        assert cli.main([*command, *data, "--follow-links", *feed]) == 0
        assert "2 images" in capsys.readouterr().out


HARMFUL = "x\x1b]0;pwned\x07\x1b[31m\n.jpg"


@pytest.mark.parametrize(
    ("command", "code"),
    [(["check"], 1), (["bench", "--seconds", "0.01"], 2), (["--debug", "bench"], 2)],
    ids=lambda each: str(each),
)
def test_names_of_files_do_not_command_the_terminal(
    command: list[str],
    code: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    folder = tmp_path / "set\x1b[2J" / "a"
    folder.mkdir(parents=True)
    for number in range(4):
        Image.new("RGB", (40, 30), (number, 0, 0)).save(folder / f"{number}.jpg")
    whole = (folder / "0.jpg").read_bytes()
    (folder / HARMFUL).write_bytes(whole[: len(whole) * 2 // 3])
    assert cli.main([*command, str(folder.parent)]) == code
    printed = capsys.readouterr()
    said = printed.out + printed.err
    assert not set(said) & {"\x1b", "\x07", "\r"}
    assert r"x\x1b]0;pwned\x07\x1b[31m" in said
    assert r"set\x1b[2J" in said


def test_halves_of_letters_are_printed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names that are not UTF-8 have them; a terminal is sent none."""
    assert cli.main(["show", "no\udcff"]) == 2
    assert r"no\udcff" in capsys.readouterr().err
    target = here / os.fsdecode(b"s\xff")
    assert cli.main(["synth", str(target), "--images", "4"]) == 0
    assert r"s\udcff" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        ("a pipe", "is not a state: not a regular file but a pipe; it must be"),
        ("a device", "is not a state: not a regular file but a device; "),
        ("nothing", "is not a state: the file is empty; "),
        ("other", "is not a state: the state is not valid JSON: 'utf-8' codec can't"),
        ("missing", ": No such file or directory"),
    ],
)
def test_a_state_is_read_from_a_file_that_ends(
    here: Path, harm: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = here / "state.json"
    if harm == "a pipe":
        os.mkfifo(path)
    elif harm == "a device":
        path.symlink_to("/dev/zero")
    elif harm != "missing":
        path.write_bytes(b"\x80" * (harm == "other"))
    assert cli.main(["replay", "--state", str(path), "."]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"gpufeed: error: {path}")
    assert message in said
    assert said.count("\n") == 1


def test_a_missing_framework_is_named(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(framework: str, device: str) -> None:
        raise gpufeed.MissingExtraError(framework, extra=framework)

    monkeypatch.setattr("gpufeed.tools.demo.check_usable", missing)
    assert cli.main(["demo", "--framework", "jax"]) == 2
    assert capsys.readouterr().err == (
        'gpufeed: error: jax is not installed; run: pip install "gpufeed[jax]"\n'
    )


def test_errors_of_the_system_name_the_file(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "/disk/file")

    monkeypatch.setattr("gpufeed.tools.synth.write_nabirds", full)
    assert cli.main(["synth", "set"]) == 2
    assert capsys.readouterr().err == "gpufeed: error: /disk/file: No space left on device\n"


def test_errors_of_our_own_are_told_apart(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def buggy(*_: object, **__: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("gpufeed.tools.synth.write_nabirds", buggy)
    assert cli.main(["synth", "set"]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("gpufeed: error: unexpected KeyError: 'x'; run `gpufeed --debug")
    assert printed.count("\n") == 1


def test_interrupt(tmp_path: Path) -> None:
    # A shell's background job ignores SIGINT, and what it starts would inherit that.
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    started = subprocess.Popen(
        [sys.executable, "-m", "gpufeed", "synth", tmp_path / "set", "--images", "20000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, inherited)
    wait_until(lambda: any(tmp_path.glob("set/images/*/*.jpg")) or started.poll() is not None)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate()
    assert (started.returncode, out, err) == (130, "", "gpufeed: interrupted\n")
    assert not (tmp_path / "set/images.txt").exists()


def test_interrupt_of_an_import(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise ImportError("initialization failed") from None

    monkeypatch.setattr("gpufeed.tools.synth.write_nabirds", interrupted)
    assert cli.main(["synth", "set"]) == 130


def test_closed_output() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m gpufeed --version >&-"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_broken_pipe(arguments: list[str]) -> None:
    # Nobody reads, from before the command starts.
    unread, written = os.pipe()
    os.close(unread)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "gpufeed", *arguments],
            stdout=written,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(written)
    assert (done.returncode, done.stderr) == (1, "")
