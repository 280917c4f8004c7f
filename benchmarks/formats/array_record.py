"""ArrayRecord files of encoded images, as Grain reads them, with the labels beside them."""

from __future__ import annotations

from pathlib import Path

import gpufeed
from benchmarks.formats import Images

NEEDS: tuple[str, ...] = ("array_record",)
_SHARDS = 2


def write(images: Images, folder: Path) -> None:
    """Write two files with groups of one record, and a list of labels."""
    from array_record.python.array_record_module import ArrayRecordWriter

    size = -(-len(images.names) // _SHARDS)
    for shard in range(_SHARDS):
        name = f"train-{shard:05}-of-{_SHARDS:05}.array_record"
        writer = ArrayRecordWriter(str(folder / name), "group_size:1")
        for content in images.contents[shard * size : (shard + 1) * size]:
            writer.write(content)
        writer.close()
    labels = [name.partition("/")[0] for name in images.names]
    (folder / "labels.txt").write_text("\n".join(labels))


def read(folder: Path) -> gpufeed.Manifest:
    """Read the labels, and the records in the order of their files."""
    labels = {"label": (folder / "labels.txt").read_text().split("\n")}
    source = gpufeed.ArrayRecordSource(folder / "train-*.array_record")
    return gpufeed.read_table(labels, source=source, progress=False)
