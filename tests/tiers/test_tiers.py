"""A loader with tiers feeds what it feeds without them, whatever becomes of the tiers."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from torch.utils.data import RandomSampler

from benchmarks.storage.bound import fewest_misses
from benchmarks.storage.simulate import misses, node_local
from gpufeed import (
    ConfigError,
    DecodeError,
    DiskCache,
    IndexSampler,
    Manifest,
    MemoryCache,
    MemorySource,
    NodeLocalSampler,
    Sampler,
    SequentialSampler,
    ShardOptions,
    WeightedSampler,
    read_table,
    stage,
)
from gpufeed.order.schedule import Schedule
from gpufeed.tiers import keeper
from gpufeed.tiers.ahead import Ahead
from gpufeed.tiers.caches import bytes_of
from gpufeed.tiers.folder import Folder
from gpufeed.tiers.horizon import Horizon
from gpufeed.tiers.order import Order
from gpufeed.tiers.source import TieredSource
from gpufeed.tiers.tiers import Run
from tests.support.faulty_store import BUCKET, put, s3
from tests.support.faulty_store import FAULTS as STORE_FAULTS
from tests.support.loaders import digest, make
from tests.support.media import make_manifest, write_table
from tests.support.waiting import PATIENCE, wait_until

COUNT = 40
SMALL = 100_000
"""Bytes of room for 20 of the images, beside the index."""


class Counting:
    """The images of a manifest, as from a store: counts what is read, and can fail or wait.

    `held` are the keys of reads that were kept waiting.
    """

    def __init__(self, manifest: Manifest, *, requests: bool = False) -> None:
        self.source: Any = manifest.source
        self.keys: list[int] = []
        self.name = self.source.name
        self.open_gate = threading.Event()
        self.open_gate.set()
        self.held: list[list[int]] = []
        self._pool = ThreadPoolExecutor(4) if requests else None
        if requests:
            self.start = self._start

    def read(self, keys: Any) -> Any:
        if not self.open_gate.is_set():
            self.held.append(keys.tolist())
            self.open_gate.wait()
        self.keys += keys.tolist()
        return self.source.read(keys)

    def _start(self, keys: Any, _seconds: float | None) -> Future[Any]:
        assert self._pool is not None
        return self._pool.submit(self.read, keys)

    def fingerprint(self) -> str:
        found: str = self.source.fingerprint()
        return found


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    folder = tmp_path_factory.mktemp("images")
    return make_manifest(folder, [(40 + n % 5, 50 + n % 3) for n in range(COUNT)])


@pytest.fixture(autouse=True)
def shared_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """So that tests that run at the same time do not share it, and a slow machine loses nothing."""
    monkeypatch.setattr("gpufeed.tiers.folder._PATIENCE", 60)
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(MemoryCache, "shared_memory", folder)
    return folder


def counted(manifest: Manifest, **options: Any) -> tuple[Manifest, Counting]:
    source = Counting(manifest, **options)
    return Manifest(manifest.frame, source, manifest.classes), source


def feed(manifest: Manifest, *, epochs: int = 3, **options: Any) -> list[str]:
    with make(manifest, **options) as loader:
        return [digest(batch) for _ in range(epochs) for batch in loader]


def settle(loader: Any) -> None:
    """Wait until what was read is written."""
    loader._tiers._run().keeper.flush()


def alive(*names: str) -> list[str]:
    """The threads of this process whose names begin with one of these."""
    return [each.name for each in threading.enumerate() if each.name.startswith(names)]


@contextlib.contextmanager
def warned(text: str) -> Iterator[None]:
    """There is one warning."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
    assert [bool(re.search(text, str(each.message))) for each in told] == [True], told


def files(folder: Path) -> list[Path]:
    found = folder.rglob("*")
    return [each for each in found if each.is_file() and len(each.name) == 3]


@pytest.mark.parametrize("requests", [False, True], ids=["read", "start"])
@pytest.mark.parametrize("tiers", ["memory", "disk", "both", "nothing fits"])
def test_batches_are_the_same(
    manifest: Manifest, tmp_path: Path, tiers: str, requests: bool
) -> None:
    memory, disk = MemoryCache(SMALL), DiskCache(tmp_path / "disk", SMALL)
    caches = {"memory": [memory], "disk": [disk], "both": [memory, disk]}
    cache = caches.get(tiers, [DiskCache(tmp_path / "disk", 20_000)])
    expected = feed(manifest)
    fed, _ = counted(manifest, requests=requests)
    fails = warned("no room") if tiers == "nothing fits" else contextlib.nullcontext()
    with fails, make(fed, cache=cache) as loader:
        found = []
        for _ in range(3):
            found += [digest(batch) for batch in loader]
            settle(loader)
        stats = loader.stats
        assert f"cache {cache}, " in repr(loader)
    assert found == expected
    assert len(stats.cache_hits) == len(cache)
    if tiers != "nothing fits":
        assert sum(stats.cache_hits) > 0
    wait_until(lambda: not alive("gpufeed-tiers", "gpufeed-ahead", "gpufeed-future"))


SAMPLERS: dict[str, Callable[[], Any]] = {
    "weighted": lambda: WeightedSampler(np.arange(COUNT) + 1.0, seed=1),
    "of torch": lambda: RandomSampler(range(COUNT)),
    "a user's own that cannot tell": lambda: Forgetful(COUNT, shuffle=True),
}


class Forgetful(IndexSampler):
    def visits(self, positions: Any) -> Any:
        if positions.max() > 3 * COUNT:
            raise RuntimeError("that is far away")
        return super().visits(positions)


@pytest.mark.parametrize("kind", SAMPLERS)
def test_any_sampler_will_do(manifest: Manifest, tmp_path: Path, kind: str) -> None:
    import torch

    torch.manual_seed(0)
    expected = feed(manifest, sampler=SAMPLERS[kind](), epochs=2)
    torch.manual_seed(0)
    found = feed(
        manifest, sampler=SAMPLERS[kind](), epochs=2, cache=[DiskCache(tmp_path / "disk", SMALL)]
    )
    assert found == expected


def test_moves_and_other_passes(manifest: Manifest, tmp_path: Path) -> None:
    cache = [DiskCache(tmp_path / "disk", SMALL)]
    with make(manifest) as plain, make(manifest, cache=cache) as loader:
        for each in (11, 3, 500, 0):
            for one in (plain, loader):
                one.seek(each)
            assert digest(next(iter(loader))) == digest(next(iter(plain)))
            assert digest(loader.batch(7)) == digest(plain.batch(7))
            assert loader.step == plain.step
        loader.close()
        assert digest(next(iter(loader))) == digest(next(iter(plain)))
    options = {"restart": True, "sampler": SequentialSampler(COUNT), "last_batch": "pad"}
    assert feed(manifest, cache=cache, **options) == feed(manifest, **options)


class Steps:
    """A tiered source that is read step by step, by hand."""

    def __init__(
        self,
        manifest: Manifest,
        cache: Any,
        sampler: Sampler,
        *,
        repeats: bool = False,
        machines: int = 1,
    ) -> None:
        _, self.source = counted(manifest)
        shard = ShardOptions(0, machines)
        schedule = Schedule(sampler.epoch_size, sampler.num_epochs, 1, shard, "drop")
        self.machines = machines
        run = Run(COUNT, sampler, schedule, repeats)
        self.tiered = TieredSource(self.source, [cache], run)
        self.sampler = sampler
        self.begin(0)
        self.tiers = self.tiered._run()
        self.tiers._horizon.wait()

    def begin(self, step: int) -> None:
        self.tiered.begin(step)
        self.tiered._run().keeper.flush()

    def read(self, step: int) -> None:
        self.begin(step)
        key = self.sampler.keys(step * self.machines, step * self.machines + 1)
        assert bytes(self.tiered.read(key)[0]) == bytes(self.source.source.read(key)[0])  # type: ignore[arg-type]
        self.tiers.keeper.flush()
        self.tiers._horizon.wait()


@pytest.mark.parametrize(
    ("sampler", "threads"),
    [
        (IndexSampler(COUNT, shuffle=True, seed=2, num_epochs=5), True),
        (IndexSampler(COUNT, shuffle=True, seed=2, num_epochs=5), False),
        (WeightedSampler((np.arange(COUNT) + 1.0) ** 2, seed=1, num_epochs=5), True),
    ],
    ids=["shuffled", "without a thread for the future", "weighted"],
)
def test_what_is_read_is_the_least_possible(
    manifest: Manifest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sampler: Sampler,
    threads: bool,
) -> None:
    monkeypatch.setattr(Ahead, "start", lambda _: None)
    if not threads:
        monkeypatch.setattr(threading.Thread, "start", starting("gpufeed-future"))
    steps = Steps(manifest, DiskCache(tmp_path / "disk", SMALL), sampler)
    for step in range(5 * COUNT):
        steps.read(step)
    kept = len(files(tmp_path / "disk"))
    assert 10 < kept < COUNT - 10
    least = fewest_misses(sampler.keys(0, 5 * COUNT).tolist(), kept)
    assert len(steps.source.keys) == least < 5 * COUNT - 3 * kept
    steps.tiered.close()


def test_a_machine_reads_of_its_own_records_what_the_simulation_says(
    manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ahead, "start", lambda _: None)
    sampler = NodeLocalSampler(COUNT, nodes=2, global_batch=2, num_epochs=5)
    steps = Steps(manifest, DiskCache(tmp_path / "disk", SMALL // 2), sampler, machines=2)
    for step in range(5 * COUNT // 2):
        steps.read(step)
    kept = len(files(tmp_path / "disk"))
    assert 4 < kept < COUNT // 2 - 4
    uses, first = node_local(COUNT, 2, epochs=5, sampled=COUNT // 2)
    # The same order, whatever the records are called: each use by the place of the record's first.
    order = sampler.keys(0, 5 * COUNT)[::2].tolist()
    assert [*map(order.index, order)] == [*map(uses.tolist().index, uses.tolist())]
    assert first == COUNT // 2
    assert len(steps.source.keys) == misses(uses, first, kept, clairvoyant=True) < len(uses)
    steps.tiered.close()


def test_what_is_being_read_ahead_is_not_read_twice(manifest: Manifest, tmp_path: Path) -> None:
    sampler = IndexSampler(COUNT, shuffle=True, seed=2)
    # A sixteenth of it is room for about ten images.
    steps = Steps(manifest, DiskCache(tmp_path / "disk", 16 * 20_000), sampler)
    # What is under way when it is needed is waited for, and not read twice.
    steps.source.open_gate.clear()
    steps.begin(8)
    wait_until(lambda: steps.source.held)
    (flying,) = steps.source.held[0]
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(steps.tiered.read, np.array([flying]))
        steps.source.open_gate.set()
        (image,) = read.result(PATIENCE)
    (expected,) = steps.source.source.read(np.array([flying]))
    assert bytes(image) == bytes(expected)  # type: ignore[arg-type]
    assert steps.source.keys.count(flying) == 1
    steps.tiered.close()
    wait_until(lambda: not alive("gpufeed-ahead"))


def test_an_image_that_hangs_delays_no_other(manifest: Manifest, tmp_path: Path) -> None:
    sampler = IndexSampler(COUNT, shuffle=True, seed=2)
    steps = Steps(manifest, DiskCache(tmp_path / "disk", 16 * 20_000), sampler)
    steps.source.open_gate.clear()
    steps.begin(20)  # beyond all that has been read ahead
    wait_until(lambda: len(steps.source.held) == 4)
    flights = list(steps.tiers.ahead.flights.values())
    assert len(set(map(id, flights))) == len(flights) == 4
    steps.source.open_gate.set()
    steps.tiered.close()


def test_requests_ahead_have_the_loaders_time_limit(manifest: Manifest, tmp_path: Path) -> None:
    limits: list[float | None] = []
    fed, source = counted(manifest, requests=True)
    start = source._start
    source.start = lambda keys, seconds: (limits.append(seconds), start(keys, seconds))[1]
    with make(fed, cache=[DiskCache(tmp_path / "disk", 16 * SMALL)], read_timeout=7) as loader:
        loader._tiers.begin(0)
        wait_until(lambda: limits)
    assert set(limits) == {7.0}


def test_nothing_is_read_ahead_before_it_is_known_what_is_there(
    manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = [DiskCache(tmp_path / "disk", 3 * SMALL)]
    with make(manifest, cache=cache) as loader:
        list(loader)
        settle(loader)
    gate, follow = threading.Event(), Folder.follow

    def slow(folder: Folder) -> None:
        gate.wait(20)
        follow(folder)

    monkeypatch.setattr(Folder, "follow", slow)
    fed, source = counted(manifest)
    with make(fed, cache=cache) as loader:
        assert len(list(loader)) == COUNT // 8
        gate.set()
        settle(loader)
        assert source.keys == []


@pytest.mark.parametrize("why", ["not known", "busy"])
def test_steps_that_cannot_be_read_ahead_yet_are_not_passed_over(
    manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """Until it is known what is in the tiers, and while too much waits to be written."""
    monkeypatch.setattr(Ahead, "start", lambda _: None)
    steps = Steps(manifest, DiskCache(tmp_path / "disk", "10 MB"), SequentialSampler(COUNT))
    tiers = steps.tiers
    with monkeypatch.context() as patched:
        if why == "busy":
            patched.setattr(keeper, "_WAITING", 0)
        else:
            patched.setattr(tiers.keeper, "followed", False)
        assert [tiers.ahead._take() for _ in range(3)] == [None] * 3
    assert tiers.ahead._take() == (1, [1])
    monkeypatch.setattr(keeper, "_WAITING", 0)
    tiers.ahead._keys.extend([5])
    assert tiers.ahead._take() is None
    monkeypatch.setattr(keeper, "_WAITING", 1)
    assert tiers.ahead._take() == (1, [5])
    steps.tiered.close()


def lookahead(
    room: int, lengths: dict[int, int], *, present: bool = False, seconds: float | None = None
) -> Ahead:
    """What reads ahead of a run of one image a step, whose threads are not started."""
    sampler = SequentialSampler(5_000)
    schedule = Schedule(sampler.epoch_size, None, 1, ShardOptions(), "drop")
    order = Order(sampler, schedule, range(1))
    return Ahead(
        lambda: order,
        lambda keys: keys[:0] if present else keys,
        lambda keys: {key: bytes(lengths.get(key, 10)) for key in keys.tolist()},
        room=room,
        threads=1,
        group=1,
        seconds=seconds,
    )


def read_ahead(ahead: Ahead) -> list[int]:
    """Read on this thread what can be read now."""
    found: list[int] = []
    take = ahead._take

    def taken() -> Any:
        one = take()
        ahead._stopped = one is None
        found.extend([] if one is None else one[1])
        return one

    ahead._take = taken  # type: ignore[method-assign]
    ahead._work()
    ahead._take, ahead._stopped = take, False  # type: ignore[method-assign]
    return found


def test_one_step_is_looked_at_at_a_time() -> None:
    """So that a loader that begins another does not wait."""
    ahead = lookahead(1_000, {}, present=True)
    ahead.begin(0)
    assert [ahead._take() for _ in range(3)] == [(1, []), (2, []), (3, [])]
    assert read_ahead(ahead) == []
    assert ahead._take() is None


@pytest.mark.parametrize("requests", [False, True], ids=["read", "start"])
def test_what_the_loader_reads_is_not_read_ahead_too(
    manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requests: bool
) -> None:
    ahead = lookahead(1_000, {})
    ahead.begin(0)
    ahead._keys.extend([7, 8])
    monkeypatch.setattr(ahead, "_absent", lambda keys: keys[keys != 7])
    assert [ahead._take()[1] for _ in range(2)] == [[], [8]]  # type: ignore[index]
    # It is kept before reading ahead goes on.
    monkeypatch.setattr(Ahead, "start", lambda _: None)
    fed, _ = counted(manifest, requests=requests)
    with make(fed, cache=[DiskCache(tmp_path / "disk", SMALL)]) as loader:
        tiered, reads = loader._tiers, []
        tiers = tiered._run()
        keep = tiers.keep
        monkeypatch.setattr(
            tiers, "keep", lambda *given: (reads.append(len(tiers.ahead._reads)), keep(*given))
        )
        keys = np.arange(3)
        assert (
            len(tiered.start(keys, None).result(PATIENCE) if requests else tiered.read(keys)) == 3
        )
        assert reads == [1]
        assert not tiers.ahead._reads


def test_a_read_that_was_given_up_does_not_end_reading_ahead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("gpufeed.tiers.ahead.monotonic", lambda: now)
    for seconds in (7.0, None):
        ahead = lookahead(100, {}, seconds=seconds)
        ahead.begin(0)
        hangs = ahead.enter()
        for later in (0.0, 6.9):
            now = 100.0 + later
            assert read_ahead(ahead) == []
        now = 107.0
        assert bool(read_ahead(ahead)) == (seconds is not None)
        ahead.leave(hangs)
        ahead.begin(100)
        assert read_ahead(ahead)
        now = 100.0


def test_images_that_hang_ahead_keep_no_others_from_being_read(manifest: Manifest) -> None:
    """More of them than there are threads, beside one that the loader has given up."""
    source, gate = Counting(manifest), threading.Event()
    read = source.read

    def hanging(keys: Any) -> Any:
        if keys[0] < 10:
            gate.wait(PATIENCE)
        return read(keys)

    source.read = hanging  # type: ignore[method-assign]
    order = SequentialSampler(COUNT)
    schedule = Schedule(COUNT, None, 1, ShardOptions(), "drop")
    tiered = TieredSource(source, [MemoryCache("10 MB")], Run(COUNT, order, schedule, False, 0.1))
    tiered._run().ahead.enter()
    tiered.begin(0)
    wait_until(lambda: len(source.keys) >= COUNT - 10)
    assert sorted(source.keys) == list(range(10, COUNT))
    gate.set()
    tiered.close()


def test_what_fails_once_does_not_end_reading_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = lookahead(100, {})
    ahead.begin(0)
    absent = ahead._absent

    def failing(keys: Any) -> Any:
        ahead._absent = absent
        raise MemoryError

    ahead._absent = failing
    monkeypatch.setattr(ahead._changed, "wait", lambda _: ahead.begin(1))
    assert read_ahead(ahead)


def test_one_long_image_does_not_end_reading_ahead() -> None:
    ahead = lookahead(300, {3: 400})
    ahead.begin(0)
    assert read_ahead(ahead)[:3] == [1, 2, 3]
    ahead.begin(4)
    assert len(read_ahead(ahead)) > 3


def test_what_was_read_ahead_of_another_place_is_forgotten() -> None:
    ahead = lookahead(100, {})
    ahead.begin(4_000)
    fetch = ahead._fetch

    def moved(keys: Any) -> Any:
        ahead._fetch = fetch
        ahead.begin(0)
        return fetch(keys)

    ahead._fetch = moved
    assert read_ahead(ahead)[0] == 4_001
    for step in range(20, 200, 20):
        ahead.begin(step)
        assert read_ahead(ahead)


def test_an_error_read_ahead_is_the_error_of_its_image(tmp_path: Path, manifest: Manifest) -> None:
    folder = tmp_path / "images"
    shutil.copytree(manifest.root, folder)
    (folder / "00007.jpg").unlink()
    damaged = Manifest(manifest.frame, folder, manifest.classes)
    cache = [DiskCache(tmp_path / "disk", SMALL)]
    with pytest.raises(DecodeError, match=r"00007\.jpg"):
        feed(damaged, cache=cache, epochs=1, last_batch="pad")
    options = {"on_error": "substitute", "max_failures": 1.0}
    assert feed(damaged, cache=cache, **options) == feed(damaged, **options)


def test_a_store_with_faults(manifest: Manifest, tmp_path: Path) -> None:
    paths = manifest.frame["path"].to_list()
    with s3() as store:
        for key, path in enumerate(paths):
            put(f"photos/{path}", bytes(manifest.source.read(np.array([key]))[0]))  # type: ignore[arg-type]
        remote = read_table(manifest.frame, root=f"s3://{BUCKET}/photos", progress=False)
        cache = [MemoryCache(SMALL), DiskCache(tmp_path / "disk", SMALL)]
        with make(remote, cache=cache) as loader:
            store.reset()
            store.faults = STORE_FAULTS
            found = []
            for _ in range(3):
                found += [digest(batch) for batch in loader]
                settle(loader)
            # Left in the middle of reading ahead, and of an epoch.
            found.append(digest(next(iter(loader))))
            assert loader._tiers is not None
            assert sum(loader._tiers.counts.hits) > 0
        assert store.spoiled.total() > 0
    with make(manifest) as loader:
        batches = loader.forever()
        assert found == [digest(next(batches)) for _ in found]


LEFT = """
import sys
from pathlib import Path
import polars as pl
from gpufeed import DiskCache, MemoryCache, read_table
from tests.support.loaders import make

table, root, place = sys.argv[1:]
MemoryCache.shared_memory = Path(place) / "shm"
remote = read_table(pl.read_parquet(table), root=root, progress=False)
loader = make(remote, cache=[MemoryCache("30 MB"), DiskCache(Path(place) / "disk", "30 MB")])
next(iter(loader))
"""


def test_a_process_ends_while_requests_are_made_ahead(
    manifest: Manifest, tmp_path: Path, shared_memory: Path
) -> None:
    frame = manifest.frame
    with s3():
        for key, path in enumerate(frame["path"].to_list()):
            put(f"photos/{path}", bytes(manifest.source.read(np.array([key]))[0]))  # type: ignore[arg-type]
        # So that there is much to read ahead.
        frame.select(pl.all().repeat_by(20).explode()).write_parquet(tmp_path / "table")
        command = [sys.executable, "-c", LEFT, str(tmp_path / "table"), f"s3://{BUCKET}/photos"]
        done = subprocess.run(
            [*command, str(tmp_path)], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(shared_memory.iterdir())


def no_space(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def broken(*_: object) -> bytes:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def read_only(*_: object, **__: object) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def no_memory(*_: object, **__: object) -> None:
    raise MemoryError("none left")


def starting(*refused: str) -> Callable[[threading.Thread], None]:
    """Start threads except some, as if the system allowed no more."""
    start = threading.Thread.start

    def allowed(thread: threading.Thread) -> None:
        if thread.name in refused:
            raise RuntimeError("can't start new thread")
        start(thread)

    return allowed


FAULTS: dict[str, tuple[Any, str, Callable[..., Any], str]] = {
    "full": (os, "write", no_space, "cannot be written .*No space.*no further images"),
    "read-only": (Path, "mkdir", read_only, "cannot be used .*Read-only.*going on without"),
    "broken": (Folder, "read", broken, "cannot be read .*Input/output.*going on without"),
    "unexpected": (Folder, "put", no_memory, r"written \(MemoryError\('none left'\)\); no further"),
    "unexpected at first": (Folder, "follow", no_memory, "written .*MemoryError.*no further"),
    "unexpected between": (Horizon, "begin", no_memory, "written .*MemoryError.*no further"),
    "no thread": (threading.Thread, "start", starting("gpufeed-tiers"), "written .*can't start"),
    "no reading ahead": (
        threading.Thread,
        "start",
        starting("gpufeed-ahead-1"),
        "images are read ahead on fewer threads, or not at all .*can't start",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_disk_that_fails_is_told_once_and_left_out(
    manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    expected = feed(manifest)
    where, name, failing, text = FAULTS[fault]
    cache = [DiskCache(tmp_path / "disk", SMALL)]
    with monkeypatch.context() as patched, warned(text), make(manifest, cache=cache) as loader:
        patched.setattr(where, name, failing)
        found = [digest(batch) for _ in range(3) for batch in loader]
        waiting = loader._tiers._run().keeper.waiting
        wait_until(lambda: settle(loader) or not waiting)  # what is read ahead comes meanwhile
    assert found == expected


def test_a_folder_removed_in_the_middle(manifest: Manifest, tmp_path: Path) -> None:
    expected, found = feed(manifest), []
    cache = [DiskCache(tmp_path / "disk", 3 * SMALL)]
    with warned("cannot be written .*removed"), make(manifest, cache=cache) as loader:
        found += [digest(batch) for batch in loader]
        settle(loader)
        while (tmp_path / "disk").exists():  # images are still being written
            shutil.rmtree(tmp_path / "disk", ignore_errors=True)
        found += [digest(batch) for _ in range(2) for batch in loader]
        settle(loader)
    assert found == expected


def test_a_disk_slower_than_the_feed_is_not_waited_for(
    manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, held = threading.Event(), Folder.put

    def slow(*arguments: Any, **options: Any) -> Any:
        gate.wait(30)
        return held(*arguments, **options)

    monkeypatch.setattr(Folder, "put", slow)
    monkeypatch.setattr(keeper, "_WAITING", 5_000)
    expected = feed(manifest)
    with make(manifest, cache=[DiskCache(tmp_path / "disk", SMALL)]) as loader:
        assert [digest(batch) for _ in range(3) for batch in loader] == expected
        assert len(loader._tiers._run().keeper.waiting) < 10
        gate.set()


def test_damaged_files_are_read_from_the_source(manifest: Manifest, tmp_path: Path) -> None:
    cache = [DiskCache(tmp_path / "disk", 3 * SMALL)]
    expected, found = feed(manifest), []
    fed, source = counted(manifest)
    with make(fed, cache=cache) as loader:
        found += [digest(batch) for batch in loader]
        settle(loader)
    kept = files(tmp_path / "disk")
    for number, file in enumerate(kept):
        os.truncate(file, number % 3 * 100)
    before = len(source.keys)
    with make(fed, cache=cache) as loader:
        assert [digest(batch) for _ in range(3) for batch in loader] == expected
        settle(loader)
        assert len(source.keys) >= before + len(kept)
    assert all(file.stat().st_size > 500 for file in files(tmp_path / "disk"))


def test_other_images_are_not_mistaken_for_these(manifest: Manifest, tmp_path: Path) -> None:
    folder, cache = tmp_path / "images", [DiskCache(tmp_path / "disk", 3 * SMALL)]
    shutil.copytree(manifest.root, folder)
    first = Manifest(manifest.frame, folder, manifest.classes)
    assert feed(first, cache=cache, epochs=1) == feed(manifest, epochs=1)
    shutil.copy(folder / "00020.jpg", folder / "00005.jpg")
    os.utime(folder / "00005.jpg", ns=(0, 0))
    changed = Manifest(manifest.frame, folder, manifest.classes)
    options: dict[str, Any] = {"epochs": 1, "last_batch": "pad"}
    with_cache, without = feed(changed, cache=cache, **options), feed(changed, **options)
    assert with_cache == without != feed(manifest, **options)
    some = changed.filter(changed.frame["label"] == 1)
    assert feed(some, cache=cache, epochs=1) == feed(some, epochs=1)


SHARD = """
import json, sys
from pathlib import Path
from gpufeed import DiskCache, IndexSampler, MemoryCache, ShardOptions
from gpufeed.tiers import folder
from gpufeed.tiers.ahead import Ahead
from tests.support.loaders import digest, make
from tests.support.media import read_table

folder._PATIENCE = 60  # so that each image is kept, however slow the machine
Ahead.start = lambda self: None  # whose time differs
table, place, index = sys.argv[1:4]
MemoryCache.shared_memory = Path(place) / "shm"
cache = [MemoryCache(300_000), DiskCache(Path(place) / "disk", 300_000)]
manifest, loaders = read_table(Path(table)), []
for epoch in range(3):
    # Nothing is read beyond the epoch.
    sampler = IndexSampler(len(manifest), shuffle=True, seed=3, num_epochs=epoch + 1)
    shard = ShardOptions(int(index), 2)
    loader = make(manifest, sampler=sampler, cache=cache, batch_size=4, shard=shard)
    loaders.append(loader)
    sys.stdin.readline()
    loader.set_epoch(epoch)
    found = [digest(batch) for batch in loader]
    loader._tiers._run().keeper.flush()
    print(json.dumps([found, loader.stats.fetched_images]), flush=True)
sys.stdin.readline()  # and ends without `close`
"""


def test_processes_share_what_each_has_read(
    manifest: Manifest, tmp_path: Path, shared_memory: Path
) -> None:
    table = write_table(manifest)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SHARD, str(table), str(tmp_path), str(index)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    try:
        fetched = []
        for epoch in range(3):
            for each in processes:
                assert each.stdin is not None
                each.stdin.write("\n")
                each.stdin.flush()
            told = [json.loads(each.stdout.readline()) for each in processes]  # type: ignore[union-attr]
            for index, (found, _) in enumerate(told):
                with make(manifest, batch_size=4, shard=ShardOptions(index, 2)) as loader:
                    loader.seek(epoch * COUNT // 8)
                    assert found == [digest(batch) for batch in loader]
            fetched.append(sum(count for _, count in told))
        # Each reads half of the images in an epoch, not the same in all.
        assert fetched == [COUNT, 0, 0]
        assert len(list(shared_memory.iterdir())) == 1
        processes[0].kill()
        processes[1].stdin.write("\n")  # type: ignore[union-attr]
        processes[1].stdin.close()  # type: ignore[union-attr]
        assert processes[1].wait(PATIENCE) == 0
        processes[0].wait(PATIENCE)
    finally:
        for each in processes:
            each.kill()
            each.wait()
            each.stdout.close()  # type: ignore[union-attr]
            if not each.stdin.closed:  # type: ignore[union-attr]
                each.stdin.close()  # type: ignore[union-attr]
    # The next loader frees what killed processes have left.
    killed = shared_memory / f"gpufeed-{os.geteuid()}-{'0' * 32}"
    # Another user may have made a link, or a folder to which they may write.
    linked, link = tmp_path / "linked", shared_memory / f"gpufeed-{os.geteuid()}-link"
    link.symlink_to(linked)
    theirs = shared_memory / f"gpufeed-{os.geteuid()}-theirs"
    for each in (killed, linked, theirs):
        (each / f"gpufeed-{'0' * 32}").mkdir(mode=0o700, parents=True)
        (each / f"gpufeed-{'0' * 32}" / "users").touch()
    theirs.chmod(0o777)
    feed(manifest, cache=[MemoryCache(SMALL)], epochs=1)
    assert sorted(shared_memory.iterdir()) == [link, theirs]
    assert len(list(linked.iterdir())) == len(list(theirs.iterdir())) == 1


def test_too_little_shared_memory_is_told_at_once(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Statistics:
        f_blocks, f_frsize = 16, 1 << 20

    monkeypatch.setattr(os, "statvfs", lambda _: Statistics)
    text = "size='1 GB'.* needs 1,000,000,000 bytes in .* has 16,777,216; .*--shm-size"
    with pytest.raises(ConfigError, match=text):
        make(manifest, cache=[MemoryCache("1 GB")])
    monkeypatch.setattr("gpufeed.tiers.caches.available_memory", lambda: 10_000_000)
    with pytest.raises(ConfigError, match="needs 16,000,000 bytes of memory, but 9,000,000 may"):
        make(manifest, cache=[MemoryCache("16 MB")])


@pytest.mark.parametrize(
    ("cache", "text"),
    [
        (MemoryCache("1 MB"), r"it must be a list, as \[MemoryCache\(size='1 MB'\)\]"),
        (["host"], r'"host" and "device" cannot be combined'),
        ("hosts", r'"host", "device", None, or a list'),
        ([DiskCache("/a", SMALL), DiskCache("/a/", "1 GB")], "two tiers in /a;"),
        ([MemoryCache(SMALL), MemoryCache("1 GB")], "two tiers in memory;"),
    ],
)
def test_what_is_no_list_of_tiers_is_told(manifest: Manifest, cache: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make(manifest, cache=cache)


def test_a_cache_has_a_place_on_a_disk_with_room(manifest: Manifest, tmp_path: Path) -> None:
    for path in ("", None, 3):
        with pytest.raises(ConfigError, match=f"path is {path!r}; it must be the path of a folder"):
            DiskCache(path, SMALL)  # type: ignore[arg-type]
    assert DiskCache("~/cache", SMALL).folder == Path.home() / "cache"
    free = shutil.disk_usage(tmp_path).free
    with warned(rf"size={2 * free}\) may take {2 * free:,} bytes more, but the disk has "):
        make(manifest, cache=[DiskCache(tmp_path / "none" / "yet", 2 * free)])
    with pytest.raises(FileNotFoundError, match="No such file or directory: '/proc/none'"):
        stage(manifest, DiskCache("/proc/none", SMALL))


def test_a_source_must_say_what_it_has(manifest: Manifest, tmp_path: Path) -> None:
    images = MemorySource([bytes(each) for each in manifest.source.read(np.arange(COUNT))])  # type: ignore[arg-type]
    nameless = Manifest(manifest.frame, images, manifest.classes)
    with pytest.raises(ConfigError, match="MemorySource has no fingerprint"):
        make(nameless, cache=[DiskCache(tmp_path, SMALL)])


def test_sizes_are_numbers_of_bytes() -> None:
    given = {"8 GB": 8 * 10**9, "8GiB": 8 << 30, "1.5 TB": 1500 * 10**9, "64mb": 64 * 10**6}
    given |= {"12345678": 12345678, "20000 B": 20000, "20 k": 20000, 99999: 99999}  # type: ignore[dict-item]
    for size, count in given.items():
        assert bytes_of(size) == count
    # Without a unit, a few bytes were hardly meant.
    for wrong in ("8 XB", "", "-1", 0, -5, 1.5, None, True, "0 GB", 200, "200", "1", "1 KB"):
        for make_cache in (MemoryCache, lambda size: DiskCache("d", size)):
            with pytest.raises(ConfigError, match="16,384 bytes or more, as a number or with a u"):
                make_cache(wrong)
