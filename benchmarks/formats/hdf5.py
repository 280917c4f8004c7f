"""An HDF5 file with a dataset of encoded images and one of labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import gpufeed
from benchmarks.formats import Images

NEEDS: tuple[str, ...] = ("h5py",)


def write(images: Images, folder: Path) -> None:
    """Write the file."""
    import h5py

    with h5py.File(folder / "images.h5", "w") as file:
        kind = h5py.vlen_dtype(np.uint8)
        dataset = file.create_dataset("images", (len(images.contents),), dtype=kind)
        for key, content in enumerate(images.contents):
            dataset[key] = np.frombuffer(content, np.uint8)
        file["label"] = [images.labels.index(name.partition("/")[0]) for name in images.names]
        file["label"].attrs["names"] = images.labels


def read(folder: Path) -> gpufeed.Manifest:
    """Read both datasets."""
    import h5py

    with h5py.File(folder / "images.h5") as file:
        labels = {"label": file["label"][:]}
        classes = [str(name) for name in file["label"].attrs["names"]]
    source = gpufeed.Hdf5Source(folder / "images.h5", "images")
    return gpufeed.read_table(labels, classes=classes, source=source, progress=False)
