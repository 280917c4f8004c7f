"""A folder of encoded images, one file each, that the processes of a machine share."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gpufeed._util.memory import Slices
from gpufeed.source.base import Encoded
from gpufeed.tiers.future import Future
from gpufeed.tiers.index import Index, IndexDamagedError, held_blocks
from gpufeed.tiers.policy import Kept

__all__ = ["PREFIX", "BusyError", "DamagedFileError", "Folder", "remove_unused"]

PREFIX = "gpufeed-"
"""How the names of folders begin."""

_NAME = re.compile(PREFIX + "[0-9a-f]{32}")
_END = struct.Struct("=QI4s")
_MARK = b"gpf1"
_BLOCK = 512
"""The unit in which the system counts what a file takes."""
_LONGEST = 0x7FFFF000
"""Bytes that the system reads at a time. A longer image is not kept."""
# A link or a pipe is not from here: it is not followed, and does not block.
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_PATIENCE = 1.0
"""Seconds to wait for another process to finish its change."""
_INDEX, _USERS, _LOCK, _UNFINISHED = "index", "users", "lock", "unfinished"


class BusyError(Exception):
    """Another process has been changing the folder all the while."""


class DamagedFileError(Exception):
    """The file of an image is not as it was written."""


class Folder:
    """Images in files below `root/name`, which take no more than a limit, with others in `root`.

    A file is written under another name and renamed, so a reader needs no lock and a killed writer
    leaves no half image. Its end holds its length and a checksum, so damage is found. Changes are
    made in turns, under a lock on a file of `root`. The limit counts what the system says that
    files take, those of the other folders in `root` and the indexes included; folders of images
    that no process uses are removed first. What folders as such take is not counted.

    `read` is called by any thread; all else by one thread.

    Args:
        root: the folder; made if there is none.
        name: says which images these are; other images have another name.
        future: the ranks of all records.
        limit: number of bytes.
        temporary: whether `close` removes `root` if no other process uses it.

    Raises:
        OSError: the folder cannot be made, or another user may write to it.
    """

    def __init__(
        self, root: Path, name: str, future: Future, limit: int, *, temporary: bool = False
    ) -> None:
        self._root, self._path = root, root / name
        self._prefix = f"{self._path}/"
        self._temporary = temporary
        self.kept = Kept(future)
        self._limit = limit // _BLOCK
        self._index: Index | None = None
        self._index_blocks = 0
        # The other folders in `root`, and when it last changed.
        self._others: list[Path] = []
        self._listed = -1
        self._users = _use(self._path, private=temporary)
        self._lock = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
        file_system = os.statvfs(self._path)
        self._unit = max(file_system.f_frsize, _BLOCK)

    def read(self, key: int, slices: Slices | None = None) -> Encoded | None:
        """Return an image, or None if it is not there.

        Raises:
            DamagedFileError: its file is damaged.
            OSError: it cannot be read.
        """
        try:
            file = os.open(self._file(key), os.O_RDONLY | _FLAGS)
        except FileNotFoundError:
            return None
        try:
            size = os.fstat(file).st_size
            if size > _LONGEST:
                raise DamagedFileError
            room = slices.take(size) if slices is not None else None
            if room is None:
                content = memoryview(os.read(file, size))
            else:
                content = room[: os.readv(file, [room])].toreadonly()
        finally:
            os.close(file)
        image, end = content[: -_END.size], content[-_END.size :]
        if len(content) != size or end != _end(image, key):
            raise DamagedFileError
        return image

    def put(
        self, key: int, image: Encoded, rank: int, *, give: bool = False
    ) -> list[tuple[int, Encoded]] | None:
        """Keep an image if its rank is less than those of what it takes the place of.

        Args:
            key: the image's key.
            image: the image.
            rank: its rank; see `Future`.
            give: whether to return what is given up for it.

        Returns:
            Images that were given up, if `give`; None if the image was not kept.

        Raises:
            BusyError: other processes did not let it.
            OSError: it cannot be written; nothing is left of it.
        """
        parts = [image, _end(image, key)]
        needed = self._blocks(sum(map(len, parts)))
        with self._locked() as index:
            # A user may have removed it.
            if self.kept.sizes[key] and os.path.exists(self._file(key)):  # noqa: PTH110
                return []
            if sum(map(len, parts)) > _LONGEST:
                return None
            victims = self._victims(rank, needed)
            if victims is None:
                return None
            given = []
            if give:
                for victim in victims:
                    with contextlib.suppress(OSError, DamagedFileError):
                        content = self.read(victim)
                        if content is not None:
                            given.append((victim, content))
            index.begin(self.kept.total + needed)
            changes = self._remove(victims)
            taken = 0
            try:
                taken = self._write(key, parts, needed)
            finally:
                self.kept.put(key, taken)
                index.end([*changes, (key, taken)], self.kept.total)
            return given if taken else None

    def check(self, key: int) -> None:
        """Remove an image whose file is damaged or gone.

        Raises:
            BusyError: other processes did not let it.
            OSError: the file cannot be removed.
        """
        with self._locked() as index:
            try:
                if self.read(key) is not None or not self.kept.sizes[key]:
                    return
            except DamagedFileError:
                pass
            index.begin(self.kept.total)
            index.end(self._remove([key]), self.kept.total)

    def follow(self) -> None:
        """Learn what other processes have changed, and keep no more than the limit.

        Raises:
            BusyError: other processes did not let it.
            OSError: the folder cannot be read or written.
        """
        with self._locked() as index:
            victims = self._victims(-1, 0)
            if victims:
                index.begin(self.kept.total)
                index.end(self._remove(victims), self.kept.total)

    def close(self) -> None:
        """Close the folder; a temporary one that no process uses any more is removed."""
        if self._temporary:
            with contextlib.suppress(OSError):
                fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(self._root, ignore_errors=True)
        fcntl.flock(self._users, fcntl.LOCK_UN)  # which a process forked meanwhile has open
        for file in (self._users, self._lock):
            os.close(file)
        if self._index is not None:
            self._index.close()

    def _file(self, key: int) -> str:
        return f"{self._prefix}{key >> 24:x}/{key >> 12 & 0xFFF:03x}/{key & 0xFFF:03x}"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Index]:
        """Let no other process change the folder, and learn what others have changed."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise BusyError from None
                time.sleep(0.0005)
        try:
            if self._index is None:
                self._index = self._make_index()
                self._index_blocks = self._index.blocks
            if self._index.gone():
                raise FileNotFoundError(errno.ENOENT, "the folder was removed", str(self._path))
            try:
                news = self._index.news()
                if news.ndim == 1:
                    self.kept.replace(news.astype(np.uint32, copy=False))
                else:
                    for key, size in news.tolist():
                        self.kept.put(key, size)
            except IndexDamagedError:
                self._scan(self._index)
            yield self._index
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _make_index(self) -> Index:
        path, count = self._path / _INDEX, len(self.kept.sizes)
        if not path.exists():
            self._index_blocks = self._blocks(Index.length(count))
            while self._room() < 0:
                if not remove_unused(self._root, keep=self._path):
                    problem = "its size leaves no room; raise it"
                    raise OSError(errno.ENOSPC, problem, str(self._path))
        return Index(path, count)

    def _scan(self, index: Index) -> None:
        """Find out what is in the folder, and remove what is no image."""
        (self._path / _UNFINISHED).unlink(missing_ok=True)
        sizes = np.zeros(len(self.kept.sizes), np.uint32)
        for first in _folders(self._path):
            for second in _folders(first):
                with os.scandir(second) as files:
                    for file in files:
                        with contextlib.suppress(ValueError, FileNotFoundError):
                            names = first.name, second.name, file.name
                            high, middle, low = (int(name, 16) for name in names)
                            key = high << 24 | middle << 12 | low
                            if 0 <= key < len(sizes) and file.path == self._file(key):
                                status = file.stat(follow_symlinks=False)
                                length = min(status.st_size, _LONGEST)
                                sizes[key] = max(status.st_blocks, self._blocks(length))
        index.rewrite(sizes)
        self.kept.replace(sizes)

    def _victims(self, rank: int, needed: int) -> list[int] | None:
        """Return what to give up so that `needed` blocks are free, or None: see `Kept`."""
        while (room := self._room()) < needed + self.kept.total and self._others:
            if not remove_unused(self._root, keep=self._path):
                break
        return self.kept.victims(rank, needed + self.kept.total - room)

    def _room(self) -> int:
        """Return how many blocks the images of this folder may take."""
        changed = self._root.stat().st_mtime_ns
        if changed != self._listed:
            self._listed = changed
            self._others = [each for each in _of_images(self._root) if each != self._path]
        others = sum(held_blocks(each / _INDEX) for each in self._others)
        return self._limit - self._index_blocks - others

    def _blocks(self, length: int) -> int:
        """Return the blocks that a file of a length takes, at least."""
        return -(-length // self._unit) * self._unit // _BLOCK

    def _remove(self, keys: list[int]) -> list[tuple[int, int]]:
        """Remove images, and return what to write to the index."""
        for key in keys:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._file(key))  # noqa: PTH108 - a hot path
            self.kept.put(key, 0)
        return [(key, 0) for key in keys]

    def _write(self, key: int, parts: list[Encoded], needed: int) -> int:
        """Write a file; return the blocks that it takes, or 0 if they are too many after all."""
        unfinished, target = self._prefix + _UNFINISHED, self._file(key)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FLAGS
        file = os.open(unfinished, flags, 0o600)
        try:
            try:
                content = memoryview(b"".join(parts))
                while content:
                    content = content[os.write(file, content) :]
                # Some file systems count late, or compress.
                blocks = max(needed, os.fstat(file).st_blocks)
            finally:
                os.close(file)
            if blocks > needed and self.kept.total + blocks > self._room():
                os.unlink(unfinished)  # noqa: PTH108
                return 0
            try:
                os.rename(unfinished, target)  # noqa: PTH104
            except FileNotFoundError:
                os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
                os.rename(unfinished, target)  # noqa: PTH104
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)  # noqa: PTH108
            raise
        return blocks


def remove_unused(root: Path, keep: Path | None = None, *, whole: bool = False) -> bool:
    """Remove the folder of images, of those that no process uses, that was used first.

    Args:
        root: the folder of these folders.
        keep: one that is kept.
        whole: whether to remove `root` instead.

    Returns:
        Whether there was one.
    """
    for path in sorted(_of_images(root), key=_last_change):
        if path == keep:
            continue
        with contextlib.suppress(OSError):
            users = os.open(path / _USERS, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for inner in _folders(path):  # before the index, which says what they take
                    shutil.rmtree(inner)
                shutil.rmtree(root if whole else path)
                return True
            finally:
                os.close(users)
    return False


def _use(path: Path, *, private: bool) -> int:
    """Make a folder if there is none, and return a lock that keeps others from removing it."""
    end = time.monotonic() + _PATIENCE
    while True:
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            path.mkdir(0o700, exist_ok=True)
            for each in [path, path.parent] if private else [path]:
                status = each.lstat()
                own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
                if not own or status.st_mode & 0o022:
                    text = "another user may write to it, or it is a link"
                    raise PermissionError(errno.EPERM, text, str(each))
            users = os.open(path / _USERS, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
            try:
                fcntl.flock(users, fcntl.LOCK_SH | fcntl.LOCK_NB)
                # Another process may have removed it meanwhile.
                if (path / _USERS).stat().st_ino == os.fstat(users).st_ino:
                    return users
            except BaseException:
                os.close(users)
                raise
            os.close(users)
        if time.monotonic() > end:
            problem = "another process is removing it"
            raise TimeoutError(errno.ETIMEDOUT, problem, str(path))
        time.sleep(0.001)


def _of_images(root: Path) -> list[Path]:
    return [each for each in _folders(root) if _NAME.fullmatch(each.name)]


def _folders(path: Path) -> list[Path]:
    with os.scandir(path) as entries:
        return [path / entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _last_change(path: Path) -> int:
    try:
        return (path / _INDEX).stat().st_mtime_ns
    except OSError:
        return 0


def _end(image: Encoded, key: int) -> bytes:
    """Return what follows an image in its file."""
    return _END.pack(len(image), zlib.crc32(image, key & 0xFFFFFFFF), _MARK)
