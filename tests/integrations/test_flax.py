"""Flax NNX, optax and Orbax over a mesh, by the very code that docs/how-to/jax.md shows."""

from __future__ import annotations

import re
import shutil
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from gpufeed import Manifest
from tests.support.loaders import CHAIN

for module in ("flax", "grain", "optax", "orbax"):  # found, since to import them takes seconds
    if find_spec(module) is None:
        pytest.skip(f"{module} is not installed", allow_module_level=True)

TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs" / "how-to" / "jax.md").read_text()
(RECIPE,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
STEPS = 8
SAVED = 4
"""A step in the middle of an epoch of six."""


def test_a_run_over_a_mesh_resumes(
    small: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the four devices that tests/conftest.py has JAX simulate."""
    monkeypatch.setattr(jax, "devices", partial(jax.devices, "cpu"))
    assert len(jax.devices()) == 4
    names: dict[str, Any] = {}
    exec(RECIPE, names)  # noqa: S102 - the page's own code
    options = {"save_every": SAVED, "batch_size": 4, "device": "cpu", "transforms": CHAIN}
    whole = names["train"](small, tmp_path, STEPS, **options)
    assert len(whole) == STEPS
    assert np.isfinite(whole).all()
    shutil.rmtree(tmp_path / str(STEPS))
    assert names["train"](small, tmp_path, STEPS, **options) == whole[SAVED:]
