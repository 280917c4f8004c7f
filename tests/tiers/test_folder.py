"""A folder of images: whole images or none, no more than the limit, whoever writes or dies."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpufeed._util.held_folder import HeldFolder
from gpufeed.tiers import index
from gpufeed.tiers.folder import (
    PREFIX,
    BusyError,
    DamagedFileError,
    Folder,
    held_bytes,
    remove_unused,
)
from gpufeed.tiers.future import Block, Future
from tests.support.waiting import PATIENCE

COUNT = 40
LIMIT = 30 * 4096
NAME = PREFIX + 32 * "7"


def ranked(count: int = COUNT) -> Future:
    """Records that are read in their order, so that the last is given up first."""
    future, none = Future(count), np.empty(0, np.uint32)
    ranks = np.arange(count, dtype=np.uint32)
    future.enter(Block(0, 1, np.array([0]), none, none, ranks))
    return future


def image(key: int, length: int = 3000) -> bytes:
    return np.random.default_rng(key).bytes(length + key)


def taken(root: Path) -> int:
    return sum(512 * file.stat().st_blocks for file in root.rglob("*") if file.is_file())


def put(folder: Folder, key: int, content: bytes | None = None) -> bool:
    return folder.put(key, image(key) if content is None else content, key) is not None


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def folder(root: Path) -> Iterator[Folder]:
    made = Folder(root, NAME, ranked(), LIMIT)
    yield made
    made.close()


def test_an_image_is_what_was_put(folder: Folder) -> None:
    assert folder.read(3) is None
    for content in (image(3), bytearray(image(3)), memoryview(image(3))):
        assert folder.put(3, content, 3) == []
        assert folder.read(3) == image(3)


def test_the_limit_is_held_and_the_farthest_are_given_up(folder: Folder, root: Path) -> None:
    order = np.random.default_rng(1).permutation(COUNT).tolist()
    folder.follow()  # makes the index, which counts
    room = (LIMIT - taken(root)) // 4096
    assert 10 < room < COUNT
    for number, key in enumerate(order, 1):
        nearest = sorted(order[:number])[:room]
        assert put(folder, key) == (key in nearest)
        assert [each for each in range(COUNT) if folder.read(each) is not None] == nearest
        assert taken(root) <= LIMIT


def test_a_long_image_takes_the_place_of_several(folder: Folder, root: Path) -> None:
    for key in range(1, COUNT):
        put(folder, key)
    kept = {key for key in range(COUNT) if folder.read(key) is not None}
    given = folder.put(0, image(0, 5 * 4096), 0, give=True)
    assert given is not None
    assert {key for key, _ in given} == set(sorted(kept)[-5:]) | set(sorted(kept)[-6:-5])
    assert all(content == image(key) for key, content in given)
    assert folder.put(39, image(39, LIMIT), 0) is None
    assert taken(root) <= LIMIT


@pytest.mark.parametrize("ring", [2, 1024])
def test_processes_see_what_others_did(
    root: Path, ring: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_RING", ring)
    folders = [Folder(root, NAME, ranked(), LIMIT) for _ in range(3)]
    for key in reversed(range(COUNT)):
        if key % 3 != 2 or key < 6:  # the third comes late, and then has missed much
            put(folders[key % 3], key)
            assert taken(root) <= LIMIT
    for folder in folders:
        folder.follow()
    one, *others = (each.kept for each in folders)
    for other in others:
        assert (one.sizes == other.sizes).all()
        assert one.total == other.total == one.sizes.sum()
    assert 512 * one.total + (root / NAME / "index").stat().st_blocks * 512 == taken(root)
    for folder in folders:
        folder.close()


def test_only_one_process_writes_at_a_time(
    folder: Folder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Folder(root, NAME, ranked(), LIMIT)
    monkeypatch.setattr("gpufeed.tiers.folder._PATIENCE", 0.01)
    with folder._locked(), pytest.raises(BusyError):
        put(other, 1)
    assert put(other, 1)
    assert folder.read(1) == image(1)
    other.close()


def spoil_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "truncated": lambda path: os.truncate(path, 1000),
    "empty": lambda path: os.truncate(path, 0),
    "far longer": lambda path: os.truncate(path, 1 << 40),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"more"),
    "a bit": spoil_bit,
    "another image": lambda path: path.write_bytes(path.with_name("002").read_bytes()),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_found_and_removed(folder: Folder, root: Path, damage: str) -> None:
    put(folder, 1)
    put(folder, 2)
    DAMAGE[damage](root / NAME / "0/000/001")
    with pytest.raises(DamagedFileError):
        folder.read(1)
    folder.check(2)
    folder.check(1)
    assert folder.read(1) is None
    assert folder.read(2) == image(2)
    assert put(folder, 1)
    assert folder.read(1) == image(1)


def test_a_file_that_is_gone_is_forgotten(folder: Folder, root: Path) -> None:
    for _ in range(2):
        assert put(folder, 1)
        assert folder.read(1) == image(1)
        (root / NAME / "0/000/001").unlink()
    assert folder.read(1) is None
    folder.check(1)
    assert folder.kept.total == 0
    assert put(folder, 1)
    assert folder.read(1) == image(1)


KILLED = """
import os, signal, sys
from pathlib import Path
from gpufeed.tiers import folder as module
from tests.tiers.test_folder import COUNT, LIMIT, NAME, put, ranked

def child(call, after):
    folder = module.Folder(Path(sys.argv[1]), NAME, ranked(), LIMIT)
    for key in reversed(range(5, COUNT)):
        put(folder, key)
    real, left = getattr(os, call), [after]
    def killing(*arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    setattr(os, call, killing)
    for key in range(5):
        put(folder, key)

if os.fork() == 0:
    child(sys.argv[2], int(sys.argv[3]))
    os._exit(0)
_, status = os.wait()
sys.exit(status != signal.SIGKILL)
"""


@pytest.mark.parametrize(("call", "after"), [("write", 1), ("rename", 0), ("pwrite", 3)])
def test_a_killed_writer_leaves_a_folder_that_can_be_used(
    root: Path, call: str, after: int
) -> None:
    command = [sys.executable, "-c", KILLED, str(root), call, str(after)]
    subprocess.run(command, check=True, timeout=PATIENCE)
    unfinished = root / NAME / "unfinished"
    assert unfinished.exists() == (call != "pwrite")
    folder = Folder(root, NAME, ranked(), LIMIT)
    folder.follow()
    assert not unfinished.exists()
    there = [key for key in range(COUNT) if folder.read(key) is not None]
    assert there == np.flatnonzero(folder.kept.sizes).tolist()
    assert 512 * folder.kept.total + 512 * (root / NAME / "index").stat().st_blocks == taken(root)
    for key in range(5):
        assert put(folder, key)
        assert folder.read(key) == image(key)
        assert taken(root) <= LIMIT
    folder.close()


def test_after_the_machine_was_down_the_files_are_what_counts(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Folder(root, NAME, ranked(), LIMIT)
    for key in range(3):
        put(before, key)
    before.close()
    (root / NAME / "0/000/001").unlink()
    (root / NAME / "0/000/stray").touch()
    (root / NAME / "0/000/0x3").touch()
    (root / NAME / "-1/000").mkdir(parents=True)
    (root / NAME / "-1/000/000").touch()
    monkeypatch.setattr(index, "_boot", lambda: b"another start".ljust(36))
    after = Folder(root, NAME, ranked(), LIMIT)
    after.follow()
    assert np.flatnonzero(after.kept.sizes).tolist() == [0, 2]
    after.close()


@pytest.mark.parametrize("change", [(-1, 8), (COUNT, 8), (0, -1), (0, 1 << 32)])
def test_an_index_that_names_what_cannot_be_is_written_again(
    folder: Folder, root: Path, change: tuple[int, int]
) -> None:
    put(folder, 1)
    other = Folder(root, NAME, ranked(), LIMIT)
    put(other, 2)
    with other._locked() as its:
        at = 128 + its._changes * index._CHANGE.size % (index._RING * index._CHANGE.size)
        os.pwrite(its._file, index._CHANGE.pack(*change), at)
        its.end([], other.kept.total)
        its._changes += 1
        its.end([], other.kept.total)
    folder.follow()
    assert np.flatnonzero(folder.kept.sizes).tolist() == [1, 2]
    other.close()


@pytest.mark.parametrize("temporary", [False, True])
@pytest.mark.parametrize("foreign", ["a link", "another user", "others may write", "group"])
def test_a_folder_that_is_not_ones_own_is_not_used(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, foreign: str, temporary: bool
) -> None:
    path = root if temporary else root / NAME
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    path.parent.mkdir(exist_ok=True)
    if foreign == "a link":
        path.symlink_to(elsewhere)
    else:
        path.mkdir()
        path.chmod({"others may write": 0o702, "group": 0o720}.get(foreign, 0o700))
    if foreign == "another user":
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError, match="it is a link, or belongs to another user, or anot"):
        Folder(root, NAME, ranked(), LIMIT, temporary=temporary)
    assert not [*elsewhere.iterdir(), *path.iterdir()]


def test_what_is_not_ones_own_is_not_counted_or_removed(root: Path, tmp_path: Path) -> None:
    """In a folder that users share, such as a disk's."""
    for name, mode in zip("01", (0o700, 0o770), strict=True):
        old = Folder(root, PREFIX + 32 * name, ranked(), LIMIT)
        put(old, 1)
        old.close()
        old._path.chmod(mode)
    own = index.held_blocks(HeldFolder(root), f"{PREFIX}{32 * '0'}/index") * 512
    (root / (PREFIX + 32 * "2")).symlink_to(root / (PREFIX + 32 * "1"))
    # The user's own, which someone has given such a name.
    stray = root / (PREFIX + 32 * "3")
    stray.mkdir(0o700)
    (stray / "thesis").touch()
    # What would block for ever.
    pipe = root / (PREFIX + 32 * "4")
    pipe.mkdir(0o700)
    os.mkfifo(pipe / "index")
    root.chmod(0o777)
    assert held_bytes(root, shared=True) == own > 0
    assert held_bytes(root, shared=False) == 0
    assert remove_unused(HeldFolder(root, shared=True))
    assert not remove_unused(HeldFolder(root, shared=True))
    assert sorted(each.name[-1] for each in root.iterdir()) == ["1", "2", "3", "4", "k"]
    assert (root / (PREFIX + 32 * "1") / "0/000/001").exists()


@pytest.mark.parametrize("used", [False, True], ids=["removed", "used"])
def test_what_takes_a_folders_place_is_left_alone(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: bool
) -> None:
    """Another user who may rename in `root` puts a link there in the worst moment."""
    home = tmp_path / "home"
    (home / "0/000").mkdir(parents=True)
    for name in ("index", "users", "unfinished", "0/000/001"):
        (home / name).write_bytes(b"years of work")
    before = {file: file.stat().st_mtime_ns for file in home.rglob("*")}
    folder = Folder(root, NAME, ranked(), LIMIT)
    put(folder, 2)

    def swap(*_: object) -> None:
        (root / NAME).rename(root / "away")
        (root / NAME).symlink_to(home)

    if used:
        swap()
        assert put(folder, 1)
        assert folder.read(1) == image(1)
        assert folder.read(2) == image(2)
        folder.close()
    else:
        folder.close()
        monkeypatch.setattr(fcntl, "flock", swap)
        remove_unused(HeldFolder(root))
        assert not list((root / "away").iterdir())
    assert {file: file.stat().st_mtime_ns for file in home.rglob("*")} == before


def test_a_lock_of_another_user_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refused(path: Any, *arguments: Any, **options: Any) -> int:
        if path == "lock":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(PermissionError, match=r"another user keeps images there; name a folder"):
        Folder(root, NAME, ranked(), LIMIT)


@pytest.mark.filterwarnings("ignore:os.fork")  # JAX warns if another test has imported it
def test_a_forked_process_does_not_keep_a_folder_from_others(root: Path) -> None:
    folder = Folder(root, NAME, ranked(), LIMIT)
    put(folder, 1)
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        os.close(writing)
        os.read(reading, 1)  # until its parent is done
        os._exit(0)
    try:
        folder.close()
        after = Folder(root, NAME, ranked(), LIMIT)
        assert after.read(1) == image(1)
        after.close()
    finally:
        os.close(writing)
        os.close(reading)
        os.waitpid(child, 0)


def test_what_is_left_of_a_folder_being_removed_counts(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its index goes after its images: a process may be killed meanwhile."""
    old = Folder(root, PREFIX + 32 * "0", ranked(), LIMIT)
    put(old, 1)
    old.close()
    real, removed = shutil.rmtree, []

    def one(name: str, *, dir_fd: int) -> None:
        real(name, dir_fd=dir_fd)
        removed.append(name)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", one)
        assert not remove_unused(HeldFolder(root))
    assert removed == ["0"]
    assert held_bytes(root, shared=True) > 0
    assert remove_unused(HeldFolder(root))
    assert [each.name for each in root.iterdir()] == ["lock"]


def test_a_smaller_limit_is_held_from_the_start(root: Path) -> None:
    before = Folder(root, NAME, ranked(), LIMIT)
    for key in range(COUNT):
        put(before, key)
    before.close()
    after = Folder(root, NAME, ranked(), LIMIT - 5 * 4096)
    after.follow()
    assert taken(root) <= LIMIT - 5 * 4096
    assert after.read(0) is not None
    after.close()


def test_images_that_no_process_uses_give_way(root: Path) -> None:
    old, other = (Folder(root, PREFIX + 32 * name, ranked(), LIMIT) for name in "01")
    for key in range(3):
        put(old, key)
        put(other, key)
    small = Folder(root, NAME, ranked(), 8 * 4096)
    with pytest.raises(OSError, match="no room"):
        put(small, 1)
    small.close()
    assert not (root / NAME / "index").exists()
    own = root / "gpufeed-experiments"
    own.mkdir()
    folder = Folder(root, NAME, ranked(), LIMIT)
    for key in range(COUNT):
        put(folder, key)
        assert taken(root) <= LIMIT
    fewer = folder.kept.total
    old.close()
    for key in reversed(range(COUNT)):
        put(folder, key)
        assert taken(root) <= LIMIT
    assert folder.kept.total > fewer
    assert not (root / (PREFIX + 32 * "0")).exists()
    assert other.read(1) == image(1)
    assert own.exists()
    for each in (other, folder):
        each.close()


def test_a_folder_that_was_removed_is_an_error(folder: Folder, root: Path) -> None:
    put(folder, 1)
    for file in sorted(root.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    assert folder.read(1) is None
    with pytest.raises(OSError, match="removed"):
        put(folder, 2)


def test_a_full_disk_leaves_nothing_behind(
    folder: Folder, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, 1)
    real = os.write

    def full(file: int, content: bytes) -> int:
        if len(content) < 2000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, content[:1500])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            put(folder, 2)
    assert not (root / NAME / "unfinished").exists()
    assert folder.read(2) is None
    assert folder.read(1) == image(1)
    assert put(folder, 2)
    assert folder.read(2) == image(2)


def test_a_temporary_folder_goes_with_the_last_who_uses_it(root: Path) -> None:
    one, other = (Folder(root, NAME, ranked(), LIMIT, temporary=True) for _ in range(2))
    put(one, 1)
    one.close()
    assert other.read(1) == image(1)
    other.close()
    assert not root.exists()
