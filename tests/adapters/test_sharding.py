"""Batches over a mesh of devices, in a process in which JAX simulates four."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[2]


def test_the_laws_of_a_mesh_hold() -> None:
    """Those of tests/support/mesh_laws.py."""
    devices = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*command, "tests/support/mesh_laws.py"],
        env={**os.environ, **devices},
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
