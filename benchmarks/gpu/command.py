"""Running another program of this repository as a case."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gpu.job import Absent, Facts

__all__ = ["run", "run_json"]

_KEPT = 2000
"""Characters of what it prints that are kept, from the end."""


def run(module: str, *arguments: str) -> Facts:
    """Run `python -m module`; return the end of what it printed.

    Raises:
        Absent: there is no such module.
    """
    if importlib.util.find_spec(module) is None:
        raise Absent(f"there is no module {module}")
    ran = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(ran.stdout, flush=True)
    if ran.returncode:
        last = (ran.stdout.strip().splitlines() or ["it printed nothing"])[-1]
        return {"error": f"exit code {ran.returncode}: {last}"}
    return {"printed": ran.stdout.strip()[-_KEPT:]}


def run_json(module: str, *arguments: str) -> Facts:
    """Run `python -m module --json FILE`; return the numbers in its JSON as rows."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "figures.json")
        facts = run(module, *arguments, "--json", str(out))
        figures: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    figures.pop("machine", None)
    return {**facts, "rows": dict(_rows(figures))}


def _rows(figures: dict[str, Any], name: str = "") -> Iterator[tuple[str, Facts]]:
    """Yield each object of numbers, and of medians, with the names of those around it."""
    numbers = {key: _number(value) for key, value in figures.items()}
    found = {key: value for key, value in numbers.items() if value is not None}
    if found:
        yield name, found
    for key, value in figures.items():
        if isinstance(value, dict) and numbers[key] is None:
            yield from _rows(value, f"{name}, {key}" if name else key)


def _number(value: Any) -> float | None:
    middle = value.get("median") if isinstance(value, dict) else value
    return middle if isinstance(middle, int | float) else None
