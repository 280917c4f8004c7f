"""The code of docs/how-to/prepare.md runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/how-to/prepare.md").read_text()


def test_its_code_runs(many_birds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "nabirds").symlink_to(many_birds)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(code, names)  # noqa: S102 - the page's own code
    batch = names["batch"]
    assert isinstance(batch, dict)
    assert batch["image"].shape == (64, 3, 224, 224)
