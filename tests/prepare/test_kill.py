"""`prepare` that is killed goes on where it was, and nothing of it shows."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from gpufeed import prepare
from tests.prepare.test_prepare import files
from tests.support.media import make_manifest, write_table
from tests.support.prepare_until import PREFIX, SHARD
from tests.support.waiting import PATIENCE, wait_until


@contextlib.contextmanager
def start(record: int, table: Path, out: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = ["-m", "tests.support.prepare_until", str(record), str(table), str(out)]
    with subprocess.Popen([sys.executable, *command]) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_shards(process: subprocess.Popen[bytes], out: Path, count: int) -> None:
    def done() -> bool:
        assert process.poll() is None
        return len([*(out / ".prepare").glob("*.parquet")]) >= count

    wait_until(done)


def workers_of(process: int) -> list[int]:
    """The processes that it has spawned, without the one that multiprocessing cleans up with."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    commands = [Path(f"/proc/{child}/cmdline").read_bytes() for child in children]
    return [each for each, said in zip(children, commands, strict=True) if b"spawn_main" in said]


def runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_interrupted_it_ends_at_once(tmp_path: Path) -> None:
    """With workers that would go on forever."""
    manifest = make_manifest(tmp_path / "images", [(50, 60)] * 15, boxes=True)
    out = tmp_path / "out"
    with start(SHARD, write_table(manifest), out) as process:
        wait_for_shards(process, out, 1)
        workers = workers_of(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) != 0
    assert len(workers) == 2
    wait_until(lambda: not any(map(runs, workers)))
    assert not list(out.glob("*.unfinished"))


def test_killed_in_the_middle_it_goes_on(tmp_path: Path) -> None:
    """After some shards and within others; and its workers end with it."""
    manifest = make_manifest(tmp_path / "images", [(50, 60)] * 15, boxes=True)
    prepare(manifest, tmp_path / "wanted", PREFIX, shard_size=SHARD, workers=1)
    table, out = write_table(manifest), tmp_path / "out"
    for record in (3, 10):
        with start(record, table, out) as process:
            wait_for_shards(process, out, record // SHARD)
            workers = workers_of(process.pid)
            process.send_signal(signal.SIGKILL)
        assert len(workers) == 2
        wait_until(lambda: not any(map(runs, workers)))  # noqa: B023 - called at once
        assert not (out / "prepared.manifest").exists()
    prepare(manifest, out, PREFIX, shard_size=SHARD, workers=1)
    assert files(out) == files(tmp_path / "wanted")


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    """Its workers end at once, before they could take a long list from a pipe."""
    body = f"""
import gpufeed, polars as pl
frame = pl.DataFrame({{"path": [f"a/path/{{i}}.jpg" for i in range(9000)], "label": 0}})
frame = frame.with_columns(width=20, height=20)
manifest = gpufeed.Manifest(frame, gpufeed.MemorySource([b"x"] * 9000), ["x"])
gpufeed.prepare(manifest, {str(tmp_path / "out")!r}, workers=2)
"""
    script = tmp_path / "script.py"
    script.write_text(body)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=240)
    assert done.returncode == 1
    assert 'a script needs if __name__ == "__main__": around what it does' in done.stderr
