"""docs/how-to/extending.md shows the very code that is tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "how-to" / "extending.md").read_text()
SHOWN = re.findall(r"^<!-- tests/extending/(\S+) -->\n\n```python\n(.*?)^```", PAGE, re.M | re.S)


def test_every_example_is_shown() -> None:
    assert {name for name, _ in SHOWN} == {
        path.name for path in HERE.glob("test_*.py") if path != Path(__file__)
    }


@pytest.mark.parametrize(("name", "code"), SHOWN)
def test_examples_are_what_is_tested(name: str, code: str) -> None:
    text = (HERE / name).read_text()
    tested = re.findall(r"^# \[docs\]\n(.*?)\n*^# \[/docs\]", text, re.M | re.S)
    assert code.strip() == "\n\n\n".join(part.strip() for part in tested)


@pytest.mark.parametrize("path", sorted(HERE.glob("test_*.py")), ids=lambda path: path.name)
def test_examples_import_gpufeed_alone(path: Path) -> None:
    found = re.findall(r"^\s*(?:import|from) (gpufeed\S*)", path.read_text(), re.M)
    assert set(found) <= {"gpufeed"}
