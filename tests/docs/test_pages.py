"""What the pages show runs: every Python block, every row of code, the options of every command."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import typer

import gpufeed
from tests.support.pages import PAGES, TOP, blocks, rows_of_code, run, write_data

# Those that a test of their own runs, and looks at more closely.
OWN = {"batch_size.md", "course.md", "detection.md", "fields.md", "watching.md"}
SHOWN = [
    page for page in PAGES if page.name not in OWN and any(each.is_run for each in blocks(page))
]


def name(page: Path) -> str:
    return str(page.relative_to(TOP))


@pytest.fixture(scope="module")
def data(many_birds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    write_data(folder, many_birds)
    return folder


@pytest.mark.parametrize("page", SHOWN, ids=name)
def test_code_runs(page: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(shutil.copytree(data, tmp_path / "page", symlinks=True))
    names = run(page)
    left = list(names.values())
    for row in rows_of_code(page):
        public = {each: getattr(gpufeed, each) for each in gpufeed.__all__}
        made = eval(row, {**public, **names})  # noqa: S307 - the page's own code
        if isinstance(made, gpufeed.Loader):
            made.batch(0)
        left.append(made)
    for each in left:
        if isinstance(each, gpufeed.Loader):
            each.close()


def test_what_is_not_run_is_counted() -> None:
    """By nothing at all, or by another test, which is there."""
    listed = [(page, each) for page in PAGES for each in blocks(page)]
    assert sum(bool(each.reason) for _, each in listed) == 10
    for page, each in listed:
        assert not each.test or (TOP / each.test).is_file(), (page, each.test)


_COMMAND = re.compile(r"(?:^|`)gpufeed ([a-z][\w-]*)([^`\n]*)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_have_these_options(page: Path) -> None:
    """In the lines of shell code, and within sentences."""
    from gpufeed.cli import app

    known = typer.main.get_command(app).commands
    for command, rest in _COMMAND.findall(page.read_text()):
        if command in known or rest.lstrip().startswith("-"):
            options = {option for each in known[command].params for option in each.opts}
            assert set(re.findall(r"--[a-z][\w-]*", rest)) <= options | {"--help"}, (command, rest)
