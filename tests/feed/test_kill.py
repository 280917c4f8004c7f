"""A run that is killed again and again is, to the byte, the run that nothing befell."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from tests.support import killable
from tests.support.media import make_manifest, write_table

RECORDS = 50
STEPS = killable.EPOCHS * RECORDS // killable.BATCH_SIZE
KILLS = 2


def start(table: Path, folder: Path, *settings: int) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        killable.__name__,
        str(table),
        str(folder),
        *map(str, settings),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def test_a_run_killed_again_and_again_is_the_run_not_killed(tmp_path: Path) -> None:
    sizes = [(16 + number % 17, 32 - number % 13) for number in range(RECORDS)]
    table = write_table(make_manifest(tmp_path / "pictures", sizes))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()

    killable.run(table, whole, num_threads=2, prefetch=2)
    expected = (whole / "ledger.txt").read_bytes()
    assert [int(line.split()[0]) for line in expected.splitlines()] == list(range(STEPS))

    drawn = np.random.default_rng(20)
    # A process may outrun its kill by a line, not more: so none reaches the end, however slow this
    # test is to kill it.
    seen = drawn.integers(1, 7, size=KILLS).tolist()
    gained = [(lines + 1) // killable.SAVE_EVERY * killable.SAVE_EVERY for lines in seen]
    assert sum(gained) < STEPS
    begun = []
    for lines in seen:
        num_threads, prefetch = drawn.integers(1, 5, size=2).tolist()
        with start(table, killed, num_threads, prefetch, lines + 1) as process:
            assert process.stdout is not None
            begun.append(int(process.stdout.readline()))
            assert process.stdout.read(lines) == b"." * lines
            time.sleep(drawn.uniform(0, 0.005))
            process.kill()
        assert process.returncode == -signal.SIGKILL
    assert begun == sorted(begun)
    assert 0 < begun[-1] < STEPS

    with start(table, killed, 3, 3) as process:
        assert process.wait() == 0
    assert (killed / "ledger.txt").read_bytes() == expected
