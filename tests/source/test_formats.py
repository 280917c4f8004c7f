"""The same images give the same batches in every format, each written by the format's library."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.formats import FORMATS, Images
from gpufeed import Loader, Manifest, ShardOptions
from tests.support.loaders import digest, make
from tests.support.media import jpeg, picture

SIZES = [(40 + number, 80 - 2 * number) for number in range(22)]
IMAGES = Images(
    names=[f"{'abc'[number % 3]}/{number:05}.jpg" for number in range(22)],
    contents=[jpeg(picture(*size, seed=number)) for number, size in enumerate(SIZES)],
    labels=["a", "b", "c"],
    sizes=[(width, height) for height, width in SIZES],
)
ORDER = np.argsort(IMAGES.names)
SORTED = Images(
    *[[values[place] for place in ORDER] for values in (IMAGES.names, IMAGES.contents)],
    IMAGES.labels,
    [IMAGES.sizes[place] for place in ORDER],
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return read("files", tmp_path_factory.mktemp("files"))


def read(name: str, folder: Path) -> Manifest:
    """Write the images in a format, and read them."""
    missing = [each for each in FORMATS[name].NEEDS if importlib.util.find_spec(each) is None]
    if missing:
        pytest.skip(f"{name} needs {', '.join(missing)}")
    FORMATS[name].write(SORTED, folder)
    return FORMATS[name].read(folder)


def feed(manifest: Manifest, **options: Any) -> Loader:
    return make(manifest, batch_size=4, num_threads=1, last_batch="pad", **options)


@pytest.fixture(scope="module")
def whole(files: Manifest) -> list[str]:
    """Digests of the batches of an epoch."""
    with feed(files) as loader:
        return [digest(batch) for batch in loader]


@pytest.fixture(scope="module")
def shards(files: Manifest) -> list[list[str]]:
    """The same of each of three shards."""
    digests = []
    for index in range(3):
        with feed(files, shard=ShardOptions(index, 3)) as loader:
            digests.append([digest(batch) for batch in loader])
    return digests


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "files"])
def test_batches_are_those_of_files(
    name: str, files: Manifest, whole: list[str], shards: list[list[str]], tmp_path: Path
) -> None:
    """In the same order, at one and three shards, and after a resume from files."""
    manifest = read(name, tmp_path)
    assert manifest.classes == files.classes
    with feed(files) as loader:
        state = {**loader.state_dict(), "records": 8}
    with feed(manifest) as loader:
        assert [digest(batch) for batch in loader] == whole
        loader.load_state_dict(state, ignore=["manifest"])
        assert [digest(batch) for batch in loader] == whole[2:]
    for index, wanted in enumerate(shards):
        with feed(manifest, shard=ShardOptions(index, 3)) as loader:
            assert [digest(batch) for batch in loader] == wanted
