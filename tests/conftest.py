"""Fixtures every test may use."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from nvidia.dali._utils import dali_trace
from PIL import Image

from gpufeed import Manifest
from gpufeed._util import open_regular
from gpufeed._util.limits import available_threads
from gpufeed.engine.device import gpu_count
from gpufeed.source.base import Encoded
from gpufeed.tools.synth import write_nabirds
from tests.support.media import make_manifest

# Read by JAX and torch when they start, also in processes that tests start: four devices for
# meshes, and no threads that spin, waiting for each other, while other tests need the cores.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["OMP_NUM_THREADS"] = "1"
# What tests have JAX compile runs a few times, and takes longer to optimise than to run.
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"

# To note the line that asked for each operator is a quarter of the time that DALI takes to define
# a pipeline. No test reads it.
dali_trace.set_tracing(enabled=False)

# Deadlines and slow generation are timings, and this suite times nothing. What fixtures give to
# tests of many examples is only read.
settings.register_profile(
    "gpufeed",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("gpufeed")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests neither use nor fill the cache of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        # Processes that tests start import gpufeed and tests from here.
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        # They compile modules once for all.
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        # Otherwise JAX takes three quarters of a GPU, and other frameworks are tested beside it.
        patch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        yield


@pytest.fixture(scope="session")
def testdata() -> Path:
    """The folder of real data: skipped where none is named, an error where it is named wrongly."""
    named = os.environ.get("GPUFEED_TESTDATA")
    if named is None:
        pytest.skip("needs real data: set GPUFEED_TESTDATA to its folder")
    folder = Path(named)
    if not (folder / "photos").is_dir():
        raise FileNotFoundError(f"GPUFEED_TESTDATA is {named!r}, which holds no folder 'photos'")
    return folder


@pytest.fixture(scope="session")
def small_photos(testdata: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a third of the real photos, shrunk to 320 pixels: soon read, by many tests."""
    folder = tmp_path_factory.mktemp("photos")
    for number, path in enumerate(sorted((testdata / "photos").rglob("*.jpg"))[::3]):
        with Image.open(path) as image:
            image.draft("RGB", (640, 640))
            image.thumbnail((320, 320))
            image.convert("RGB").save(folder / f"{number:02}.jpg", quality=95)
    return folder


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Fifty small images of many sizes, with boxes, in three classes."""
    drawn = np.random.default_rng(5)
    sizes = [(int(h), int(w)) for h, w in drawn.integers(40, 160, size=(50, 2))]
    return make_manifest(tmp_path_factory.mktemp("pictures"), sizes, boxes=True)


@pytest.fixture(scope="session")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A synthetic set in NABirds' shape: eighty images, which tests only read."""
    folder = tmp_path_factory.getbasetemp() / "synthetic-80"
    return write_nabirds(folder, images=80, max_side=320, progress=False)


@pytest.fixture(scope="session")
def many_birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A synthetic set of 144 small images, which fills a batch of 64; its folder is "nabirds"."""
    folder = tmp_path_factory.mktemp("many") / "nabirds"
    return write_nabirds(folder, images=144, seed=1, max_side=128, progress=False)


@pytest.fixture
def own_pictures(tmp_path: Path) -> Manifest:
    """Twenty-four small images of one size, in three classes, which a test may change."""
    return make_manifest(tmp_path / "own-pictures", [(40, 50)] * 24)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of images that are opened, in order, as they are."""
    paths: list[str] = []
    plain = open_regular.open_descriptor

    def recorded(path: str | os.PathLike[str]) -> tuple[int, int]:
        paths.append(os.fspath(path))
        return plain(path)

    monkeypatch.setattr(open_regular, "open_descriptor", recorded)
    return paths


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The files that the host's threads decode, in order."""
    from gpufeed.decode.decoders import NvImageCodec

    files: list[bytes] = []
    decode = NvImageCodec.decode

    def counted(self: NvImageCodec, content: Encoded, *rest: Any) -> Any:
        files.append(bytes(content))
        return decode(self, content, *rest)

    monkeypatch.setattr(NvImageCodec, "decode", counted)
    return files


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Give the whole suite a process for each core, and chosen tests none but this one.

    Beyond four, processes mostly import. Tests on a GPU run one at a time, as its memory is one.
    """
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return min(4, available_threads()) if whole and not gpu_count() else 0


def pytest_collection_finish() -> None:
    """Spare what was imported each later search for garbage."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `gpu`, or `gpu(2)`, where DALI sees fewer GPUs."""
    marked = [(item, mark) for item in items if (mark := item.get_closest_marker("gpu"))]
    if not marked:
        return
    seen = gpu_count()
    for item, mark in marked:
        needed = mark.args[0] if mark.args else 1
        if seen < needed:
            reason = f"needs {needed} NVIDIA GPU(s); DALI sees {seen}"
            item.add_marker(pytest.mark.skip(reason=reason))
