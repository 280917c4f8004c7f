"""What a file says is told in few letters, all of which are printable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gpufeed
from gpufeed import (
    ConfigError,
    DecodeError,
    Loader,
    ManifestError,
    StateMismatchError,
    TransformError,
    read_table,
)
from gpufeed._util.sanitize import printable, sanitize, short
from gpufeed.faults.failures import Failures

ODD = {
    "long": "x" * 10**6,
    "long, of escapes": "\x1b" * 10**6,
    "lines": "a\ngpufeed: error: another\r\x85\u2028",
    "an escape sequence": "\x1b]0;title\x07\x1b[31m\x9b31m",
    "half a letter": "\ud800",
    "right to left": "\u202egpj.exe",
}


@given(st.text(st.characters(exclude_categories=[])), st.integers(1, 50))
@example(ODD["an escape sequence"], 10)
def test_anything_is_shown_short_and_printable(text: str, most: int) -> None:
    whole, told = printable(text), sanitize(text, most)
    assert whole.isprintable()
    assert told.isprintable()
    assert len(told) <= most + 30
    if whole == text and len(text) <= most:
        assert told == text
    assert len(text) <= most or f"({len(text):,} characters)" in told


def test_control_characters_are_told_as_python_writes_them() -> None:
    assert printable("é 鳥\t\x1b[31m\ud800\u202e\n") == r"é 鳥\t\x1b[31m\ud800\u202e\n"
    assert sanitize("x" * 201) == "x" * 200 + "... (201 characters)"


def is_fit(error: pytest.ExceptionInfo[gpufeed.GpufeedError]) -> bool:
    said = str(error.value)
    return said.isprintable() and len(said) < 2000


@pytest.mark.parametrize("kind", ODD)
def test_failures_of_odd_names_are_told_shortly(kind: str) -> None:
    failures = Failures(lambda _: ODD[kind], lambda _: ODD[kind], 10, 0)
    error = DecodeError(1, ODD[kind], ODD[kind])
    failures.add(error, 0)
    with pytest.raises(gpufeed.TooManyFailuresError) as caught:
        failures.check()
    assert is_fit(caught)


def by_path(text: str, folder: Path) -> pl.DataFrame:
    return pl.DataFrame({"path": [f"../{text}"], "label": [1]})


def by_link(text: str, folder: Path) -> pl.DataFrame:
    (folder / "out").symlink_to(f"/{text[:200]}")
    return pl.DataFrame({"path": ["out"], "label": [1]})


@pytest.mark.parametrize("make", [by_path, by_link])
@pytest.mark.parametrize("kind", sorted({*ODD} - {"half a letter"}))  # which polars cannot hold
def test_paths_of_odd_texts_are_refused_shortly(
    kind: str, make: Callable[[str, Path], pl.DataFrame], tmp_path: Path
) -> None:
    with pytest.raises(ManifestError) as caught:
        read_table(make(ODD[kind], tmp_path), root=tmp_path)
    assert is_fit(caught)


@settings(max_examples=40)
@given(st.recursive(st.text() | st.binary() | st.integers(), st.lists, max_leaves=50))
@example(["x" * 10**6] * 100)
@example(np.zeros((100, 100)))
def test_a_value_of_the_users_is_shown_shortly(value: object) -> None:
    assert len(short(value)) <= 120
    if not isinstance(value, list) and len(repr(value)) <= 100:
        assert eval(short(value)) == value  # noqa: S307


def test_of_a_long_list_few_values_are_looked_at() -> None:
    class Seen:
        count = 0

        def __repr__(self) -> str:
            Seen.count += 1
            return "seen"

    assert short([Seen()] * 1000) == "[seen, seen, seen, seen, seen, seen, ...]"
    assert Seen.count == 6


@pytest.mark.parametrize("take", [Loader, Loader.for_evaluation])
def test_images_given_as_a_manifest_are_told_of_shortly(
    take: Callable[[object], Loader], testdata: Path
) -> None:
    photos = [path.read_bytes() for path in sorted((testdata / "photos").rglob("*.jpg"))[:10]]
    assert sum(map(len, photos)) > 10**6
    for given_as in (photos, dict(enumerate(photos)), photos[0], np.frombuffer(photos[0], "u1")):
        with pytest.raises(ConfigError) as caught:
            take(given_as)
        assert len(str(caught.value)) < 300
        assert 'read_table({"label": labels}, source=MemorySource(images))' in str(caught.value)
    with pytest.raises(
        ConfigError, match=r"manifest is 'photos/'; .* as read_folder and read_table"
    ):
        take("photos/")


@pytest.mark.parametrize(
    "call",
    [
        lambda wrong: gpufeed.IndexSampler(10, seed=wrong),
        lambda wrong: gpufeed.ShardOptions(wrong, 1),
        lambda wrong: gpufeed.Resize(wrong),
        lambda wrong: gpufeed.Normalize(mean=wrong),
        lambda wrong: gpufeed.RandomApply(wrong),
        lambda wrong: gpufeed.Views(wrong),
        lambda wrong: gpufeed.Lambda(wrong),
        lambda wrong: gpufeed.read_table({"path": [""]}, path=wrong),
        lambda wrong: gpufeed.read_table({"path": [""]}, box_labels=wrong),
        lambda wrong: gpufeed.read_table({"path": [""]}, source=wrong),
        lambda wrong: gpufeed.read_table({"path": [""]}, classes=wrong),
        lambda wrong: gpufeed.read_table({"path": [""]}, on_bad_image=wrong),
        lambda wrong: gpufeed.read_folder(".", extensions=wrong),
    ],
)
def test_any_wrong_value_is_told_of_shortly(call: Callable[[object], object]) -> None:
    with pytest.raises(gpufeed.GpufeedError) as caught:
        call([b"\xff" * 10**5] * 10)
    assert is_fit(caught)


def test_errors_are_one_line_that_can_be_printed() -> None:
    name = "x\x1b[31m\n\ud800.jpg"
    told = TransformError("Crop", name)
    told.path, told.record_key = name, 3
    for error in (ManifestError(name), StateMismatchError(name), DecodeError(3, name, name), told):
        assert str(error).isprintable()
        assert r"x\x1b[31m\n\ud800.jpg" in str(error)
    assert DecodeError(3, name, "bad").path == name
