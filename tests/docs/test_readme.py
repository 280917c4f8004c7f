"""What the README says can be run runs, and what it lists is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gpufeed

TOP = Path(__file__).parents[2]
README = (TOP / "README.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("place", range(6))
def test_examples_run(many_birds: Path, place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(EXAMPLES) == 6
    monkeypatch.chdir(many_birds.parent)
    names: dict[str, object] = {}
    exec(EXAMPLES[place], names)  # noqa: S102 - the README's own code
    loader = names["loader"]
    assert isinstance(loader, gpufeed.Loader)
    batch = names.get("batch") or next(iter(loader))
    assert isinstance(batch, dict)
    assert batch["image"].shape[0] == 64
    loader.close()


def test_examples_are_short() -> None:
    """Ten lines each."""
    for example in EXAMPLES:
        assert len([line for line in example.splitlines() if line]) <= 10


def test_every_command_is_listed() -> None:
    from gpufeed.cli import app

    listed = set(re.findall(r"^\| `gpufeed ([\w-]+)", README, flags=re.MULTILINE))
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert listed == commands


def test_every_transform_and_preset_is_named() -> None:
    from gpufeed import presets, transforms

    for name in presets.__all__:
        assert f"`{name}`" in README
    for name in transforms.__all__:
        kind = getattr(transforms, name)
        bases = getattr(kind, "__mro__", ())
        if transforms.Transform in bases and name in gpufeed.__all__:
            assert f"`{name}`" in README


BUILT = {f"{up}reference/commands.md" for up in ("", "../")}  # by .ci/docs


@pytest.mark.parametrize("page", ["README", "CONTRIBUTING", "CHANGELOG", "docs"])
def test_files_that_a_page_names_are_there(page: str) -> None:
    """Linked ones, and those of tests."""
    for path in [TOP / f"{page}.md"] if page != "docs" else (TOP / page).rglob("*.md"):
        text = path.read_text()
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert (path.parent / target).exists() or target in BUILT, (path, target)
        for target in re.findall(r"`(tests/[^`*]+)`", text):
            assert (TOP / target).exists(), (path, target)
