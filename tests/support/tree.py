"""The tree of gpufeed's modules, a line each, from their docstrings.

`python -m tests.support.tree` writes it into docs/design.md.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import gpufeed

PACKAGE = Path(gpufeed.__file__).parent
PAGE = PACKAGE.parent / "docs" / "design.md"
PLACE = re.compile(r"(<!-- tree -->\n\n```\n).*?(```\n\n<!-- end of tree -->)", re.DOTALL)


def summary(path: Path) -> str:
    """The first line of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return text.split("\n")[0].removesuffix(".")


def tree(folder: Path = PACKAGE, depth: int = 0) -> list[str]:
    """A line for each module and package, files before folders."""
    indent = "  " * depth
    lines = [f"{indent + folder.name + '/':24}{summary(folder / '__init__.py')}"]
    modules = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
    lines += [f"{'  ' + indent + path.name:24}{summary(path)}" for path in modules]
    for inner in sorted(folder.iterdir()):
        if (inner / "__init__.py").is_file():
            lines += tree(inner, depth + 1)
    return lines


def with_tree(page: str) -> str:
    """The page with today's tree in it."""
    written, count = PLACE.subn(lambda found: found[1] + "\n".join(tree()) + "\n" + found[2], page)
    if count != 1:
        raise ValueError(f"{PAGE} has {count} places for the tree, not one")
    return written


if __name__ == "__main__":
    PAGE.write_text(with_tree(PAGE.read_text()))
