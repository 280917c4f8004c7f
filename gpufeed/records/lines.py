"""Text files of one record a line, with fields between single spaces, read into frames."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from gpufeed._util.rows import first_true, line_name
from gpufeed.errors import ManifestError
from gpufeed.records.files import read_text

__all__ = ["read_lines"]


def read_lines(file: Path, fields: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    """Read a file without a header; row i is line i + 1.

    A last field that is a String takes the rest of its line: nothing in it is special, neither
    quotes nor commas nor spaces. Line ends may be LF or CRLF.

    Args:
        file: UTF-8 text.
        fields: names and dtypes (String or Int32) in their order.

    Raises:
        ManifestError: the file is missing, empty or not UTF-8, a line has too few or too many
            fields, or a number is none; the message names the file and the line.
    """
    lines = pl.Series("line", [_text(file)]).str.split("\n").explode()
    names = list(fields)
    open_end = fields[names[-1]] == pl.String
    parts = lines.str.splitn(" ", len(names) if open_end else len(names) + 1)
    frame = parts.struct.rename_fields(names if open_end else [*names, "rest"]).struct.unnest()
    short = frame[names[-1]].is_null()
    wrong = short if open_end else short | frame["rest"].is_not_null()
    # An empty field is a null of its own where it is the last, and a doubled space elsewhere.
    wrong |= frame.select(pl.any_horizontal(pl.col(names) == "")).to_series().fill_null(True)
    at = line_name(file)
    if (row := first_true(wrong)) is not None:
        raise ManifestError(
            f"{at(row)}: expected {len(names)} fields ({', '.join(names)}), with one space "
            f"between, not {_shown(lines[row])}"
        )
    for name, dtype in fields.items():
        if dtype != pl.String:
            text, number = frame[name], frame[name].cast(dtype, strict=False)
            if (row := first_true(number.is_null())) is not None:
                raise ManifestError(f"{at(row)}: {name} {_shown(text[row])} is no whole number")
            frame = frame.with_columns(number)
    return frame.select(names)


def _text(file: Path) -> str:
    try:
        data = read_text(file)
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


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
