"""Opens data of formats that hold images, and perhaps labels, as tables with sources."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpufeed._util.sanitize import sanitize
from gpufeed.errors import ManifestError
from gpufeed.records.beton import beton_table
from gpufeed.source.array_record import ArrayRecordSource
from gpufeed.source.base import Source, open_image
from gpufeed.source.hdf5 import Hdf5Source, find_images, read_numbers
from gpufeed.source.lmdb import LmdbSource

__all__ = ["array_record_table", "ffcv_table", "hdf5_table", "huggingface_table", "lmdb_table"]

Columns = dict[str, Any]
"""Arguments of `read_table`."""
_LABEL = "label"


def huggingface_table(folder: Path, image: str | None, label: str | None) -> tuple[Any, Columns]:
    """Return a dataset that `save_to_disk` of Hugging Face wrote.

    Raises:
        ManifestError: it has several splits, or the package datasets is not installed.
    """
    from gpufeed.records.huggingface import image_column

    if (folder / "dataset_dict.json").is_file():
        splits = sorted(each.parent.name for each in folder.glob("*/state.json"))
        raise ManifestError(
            f"{folder} has several splits; pass the folder of one: {sanitize(', '.join(splits))}"
        )
    try:
        datasets = importlib.import_module("datasets")
    except ImportError:
        raise ManifestError(
            f"{folder} was written by datasets, which is not installed; run: pip install datasets"
        ) from None
    dataset = datasets.load_from_disk(str(folder))
    label = label or (_LABEL if _LABEL in dataset.column_names else None)
    return dataset, {"image": image_column(dataset, image), "label": label}


def lmdb_table(path: Path) -> tuple[Any, Columns]:
    """Return the images of an LMDB database, without labels."""
    return _table(LmdbSource(path))


def hdf5_table(path: Path, image: str | None, label: str | None) -> tuple[Any, Columns]:
    """Return the images in a dataset of an HDF5 file, with labels if there is a dataset of them."""
    images, others = find_images(path)
    if image is None and len(images) != 1:
        raise ManifestError(
            f"{path} has {len(images)} datasets of images; pass image= with the name of one of "
            f"{sanitize(', '.join([*images, *others]))}"
        )
    table, columns = _table(Hdf5Source(path, image or images[0]))
    label = label or (_LABEL if _LABEL in others else None)
    if label is None:
        return table, columns
    return {**table, label: read_numbers(path, label)}, {**columns, "label": label}


def array_record_table(paths: str, image: str | None) -> tuple[Any, Columns, Sequence[str]]:
    """Return the images of ArrayRecord files; and the features of the first record, if it has any.

    Args:
        paths: the files, or a pattern of them.
        image: the feature that is the image; None for "image", if records are not images
            themselves.
    """
    from gpufeed.decode.headers import image_header

    source = ArrayRecordSource(paths, image)
    if image is None:
        try:
            with open_image(source, 0) as opened:
                image_header(opened)
        except (OSError, ValueError):
            source = ArrayRecordSource(paths, "image")
    try:
        features = () if source.image is None else sorted(source.example(0))
    except OSError as error:
        raise ManifestError(
            f"{source.name(0)} is neither an image nor an Example: {error}"
        ) from error
    return *_table(source), features


def ffcv_table(path: Path, image: str | None, label: str | None) -> tuple[Any, Columns]:
    """Return the images and numbers of a .beton file."""
    table, source = beton_table(path, image or "image")
    label = label or (_LABEL if _LABEL in table.columns else None)
    return table, {"label": label, "source": source}


def _table(source: LmdbSource | Hdf5Source | ArrayRecordSource) -> tuple[Any, Columns]:
    named: Source = source
    return (
        {"path": [named.name(key) for key in range(len(source))]},
        {"label": None, "source": source},
    )
