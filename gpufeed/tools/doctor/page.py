"""The report as one HTML page with plots, without scripts and without anything from a network."""

from __future__ import annotations

import html
from collections.abc import Iterator

from gpufeed.tools.doctor.diagnosis import Diagnosis, Section, interval

__all__ = ["make_page"]

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
    ]
    for section in found.sections:
        parts.append(f"<h2>{html.escape(section.title)}</h2>")
        parts += [f"<p>{html.escape(note)}</p>" for note in section.notes]
        parts += _bars(section)
    return "\n".join(parts) + "</html>\n"


def _bars(section: Section) -> Iterator[str]:
    """Yield a bar for each row, with its interval as a line."""
    most = max((each.high for each in section.rows.values()), default=0.0)
    if section.worst:  # ceilings beyond ten times the smallest do not matter
        most = min(most, 10 * section.rows[section.worst].median)
    for name, each in section.rows.items():
        width, low, high = (
            100 * min(value / max(most, 1e-12), 1) for value in (each.median, each.low, each.high)
        )
        yield (
            f"<div class='row{' worst' * (name == section.worst)}'><div class='name'>"
            f"{html.escape(name)}</div><div class='track'><div class='bar' style='width:{width:.2f}"
            f"%'></div><div class='range' style='left:{low:.2f}%;width:{high - low:.2f}%'></div>"
            f"</div><div class='value'>{interval(each, section.form)}</div></div>"
        )
