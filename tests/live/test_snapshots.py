"""Snapshots of running loaders: what other processes read, and what is left behind."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from gpufeed import Manifest, Stats
from gpufeed.live import snapshots, watch
from gpufeed.live.snapshots import read_snapshots
from tests.support.loaders import digest, make
from tests.support.scripts import run_scripts
from tests.support.waiting import wait_until


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where snapshots are, often: a folder that only this test knows."""
    monkeypatch.setattr(snapshots, "SHARED", tmp_path)
    monkeypatch.setattr(watch, "SECONDS", 0.005)
    return tmp_path / f"gpufeed-live-{os.geteuid()}-1"


def jsonable(stats: Stats) -> object:
    return json.loads(json.dumps(asdict(stats)))


def test_snapshots_say_what_stats_say_and_change_nothing(
    pictures: Manifest, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make(pictures) as loader:
        watched = []
        for batch in loader:
            watched.append(digest(batch))
            wait_until(folder.exists)
            wait_until(lambda: [e["stats"]["batches"] for e in read_snapshots()] == [len(watched)])
        # Once all that is prefetched is ready:
        wait_until(lambda: read_snapshots()[0]["stats"] == jsonable(loader.stats))
        (found,) = read_snapshots()
        assert (found["pid"], found["images"], found["waits"]) == (os.getpid(), 50, False)
        (file,) = folder.iterdir()
        assert (file.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    assert not read_snapshots()
    assert not list(folder.iterdir())

    monkeypatch.setenv("GPUFEED_LIVE", "0")
    with make(pictures) as loader:
        assert [digest(batch) for batch in loader] == watched
        assert loader._watch is None


def test_a_folder_that_is_removed_is_made_again(pictures: Manifest, folder: Path) -> None:
    """As systemd removes it when its user logs out."""
    with make(pictures) as loader:
        next(iter(loader))
        wait_until(read_snapshots)
        folder.rename(folder.with_name("gone"))
        wait_until(read_snapshots)


def test_a_source_is_named_once(pictures: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The `repr` of a user's own may be of a million paths."""
    named = []
    monkeypatch.setattr(type(pictures.source), "__repr__", lambda _: named.append(1) or "Paths")
    with make(pictures) as loader:
        told = [loader._describe()["source"] for _ in range(3)]
    assert (told, named) == (["Paths"] * 3, [1])


def test_a_loader_that_is_dropped_takes_its_snapshot_along(
    pictures: Manifest, folder: Path
) -> None:
    loader = make(pictures)
    next(iter(loader))
    wait_until(read_snapshots)
    del loader
    gc.collect()
    wait_until(lambda: not list(folder.iterdir()))


@pytest.mark.parametrize("there", ["nothing", "a file", "open to others"])
def test_without_a_folder_of_its_own_nothing_is_written(
    pictures: Manifest, folder: Path, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if there == "nothing":
        monkeypatch.setattr(snapshots, "SHARED", folder / "missing")
    elif there == "a file":
        folder.touch()
    else:
        folder.mkdir()
        folder.chmod(0o777)
    with make(pictures) as loader:
        next(iter(loader))
        assert loader._watch is None
    assert not read_snapshots()
    assert there != "open to others" or not list(folder.iterdir())


def test_snapshots_of_the_dead_are_passed_over_and_removed(folder: Path) -> None:
    mine = snapshots.path_of(7)
    snapshots.write(mine, {"is": "mine"})
    pid, started, _ = mine.stem.split("-")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    # Of a process that is gone, and of one that had this process's number before.
    dead = [
        folder / f"{gone.pid}-{started}-0.json",
        folder / f"{pid}-{int(started) - 1}-0.json",
        folder / f"{gone.pid}-{started}-1.new",
    ]
    foreign = folder / "notes.txt"
    for path in [*dead, foreign]:
        path.write_text("{}")
    assert read_snapshots() == [{"is": "mine"}]
    assert all(path.exists() for path in dead)  # perhaps of a container, which looks the same
    for path in [*dead, mine, foreign]:
        os.utime(path, (0, 0))
    assert read_snapshots() == [{"is": "mine"}]
    assert set(folder.iterdir()) == {mine, foreign}


def test_a_loader_that_starts_removes_those_of_the_dead(pictures: Manifest, folder: Path) -> None:
    pid, started, _ = snapshots.path_of(7).stem.split("-")
    dead = folder / f"{pid}-{int(started) - 1}-0.json"
    dead.write_text("{}")
    os.utime(dead, (0, 0))
    with make(pictures) as loader:
        next(iter(loader))
        assert not dead.exists()


def test_no_reader_sees_half_a_snapshot(folder: Path) -> None:
    path = snapshots.path_of(0)
    long, short = {"is": "x" * 20_000}, {"is": "y"}
    snapshots.write(path, long)
    code = f"""
import sys
from pathlib import Path
from gpufeed.live.snapshots import write
path, long, short = Path({str(path)!r}), {long!r}, {short!r}
while not path.with_suffix(".end").exists():
    write(path, short)
    write(path, long)
"""
    with subprocess.Popen([sys.executable, "-c", code]) as writer:
        try:
            seen = set()
            count = 0
            while len(seen) < 2 or count < 2000:
                (found,) = read_snapshots()
                assert found in (long, short)
                seen.add(len(found["is"]))
                count += 1
                assert writer.poll() is None
        finally:
            path.with_suffix(".end").touch()


def test_a_forked_process_leaves_the_files_of_its_parent(pictures: Manifest) -> None:
    body = """
import os, time
from gpufeed.live.snapshots import read_snapshots
def mine():
    return [each for each in read_snapshots() if each["pid"] == os.getpid()]
loader = make(manifest)
iterator = iter(loader)
next(iterator)
while not mine():
    time.sleep(0.1)
for ending in ("close", "drop"):
    child = os.fork()
    if not child:
        if ending == "close":
            loader.close()
        del loader, iterator
        raise SystemExit
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(mine()))
loader.close()
print(len(mine()))
"""
    (ran,) = run_scripts(pictures, [body])
    assert ran.stdout.split() == ["0", "1", "0", "1", "0"], ran.stderr
