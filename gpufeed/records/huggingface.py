"""Reads datasets of Hugging Face."""

from __future__ import annotations

from typing import Any

from gpufeed._util.sanitize import sanitize, short
from gpufeed.errors import ManifestError
from gpufeed.records.embedded.images import is_dataset
from gpufeed.records.manifest import Manifest
from gpufeed.records.table import read_table

__all__ = ["image_column", "read_huggingface"]


def read_huggingface(
    dataset: Any, *, image: str | None = None, label: str | None = "label", **options: Any
) -> Manifest:
    """Make a manifest from a `datasets.Dataset` of images.

    Images are read as they are stored, without the dataset's own decoding: from the Arrow files
    that the dataset has mapped, from the image files that it names, or from memory. The manifest
    has the rows of the dataset in its order, after `select`, `filter`, `shuffle` and so on. A
    column of `ClassLabel` keeps its names as classes.

    Args:
        dataset: one split, as of `load_dataset(..., split="train")` or `load_from_disk`.
        image: the column of images; None for the only one of the type `Image`.
        label: column of the labels; None for images without labels.
        options: other arguments of `read_table`.

    Raises:
        ManifestError: this is not a `datasets.Dataset`, or not one of images; or as `read_table`.
        ConfigError: as `read_table`.
    """
    kind = f"{type(dataset).__module__.partition('.')[0]}.{type(dataset).__qualname__}"
    if not is_dataset(dataset):
        advice = ""
        if isinstance(dataset, dict):
            splits = sanitize(", ".join(map(str, dataset)))
            advice = f'; pass one of its splits, as dataset["train"]: it has {splits}'
        elif hasattr(dataset, "_ex_iterable"):
            advice = "; a stream has no order to resume in: load it without streaming=True"
        raise ManifestError(f"dataset must be a datasets.Dataset, not {kind}{advice}")
    column = image_column(dataset, image)
    return read_table(dataset, image=column, label=label, **options)


def image_column(dataset: Any, image: str | None) -> str:
    """Return the name of a dataset's column of images: the one that is given, or the only one.

    Raises:
        ManifestError: there are none, or several.
    """
    if image is not None:
        return image
    images = [
        name for name, feature in dataset.features.items() if type(feature).__name__ == "Image"
    ]
    if len(images) != 1:
        raise ManifestError(
            f"the dataset has {len(images)} columns of the type Image, {short(images)}; pass "
            f"image= with the name of one of {sanitize(str(dataset.column_names))}"
        )
    name: str = images[0]
    return name
