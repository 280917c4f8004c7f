"""Folders held open by their descriptors, in places where other users may write too."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import weakref
from collections.abc import Sequence

__all__ = ["HeldFolder"]

_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""A link is not followed, and a pipe does not block."""


class HeldFolder:
    """A folder that stays the same one, whatever its name stands for later.

    All that is done to it is done by its descriptor, which is closed with the last reference to
    this object. So no other user can make a link or a folder of theirs take its place.

    Args:
        path: the folder, or its name in `within`; not a link.
        within: the folder that it is in.
        shared: whether other users may own it or write to it.
        make: whether it is made, for this user alone, if there is none.

    Raises:
        PermissionError: it is a link; or another user owns it or may write to it, unless `shared`.
        OSError: it cannot be opened or made.

    Attributes:
        descriptor: its descriptor.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        within: HeldFolder | None = None,
        *,
        shared: bool = False,
        make: bool = False,
    ) -> None:
        self._path, self._within = path, within
        parent = None if within is None else within.descriptor
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700, dir_fd=parent)
        try:
            self.descriptor: int = os.open(path, os.O_DIRECTORY | _FLAGS, dir_fd=parent)
        except NotADirectoryError:
            raise _not_own(path) from None
        weakref.finalize(self, os.close, self.descriptor).atexit = False
        status = os.fstat(self.descriptor)
        if not shared and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
            raise _not_own(path)

    def open(self, name: str, flags: int) -> int:
        """Return a descriptor of a file in it; one that is made is for this user alone.

        Raises:
            OSError: it cannot be opened, or is a link.
        """
        return os.open(name, flags | _FLAGS, 0o600, dir_fd=self.descriptor)

    def folders(self) -> list[str]:
        """Return the names of the folders in it.

        Raises:
            OSError: they cannot be listed.
        """
        with os.scandir(self.descriptor) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]

    def remove(self, last: Sequence[str] = ()) -> None:
        """Remove all that is in it, and then the folder.

        Args:
            last: names of files in it that are removed after all others, in this order.

        Raises:
            OSError: something cannot be removed.
        """
        others = set(os.listdir(self.descriptor)).difference(last)  # noqa: PTH208 - no path
        for name in [*others, *last]:
            try:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=self.descriptor)
            except IsADirectoryError:
                shutil.rmtree(name, dir_fd=self.descriptor)
        self.remove_empty()

    def remove_empty(self) -> None:
        """Remove the folder if nothing is in it.

        Raises:
            OSError: something is, or it cannot be removed.
        """
        # By its name, which may stand for another folder by now: an empty one is no loss.
        os.rmdir(self._path, dir_fd=None if self._within is None else self._within.descriptor)


def _not_own(path: str | os.PathLike[str]) -> PermissionError:
    problem = "it is a link, or belongs to another user, or another user may write to it"
    return PermissionError(errno.EPERM, problem, os.fspath(path))
