"""The tables of docs/reference/hostile.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from tests.hostile.child import ODD
from tests.support.damage import FORMS, KINDS
from tests.support.written import Document

if TYPE_CHECKING:
    from tests.hostile.run import Outcome

DOCUMENT = Document(
    Path(__file__).parents[2] / "docs" / "reference" / "hostile.md", "python -m tests.hostile.run"
)
ALIKE = 2
"""Grey levels by which two decoders may be apart."""


def compared(files: pl.DataFrame) -> str:
    """How gpufeed and Pillow take the files, by what was damaged and by what it was before."""
    lines = [
        "| | files | both decode | of them alike | mean | largest | both refuse | only gpufeed "
        "decodes | only Pillow decodes |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for title, column, names in (
        ("what was damaged", "kind", [*KINDS, ODD]),
        ("what it was before", "form", [*FORMS, "odd JPEG"]),
    ):
        lines.append(f"| **{title}** | | | | | | | | |")
        lines += [_row(name, files.filter(pl.col(column) == name)) for name in names]
    lines.append(_row("**all**", files))
    return "\n".join(lines)


def _row(name: str, files: pl.DataFrame) -> str:
    ours, theirs = pl.col("gpufeed"), pl.col("pillow")
    both = files.filter(ours & theirs)
    same = both.filter(pl.col("largest") <= ALIKE)
    mean, largest = both["mean"].mean(), both["largest"].max()
    shown = [
        f"{files.height:,}",
        f"{both.height:,}",
        f"{same.height:,}",
        "" if mean is None else f"{mean:.2f}",
        "" if largest is None else f"{largest}",
        f"{files.filter(~ours & ~theirs).height:,}",
        f"{files.filter(ours & ~theirs).height:,}",
        f"{files.filter(~ours & theirs).height:,}",
    ]
    return f"| {name} | {' | '.join(shown)} |"


def refusals(outcome: Outcome) -> str:
    """Why gpufeed refuses what Pillow decodes, the commonest reasons first."""
    wanted = outcome.files.filter(pl.col("pillow") & ~pl.col("gpufeed"))
    reasons = outcome.policies["raise"].refused
    counts: dict[str, Counter[str]] = {}
    for key, kind in wanted.select("key", "kind").rows():
        counts.setdefault(alike(reasons[key]), Counter())[kind] += 1
    lines = ["| reason | files | mostly of |", "|---|--:|---|"]
    for reason, kinds in sorted(counts.items(), key=lambda item: (-item[1].total(), item[0])):
        often = ", ".join(kind for kind, _ in kinds.most_common(2))
        lines.append(f"| {reason} | {kinds.total():,} | {often} |")
    return "\n".join(lines)


def alike(reason: str) -> str:
    """A reason without what it quotes, so that those of one kind are the same."""
    reason = re.sub(r"b'.*'|b\".*\"", "...", reason)
    reason = re.sub(r"chunk .*? gives", "chunk ... gives", reason)
    return re.sub(r"0x[0-9A-F]+|\d+(?:,\d{3})*", "N", reason)


LARGE = {
    "alone": "64 small images",
    "refused": "and a large one, refused by `max_pixels`",
    "fed": "and a large one, fed",
    "eight fed": "and eight large ones, fed, and eight bad files",
}


def peaks(said: Mapping[str, Mapping[str, Any]]) -> str:
    """What memory lists with large images took; see `hostile.large`."""
    lines = ["| images | peak memory |", "|---|--:|"]
    for case, title in LARGE.items():
        lines.append(f"| {title} | {said[case]['measured']['peak'] / 1024:,.0f} MB |")
    return "\n".join(lines)


def fed(outcome: Outcome) -> str:
    """What came under each policy."""
    lines = [
        "| `on_error` | files | refused | crashes | hangs | errors that are not gpufeed's | places "
        "lost | delivered twice | peak memory | memory held | threads | open files |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, each in outcome.policies.items():
        shown = [
            f"{outcome.files.height:,}",
            f"{len(each.refused):,}",
            f"{len(each.crashes)}",
            f"{len(each.hangs)}",
            f"{len(each.foreign)}",
            f"{each.lost}",
            f"{each.double}",
            f"{each.measures[-1]['peak'] / 1024:,.0f} MB",
            f"{each.growth('held') / 1024:+.0f} MB",
            f"{each.growth('threads'):+}",
            f"{each.growth('files'):+}",
        ]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(lines)
