"""Makes text from untrusted files safe to show in messages.

Such text may be megabytes long, imitate other messages with line breaks, contain terminal escape
sequences, or hold lone surrogates that cannot be printed.
"""

from __future__ import annotations

import reprlib

__all__ = ["printable", "sanitize", "short"]

_MAX_CHARS = 200
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 100
_MAX_REPR = 120


def printable(text: str) -> str:
    r"""Return a text with unprintable characters, such as "\n" or "\x1b", escaped as by `repr`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def sanitize(text: str, max_chars: int = _MAX_CHARS) -> str:
    """Return a text in printable form, and truncated.

    Args:
        text: any text; the output of `repr` is only truncated.
        max_chars: characters that are kept; the length of a longer text is appended.
    """
    escaped = printable(text[:max_chars])
    if len(text) <= max_chars and len(escaped) <= max_chars:
        return escaped
    return f"{escaped[:max_chars]}... ({len(text):,} characters)"


def short(value: object) -> str:
    """Return the `repr` of a user's value, bounded: a list of images may be gigabytes long."""
    text = _REPR.repr(value)
    return text if len(text) <= _MAX_REPR else f"{text[: _MAX_REPR - 3]}..."
