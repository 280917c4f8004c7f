"""Reads NABirds' text files: one record per line, with fields separated by single spaces."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from gpufeed._util.open_regular import open_regular
from gpufeed._util.rows import first_true, line_name
from gpufeed.errors import ManifestError

__all__ = ["read_text_file"]


def read_text_file(file: Path, fields: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    """Read a file without a header; row i is line i + 1.

    If the last field is a String, it is the rest of its line and may contain any character. Lines
    may end in LF or CRLF.

    Args:
        file: UTF-8 text.
        fields: names and dtypes (String or Int32), in order.

    Raises:
        ManifestError: the file is missing, empty or not UTF-8, a line has too few or too many
            fields, or a number is not an Int32; the message names the file and the line.
    """
    lines = pl.Series("line", [_decode(file)]).str.split("\n").explode()
    names = list(fields)
    takes_rest = fields[names[-1]] == pl.String
    parts = lines.str.splitn(" ", len(names) if takes_rest else len(names) + 1)
    frame = parts.struct.rename_fields(names if takes_rest else [*names, "rest"]).struct.unnest()
    short = frame[names[-1]].is_null()
    wrong = short if takes_rest else short | frame["rest"].is_not_null()
    # An empty field is null if it is the last, and otherwise the result of a repeated space.
    wrong |= frame.select(pl.any_horizontal(pl.col(names) == "")).to_series().fill_null(True)
    row_name = line_name(file)
    if (row := first_true(wrong)) is not None:
        raise ManifestError(
            f"{row_name(row)}: expected {len(names)} fields ({', '.join(names)}) separated by "
            f"single spaces, not {_shorten(lines[row])}"
        )
    for name, dtype in fields.items():
        if dtype != pl.String:
            text, number = frame[name], frame[name].cast(dtype, strict=False)
            if (row := first_true(number.is_null())) is not None:
                raise ManifestError(
                    f"{row_name(row)}: {name} {_shorten(text[row])} is not a 32-bit integer"
                )
            frame = frame.with_columns(number)
    return frame.select(names)


def _decode(file: Path) -> str:
    try:
        with open_regular(file) as opened:
            data = opened.read()
    except FileNotFoundError:
        raise ManifestError(f"the file {file} is missing") from None
    except OSError as error:
        raise ManifestError(f"cannot read {file}: {error.strerror or error}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ManifestError(f"{file}, line {line}: not UTF-8 text ({error.reason})") from error
    text = text.replace("\r\n", "\n").rstrip("\n")
    if not text:
        raise ManifestError(f"{file} is empty")
    return text


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
