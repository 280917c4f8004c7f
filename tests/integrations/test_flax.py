"""Flax NNX, optax and Orbax over a mesh, by the very code that docs/jax.md shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpufeed import Manifest
from tests.support.loaders import CHAIN
from tests.support.media import read_table, write_table

TOP = Path(__file__).parents[2]
(RECIPE,) = re.findall(r"^```python\n(.*?)^```", (TOP / "docs" / "jax.md").read_text(), re.M | re.S)
STEPS = 8
SAVED = 4
"""A step in the middle of an epoch of six."""


def stop_and_resume(table: Path, folder: Path) -> None:
    """Print the losses of a run, and those after its first checkpoint when it resumes from that."""
    names: dict[str, Any] = {}
    exec(RECIPE, names)  # noqa: S102 - the page's own code
    options = {"save_every": SAVED, "batch_size": 4, "device": "cpu", "transforms": CHAIN}
    whole = names["train"](read_table(table), folder, STEPS, **options)
    shutil.rmtree(folder / str(STEPS))
    resumed = names["train"](read_table(table), folder, STEPS, **options)
    print(json.dumps([names["jax"].device_count(), whole, resumed]))


def test_a_run_over_a_mesh_resumes(small: Manifest, tmp_path: Path) -> None:
    for module in ("flax", "grain", "optax", "orbax.checkpoint"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    script = (
        "from pathlib import Path; from tests.integrations.test_flax import stop_and_resume; "
        f"stop_and_resume(Path({str(write_table(small))!r}), Path({str(tmp_path)!r}))"
    )
    devices = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **devices},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    count, whole, resumed = json.loads(ran.stdout.splitlines()[-1])
    assert count == 4
    assert len(whole) == STEPS
    assert np.isfinite(whole).all()
    assert resumed == whole[SAVED:]
