"""Memory that processes share is found among open files, and is nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from gpufeed.open import store


def test_no_other_open_file_is_taken_for_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if its process had opened another file between the look at its name and the opening."""
    monkeypatch.setattr(store, "_PROCESSES", tmp_path)
    name, mine = "gpufeed-test-store", tmp_path / "mine"
    mine.write_text("years of work")
    memory = os.memfd_create(name, os.MFD_ALLOW_SEALING)  # not sealed yet
    (tmp_path / "1/fd").mkdir(parents=True)
    (tmp_path / "1/fd/0").symlink_to(mine)
    (tmp_path / "1/fd/1").symlink_to(f"/proc/self/fd/{memory}")
    monkeypatch.setattr(Path, "readlink", lambda _: Path(f"/memfd:{name} (deleted)"))
    assert store.filled_bytes(name) == 0
    made = store.Store(name, np.array([[2, 3]]))
    made.image(0)[...] = 7
    assert store._find(name) is None
    assert mine.read_text() == "years of work"
    os.close(memory)


def test_the_memory_is_found_by_its_name() -> None:
    name, sizes = f"gpufeed-test-{os.getpid()}", np.array([[2, 3]])
    one = store.Store(name, sizes)
    one.image(0)[...] = 7
    assert (store.Store(name, sizes).image(0) == 7).all()
    assert store.filled_bytes(name) > 0
