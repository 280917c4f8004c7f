"""A file system of fsspec that hangs."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any, ClassVar

import fsspec


class HangingFiles(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """Files whose content is their path; of those below `hung/` it comes when they are let go.

    Attributes:
        free: lets them go.
        asked: how often each file has been read.
    """

    protocol = "hanging"
    cachable = False
    free = threading.Event()
    asked: ClassVar[Counter[str]] = Counter()

    @classmethod
    def register(cls) -> type[HangingFiles]:
        """Have fsspec know it by `hanging://`, and hang anew."""
        fsspec.register_implementation("hanging", cls, clobber=True)
        cls.free, cls.asked = threading.Event(), Counter()
        return cls

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return {"name": path, "size": len(self._strip_protocol(path)), "type": "file"}

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        path = self._strip_protocol(path)
        self.asked[path] += 1
        if path.startswith("hung/"):
            self.free.wait()
        return path.encode()[start:end]
