"""ArrayRecord files of images, as Grain reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from gpufeed._util.extras import import_extra
from gpufeed.tools.prepare.pack.item import Item

__all__ = ["pack"]

# One record is read alone, and images are compressed already.
_OPTIONS = "group_size:1,uncompressed"


def pack(file: BinaryIO, items: Iterator[Item]) -> list[int]:
    """Write an ArrayRecord file: see `Pack`; the starts are the numbers of the records."""
    module = import_extra("array_record.python.array_record_module", extra="arrayrecord")
    writer, count = module.ArrayRecordWriter(file.name, _OPTIONS), 0
    try:
        for count, item in enumerate(items, start=1):  # noqa: B007
            writer.write(item.content)
    finally:
        writer.close()
    return [*range(count)]
