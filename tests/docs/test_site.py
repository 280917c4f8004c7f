"""What `.ci/docs` adds to the site, and what it would find."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import site


def test_the_page_of_commands_has_them_all() -> None:
    from gpufeed.cli import app

    page = site.commands()
    assert page.count("\n## gpufeed ") == len(app.registered_commands)
    assert "\n- `--batch-size <int range>`: Images in a batch. [default: 64; x>=1]\n" in page


@pytest.mark.parametrize(
    ("tag", "found"),
    [
        ('<a href="b.html#x">', []),
        ("<a href=b.html>", []),
        ('<a href="https://example.org">', []),
        ('<link rel="canonical" href="https://example.org">', []),
        ('<a href="c.html">', ["a.html: c.html is not there"]),
        ('<img alt="" src="c.png">', ["a.html: c.png is not there"]),
        ("<script src=https://x.org/y.js>", ["a.html: https://x.org/y.js would be fetched"]),
        ('<link rel="stylesheet" href="//x.org/y">', ["a.html: //x.org/y would be fetched"]),
    ],
)
def test_what_is_missing_is_found(tmp_path: Path, tag: str, found: list[str]) -> None:
    (tmp_path / "b.html").touch()
    (tmp_path / "a.html").write_text(f"<body>{tag}</body>")
    assert site.missing(tmp_path) == found
