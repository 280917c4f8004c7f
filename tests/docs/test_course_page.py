"""docs/start/course.md, run cell by cell."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import gpufeed

PAGE = (Path(__file__).parents[2] / "docs" / "start" / "course.md").read_text()
CELLS = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_lesson(
    many_birds: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(many_birds.parent)
    mpl.use("agg")
    names: dict[str, Any] = {}
    printed = []
    for cell in CELLS:
        exec(cell, names)  # noqa: S102 - the page's own code
        printed.append(capsys.readouterr().out.splitlines())
    images, transforms, metadata, _, training, validation = printed
    train, val = names["nabirds_train"], names["nabirds_val"]
    row = train.frame.row(0, named=True)
    assert images == [f"{len(train)} {row['species_name']} {row['photographer']}"]
    assert transforms[0] == "BoxCrop(margin=0.2)"
    assert metadata == [
        f"RecordMetadata(index={place}, record_key={place}, epoch=0)" for place in range(4)
    ]
    axes = names["figure"].axes
    few = train.frame.head(4)
    assert [each.get_title() for each in axes] == [
        f"Element {place}\n{species}\nPicture by {photographer}"
        for place, (species, photographer) in enumerate(
            few.select("species_name", "photographer").iter_rows()
        )
    ]
    drawn = np.asarray(axes[3].images[0].get_array())
    assert drawn.shape == (224, 224, 3)
    assert 0 <= drawn.min() < drawn.max() <= 1
    assert len(training) == len(train) // 32 > 0
    assert training[0].startswith("(32, 224, 224, 3) float32 [")
    assert validation == [f"{len(val)} images of {len(val)}"]
    # The course's Grain sampler gives as many batches.
    grain = pytest.importorskip("grain")
    indices = grain.samplers.IndexSampler(len(train), shuffle=True, seed=123, num_epochs=1)
    assert len(list(indices)) // 32 == len(training)
    for name in ("loader", "train_loader", "val_loader"):
        assert isinstance(names[name], gpufeed.Loader)
        names[name].close()
