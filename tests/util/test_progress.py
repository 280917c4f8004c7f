"""The progress bar: nothing but on a terminal, and plain text in a notebook."""

from __future__ import annotations

import sys

import pytest

from gpufeed._util.progress import progress


@pytest.fixture
def _in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel as rich finds it, without ipywidgets; warnings are errors in all tests."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)


@pytest.mark.usefixtures("_in_a_notebook")
def test_a_notebook_shows_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("reading", 3, show=True, unit="images") as advance:
        advance(2)
        advance(1)
    out, err = capsys.readouterr()
    assert out == ""
    assert "\x1b" not in err
    assert err.count("reading") == 1
    assert "3/3" in err


@pytest.mark.usefixtures("_in_a_notebook")
def test_a_notebook_shows_nothing_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("reading", 3) as advance:
        advance(3)
    assert capsys.readouterr() == ("", "")
