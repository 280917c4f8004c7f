"""What docs/how-to/batch_size.md shows runs, and does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from gpufeed import Manifest
from tests.support.loaders import make

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "batch_size.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def run(example: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    exec(example, names)  # noqa: S102 - the page's own code
    return names


def test_gradients_are_accumulated(many_birds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run(EXAMPLES[0], many_birds.parent, monkeypatch)
    with names["loader"] as loader:  # type: ignore[attr-defined]
        steps = len(loader)
        assert steps >= 4
        loader.load_state_dict(names["checkpoint"]["loader"])  # type: ignore[index]
        assert loader.step == steps // 4 * 4


def test_batches_grow(many_birds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run(EXAMPLES[1], many_birds.parent, monkeypatch)
    assert names["sizes"] == [8, 8, 8, 16, 16]
    names["loader"].close()  # type: ignore[attr-defined]


def test_accumulated_gradients_are_those_of_the_whole_batch(pictures: Manifest) -> None:
    def gradient(batch_size: int, count: int) -> torch.Tensor:
        weights = torch.zeros(3, 3, requires_grad=True)
        with make(pictures, batch_size=batch_size, framework="torch") as loader:
            for step in range(count):
                batch = loader.batch(step)
                scores = batch["image"].float().mean((2, 3)) @ weights
                (torch.nn.functional.cross_entropy(scores, batch["label"]) / count).backward()
        assert weights.grad is not None
        return weights.grad

    torch.testing.assert_close(gradient(4, 4), gradient(16, 1))
