"""What the pages on labels, columns, boxes and points show runs, and what they say comes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.support.pages import TOP, blocks

EXAMPLES = [
    each.code for page in ("fields", "detection") for each in blocks(TOP / f"docs/how-to/{page}.md")
]


def run(example: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The first batch of an example's loader, and the example's names."""
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(EXAMPLES[example], names)  # noqa: S102 - the page's own code
    with names["loader"] as loader:
        return {**names, "batch": loader.batch(0)}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    for name in ("a.jpg", "b.jpg", "images/a.jpg", "images/b.jpg"):
        Image.new("RGB", (64, 48)).save(tmp_path / name)
    return tmp_path


def test_labels(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run(0, photos, monkeypatch)
    assert names["several"].classes == ("bird", "water")
    assert sorted(names["batch"]["label"].tolist()) == [[1, 0], [1, 1]]
    assert names["age"].labels.take(np.arange(2)).tolist() == [3, 7]
    assert names["vectors"].labels.take(np.arange(2)).tolist() == [[3, 9.5], [7, 8]]


def test_times(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run(1, photos, monkeypatch)
    batch, taken = names["batch"], names["taken"]
    keys = batch["record_key"].tolist()
    assert batch["taken"] == [taken[key] for key in keys]
    days = [(taken[key] - taken[key].replace(month=1, day=1, hour=0, minute=0)) for key in keys]
    np.testing.assert_allclose(batch["day"], [each.total_seconds() / 86_400 for each in days])
    assert str(batch["microseconds"].dtype) == "torch.int64"
    assert np.spacing(np.float32(1.7e9)) == 128  # seconds


def test_flip_pairs(many_birds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = run(2, many_birds.parent, monkeypatch)
    assert names["sides"] == [("left eye", "right eye"), ("left wing", "right wing")]
    assert names["batch"]["points"].shape == (64, 11, 2)


def test_coco(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    annotations = [
        {"image_id": 9, "bbox": [1.5, 2, 30, 40], "category_id": 44, "iscrowd": 0},
        {"image_id": 9, "bbox": [4, 4, 0, 9], "category_id": 1, "iscrowd": 0},
        {"image_id": 9, "bbox": [4, 4, 8, 9], "category_id": 1, "iscrowd": 1},
    ]
    sizes = {"width": 64, "height": 48}
    coco = {
        "categories": [{"id": 44, "name": "bottle"}, {"id": 1, "name": "person"}],
        "images": [
            {"id": i, "file_name": name, **sizes} for i, name in ((7, "a.jpg"), (9, "b.jpg"))
        ],
        "annotations": [each | {"segmentation": []} for each in annotations],
    }
    (photos / "instances.json").write_text(json.dumps(coco))
    names = run(3, photos, monkeypatch)
    manifest, batch = names["manifest"], names["batch"]
    assert manifest.box_classes == ("bottle", "person")
    boxes, labels, offsets = manifest.objects()
    assert boxes.tolist() == [[1.5, 2, 31.5, 42], [4, 4, 12, 13]]
    assert (labels.tolist(), offsets.tolist()) == ([0, 1], [0, 0, 2])
    assert batch["boxes"].shape == (2, 2, 4)
    np.testing.assert_array_equal(batch["iscrowd"], batch["box_labels"] * batch["box_valid"])
