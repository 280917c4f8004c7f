"""Encoded pictures as files below one folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpufeed._util.open_regular import read_file
from gpufeed.errors import DecodeError
from gpufeed.records.headers import most_bytes

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from gpufeed.records import Manifest
    from gpufeed.source.readers import Readers

__all__ = ["FileStore"]


class FileStore:
    """The files of a manifest.

    Args:
        manifest: its `root` and `path` say where each record's file is.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._root = os.fspath(manifest.root)
        self._paths = manifest.frame["path"]

    def name(self, record_key: int) -> str:
        """Return where a record's file is below the root."""
        name: str = self._paths[record_key]
        return name

    def path(self, record_key: int) -> str:
        """Return where a record's file is."""
        return os.path.join(self._root, self._paths[record_key])  # noqa: PTH118 - a hot path

    def read(
        self,
        record_keys: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        readers: Readers,
    ) -> list[bytes | DecodeError]:
        """Read the files of some records.

        Args:
            record_keys: int64 (n,).
            sizes: int64 (n, 2), height and width of their pictures.
            readers: who reads them.

        Returns:
            For each record its file's content, or why there is none. No failure is raised, so that
            one bad file does not cost the others of its batch.

        Raises:
            GivenUp: nobody wants them any more.
        """
        names = self._paths.gather(record_keys).to_list()
        most = [most_bytes(pixels) for pixels in sizes.prod(axis=1).tolist()]
        files = [(f"{self._root}/{name}", most) for name, most in zip(names, most, strict=True)]
        contents: list[bytes | DecodeError] = []
        for place, found in enumerate(readers.read(files, _attempt)):
            if isinstance(found, OSError):
                reason = f"can not be read: {found.strerror or found}"
                contents.append(DecodeError(int(record_keys[place]), files[place][0], reason))
            else:
                contents.append(found)
        return contents


def _attempt(file: tuple[str, int]) -> bytes | OSError:
    try:
        return read_file(*file)
    except OSError as error:
        # Without the frames it was raised in, which hold whole batches.
        return error.with_traceback(None)
