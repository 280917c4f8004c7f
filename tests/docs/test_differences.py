"""docs/reference/transforms.md is true: its tables are what is measured, its example runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpufeed import Manifest
from gpufeed import transforms as tf
from gpufeed.tools.called import call, purpose, signature
from tests.support import differences
from tests.support.differences import (
    ABSTRACT,
    DOCUMENT,
    Row,
    differences_table,
    kinds,
    listing,
    measured,
)
from tests.support.written import Document, cells

TEXT = DOCUMENT.path.read_text()
WRITE = "run `python -m tests.support.differences`, which writes docs/reference/transforms.md"


def number(cell: str) -> float:
    return 0.0 if cell == "a few" else float(cell.removesuffix("%"))


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return differences.synthetic(tmp_path_factory.mktemp("differences"))


def test_differences_are_as_told(birds: Manifest) -> None:
    """Means to 0.02 levels and a tenth, shares to 2 points and a tenth; the largest to two levels.

    Where a difference of more than eight levels is that of a few pixels, the largest is any.
    """
    told, found = (
        cells(DOCUMENT.table("the differences")),
        cells(differences_table(measured(birds))),
    )
    assert [row[:2] for row in told] == [row[:2] for row in found], WRITE
    for was, now in zip(told, found, strict=True):
        (mean, largest, share), (mean_now, largest_now, share_now) = (
            [number(cell) for cell in row[2:5]] for row in (was, now)
        )
        assert abs(mean - mean_now) <= 0.02 + 0.1 * mean, (WRITE, was, now)
        assert abs(share - share_now) <= 2 + 0.1 * share, (WRITE, was, now)
        few = min(largest, largest_now) > 8
        assert few or abs(largest - largest_now) <= 2, (WRITE, was, now)
        assert bool(now[5]) == (largest_now >= 1), now


def test_the_list_is_that_of_the_package() -> None:
    assert DOCUMENT.table("the list") == listing(), WRITE


def test_every_transform_is_compared() -> None:
    compared = " ".join(row[0] for row in cells(DOCUMENT.table("the differences")))
    left = {kind for kind in kinds() if f"{kind.__name__}(" not in compared}
    # A list, and what changes no pixel.
    assert left == {tf.Compose, tf.SoftLabels}
    for name in tf.__all__:
        kind = getattr(tf, name)
        if isinstance(kind, type) and issubclass(kind, tf.Transform) and kind not in ABSTRACT:
            assert f"| `{name}(" in DOCUMENT.table("the list")


def test_what_is_compared_would_show() -> None:
    """A row tells of one level in one image."""
    plain = np.zeros((4, 4, 3), np.uint8)
    other = plain.copy()
    other[0, 0, 0] = 3
    row = Row.of("x", "", iter([(plain, plain), (other, plain)]))
    assert (row.mean, row.largest, row.share) == (3 / 96, 3, 1 / 96)


def test_calls_are_written_as_they_were_made() -> None:
    made = call(tf.RandomApply, [call(tf.GaussianBlur, 5, sigma=(0.1, 2.0))], p=0.25)
    assert made.text == "RandomApply([GaussianBlur(5, sigma=(0.1, 2.0))], p=0.25)"
    assert made.made.identity == tf.RandomApply([tf.GaussianBlur(5, (0.1, 2.0))], 0.25).identity
    again = eval(made.text, vars(tf))  # noqa: S307 - written above
    assert again.identity == made.made.identity
    assert call(tf.Resize, (8, 9), "bicubic").text == 'Resize((8, 9), "bicubic")'
    assert signature(tf.ToDtype) == 'ToDtype(dtype="float32", scale=False, *, layout=None)'
    assert purpose(tf.Resize) == "Resize, antialiased"


def test_a_table_goes_to_its_place_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("# A\n<!-- b: c -->old<!-- end of b -->\n<!-- d: c -->kept<!-- end of d -->\n")
    document = Document(path, "c")
    document.write({"b": "| e |\n|---|\n| \\1 |"})
    assert document.table("d") == "kept"
    assert cells(document.table("b")) == [["\\1"]]
    assert path.read_text().startswith("# A\n<!-- b: c -->\n\n| e |")
    with pytest.raises(ValueError, match="has no place for x; it goes between the lines <!-- x: c"):
        document.write({"b": "lost", "x": ""})
    assert document.table("b") != "lost"
