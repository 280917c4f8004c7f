"""A few images, written in any format and read again."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.formats import FORMATS, Images
from gpufeed import Manifest
from tests.support.media import jpeg, picture

COUNT = 6
SIZES = [(30 + number, 40) for number in range(COUNT)]
IMAGES = Images(
    names=sorted(f"{'abc'[number % 3]}/{number}.jpg" for number in range(COUNT)),
    contents=[jpeg(picture(*size, seed=number)) for number, size in enumerate(SIZES)],
    labels=["a", "b", "c"],
    sizes=[(width, height) for height, width in SIZES],
)


def write(name: str, folder: Path) -> Manifest:
    """Write the images in a format, and read them."""
    missing = [each for each in FORMATS[name].NEEDS if importlib.util.find_spec(each) is None]
    if missing:
        pytest.skip(f"{name} needs {', '.join(missing)}")
    folder.mkdir(exist_ok=True)
    FORMATS[name].write(IMAGES, folder)
    return FORMATS[name].read(folder)


def contents(manifest: Manifest) -> list[Any]:
    read = manifest.source.read(np.arange(len(manifest)))
    return [each if isinstance(each, OSError) else bytes(each) for each in read]
