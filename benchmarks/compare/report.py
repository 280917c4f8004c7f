"""The report of a comparison: a table, plots, and a page that holds both; made from its JSON alone.

python -m benchmarks.compare.report comparison.json
"""

from __future__ import annotations

import base64
import html
import sys
from pathlib import Path

from benchmarks.compare.plot import plot
from benchmarks.compare.results import Cache, Comparison, Result
from benchmarks.compare.rows import Row, columns_of, interval_note, rows

__all__ = ["table", "write"]


def write(found: Comparison, folder: Path) -> None:
    """Write comparison.md, comparison.png and comparison.html.

    Args:
        found: what the comparison found.
        folder: where to.
    """
    text = "\n\n".join(table(result) for result in found.results)
    (folder / "comparison.md").write_text(f"{_machine(found)}\n\n{text}\n")
    picture = plot(found.results)
    (folder / "comparison.png").write_bytes(picture)
    (folder / "comparison.html").write_text(_page(found, picture))


def _machine(found: Comparison) -> str:
    return f"{found.machine}; commit {found.machine.commit}"


def table(result: Result) -> str:
    """Return a result as Markdown: a table for each page cache, and who is absent."""
    parts = [_markdown(result, cache) for cache in result.caches]
    absent = [f"Absent: {each.name}: {each.why}" for each in result.absent]
    return "\n\n".join([*parts, *(["  \n".join(absent)] if absent else [])])


def _markdown(result: Result, cache: Cache) -> str:
    listed = rows(result, cache)
    columns = columns_of(listed)
    heads = ["loader", *(column.head for column in columns), "first batch, s", ""]
    lines = [
        f"{_about(result, cache)}: {interval_note(result, cache)}",
        "",
        f"| {' | '.join(heads)} |",
        f"|---|{'--:|' * (len(columns) + 1)}---|",
    ]
    for row in listed:
        name = f"**{row.name}**" if row.kind == "ours" else row.name
        lines.append(f"| {' | '.join([name, *_cells(row, result)])} |")
    return "\n".join(lines)


def _about(result: Result, cache: Cache) -> str:
    work = result.work
    where = ", files not in the page cache" if cache == "cold" else ""
    consumer = f", waiting at {work.consumer:,.0f} images/s" if work.consumer else ""
    size = f"{work.size} x {work.size} float32"
    return f"{work}, {work.pictures} pictures, {size}{where}{consumer}"


def _cells(row: Row, result: Result) -> list[str]:
    """Return a row's figures and remarks, in the columns of its table."""
    figures = [column.cell(row) for column in columns_of(rows(result, row.cache))]
    return [*figures, f"{row.entry.first_batch_s:.1f}", row.remarks]


_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #1c1e21; max-width: 1180px; margin: 2em auto;
       padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0 2em; font-variant-numeric: tabular-nums }
td, th { padding: .25em .8em; border-bottom: 1px solid #ddd; text-align: right }
td:first-child, th:first-child, td:last-child { text-align: left }
tr.ours { font-weight: 600; background: #e8f1f8 } tr.limit, tr.less { color: #68707a }
img { max-width: 100% } .note { color: #68707a }
"""


def _page(found: Comparison, picture: bytes) -> str:
    """A page that needs nothing beside it."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>gpufeed: comparison</title>",
        f"<style>{_STYLE}</style><h1>gpufeed beside other loaders</h1>",
        _note(_machine(found)),
        f"<img alt='images/s and CPU time of each loader' src='data:image/png;base64,"
        f"{base64.b64encode(picture).decode()}'>",
    ]
    for result in found.results:
        for cache in result.caches:
            listed = rows(result, cache)
            heads = ["loader", *(column.head for column in columns_of(listed)), "first batch, s"]
            parts += [
                f"<h2>{html.escape(_about(result, cache))}</h2>",
                _note(interval_note(result, cache)),
                "<table><tr>" + "".join(f"<th>{head}</th>" for head in [*heads, ""]),
            ]
            for row in listed:
                cells = [html.escape(cell) for cell in (row.name, *_cells(row, result))]
                parts.append(
                    f"<tr class='{row.kind}'>" + "".join(f"<td>{cell}</td>" for cell in cells)
                )
            parts.append("</table>")
        parts += [_note(f"Absent: {each.name}: {each.why}") for each in result.absent]
    return "\n".join(parts) + "</html>\n"


def _note(text: str) -> str:
    return f"<p class='note'>{html.escape(text)}</p>"


if __name__ == "__main__":
    given = Path(sys.argv[1])
    write(Comparison.load(given), given.parent)
