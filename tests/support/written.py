"""Tables of documents that a program writes, between two comments that name it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path


def cells(table: str) -> list[list[str]]:
    """The cells of each row of a table below its head."""
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()[2:]]


class Document:
    """A document in which a program writes tables.

    Args:
        path: where it is.
        program: the command that writes them.
    """

    def __init__(self, path: Path, program: str) -> None:
        self.path = path
        self._program = program

    def table(self, name: str) -> str:
        """The table of this name, as it stands there."""
        found = self._place(name).search(self.path.read_text())
        if found is None:
            raise ValueError(
                f"{self.path} has no place for {name}; it goes between the lines "
                f"{' and '.join(self._marks(name))}"
            )
        return found["table"].strip()

    def write(self, tables: Mapping[str, str]) -> None:
        """Put these in the place of those that stand there, by their names."""
        text = self.path.read_text()
        for name, table in tables.items():
            self.table(name)  # there is a place for it
            begin, end = self._marks(name)
            new = f"{begin}\n\n{table}\n\n{end}"
            text = self._place(name).sub(lambda _, new=new: new, text)
        self.path.write_text(text)

    def _marks(self, name: str) -> Sequence[str]:
        return f"<!-- {name}: {self._program} -->", f"<!-- end of {name} -->"

    def _place(self, name: str) -> re.Pattern[str]:
        begin, end = map(re.escape, self._marks(name))
        return re.compile(f"{begin}(?P<table>.*?){end}", re.DOTALL)
