"""What is staged is read from the disk, and not from the source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpufeed
from gpufeed import ConfigError, DiskCache, Manifest, MemoryCache
from gpufeed.cli import main
from gpufeed.tools.stage import Staged, stage
from tests.support.loaders import digest, make
from tests.support.media import make_manifest, write_table

COUNT = 24


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    sizes = [(30 + n % 5, 40) for n in range(COUNT)]
    return make_manifest(tmp_path_factory.mktemp("images"), sizes)


def lengths(manifest: Manifest) -> list[int]:
    return [len(each) for each in manifest.source.read(np.arange(len(manifest)))]  # type: ignore[arg-type]


def test_a_loader_reads_nothing_from_the_source(manifest: Manifest, tmp_path: Path) -> None:
    disk = DiskCache(tmp_path, "10 MB")
    done = stage(manifest, disk)
    assert done == Staged(COUNT, COUNT, sum(lengths(manifest)), bad=0, full=False)
    assert stage(manifest, disk) == Staged(COUNT, 0, 0, bad=0, full=False)
    with make(manifest) as plain, make(manifest, cache=[disk]) as loader:
        assert [*map(digest, loader)] == [*map(digest, plain)]
        assert loader.stats.fetched_images == 0
        assert stage(manifest, disk).kept == COUNT  # beside a loader


def test_it_stops_where_the_disk_is_full_and_goes_on(manifest: Manifest, tmp_path: Path) -> None:
    small = stage(manifest, DiskCache(tmp_path, 64 * 1024))
    assert small.full
    assert 0 < small.kept == small.copied < COUNT
    rest = stage(manifest, DiskCache(tmp_path, "10 MB"))
    assert (rest.kept, rest.copied) == (COUNT, COUNT - small.kept)
    assert small.copied_bytes + rest.copied_bytes == sum(lengths(manifest))


def test_bad_images_are_counted(manifest: Manifest, tmp_path: Path) -> None:
    images: list[Any] = [bytes(each) for each in manifest.source.read(np.arange(COUNT))]  # type: ignore[arg-type]
    images[3] = np.zeros((30, 40, 3), np.uint8)

    class Memory(gpufeed.MemorySource):
        def fingerprint(self) -> str:
            return "of this test"

    source = Memory(images)
    mixed = Manifest(manifest.frame, source, manifest.classes)
    assert stage(mixed, DiskCache(tmp_path, "10 MB")).bad == 1
    plain = Manifest(manifest.frame, gpufeed.MemorySource(images), manifest.classes)
    with pytest.raises(ConfigError, match="MemorySource has no fingerprint"):
        stage(plain, DiskCache(tmp_path, "10 MB"))
    with pytest.raises(ConfigError, match="it must be a DiskCache, which stays"):
        stage(manifest, MemoryCache("1 MB"))  # type: ignore[arg-type]


def test_the_command(manifest: Manifest, tmp_path: Path, capsys: Any) -> None:
    table = str(write_table(manifest))
    assert main(["stage", table, "--to", str(tmp_path), "--size", "10 MB"]) == 0
    assert f"24 of 24 images in {tmp_path}, 24 of them new" in capsys.readouterr().out
    with make(gpufeed.read_table(table), cache=[DiskCache(tmp_path, "10 MB")]) as loader:
        loader.batch(0)
        assert loader.stats.fetched_images == 0
    there = str(tmp_path / "other")
    assert main(["stage", table, "--to", there, "--size", "64 KB"]) == 0
    assert "no room for the others; 64 KB is full" in capsys.readouterr().out
    assert main(["stage", table, "--to", there, "--size", "much"]) == 2
    assert "size is 'much'; it must be" in capsys.readouterr().err
