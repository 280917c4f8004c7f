"""Write the comparison into pages, between two comments, from a saved JSON.

    python -m benchmarks.compare.readme [COMPARISON.json]

The first comment names the JSON, relative to the page; an argument replaces it. The comment may ask
for a few rows: `<!-- comparison: FILE first 6 -->` has the six fastest of equal work.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.compare.data import SYNTHETIC
from benchmarks.compare.results import Comparison, Result
from benchmarks.compare.rows import READY, Row, rows
from gpufeed.tools.median import Median

__all__ = ["PAGES", "block", "main", "source_of", "with_block"]

_TOP = Path(__file__).parent.parent.parent

PAGES = (_TOP / "README.md", _TOP / "docs" / "performance" / "index.md")

_BLOCK = re.compile(
    r"<!-- comparison: (?P<source>\S+)(?: first (?P<rows>\d+))? -->\n"
    r".*?<!-- end of the comparison -->",
    re.DOTALL,
)
_HEADS = {"originals": "NABirds-like originals", "cleaned": "cut to 269 x 269"}
_WORKERS = re.compile(r", \d+ workers?$")


def block(found: Comparison, rows_shown: int | None = None) -> str:
    """Return the comparison in Markdown: its conditions, a table, and the limits.

    With `rows_shown`, the table has so many rows, and nothing follows it.

    It includes only training with cached files and the smallest batches, on photos if there are
    any, and for each loader the number of workers that is fastest on the first set of images.

    Raises:
        ValueError: there is no such result, or gpufeed is not in it.
    """
    results = _chosen(found)
    listed = [{row.name: row for row in rows(result)} for result in results]
    fastest = _fastest(rows(results[0]))
    equal = [row for row in fastest if row.kind in ("ours", "equal")]
    equal.sort(key=lambda row: -row.ratio.median if row.ratio else 0.0)
    lines = [
        _introduction(found, results, len(listed[0])),
        "",
        f"| | {' | '.join(_HEADS.get(each.work.name, each.work.name) for each in results)} |",
        f"|---|{'--:|' * len(results)}",
    ]
    for row in equal[:rows_shown]:
        name = f"**{row.name}**" if row.kind == "ours" else row.name
        cells = [_cell(rows_of.get(row.name)) for rows_of in listed]
        lines.append(f"| {' | '.join([name, *cells])} |")
    if rows_shown is not None:
        return "\n".join(lines)
    for kind, text in (
        ("less", "Loaders that resize without antialiasing, which is less work, reach"),
        ("limit", "Parts of the work alone reach"),
    ):
        told = []
        for row in fastest:
            if row.kind == kind and row.name != READY:
                ratios = " and ".join(_ratio(each.get(row.name)) for each in listed)
                told.append(f"{row.name.removeprefix('limit: ')} {ratios}")
        if told:
            lines += ["", f"{text}: {'; '.join(told)}."]
    return "\n".join(lines)


def _chosen(found: Comparison) -> list[Result]:
    """One result for each set of images: of the smallest batches, in the order of the JSON."""
    chosen: dict[str, Result] = {}
    training = [result for result in found.results if result.work.preset == "train"]
    photos = [result for result in training if not result.work.name.startswith(SYNTHETIC)]
    for result in photos or training:
        kept = chosen.setdefault(result.work.name, result)
        if result.work.batch_size < kept.work.batch_size:
            chosen[result.work.name] = result
    for name, result in chosen.items():
        if result.ours is None:
            raise ValueError(f"gpufeed is not in the comparison on {name}; nothing can be told")
    if not chosen:
        raise ValueError("the comparison holds no result of training; nothing can be told")
    return list(chosen.values())


def _fastest(listed: Sequence[Row]) -> list[Row]:
    """Of rows that differ in their number of workers alone, the first, which is the fastest."""
    kept: dict[str, Row] = {}
    for row in listed:
        kept.setdefault(_WORKERS.sub("", row.name), row)
    return list(kept.values())


def _introduction(found: Comparison, results: Sequence[Result], contenders: int) -> str:
    work, ours = results[0].work, results[0].ours
    limits = sum(row.limit for row in rows(results[0]))
    rate = ours.figure("images_per_second") if ours else None
    interval = f" ({100 * rate.coverage:.0f} % sure)" if rate and rate.coverage else ""
    cores = f"{work.cores} cores"
    where = f"{cores} and a {found.machine.gpu}" if work.device == "cuda" else f"{cores} of a CPU"
    return (
        f"Beside {contenders - limits - 1} other loaders at the same work (decode, random crop, "
        f"resize to {work.size}, flip, normalise; batches of {work.batch_size}), in turns in one "
        f"run on {where}: images/s as parts of gpufeed's, medians of {results[0].rounds} rounds "
        f"with their interval{interval}."
    )


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    if row.kind == "ours":
        return f"1 ({row.rate.median:,.0f} images/s)"
    if row.ratio is None or row.ratio.rounds == 1:
        return _ratio(row)
    return f"{_ratio(row)} ({_text(row.ratio.low)} to {_text(row.ratio.high)})"


def _ratio(row: Row | None) -> str:
    found: Median | None = row.ratio if row else None
    return "absent" if found is None else _text(found.median)


def _text(ratio: float) -> str:
    return f"{ratio:.2f}"


def source_of(text: str) -> str:
    """Return the JSON that a page says its comparison is of, relative to the page.

    Raises:
        ValueError: there are no comments to write between.
    """
    matched = _BLOCK.search(text)
    if matched is None:
        raise ValueError(
            "no place for the comparison; it goes between the lines `<!-- comparison: FILE -->` "
            "and `<!-- end of the comparison -->`"
        )
    return matched["source"]


def with_block(text: str, source: str, found: Comparison) -> str:
    """Return a page's text with the comparison of `source` in it.

    Raises:
        ValueError: there are no comments to write between.
    """
    source_of(text)

    def written(place: re.Match[str]) -> str:
        shown = place["rows"]
        few = f" first {shown}" if shown else ""
        table = block(found, int(shown) if shown else None)
        return f"<!-- comparison: {source}{few} -->\n\n{table}\n\n<!-- end of the comparison -->"

    return _BLOCK.sub(written, text, count=1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the comparison into pages."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare.readme", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "json", type=Path, nargs="?", help="JSON file; by default the one that each page names"
    )
    parser.add_argument(
        "--readme", type=Path, action="append", help="by default README.md and the site's page"
    )
    options = parser.parse_args(arguments)
    for page in options.readme or PAGES:
        text = page.read_text()
        folder = page.resolve().parent
        path = options.json.resolve() if options.json else folder / source_of(text)
        source = Path(os.path.relpath(path, folder)).as_posix()
        page.write_text(with_block(text, source, Comparison.load(path)))


if __name__ == "__main__":
    main()
