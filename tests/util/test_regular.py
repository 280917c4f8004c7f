"""Only regular files are opened; others are told by a look that does nothing to them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from gpufeed._util.open_regular import EmptyFileError, FileTooLongError, open_regular, read_file
from gpufeed.engine.device import Device
from gpufeed.source import FileSource
from gpufeed.tools.plain_decode import PlainDecode


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What is opened with which flags."""
    found: list[tuple[str, int]] = []
    true_open = os.open

    def spy(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        found.append((os.fspath(path), flags))
        return true_open(path, flags, *rest, **more)

    monkeypatch.setattr("os.open", spy)
    return found


def test_devices_and_pipes_are_not_opened(tmp_path: Path, opened: list[tuple[str, int]]) -> None:
    """To open some devices is to have them do something."""
    os.mkfifo(tmp_path / "pipe")
    kinds = {tmp_path / "pipe": "a pipe", Path("/dev/null"): "a device", tmp_path: "a folder"}
    for path, kind in kinds.items():
        for ask in (open_regular, read_file):
            with pytest.raises(OSError, match=f"^not a regular file but {kind}$"):
                ask(path)
    assert opened == []


def test_plain_decode_does_not_wait_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (
        PlainDecode(FileSource(tmp_path, pl.Series(["pipe"])), Device(None), 1) as plain,
        pytest.raises(OSError, match=r"^not a regular file but a pipe$"),
    ):
        plain.run([np.zeros(1, np.int64)])


def test_what_is_swapped_after_the_look_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[tuple[str, int]]
) -> None:
    """Without waiting for a writer, and without a terminal becoming that of the process."""
    (tmp_path / "file").write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    before = (tmp_path / "file").stat()
    with monkeypatch.context() as patch:
        patch.setattr("os.stat", lambda _: before)
        with pytest.raises(OSError, match=r"^not a regular file but a pipe$"):
            read_file(tmp_path / "pipe")
    ((path, flags),) = opened
    assert path == str(tmp_path / "pipe")
    for flag in (os.O_NONBLOCK, os.O_NOCTTY, os.O_CLOEXEC):
        assert flags & flag
    left = {os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()}
    assert str(tmp_path / "pipe") not in left


def test_the_limit_is_told(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_file(path, 5) == b"12345"
    path.write_bytes(bytes(5000))
    with pytest.raises(FileTooLongError, match=r"^the file has 5,000 bytes; the limit is 4,999$"):
        read_file(path, 4999)
    path.write_bytes(b"")
    with pytest.raises(EmptyFileError):
        read_file(path)
