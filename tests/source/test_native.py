"""Images in files of LMDB, HDF5 and ArrayRecord: what holds for all three."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import lmdb
import numpy as np
import pytest
from array_record.python.array_record_module import ArrayRecordWriter

import gpufeed
from gpufeed import (
    ArrayRecordSource,
    DecodeError,
    Hdf5Source,
    LmdbSource,
    Manifest,
    ManifestError,
    MissingExtraError,
    read_table,
)
from gpufeed.source.base import fingerprint_of, read_images
from gpufeed.tools.bench import bench
from gpufeed.tools.check.dataset import check
from gpufeed.tools.show import show_batch
from tests.support.loaders import digest, make
from tests.support.media import jpeg, picture
from tests.support.waiting import PATIENCE

COUNT = 12
CONTENTS = [jpeg(picture(40 + 3 * key, 70 - 2 * key, seed=key)) for key in range(COUNT)]
LABELS = {"label": ["a", "b", "c"] * (COUNT // 3)}


class Kind(NamedTuple):
    """A format: how its library writes images into a file, and the source that reads them."""

    write: Callable[[Path, list[bytes]], None]
    source: Callable[[Path], Any]
    names: list[str]
    package: str
    forks: bool = True


def write_lmdb(file: Path, contents: list[bytes]) -> None:
    with (
        lmdb.open(str(file), subdir=False, lock=False, map_size=1 << 24) as database,
        database.begin(write=True) as transaction,
    ):
        for key, content in enumerate(contents):
            transaction.put(b"%05d" % key, content)


def write_hdf5(file: Path, contents: list[bytes]) -> None:
    with h5py.File(file, "w") as opened:
        shape = (len(contents),)
        dataset = opened.create_dataset("images", shape, dtype=h5py.vlen_dtype(np.uint8))
        for key, content in enumerate(contents):
            dataset[key] = np.frombuffer(content, np.uint8)


def write_array_record(file: Path, contents: list[bytes]) -> None:
    writer = ArrayRecordWriter(str(file), "group_size:1")
    for content in contents:
        writer.write(content)
    writer.close()


KINDS = {
    "lmdb": Kind(write_lmdb, LmdbSource, [f"{key:05}" for key in range(COUNT)], "lmdb"),
    "hdf5": Kind(write_hdf5, Hdf5Source, [f"images/{key}" for key in range(COUNT)], "h5py"),
    "array_record": Kind(
        write_array_record,
        ArrayRecordSource,
        [f"data/{key}" for key in range(COUNT)],
        "array_record",
        forks=False,
    ),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def file(kind: Kind, tmp_path: Path) -> Path:
    kind.write(tmp_path / "data", CONTENTS)
    return tmp_path / "data"


def contents(read: Any) -> list[Any]:
    return [each if isinstance(each, OSError) else bytes(each) for each in read]


def of(source: Any, **options: Any) -> Manifest:
    return read_table(LABELS, source=source, progress=False, **options)


def test_names_and_images_are_in_order(kind: Kind, file: Path) -> None:
    source = kind.source(file)
    assert len(source) == COUNT
    assert str(file) in repr(source)
    keys = np.array([5, 0, 11, 5])
    assert contents(read_images(source, keys)) == [CONTENTS[key] for key in keys]
    assert of(source).frame["path"].to_list() == kind.names


def test_many_threads_read_at_once(kind: Kind, file: Path) -> None:
    source = kind.source(file)
    orders = [np.random.default_rng(seed).permutation(COUNT) for seed in range(40)]
    with ThreadPoolExecutor(8) as pool:
        for order, read in zip(orders, pool.map(source.read, orders), strict=True):
            assert contents(read) == [CONTENTS[key] for key in order]


def test_two_sources_and_copies_read_the_same_file(kind: Kind, file: Path) -> None:
    source = kind.source(file)
    source.read(np.arange(3))
    again = pickle.loads(pickle.dumps(source))  # noqa: S301
    for each in (again, kind.source(file), source):
        assert contents(each.read(np.arange(COUNT))) == CONTENTS
    assert fingerprint_of(again) == fingerprint_of(source) == fingerprint_of(kind.source(file))


def test_a_fingerprint_is_of_the_file(kind: Kind, file: Path, tmp_path: Path) -> None:
    before = fingerprint_of(kind.source(file))
    shutil.copy(file, tmp_path / "other")
    assert fingerprint_of(kind.source(tmp_path / "other")) != before
    os.utime(file, ns=(1, 1))
    assert fingerprint_of(kind.source(file)) != before


FORKED = """
import os, pickle, sys
import numpy as np
import gpufeed
from gpufeed.source.threads import Threaded
kind, file = sys.argv[1:]
source = getattr(gpufeed, kind)(file)
keys = np.arange(12)

def read():
    with Threaded(source) as reader:
        reader._parts = 4  # on threads
        try:
            return [bytes(each) for each in reader.read(keys)]
        except gpufeed.SourceError as error:
            return str(error)

wanted = read()
opened = source._files.open()
for _ in range(3):
    out, into = os.pipe()
    child = os.fork()
    if not child:
        found = read()
        own = found == wanted and source._files.open() is not opened
        os.write(into, b"own" if own else str(found).encode())
        os._exit(0)
    os.close(into)
    said = os.read(out, 1000).decode()
    _, status = os.waitpid(child, 0)
    print(status, said, read() == wanted)
"""


def test_a_forked_process_opens_its_own(kind: Kind, file: Path) -> None:
    """Or says that it cannot, where the library would crash."""
    command = [sys.executable, "-c", FORKED, type(kind.source(file)).__name__, str(file)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    said = "own" if kind.forks else "ArrayRecord's library crashes in a process that was forked"
    lines = run.stdout.splitlines()
    assert len(lines) == 3
    for line in lines:
        assert line.startswith(f"0 {said}")
        assert line.endswith("True")


def test_a_file_that_changes_is_told(kind: Kind, file: Path) -> None:
    source = kind.source(file)
    manifest = of(source)
    moved = file.with_name("moved")
    file.rename(moved)
    for error in source.read(np.arange(2)):
        assert isinstance(error, FileNotFoundError)
        assert error.__traceback__ is None
    kind.write(file, [*CONTENTS[1:], CONTENTS[0]])
    for error in source.read(np.arange(2)):
        assert isinstance(error, OSError)
        assert str(error) == f"{file} has changed since it was indexed"
    with make(manifest) as loader, pytest.raises(DecodeError, match="has changed since it was"):
        list(loader)
    assert contents(kind.source(file).read(np.arange(1))) == CONTENTS[1:2]
    file.unlink()
    moved.rename(file)
    assert contents(source.read(np.arange(COUNT))) == CONTENTS


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.9])
def test_a_truncated_file_is_refused(kind: Kind, file: Path, share: float) -> None:
    os.truncate(file, int(share * file.stat().st_size))
    with pytest.raises(ManifestError, match=rf"cannot .*{file}"):
        kind.source(file)


def test_what_is_no_such_file_is_refused(kind: Kind, tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"no file matches|No such file or directory"):
        kind.source(tmp_path / "absent")
    (tmp_path / "image").write_bytes(CONTENTS[0] * 100)
    with pytest.raises(ManifestError, match=rf"cannot .*{tmp_path}/image"):
        kind.source(tmp_path / "image")


def test_a_missing_package_is_named(
    kind: Kind, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [each for each in sys.modules if each.startswith(f"{kind.package}.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, kind.package, None)
    with pytest.raises(MissingExtraError, match=rf"^{kind.package}[\w.]* is not installed; run"):
        kind.source(file)


def test_bad_images_cost_no_others(kind: Kind, tmp_path: Path) -> None:
    bad = [*CONTENTS]
    bad[2], bad[7] = b"GIF87a", CONTENTS[7][:40]
    kind.write(tmp_path / "data", bad)
    source = kind.source(tmp_path / "data")
    with pytest.raises(ManifestError, match=f"2 of 12 images are bad: {kind.names[2]}: not a JPEG"):
        of(source)
    good = of(source, on_bad_image="drop")
    assert good.frame["path"].to_list() == [
        name for key, name in enumerate(kind.names) if key not in (2, 7)
    ]
    kind.write(tmp_path / "good", CONTENTS)
    listed = of(kind.source(tmp_path / "good"))
    manifest = Manifest(listed.frame, source, listed.classes)
    with make(manifest, batch_size=4, on_error="blank", max_failures=2) as loader:
        batches = list(loader)
        assert sorted(failure.record_key for failure in loader.quarantine) == [2, 7]
    seen = np.concatenate([batch["record_key"] for batch in batches])
    assert sorted(seen.tolist()) == list(range(COUNT))
    found = check(manifest.frame, source, progress=False).findings.filter("fails")
    assert found["record_key"].to_list() == [2, 7]


def test_everything_else_is_as_with_files(kind: Kind, file: Path) -> None:
    manifest = of(kind.source(file))
    plain = of(gpufeed.MemorySource(dict(zip(kind.names, CONTENTS, strict=True))))
    assert manifest.fingerprint() == plain.fingerprint()
    pairs = [
        (manifest, plain),
        (manifest.take([3, 4, 4]), plain.take([3, 4, 4])),
        (gpufeed.concat([plain, manifest]), gpufeed.concat([plain, plain])),
    ]
    for options in ({}, {"cache": "host"}, {"read_timeout": 30}, {"opener": "graph"}):
        for mine, other in pairs:
            with (
                make(mine, batch_size=3, **options) as loader,
                make(other, batch_size=3, **options) as wanted,
            ):
                assert [digest(each) for each in loader] == [digest(each) for each in wanted]
    assert np.array_equal(manifest[3].image(), plain[3].image())
    assert check(manifest.frame, manifest.source, progress=False).failing == 0
    assert bench(
        manifest, size=24, batch_size=4, rounds=1, seconds=0.01, device="cpu", progress=False
    ).batches
    assert show_batch(manifest, size=24, batch_size=4, device="cpu").images == 4
