"""Files are written whole or not at all, whatever the disk has room for."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import gpufeed
from gpufeed import ConfigError, Manifest, read_table
from gpufeed._util.atomic_write import atomic_write
from gpufeed.faults.quarantine import Failure, Quarantine
from gpufeed.sheets.sheet import save_sheet
from gpufeed.tools.bench import save_json
from gpufeed.tools.check.dataset import check
from gpufeed.tools.check.page import save_page
from tests.support.loaders import make
from tests.support.media import picture


@contextlib.contextmanager
def file_limit(_: Path) -> Iterator[str]:
    """No file of this process may grow beyond 64 bytes; as a quota, and anyone can have it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        yield "File too large"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def full_disk(folder: Path) -> Iterator[str]:
    """A file system is full; `small_disk` has mounted it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(512))
    try:
        yield "No space left on device"
    finally:
        filler.unlink()


Fullness = tuple[Path, Callable[[Path], AbstractContextManager[str]]]


@pytest.fixture(params=[file_limit, full_disk], ids=["file limit", "full disk"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fullness]:
    """A folder, and what makes it full for a while; gives the system's word for it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if request.param is file_limit:
        yield folder, file_limit
        return
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted: {mounted.stderr.strip()}")
    try:
        yield folder, full_disk
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607


def quarantine_of(manifest: Manifest) -> Quarantine:
    failure = Failure(3, manifest.frame["path"][3], "the image is damaged", 7)
    return Quarantine({3: failure})


def ledger_of(manifest: Manifest) -> gpufeed.Ledger:
    with make(manifest, ledger=True) as loader:
        next(iter(loader))
        return loader.ledger


Save = Callable[[Path], object]


def writers(manifest: Manifest) -> dict[str, tuple[Save, type[Exception]]]:
    """All that gpufeed writes where a user says, and what it raises."""
    report = check(manifest.frame.head(2), manifest.root, max_pixels=1000, progress=False)
    sheet = picture(200, 200, seed=1)
    bench: Any = gpufeed.Stats(batches=1, images=2, seconds=3.0, waited=4.0)
    return {
        "quarantine": (quarantine_of(manifest).save, OSError),
        "ledger": (ledger_of(manifest).save, OSError),
        "findings": (report.save, ConfigError),
        "page": (lambda path: save_page(report, "birds", path), ConfigError),
        "sheet": (lambda path: save_sheet(sheet, path), ConfigError),
        "bench": (lambda path: save_json(bench, {}, path), ConfigError),
    }


def test_on_a_full_disk_files_are_written_whole_or_not_at_all(
    own_pictures: Manifest, disk: Fullness
) -> None:
    folder, full = disk
    for name, (save, error) in writers(own_pictures).items():
        target = folder / name
        for old in (None, b"old"):
            if old is not None:
                target.write_bytes(old)
            before = sorted(folder.iterdir())
            with full(folder) as word:
                with pytest.raises(error, match=word) as caught:
                    save(target)
                assert str(target) in str(caught.value)
                left = sorted(each for each in folder.iterdir() if each.name != "filler")
            assert left == before
            assert not target.exists() if old is None else target.read_bytes() == old
        save(target)
        assert len(target.read_bytes()) > 64
        target.unlink()


def test_on_a_full_disk_sizes_are_just_not_kept(
    own_pictures: Manifest, disk: Fullness, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, full = disk
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    (folder / "gpufeed").mkdir()
    read: list[object] = []
    from gpufeed.records import sizes

    look = sizes.image_header
    monkeypatch.setattr(sizes, "image_header", lambda path: read.append(path) or look(path))
    table = own_pictures.frame.select("path", "label")

    def sizes_of() -> list[tuple[int, int]]:
        return read_table(table, root=own_pictures.root).frame.select("width", "height").rows()

    with full(folder):
        assert sizes_of() == [(50, 40)] * len(table)
        assert not list((folder / "gpufeed").iterdir())
    for kept in (False, True):
        read.clear()
        assert sizes_of() == [(50, 40)] * len(table)
        assert len(read) == (0 if kept else len(table))


def test_a_file_is_replaced_at_once_and_keeps_its_mode(tmp_path: Path) -> None:
    target, link = tmp_path / ("n" * 255), tmp_path / "link"
    link.symlink_to(target)
    atomic_write(link, b"one")
    assert link.is_symlink()
    target.chmod(0o640)
    with target.open("rb") as reader:
        atomic_write(link, b"another")
        assert reader.read() == b"one", "who reads has the old one, whole"
    assert target.read_bytes() == b"another"
    assert target.stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.iterdir()) == sorted([target, link])
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        atomic_write(tmp_path, b"")
    with pytest.raises(FileNotFoundError) as caught:
        atomic_write(tmp_path / "none" / "x", b"")
    assert caught.value.filename == str(tmp_path / "none" / "x")


def test_a_device_or_a_pipe_is_written_to_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        atomic_write("/dev/full", b"x")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    imported = "from gpufeed._util.atomic_write import atomic_write"
    script = f"{imported}; atomic_write({str(pipe)!r}, b'through')"
    with subprocess.Popen([sys.executable, "-c", script]):
        assert pipe.read_bytes() == b"through"
