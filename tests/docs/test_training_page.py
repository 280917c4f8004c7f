"""The scripts of docs/start/first_training.md: killed, they resume with the same losses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support.media import jpeg, picture
from tests.support.pages import TOP, blocks

PAGE = TOP / "docs" / "start" / "first_training.md"
SCRIPTS = {
    framework: next(each.code for each in blocks(PAGE) if module in each.code)
    for framework, module in {
        "torch": "from torch import nn",
        "jax": "from flax import nnx",
    }.items()
}
SMALL = {
    "EPOCHS, SAVE_EVERY = 30, 500": "EPOCHS, SAVE_EVERY = 3, 2",
    "batch_size=32": "batch_size=8, transforms=gpufeed.presets.evaluate(32)",
}
OWN = {
    "torch": {'framework="torch"': 'framework="torch", device="cpu"'},
    "jax": {'"framework": "jax"': '"framework": "jax", "device": "cpu"', ", 64, 128, 256": ", 32"},
}
"""Losses on a GPU are equal to the bit only with deterministic algorithms."""


class KilledError(BaseException):
    """Ends a script as a signal would, past every `except Exception`."""


class Losses(list[float]):
    """The losses of a script, which is killed before it has one more than `last`."""

    last = 9

    def of(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*args: Any) -> Any:
            if len(self) == self.last:
                raise KilledError
            loss = step(*args)
            self.append(loss.item())
            return loss

        return recorded


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has 26 images for training, three batches of eight an epoch, and 13 for evaluation."""
    for part, count in (("train", 26), ("val", 13)):
        for number in range(count):
            path = tmp_path / "photos" / part / f"class {number % 3}" / f"{number:02}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(jpeg(picture(24, 32, number)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("framework", SCRIPTS)
def test_a_killed_script_resumes_exactly(
    framework: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In the middle of the second epoch, one step after its last checkpoint."""
    losses = Losses()
    if framework == "torch":
        torch = pytest.importorskip("torch", reason="torch is not installed")
        step = torch.nn.functional.cross_entropy
        monkeypatch.setattr(torch.nn.functional, "cross_entropy", losses.of(step))
    else:
        for module in ("flax", "optax", "orbax"):  # found, since to import them takes seconds
            if find_spec(module) is None:
                pytest.skip(f"{module} is not installed")
        import jax
        from flax import nnx

        compiled = nnx.jit
        monkeypatch.setattr(
            nnx,
            "jit",
            lambda f: losses.of(compiled(f)) if f.__name__ == "train_step" else compiled(f),
        )
        monkeypatch.setattr(jax, "devices", partial(jax.devices, "cpu"))
        assert len(jax.devices()) == 4, "those that tests/conftest.py has JAX simulate"
    code = SCRIPTS[framework]
    for shown, small in {**SMALL, **OWN[framework]}.items():
        assert shown in code
        code = code.replace(shown, small)

    def run() -> list[float]:
        names: dict[str, Any] = {"__name__": "__main__"}
        losses.clear()
        try:
            exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 - the page's own code
        finally:
            names["loader"].close()
            names["val_loader"].close()
        return list(losses)

    whole = run()
    assert len(whole) == 9
    said = capsys.readouterr().out
    assert "epoch 0: accuracy" in said
    assert "epoch 2: accuracy" in said
    for kept in folder.glob("run*"):
        kept.rename(folder / f"whole-{kept.name}")
    losses.last = 5
    with pytest.raises(KilledError):
        run()
    assert losses == whole[:5]
    assert run() == whole[4:]
