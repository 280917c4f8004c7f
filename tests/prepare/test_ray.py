"""`prepare` on Ray writes what processes of one machine write, also when a worker is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gpufeed import ConfigError, MissingExtraError, prepare
from tests.prepare.test_prepare import files
from tests.support.media import make_manifest, write_table
from tests.support.prepare_until import PREFIX, SHARD


def test_a_worker_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    manifest = make_manifest(tmp_path / "images", [(50, 60)] * 15, boxes=True)
    prepare(manifest, tmp_path / "wanted", PREFIX, shard_size=SHARD, workers=1)
    table, out = write_table(manifest), tmp_path / "out"
    # Ray's sockets need a short path.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as short:
        environ = {**os.environ, "RAY_TMPDIR": short, "RAY_USAGE_STATS_ENABLED": "0"}
        command = [sys.executable, "-m", "tests.support.prepare_on_ray", str(table), str(out)]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "images" / "mark").exists()
    assert files(out) == files(tmp_path / "wanted")
    assert done.stdout.splitlines()[-1] == "3 cannot be read: No such file or directory"


def test_an_address_that_is_none_is_an_error_of_ours(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    manifest = make_manifest(tmp_path / "images", [(50, 60)] * 2)
    with pytest.raises(ConfigError, match="ray is 'nohost': Invalid address format"):
        prepare(manifest, tmp_path / "out", ray="nohost")


def test_ray_is_optional(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = make_manifest(tmp_path / "images", [(50, 60)] * 2)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r'ray is not installed; run: pip install "gpufeed'):
        prepare(manifest, tmp_path / "out", ray="local")
