"""docs/design.md shows the tree and the order of imports as they are."""

from __future__ import annotations

import re

from tests.docs.test_import import LAYERS
from tests.support import tree


def test_the_tree_is_as_it_is() -> None:
    page = tree.PAGE.read_text()
    assert page == tree.with_tree(page), "run: python -m tests.support.tree"


def test_every_module_says_what_it_is_for_in_a_line() -> None:
    for line in tree.tree():
        assert len(line.split(maxsplit=1)) == 2, line
        assert len(line) <= 130, line


def test_the_order_of_imports_is_as_it_is() -> None:
    page = tree.PAGE.read_text()
    (written,) = re.findall(r"^`errors`, .*$", page, re.MULTILINE)
    listed = [set(re.findall(r"`(\w+)`", layer)) for layer in written.split(" | ")]
    assert listed == [layer - {"__main__"} for layer in LAYERS]


def test_modules_that_are_named_are_there() -> None:
    page = tree.PLACE.sub("", tree.PAGE.read_text())
    for name in re.findall(r"`([\w/]+\.pyi?)`", page):
        top = tree.PACKAGE.parent
        assert any((base / name).is_file() for base in (tree.PACKAGE, top)), name
