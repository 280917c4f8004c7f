"""A folder of encoded images, one file each, that the processes of a machine share."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gpufeed._util.held_folder import HeldFolder
from gpufeed._util.memory import Slices
from gpufeed.source.base import Encoded
from gpufeed.tiers.future import Future
from gpufeed.tiers.index import Index, IndexDamagedError, held_blocks
from gpufeed.tiers.policy import Kept

__all__ = [
    "PREFIX",
    "BusyError",
    "DamagedFileError",
    "Folder",
    "held_bytes",
    "remove_unused",
]

PREFIX = "gpufeed-"
"""How the names of folders begin."""

_NAME = re.compile(PREFIX + "[0-9a-f]{32}")
_END = struct.Struct("=QI4s")
_MARK = b"gpf1"
_BLOCK = 512
"""The unit in which the system counts what a file takes."""
_LONGEST = 0x7FFFF000
"""Bytes that the system reads at a time. A longer image is not kept."""
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

    Other users may write to `root`, unless it is temporary: their folders there are left alone and
    not counted, and what they rename or replace by links is not followed.

    `read` is called by any thread; all else by one thread.

    Args:
        root: the folder; made if there is none.
        name: says which images these are; other images have another name.
        future: the ranks of all records.
        limit: number of bytes.
        temporary: whether `close` removes `root` if no other process uses it.

    Raises:
        OSError: the folder cannot be made or is not this user's own: see `HeldFolder`.
    """

    def __init__(
        self, root: Path, name: str, future: Future, limit: int, *, temporary: bool = False
    ) -> None:
        self._path, self._name = root / name, name
        self._temporary = temporary
        self.kept = Kept(future)
        self._limit = limit // _BLOCK
        self._index: Index | None = None
        self._index_blocks = 0
        # The other folders in `root`, and when it last changed.
        self._others: list[str] = []
        self._listed = -1
        self._root, self._folder, self._users = _use(root, name, shared=not temporary)
        try:
            self._lock = self._root.open(_LOCK, os.O_RDWR | os.O_CREAT)
        except PermissionError:
            os.close(self._users)
            problem = "another user keeps images there; name a folder of your own"
            raise PermissionError(errno.EACCES, problem, str(root)) from None
        file_system = os.fstatvfs(self._folder.descriptor)
        self._unit = max(file_system.f_frsize, _BLOCK)

    def read(self, key: int, slices: Slices | None = None) -> Encoded | None:
        """Return an image, or None if it is not there.

        Raises:
            DamagedFileError: its file is damaged.
            OSError: it cannot be read.
        """
        try:
            file = self._folder.open(_file(key), os.O_RDONLY)
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
            if self.kept.sizes[key] and self._has(_file(key)):
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
                _remove(self._root, self._folder, whole=True)
        fcntl.flock(self._users, fcntl.LOCK_UN)  # which a process forked meanwhile has open
        for file in (self._users, self._lock):
            os.close(file)
        if self._index is not None:
            self._index.close()

    def _has(self, file: str) -> bool:
        return os.access(file, os.F_OK, dir_fd=self._folder.descriptor)

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
        count = len(self.kept.sizes)
        if not self._has(_INDEX):
            self._index_blocks = self._blocks(Index.length(count))
            while self._room() < 0:
                if not remove_unused(self._root, keep=self._name):
                    problem = "its size leaves no room; raise it"
                    raise OSError(errno.ENOSPC, problem, str(self._path))
        return Index(self._folder.open(_INDEX, os.O_RDWR | os.O_CREAT), count)

    def _scan(self, index: Index) -> None:
        """Find out what is in the folder, and remove what is no image."""
        top = self._folder.descriptor
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_UNFINISHED, dir_fd=top)
        sizes = np.zeros(len(self.kept.sizes), np.uint32)
        for where, _, names, inner in os.fwalk(onerror=_raise, dir_fd=top):
            for name in names:
                with contextlib.suppress(ValueError, FileNotFoundError):
                    _, high, middle, low = f"{where}/{name}".split("/")
                    key = int(high, 16) << 24 | int(middle, 16) << 12 | int(low, 16)
                    if 0 <= key < len(sizes) and f"{where}/{name}" == f"./{_file(key)}":
                        status = os.stat(name, dir_fd=inner, follow_symlinks=False)
                        length = min(status.st_size, _LONGEST)
                        sizes[key] = max(status.st_blocks, self._blocks(length))
        index.rewrite(sizes)
        self.kept.replace(sizes)

    def _victims(self, rank: int, needed: int) -> list[int] | None:
        """Return what to give up so that `needed` blocks are free, or None: see `Kept`."""
        while (room := self._room()) < needed + self.kept.total and self._others:
            if not remove_unused(self._root, keep=self._name):
                break
        return self.kept.victims(rank, needed + self.kept.total - room)

    def _room(self) -> int:
        """Return how many blocks the images of this folder may take."""
        changed = os.fstat(self._root.descriptor).st_mtime_ns
        if changed != self._listed:
            self._listed = changed
            self._others = [name for name in _of_images(self._root) if name != self._name]
        others = sum(held_blocks(self._root, f"{name}/{_INDEX}") for name in self._others)
        return self._limit - self._index_blocks - others

    def _blocks(self, length: int) -> int:
        """Return the blocks that a file of a length takes, at least."""
        return -(-length // self._unit) * self._unit // _BLOCK

    def _remove(self, keys: list[int]) -> list[tuple[int, int]]:
        """Remove images, and return what to write to the index."""
        for key in keys:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_file(key), dir_fd=self._folder.descriptor)
            self.kept.put(key, 0)
        return [(key, 0) for key in keys]

    def _write(self, key: int, parts: list[Encoded], needed: int) -> int:
        """Write a file; return the blocks that it takes, or 0 if they are too many after all."""
        folder, target = self._folder.descriptor, _file(key)
        file = self._folder.open(_UNFINISHED, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
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
                os.unlink(_UNFINISHED, dir_fd=folder)
                return 0
            try:
                os.rename(_UNFINISHED, target, src_dir_fd=folder, dst_dir_fd=folder)
            except FileNotFoundError:
                high, middle, _ = target.split("/")
                for each in (high, f"{high}/{middle}"):
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(each, 0o700, dir_fd=folder)
                os.rename(_UNFINISHED, target, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(_UNFINISHED, dir_fd=folder)
            raise
        return blocks


def held_bytes(root: Path, *, shared: bool) -> int:
    """Return what this user's folders of images take: see `Folder`; 0 if there are none."""
    try:
        folder = HeldFolder(os.path.realpath(root) if shared else root, shared=shared)
        return _BLOCK * sum(held_blocks(folder, f"{name}/{_INDEX}") for name in _of_images(folder))
    except OSError:
        return 0


def remove_unused(root: HeldFolder, keep: str | None = None, *, whole: bool = False) -> bool:
    """Remove this user's folder of images that was used first, of those that no process uses.

    Args:
        root: the folder of these folders.
        keep: the name of one that is kept.
        whole: whether to remove `root` as well, which has no other.

    Returns:
        Whether there was one.
    """
    names = _of_images(root)
    last_change = {name: _last_change(root, name) for name in names}
    for name in sorted(names, key=last_change.__getitem__):
        if name == keep:
            continue
        with contextlib.suppress(OSError):
            folder = HeldFolder(name, root)
            # Only a folder of images has the file: another may have been given such a name.
            users = folder.open(_USERS, os.O_RDWR)
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(root, folder, whole=whole)
                return True
            finally:
                os.close(users)
    return False


def _remove(root: HeldFolder, folder: HeldFolder, *, whole: bool) -> None:
    """Remove a folder whose users' lock this process has.

    The index, which says what it takes, goes after the images, and then the file of the lock: until
    that is gone no other process begins to use what is being removed.
    """
    if whole:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_LOCK, dir_fd=root.descriptor)
    folder.remove(last=(_INDEX, _USERS))
    if whole:
        root.remove_empty()


def _use(root: Path, name: str, *, shared: bool) -> tuple[HeldFolder, HeldFolder, int]:
    """Make a folder if there is none, and keep others from removing it.

    Returns:
        The folder that it is in, itself, and a lock that is held until it is closed.
    """
    end = time.monotonic() + _PATIENCE
    while True:
        root.mkdir(0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            held = HeldFolder(os.path.realpath(root) if shared else root, shared=shared)
            folder = HeldFolder(name, held, make=True)
            users = folder.open(_USERS, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(users, fcntl.LOCK_SH | fcntl.LOCK_NB)
                # Another process may have removed it meanwhile.
                now = os.stat(_USERS, dir_fd=folder.descriptor, follow_symlinks=False)
                if now.st_ino == os.fstat(users).st_ino:
                    return held, folder, users
            except BaseException:
                os.close(users)
                raise
            os.close(users)
        if time.monotonic() > end:
            problem = "another process is removing it"
            raise TimeoutError(errno.ETIMEDOUT, problem, str(root / name))
        time.sleep(0.001)


def _of_images(root: HeldFolder) -> list[str]:
    """Return the names of this user's folders of images."""
    found = []
    for name in filter(_NAME.fullmatch, root.folders()):
        with contextlib.suppress(OSError):
            HeldFolder(name, root)
            found.append(name)
    return found


def _last_change(root: HeldFolder, name: str) -> int:
    try:
        path = f"{name}/{_INDEX}"
        return os.stat(path, dir_fd=root.descriptor, follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0


def _file(key: int) -> str:
    return f"{key >> 24:x}/{key >> 12 & 0xFFF:03x}/{key & 0xFFF:03x}"


def _raise(error: OSError) -> None:
    raise error


def _end(image: Encoded, key: int) -> bytes:
    """Return what follows an image in its file."""
    return _END.pack(len(image), zlib.crc32(image, key & 0xFFFFFFFF), _MARK)
