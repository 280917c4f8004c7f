"""What the README says can be run runs, and what it lists is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

import gpufeed
from tests.support.pages import PAGES, TOP, blocks

README = (TOP / "README.md").read_text()


def test_it_is_read_in_two_minutes() -> None:
    """Ten lines to an example, a hundred in all."""
    assert len(README.splitlines()) <= 100
    for example in blocks(TOP / "README.md"):
        assert len([line for line in example.code.splitlines() if line]) <= 10


def test_its_picture_is_of_this_version() -> None:
    with Image.open(TOP / "docs" / "demo.png") as picture:
        caption = picture.info["Description"]
    assert caption.startswith(f"gpufeed {gpufeed.__version__} "), "see tests.support.demo_picture"


def test_every_command_is_listed() -> None:
    from gpufeed.cli import app

    listed = set(re.findall(r"^\| `gpufeed ([\w-]+)", README, flags=re.MULTILINE))
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert listed == commands


def test_every_transform_and_preset_is_named() -> None:
    from gpufeed import presets, transforms

    page = (TOP / "docs" / "how-to" / "transforms.md").read_text()
    for name in presets.__all__:
        assert f"`{name}`" in page
    for name in transforms.__all__:
        kind = getattr(transforms, name)
        bases = getattr(kind, "__mro__", ())
        if transforms.Transform in bases and name in gpufeed.__all__:
            assert f"`{name}`" in page


BUILT = {"changelog.md", "commands.md", "contributing.md"}
"""Pages that .ci/docs makes."""


@pytest.mark.parametrize("page", [*PAGES, *TOP.glob("C*.md")], ids=lambda page: page.stem)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    """Linked ones, and those of tests."""
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists() or Path(target).name in BUILT, target
    for target in re.findall(r"`(tests/[^`*]+)`", text):
        assert (TOP / target).exists(), target


def test_the_reference_has_every_public_name_once() -> None:
    reference = (TOP / "docs" / "reference").glob("*.md")
    text = "\n".join(page.read_text() for page in sorted(reference))
    shown = re.findall(r"^::: gpufeed\.(\w+)$", text, re.MULTILINE)
    assert sorted(shown) == sorted({*gpufeed.__all__} - {"transforms"})  # its names are at the top
