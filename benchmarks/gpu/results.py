"""The results of a run: merged with those of earlier runs, and written after every case."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.gpu.job import Facts
from benchmarks.machine import Machine

__all__ = ["Results"]

_HIDDEN = ("goal", "found", "log", "printed")
"""Facts that get no column of their own."""
_DECISIVE = ("tests", "decoders", "pixels", "lifetimes", "records", "openers")
"""Steps that say whether an opener is right, and which is the fastest."""
_MAX_COLUMNS = 6
"""Steps with more kinds of facts get a list in place of a table."""


class Results:
    """The results in a folder.

    Args:
        out: the folder, which is made if it does not exist.
        device: "cpu" or "cuda".

    Raises:
        ValueError: the folder holds results of the other device.
    """

    def __init__(self, out: Path, device: str) -> None:
        self._out = out
        out.mkdir(parents=True, exist_ok=True)
        saved = out / "results.json"
        self._content: dict[str, Any] = json.loads(saved.read_text()) if saved.exists() else {}
        if self._content.get("device", device) != device:
            raise ValueError(
                f"{out} holds results of {self._content['device']}; give another --out"
            )
        self._content |= {"device": device, "machine": asdict(Machine.here())}
        self._content.setdefault("steps", {})

    def forget(self, step: str) -> None:
        """Drop what is known of a step."""
        self._content["steps"].pop(step, None)

    def begin(self, step: str, about: str) -> None:
        """Make room for a step; what is known of it stays."""
        self._step(step)["about"] = about

    def known(self, step: str) -> dict[str, Facts]:
        """Return the cases of a step that need not be run again."""
        return dict(self._step(step)["cases"])

    def complete(self, step: str) -> bool:
        """Return whether all cases of a step have been run."""
        return step in self._content["steps"] and self._step(step)["complete"]

    def finish(self, step: str) -> None:
        """Note that all cases of a step have been run."""
        self._step(step)["complete"] = True
        self.save()

    def add(self, step: str, case: str, facts: Facts, seconds: float) -> None:
        """Note a case, and write everything."""
        found = self._step(step)
        found["cases"][case] = facts
        found["seconds"] = round(found["seconds"] + seconds, 1)
        self.save()

    def _step(self, step: str) -> dict[str, Any]:
        empty = {"about": "", "seconds": 0.0, "complete": False, "cases": {}}
        found: dict[str, Any] = self._content["steps"].setdefault(step, empty)
        return found

    def failures(self) -> list[str]:
        """Return a line for each case that failed or is not as it should be."""
        return [
            f"{step}: {case}: {facts.get('error', 'not as it should be')}"
            for step, case, facts in self._cases()
            if _is_wrong(facts)
        ]

    def _cases(self) -> Iterator[tuple[str, str, Facts]]:
        for step, found in self._content["steps"].items():
            for case, facts in found["cases"].items():
                yield step, case, facts

    def advice(self) -> str:
        """Return the fastest options, and whether what must hold before they are used does."""
        steps = self._content["steps"]
        best = steps.get("openers", {"cases": {}})["cases"].get("the best", {})
        if "options" not in best:
            return "Not known: the step openers has not come to its last case."
        wrong = sorted({step for step, _, facts in self._cases() if _is_wrong(facts)})
        waited_for = [step for step in _DECISIVE if not self.complete(step)]
        advice = f"`Loader(..., {best['options']})`: {_text(best['images/s'])} images/s."
        if waited_for:
            advice += f" Not before these steps are complete: {', '.join(waited_for)}."
        if wrong:
            advice += f" Not before what is wrong is understood in: {', '.join(wrong)}."
        return advice

    def save(self) -> None:
        """Write `results.json` and `summary.md`, each whole or not at all."""
        for name, text in (
            ("results.json", json.dumps(self._content, indent=1) + "\n"),
            ("summary.md", self.summary()),
        ):
            fresh = self._out / f"{name}.new"
            fresh.write_text(text)
            os.replace(fresh, self._out / name)  # noqa: PTH105 - atomic

    def summary(self) -> str:
        """Return the results as a page."""
        on_cpu = self._content["device"] == "cpu"
        about = "the CPU, where only the program itself is tried" if on_cpu else "a GPU"
        parts = [f"# gpufeed on {about}\n\n{Machine(**self._content['machine'])}\n"]
        goals = [
            [f"{step}: {case}", facts["goal"], _text(facts.get("found")), _text(facts.get("ok"))]
            for step, case, facts in self._cases()
            if "goal" in facts
        ]
        if goals:
            parts.append("## Goals\n\n" + _table(["figure", "goal", "found", "reached"], goals))
        if failures := self.failures():
            parts.append("## Not in order\n\n" + "".join(f"- {_cell(each)}\n" for each in failures))
        for step, found in self._content["steps"].items():
            cases = found["cases"]
            end = "" if found["complete"] else "; **not complete**"
            title = f"## {step}\n\n{found['about']} ({found['seconds']:.0f} s{end})\n\n"
            parts.append(title + _cases_shown(cases))
        parts.append(f"## What to use\n\n{self.advice()}\n")
        return "\n".join(parts)


def _is_wrong(facts: Facts) -> bool:
    return "error" in facts or facts.get("ok") is False


def _cases_shown(cases: dict[str, Facts]) -> str:
    """Return the facts of cases as a table, or as a list if that would be too wide."""
    every = dict.fromkeys(name for facts in cases.values() for name in facts)
    names = [name for name in every if name not in _HIDDEN]
    shown = {
        case: {name: _text(facts.get(name)) for name in names} for case, facts in cases.items()
    }
    if len(names) <= _MAX_COLUMNS:
        return _table(["case", *names], [[case, *facts.values()] for case, facts in shown.items()])
    return "".join(
        f"- {_cell(case)}: "
        + "; ".join(f"{name} {_cell(text)}" for name, text in facts.items() if text)
        + "\n"
        for case, facts in shown.items()
        if any(facts.values())
    )


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(_cell, line)) + " |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "/")[:300]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
