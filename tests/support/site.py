"""What `.ci/docs` needs beside the builder of the site.

python -m tests.support.site commands    prints the page of the command line
python -m tests.support.site check DIR   fails if a page of the built site names what is not there
"""

from __future__ import annotations

import html
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import typer

# What a browser asks for by itself, and what it opens on a click.
_FETCHED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=\"?([^\s\">]+)")
_LINKED = re.compile(r"<a\b[^>]*?\bhref=\"?([^\s\">]+)")
# Named by a page's head, never asked for.
_NAMED = ("canonical", "prev", "next")


def commands() -> str:
    """The commands and their options, from the command line's own help, in Markdown."""
    from gpufeed.cli import app

    group = typer.main.get_command(app)
    top = group.make_context("gpufeed", [], resilient_parsing=True)
    parts = ["# Command line", _prose(group.help), *_options(group, top)]
    for name in sorted(group.commands):
        command = group.commands[name]
        context = command.make_context(name, [], parent=top, resilient_parsing=True)
        usage = " ".join(command.collect_usage_pieces(context))
        parts += [f"## gpufeed {name}", f"```text\ngpufeed {name} {usage}\n```"]
        parts += [_prose(command.help), *_options(command, context)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _prose(text: str | None) -> str:
    text = inspect.cleandoc((text or "").replace("\b", "").partition("\f")[0])
    return re.sub(r"\[/?(?:bold|dim|italic)\]|\\(?=\[)", "", text)


def _options(command: typer.core.TyperCommand, context: typer.Context) -> Iterator[str]:
    lines = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and "--help" not in parameter.opts:
            names, told = record
            names = names.strip(" *").replace("|", " | ")
            lines.append(f"- `{names}`: {' '.join(_prose(told).split())}")
    if lines:
        yield "\n".join(lines)


def missing(site: Path) -> list[str]:
    """What pages name that is not in the site, and what they would fetch from elsewhere."""
    found = []
    for page in sorted(site.rglob("*.html")):
        text = page.read_text()
        fetched = [each for each in _FETCHED.finditer(text) if not _is_named(each[0])]
        for each, is_fetched in [(each, True) for each in fetched] + [
            (each, False) for each in _LINKED.finditer(text)
        ]:
            target = urlsplit(html.unescape(each[1]))
            where = f"{page.relative_to(site)}: {each[1]}"
            if target.scheme or target.netloc:
                if is_fetched and target.scheme != "data":
                    found.append(f"{where} would be fetched")
            elif page.name != "404.html" and target.path:  # its links begin at a server's root
                path = page.parent / unquote(target.path)
                found += [] if path.is_file() else [f"{where} is not there"]
    return found


def _is_named(tag: str) -> bool:
    return any(f'rel="{name}"' in tag for name in _NAMED)


def main() -> None:
    match sys.argv[1:]:
        case ["commands"]:
            sys.stdout.write(commands())
        case ["check", folder]:
            found = missing(Path(folder))
            if found or not (Path(folder) / "index.html").is_file():
                sys.exit("\n".join(found) or f"there is no {folder}/index.html")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
