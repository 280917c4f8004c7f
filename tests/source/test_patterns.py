"""Patterns of files: braces as Bash and WebDataset expand them, and globs."""

from __future__ import annotations

from pathlib import Path

import pytest
from braceexpand import braceexpand

from gpufeed import ConfigError, ManifestError
from gpufeed.source.patterns import expand_braces, locate


@pytest.mark.parametrize(
    "pattern",
    [
        "train-{000..012}.tar",
        "{a,b}/{0..2}-{08..10}.tar",
        "{9..11}{x,}.tar",
        "{3..1}",
        "{05..1}",
        "plain.tar",
        "{}/{one}/a.tar",
        "{0..99}",
        "{00..100}",
    ],
)
def test_braces_are_those_of_the_library(pattern: str) -> None:
    assert expand_braces(pattern) == list(braceexpand(pattern))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a/0.tar", "a/1.tar", "b/10.tar", "b/9.tar", "b/c/0.tar"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("patterns", "root", "files"),
    [
        ("a/{0..1}.tar", "a", ["0.tar", "1.tar"]),
        (Path("b/*.tar"), "b", ["10.tar", "9.tar"]),
        (["b/{9..10}.tar", "a/*"], "", ["b/9.tar", "b/10.tar", "a/0.tar", "a/1.tar"]),
        ("**/0.tar", "", ["a/0.tar", "b/c/0.tar"]),
        ("{a,b}/[0-8]*.tar", "", ["a/0.tar", "a/1.tar", "b/10.tar"]),
        ("a/../b/c/0.tar", "b/c", ["0.tar"]),
        ("a/none.tar", "a", ["none.tar"]),
    ],
)
def test_files_below_the_folder_they_share(
    patterns: str | Path | list[str], root: str, files: list[str], folder: Path
) -> None:
    storage, found = locate(patterns)
    assert found == files
    assert [storage.name(each) for each in found] == [str(folder / root / each) for each in files]


def test_what_cannot_be_located(folder: Path) -> None:
    with pytest.raises(ManifestError, match=r"no file matches .*/a/x\*"):
        locate("a/x*")
    with pytest.raises(ManifestError, match=r"/a/0.tar is listed twice"):
        locate(["a/0.tar", "a/*.tar"])
    with pytest.raises(ManifestError, match="the files are in different places"):
        locate(["gs://b/0.tar", "a/0.tar"])
    with pytest.raises(ConfigError, match="3 is not a path"):
        locate(["a/0.tar", 3])  # type: ignore[list-item]
