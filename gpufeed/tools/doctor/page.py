"""The report as one HTML page with plots, without scripts and without anything from a network."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path

from gpufeed._util.atomic_write import atomic_write
from gpufeed.tools.doctor.diagnosis import Diagnosis, interval
from gpufeed.tools.median import Median

__all__ = ["make_page", "save_page"]

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 52rem;
  padding: 0 1rem; color: #222; background: #fff; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; } h2 { font-size: 1.05rem; margin-top: 2rem; }
.verdict { font-size: 1.15rem; border-left: 4px solid #0b6e4f; padding-left: 1rem; }
.row { display: grid; grid-template-columns: 13rem 1fr; gap: 0 1rem; margin: .35rem 0; }
.name { overflow-wrap: anywhere; } .worst .name { font-weight: 600; }
.track { position: relative; height: 1.1rem; background: #eee; margin-top: .2rem; }
.bar { position: absolute; inset: 0 auto 0 0; background: #7aa6c2; min-width: 1px; }
.worst .bar { background: #c2593b; }
.range { position: absolute; top: 50%; height: 2px; background: #222; }
.value { grid-column: 2; font-size: .85rem; color: #555; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .8rem; background: #f6f6f6;
  padding: 1rem; }
@media (max-width: 34rem) { .row { grid-template-columns: 1fr; } .value { grid-column: 1; } }
"""


def make_page(found: Diagnosis, title: str) -> str:
    """Return the page."""
    name = html.escape(title)
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>gpufeed doctor: {name}</title><style>{_STYLE}</style>",
        f"<h1>{name}</h1><p class='verdict'>{html.escape(found.verdict)}</p>",
        "<h2>What to change</h2>",
    ]
    if found.advice:
        items = [
            f"<li>{html.escape(each.advice)} Expected: {interval(each.gain, '.2f')} times.</li>"
            for each in found.advice
        ]
        parts.append(f"<ol>{''.join(items)}</ol>")
    else:
        parts.append("<p>Nothing that gpufeed can change would gain 10 %.</p>")
    if found.verified is not None:
        gains = {
            "predicted": found.verified.predicted,
            "measured": found.verified.measured,
            "CPU time saved": found.verified.cpu,
        }
        parts.append(
            f"<h2>Applied to a real loader: {html.escape(found.verified.name)}, times</h2>"
        )
        parts.append(_bars(gains, ".2f", "measured"))
    parts.append("<h2>Ceilings, images/s</h2><p>The smallest bounds the run.</p>")
    ordered = dict(sorted(found.bound.ceilings.items(), key=lambda item: item[1].median))
    # Bars up to ten times the bound: what is beyond does not matter.
    parts.append(_bars(ordered, ",.0f", found.bound.name, 10 * found.bound.rate.median))
    parts.append("<h2>CPU time of an image, ms</h2>")
    largest = max(found.cpu_ms, key=lambda name: found.cpu_ms[name].median)
    parts.append(_bars(found.cpu_ms, ".3f", largest))
    storage = found.storage
    rates = {"as found": storage.found, "from the disk": storage.cold, "again": storage.warm}
    parts.append("<h2>Reading, images/s</h2>")
    parts.append(_bars({k: v for k, v in rates.items() if v is not None}, ",.0f", ""))
    parts.append(f"<h2>All figures</h2><pre>{html.escape(str(found))}</pre></html>")
    return "\n".join(parts) + "\n"


def save_page(found: Diagnosis, title: str, target: Path) -> None:
    """Write the page, atomically.

    Raises:
        OSError: it cannot be written; the error names `target`.
    """
    atomic_write(target, make_page(found, title).encode())


def _bars(values: Mapping[str, Median], form: str, worst: str, end: float | None = None) -> str:
    """Return a bar for each value, with its interval as a line."""
    most = max(each.high for each in values.values())
    end = max(min(end or most, most), 1e-12)
    rows = []
    for name, each in values.items():
        width, low, high = (
            100 * min(value / end, 1) for value in (each.median, each.low, each.high)
        )
        rows.append(
            f"<div class='row{' worst' * (name == worst)}'><div class='name'>{html.escape(name)}"
            f"</div><div class='track'><div class='bar' style='width:{width:.2f}%'></div>"
            f"<div class='range' style='left:{low:.2f}%;width:{high - low:.2f}%'></div></div>"
            f"<div class='value'>{interval(each, form)}</div></div>"
        )
    return "".join(rows)
