"""The report of a comparison: a table, plots, and a page that holds both; made from its JSON alone.

python -m benchmarks.compare.report comparison.json
"""

from __future__ import annotations

import base64
import html
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

__all__ = ["table", "write"]

OURS = "gpufeed"
Row = dict[str, Any]


def write(found: dict[str, Any], folder: Path) -> None:
    """Write comparison.md, comparison.png and comparison.html.

    Args:
        found: what the comparison's JSON holds.
        folder: where to.
    """
    text = "\n\n".join(table(result) for result in found["results"])
    (folder / "comparison.md").write_text(f"{_machine(found['machine'])}\n\n{text}\n")
    picture = _plot(found["results"])
    (folder / "comparison.png").write_bytes(picture)
    (folder / "comparison.html").write_text(_page(found, picture))


def _machine(machine: dict[str, Any]) -> str:
    gpu = f"{machine['gpu']} (driver {machine['driver']}), " if machine["gpu"] else ""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"{gpu}{machine['cores']} cores of {machine['cpu']}; Python {machine['python']}, "
        f"{versions}; commit {machine['commit']}"
    )


def rows(result: dict[str, Any]) -> list[Row]:
    """What the table and the plots show of each contender, the fastest first.

    `ratio` is the median over the rounds of its images/s over gpufeed's in the same round.
    """
    ours = next((entry for entry in result["entries"] if entry["name"] == OURS), None)
    listed = []
    for entry in result["entries"]:
        rates = [each["images_per_second"] for each in entry["warm"]]
        cpu = [each["user_ms"] + each["system_ms"] for each in entry["warm"]]
        ratios = [
            mine["images_per_second"] / theirs["images_per_second"]
            for mine, theirs in zip(entry["warm"], ours["warm"] if ours else [], strict=False)
        ]
        cold = [each["images_per_second"] for each in entry["cold"]]
        listed.append(
            {
                "name": entry["name"],
                "equal": entry["equal"],
                "does": entry["does"],
                "limit": entry["name"].startswith("limit"),
                "rate": statistics.median(rates),
                "least": min(rates),
                "most": max(rates),
                "ratio": statistics.median(ratios) if ratios else None,
                "cpu_ms": statistics.median(cpu),
                "memory_mib": statistics.median(each["memory_mib"] for each in entry["warm"]),
                "first_batch_s": entry["first_batch_s"],
                "cold": statistics.median(cold) if cold else None,
                "remarks": entry["remarks"],
            }
        )
    return sorted(listed, key=lambda row: (row["limit"], -row["rate"]))


def table(result: dict[str, Any]) -> str:
    """Return a result as a Markdown table."""
    work = result["work"]
    lines = [
        f"{work['name']}, {work['batch_size']} a batch, {work['size']} x {work['size']} float32 on "
        f"{work['device']}: medians of {_rounds(result)} rounds",
        "",
        "| loader | images/s | over gpufeed | CPU ms an image | memory, MiB | first batch, s | |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for row in rows(result):
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        remarks = "; ".join([row["does"], *row["remarks"]] if row["does"] else row["remarks"])
        name = f"**{row['name']}**" if row["name"] == OURS else row["name"]
        lines.append(
            f"| {name} | {row['rate']:,.0f} ({row['least']:,.0f} to {row['most']:,.0f}) | {ratio} "
            f"| {row['cpu_ms']:.2f} | {row['memory_mib']:,.0f} | {row['first_batch_s']:.1f} "
            f"| {remarks} |"
        )
    lines += ["", *(f"Absent: {each['name']}: {each['why']}" for each in result["absent"])]
    return "\n".join(lines).rstrip()


def _rounds(result: dict[str, Any]) -> int:
    return max((len(entry["warm"]) for entry in result["entries"]), default=0)


_COLOURS = {"ours": "#0072b2", "equal": "#56b4e9", "less": "#e69f00", "limit": "#999999"}
"""Okabe and Ito's, which the colour-blind can tell apart."""


def _kind(row: Row) -> str:
    if row["name"] == OURS:
        return "ours"
    if row["limit"]:
        return "limit"
    return "equal" if row["equal"] else "less"


def _plot(results: Sequence[dict[str, Any]]) -> bytes:
    import io

    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    columns: list[tuple[str, str, Callable[[Row], float]]] = [
        ("images/s", "rate", lambda row: row["rate"]),
        ("CPU ms an image", "cpu_ms", lambda row: row["cpu_ms"]),
    ]
    tallest = max(len(result["entries"]) for result in results)
    figure, axes = pyplot.subplots(
        len(results),
        2,
        figsize=(14, max(0.32 * tallest + 1.2, 2.4) * len(results)),
        squeeze=False,
        layout="constrained",
    )
    for line, result in zip(axes, results, strict=True):
        listed = rows(result)[::-1]
        work = result["work"]
        for axis, (label, _, value) in zip(line, columns, strict=True):
            places = range(len(listed))
            shown = [row for row in listed if row["name"] != "limit: a batch that is ready"]
            most = max(value(row) for row in shown)
            axis.barh(
                places,
                [min(value(row), most * 1.05) for row in listed],
                color=[_COLOURS[_kind(row)] for row in listed],
            )
            for place, row in enumerate(listed):
                shown_value = value(row)
                text = f"{shown_value:,.0f}" if label == "images/s" else f"{shown_value:.2f}"
                axis.text(min(shown_value, most * 1.05), place, f" {text}", va="center", fontsize=8)
            if label == "images/s":
                for place, row in enumerate(listed):
                    if row["most"] <= most * 1.05:
                        axis.plot([row["least"], row["most"]], [place, place], "k-", linewidth=1)
            axis.set_xlim(0, most * 1.22)
            axis.set_xlabel(label)
            axis.set_yticks(places, [row["name"] for row in listed] if axis is line[0] else [])
            axis.tick_params(axis="y", labelsize=8)
            axis.spines[["top", "right"]].set_visible(False)
        line[0].set_title(
            f"{work['name']}, {work['batch_size']} a batch, on {work['device']}", loc="left"
        )
    figure.legend(
        handles=[
            Patch(color=_COLOURS["ours"], label="gpufeed"),
            Patch(color=_COLOURS["equal"], label="the same work"),
            Patch(color=_COLOURS["less"], label="less work: resize not antialiased"),
            Patch(color=_COLOURS["limit"], label="limits: part of the work"),
        ],
        loc="outside upper right",
        ncols=4,
        frameon=False,
    )
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=100)
    pyplot.close(figure)
    return buffer.getvalue()


_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #1c1e21; max-width: 1180px; margin: 2em auto;
       padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0 2em; font-variant-numeric: tabular-nums }
td, th { padding: .25em .8em; border-bottom: 1px solid #ddd; text-align: right }
td:first-child, th:first-child, td:last-child { text-align: left }
tr.ours { font-weight: 600; background: #e8f1f8 } tr.limit, tr.less { color: #68707a }
img { max-width: 100% } .note { color: #68707a }
"""


def _page(found: dict[str, Any], picture: bytes) -> str:
    """A page that needs nothing beside it."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>gpufeed: comparison</title>",
        f"<style>{_STYLE}</style><h1>gpufeed beside other loaders</h1>",
        f"<p class='note'>{html.escape(_machine(found['machine']))}</p>",
        f"<img alt='images/s and CPU time of each loader' src='data:image/png;base64,"
        f"{base64.b64encode(picture).decode()}'>",
    ]
    heads = ("loader", "images/s", "range", "over gpufeed", "CPU ms", "MiB", "first batch, s", "")
    for result in found["results"]:
        work = result["work"]
        parts.append(
            f"<h2>{html.escape(work['name'])}, {work['batch_size']} a batch, on {work['device']}"
            f"</h2><p class='note'>{work['pictures']} pictures, medians of {_rounds(result)} "
            "rounds in turns.</p><table><tr>"
            + "".join(f"<th>{head}</th>" for head in heads)
            + "</tr>"
        )
        for row in rows(result):
            ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
            remarks = "; ".join(filter(None, [row["does"], *row["remarks"]]))
            cells = (
                html.escape(row["name"]),
                f"{row['rate']:,.0f}",
                f"{row['least']:,.0f} to {row['most']:,.0f}",
                ratio,
                f"{row['cpu_ms']:.2f}",
                f"{row['memory_mib']:,.0f}",
                f"{row['first_batch_s']:.1f}",
                html.escape(remarks),
            )
            parts.append(
                f"<tr class='{_kind(row)}'>" + "".join(f"<td>{cell}</td>" for cell in cells)
            )
        parts.append("</table>")
        parts += [
            f"<p class='note'>Absent: {html.escape(each['name'])}: {html.escape(each['why'])}</p>"
            for each in result["absent"]
        ]
    return "\n".join(parts) + "</html>\n"


if __name__ == "__main__":
    given = Path(sys.argv[1])
    write(json.loads(given.read_text()), given.parent)
