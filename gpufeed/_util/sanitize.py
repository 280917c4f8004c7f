"""Texts that came out of files, made fit to be told.

Whoever wrote a file chose them: they may have megabytes, lines that look like other messages,
escape sequences that a terminal obeys, or halves of letters that cannot be printed at all.
"""

from __future__ import annotations

__all__ = ["printable", "sanitize"]

_LONGEST = 200


def printable(text: str) -> str:
    r"""Return a text with all that is not printed, such as "\n" or "\x1b", as Python writes it."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def sanitize(text: str, most: int = _LONGEST) -> str:
    """Return a text as an error tells it: printable, and of bounded length.

    Args:
        text: of whatever length; what `repr` returned stays as it is, but for its length.
        most: how many letters are told; of a longer text also how many it has.
    """
    told = printable(text[:most])
    if len(text) <= most and len(told) <= most:
        return told
    return f"{told[:most]}... ({len(text):,} letters)"
