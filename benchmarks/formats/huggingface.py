"""A dataset of Hugging Face, as `save_to_disk` writes it: Arrow files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gpufeed
from benchmarks.formats import Images

NEEDS = ("datasets",)


def dataset(images: Images) -> Any:
    """Return the images as a `datasets.Dataset`."""
    import datasets

    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=images.labels)}
    )
    pictures = [
        {"bytes": content, "path": name}
        for name, content in zip(images.names, images.contents, strict=True)
    ]
    labels = [name.partition("/")[0] for name in images.names]
    return datasets.Dataset.from_dict({"image": pictures, "label": labels}, features=features)


def write(images: Images, folder: Path) -> None:
    """Write two shards."""
    dataset(images).save_to_disk(folder / "set", num_shards=2)


def read(folder: Path) -> gpufeed.Manifest:
    """Read what `load_from_disk` returns."""
    import datasets

    return gpufeed.read_huggingface(datasets.load_from_disk(folder / "set"), progress=False)
