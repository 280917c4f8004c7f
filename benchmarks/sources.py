"""Compare how fast the same images are read from each format.

    python -m benchmarks.sources --photos DIR

The photos are brought to NABirds' distribution of sizes, and written in each format of
`benchmarks.formats` by that format's own library. In turns in one process, each format gives:
"read", encoded images alone, shuffled, on the calling thread; and "feed", an epoch of a `Loader`
that shuffles, decodes and resizes. Peers read the same shards in their own way, one sample after
the other: WebDataset, and Hugging Face's datasets, alone ("read") and decoding with Pillow
("decode"), which is not the work of "feed". Figures are medians over the rounds, with their
interval: the CPU time of the process per image and its ratio to that of files in each round; for
"read" also images per second. All files are in the page cache.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import gpufeed
from benchmarks.bad_files import Turn, in_turns
from benchmarks.compare.data import VARIANTS, prepare
from benchmarks.formats import FORMATS, Images
from benchmarks.machine import Machine
from gpufeed import transforms as tf
from gpufeed.decode.headers import image_size
from gpufeed.source.base import read_images

_BATCH = 64
_CLASSES = 16
_SIZE = 64


def images_of(photos: Path, variant: str, count: int) -> Images:
    """Return images in classes, in sorted order."""
    with tempfile.TemporaryDirectory() as folder:
        files = prepare(photos, Path(folder), variant, count)
        contents = [Path(folder, file).read_bytes() for file in files]
    labels = [f"class {number:02}" for number in range(_CLASSES)]
    each = -(-count // _CLASSES)
    names = [f"{labels[number // each]}/{file}" for number, file in enumerate(files)]
    return Images(names, contents, labels, [image_size(content) for content in contents])


def reading(manifest: gpufeed.Manifest) -> Turn:
    """Read all images, shuffled."""
    keys = np.random.default_rng(0).permutation(len(manifest))
    batches = [keys[start : start + _BATCH] for start in range(0, len(keys), _BATCH)]

    def read() -> int:
        return sum(len(read_images(manifest.source, batch)) for batch in batches)

    return read


def feeding(manifest: gpufeed.Manifest, stack: contextlib.ExitStack) -> Turn:
    """Feed an epoch of a loader that is kept."""
    loader = stack.enter_context(
        gpufeed.Loader(
            manifest,
            sampler=gpufeed.IndexSampler(len(manifest), shuffle=True, seed=0),
            transforms=[tf.Resize((_SIZE, _SIZE)), tf.ToDtype("uint8")],
            batch_size=_BATCH,
            last_batch="partial",
            device="cpu",
        )
    )
    return lambda: sum(len(batch["record_key"]) for batch in loader)


def by_webdataset(shards: list[str]) -> dict[str, Turn]:
    """WebDataset's own pipeline."""
    import webdataset

    raw = webdataset.WebDataset(shards, shardshuffle=False)
    decoded = webdataset.WebDataset(shards, shardshuffle=False).decode("rgb8")
    return {"read by WebDataset": counting(raw), "decode by WebDataset": counting(decoded)}


def by_datasets(shards: list[str]) -> dict[str, Turn]:
    """Hugging Face's reader of the same shards, as a stream."""
    import datasets

    stream = datasets.load_dataset("webdataset", data_files=shards, split="train", streaming=True)
    raw = stream.cast_column("jpg", datasets.Image(decode=False))
    decoded = stream.map(lambda row: {"pixels": np.asarray(row["jpg"])}, remove_columns=["jpg"])
    return {"read by datasets": counting(raw), "decode by datasets": counting(decoded)}


PEERS: dict[str, Callable[[list[str]], dict[str, Turn]]] = {
    "webdataset": by_webdataset,
    "datasets": by_datasets,
}


def counting(samples: Iterable[Any]) -> Turn:
    """Go through all samples."""
    return lambda: sum(1 for _ in samples)


def missing(packages: Sequence[str]) -> list[str]:
    """Return which of these packages are not installed."""
    return [each for each in packages if importlib.util.find_spec(each) is None]


def measure(images: Images, rounds: int) -> dict[str, dict[str, Any]]:
    """Measure all formats and peers."""
    turns: dict[str, dict[str, Turn]] = {"read": {}, "feed": {}}
    absent: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        for each in sorted(FORMATS, key=lambda each: (each != "files", each)):
            if lacking := missing(FORMATS[each].NEEDS):
                absent[each] = f"needs {', '.join(lacking)}"
                continue
            folder = Path(name, each)
            folder.mkdir()
            FORMATS[each].write(images, folder)
            manifest = FORMATS[each].read(folder)
            turns["read"][f"read: {each}"] = reading(manifest)
            turns["feed"][f"feed: {each}"] = feeding(manifest, stack)
        shards = sorted(map(str, Path(name, "webdataset").glob("*.tar")))
        for peer, make in PEERS.items():
            if lacking := missing([peer, "webdataset"]):
                absent[peer] = f"needs {', '.join(lacking)}"
            else:
                turns["read"] |= make(shards)
        found: dict[str, dict[str, Any]] = {}
        for kind, contenders in turns.items():
            for contender, figures in in_turns(contenders, rounds).items():
                # An epoch begins with what was begun ahead, so that its rate says nothing.
                found[contender] = {
                    figure: asdict(value)
                    for figure, value in figures.items()
                    if kind == "read" or figure.startswith("cpu")
                }
    return found | {each: {"absent": reason} for each, reason in absent.items()}


def table_of(found: dict[str, dict[str, Any]]) -> str:
    """Return a table in Markdown."""
    lines = ["| | images/s | CPU ms an image | of files |", "|---|--:|--:|--:|"]
    for name, row in found.items():
        if "absent" in row:
            lines.append(f"| {name} | absent: {row['absent']} | | |")
            continue
        rate = f"{row['images_per_second']['median']:,.0f}" if "images_per_second" in row else ""
        ratio = row["cpu_of_first"]
        lines.append(
            f"| {name} | {rate} | {row['cpu_ms']['median']:.3f} | {ratio['median']:.2f} "
            f"({ratio['low']:.2f} to {ratio['high']:.2f}) |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="benchmarks.sources", description=__doc__)
    parser.add_argument("--photos", type=Path, required=True, help="folder of photos")
    parser.add_argument("--pictures", type=int, default=2048, help="number of images to prepare")
    parser.add_argument("--variant", choices=VARIANTS, default="originals")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="JSON file to write the figures to")
    given = parser.parse_args(arguments)
    found = measure(images_of(given.photos, given.variant, given.pictures), given.rounds)
    print(table_of(found))
    if given.json is not None:
        kept = {"machine": asdict(Machine.here()), "variant": given.variant, "results": found}
        given.json.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
