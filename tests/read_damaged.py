"""Reads damaged Parquet files by the thousand, in a process that may be ended by one of them.

    python tests/read_damaged.py FOLDER COUNT

Its output, in JSON, is how often a file was read, and how often it was refused with which error.
"""

from __future__ import annotations

import collections
import io
import json
import sys
from pathlib import Path

import numpy as np
import polars as pl

from gpufeed import read_table


def whole() -> list[bytes]:
    """A table with texts, nulls and lists, in some compressions."""
    count = 40
    frame = pl.DataFrame(
        {
            "path": [f"{number}.jpg" for number in range(count)],
            "label": ["auk", "wren"] * (count // 2),
            "width": [40] * count,
            "height": [30] * count,
            "note": [None if number % 3 else "x" * number for number in range(count)],
            "listed": [[[0.0, 0.0, 1.0, 1.0]] * (number % 3) for number in range(count)],
        }
    )
    found = []
    for compression in ("uncompressed", "zstd", "snappy"):
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression=compression)
        found.append(buffer.getvalue())
    return found


def damaged(count: int) -> list[bytes]:
    """Files with bytes changed: each fifth before a footer, and then any."""
    drawn = np.random.default_rng(0)
    values = (0, 1, 0x7F, 0x80, 0xFF)
    wholes = whole()
    found = []
    for at in range(5, _footer(wholes[0]), 5):
        data = bytearray(wholes[0])
        data[at] = 0x7F  # -64, as Parquet writes numbers: how many values a page holds, say
        found.append(bytes(data))
    while len(found) < count:
        data = bytearray(wholes[int(drawn.integers(len(wholes)))])
        first = _footer(data) if drawn.random() < 0.6 else 0
        for place in drawn.integers(first, len(data), size=int(drawn.integers(1, 4))).tolist():
            data[place] = int(drawn.choice([*values, int(drawn.integers(256))]))
        found.append(bytes(data))
    return found


def _footer(data: bytes | bytearray) -> int:
    """Where a file's footer begins."""
    return len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def main() -> None:
    file = Path(sys.argv[1], "list.parquet")
    met: collections.Counter[str] = collections.Counter()
    for data in damaged(int(sys.argv[2])):
        file.write_bytes(data)
        try:
            read_table(file, root="/nowhere")
            met["read"] += 1
        except Exception as error:
            met[type(error).__name__] += 1
    print(json.dumps(met))


if __name__ == "__main__":
    main()
