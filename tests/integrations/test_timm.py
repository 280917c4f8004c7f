"""The presets with a timm model's settings: what docs/how-to/trainers.md shows, against Pillow.

timm itself is not imported. Its transform for evaluation is torchvision's on Pillow images: the
shorter side is resized to size / crop_pct, rounded down, and the middle cut out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

import gpufeed
from gpufeed import Loader, Manifest

torch = pytest.importorskip("torch", reason="torch is not installed")

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "trainers.md").read_text()
(RECIPE,) = re.findall(r"^```python\n(config = .*?)^```", PAGE, re.M | re.S)

CONFIGS: list[dict[str, Any]] = [
    # vit_tiny_patch16_224.augreg_in21k_ft_in1k
    {
        "input_size": (3, 224, 224),
        "interpolation": "bicubic",
        "crop_pct": 0.9,
        "crop_mode": "center",
        "mean": (0.5, 0.5, 0.5),
        "std": (0.5, 0.5, 0.5),
    },
    # resnet18.tv_in1k
    {
        "input_size": (3, 224, 224),
        "interpolation": "bilinear",
        "crop_pct": 0.875,
        "crop_mode": "center",
        "mean": (0.485, 0.456, 0.406),
        "std": (0.229, 0.224, 0.225),
    },
]


@pytest.fixture(scope="module")
def photos(testdata: Path) -> Manifest:
    """Every seventh of the real photos."""
    root = testdata / "photos"
    paths = sorted(str(path.relative_to(root)) for path in root.rglob("*.jpg"))[::7]
    assert len(paths) == 15
    table = pl.DataFrame({"path": paths, "label": [place % 3 for place in range(15)]})
    return gpufeed.read_table(table, root=root)


def by_the_page(config: dict[str, Any]) -> dict[str, Any]:
    model = torch.nn.Module()
    model.pretrained_cfg, model.num_classes = config, 3
    names: dict[str, Any] = {"gpufeed": gpufeed, "model": model}
    exec(RECIPE, names)  # noqa: S102 - the page's own code
    return names


def in_pillow(image: Image.Image, config: dict[str, Any]) -> np.ndarray:
    size = config["input_size"][-1]
    short = int(size / config["crop_pct"])
    width, height = (int(short * side / min(image.size)) for side in image.size)
    resized = image.resize((width, height), Image.Resampling[config["interpolation"].upper()])
    left, top = round((width - size) / 2), round((height - size) / 2)
    return np.asarray(resized.crop((left, top, left + size, top + size)), dtype=np.float64)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config["interpolation"])
def test_evaluation_is_timms(photos: Manifest, config: dict[str, Any]) -> None:
    transforms = by_the_page(config)["to_evaluate"]
    means, far = [], []
    with Loader.for_evaluation(
        photos, transforms=transforms, batch_size=5, device="cpu", framework="torch"
    ) as loader:
        for batch in loader:
            for image, row in zip(batch["image"], loader.rows(batch)["path"], strict=True):
                with Image.open(Path(photos.root) / row) as photo:
                    wanted = in_pillow(photo.convert("RGB"), config)
                levels = image.numpy().transpose(1, 2, 0) * config["std"] + config["mean"]
                off = np.abs(levels * 255 - wanted)
                means.append(off.mean())
                far.append((off > (2.01 if config["interpolation"] == "bicubic" else 1.01)).mean())
    assert np.mean(means) < 0.2
    assert np.mean(far) <= (4e-4 if config["interpolation"] == "bicubic" else 0)


def test_a_model_trains_on_soft_labels(photos: Manifest) -> None:
    transforms = by_the_page(CONFIGS[0])["to_train"]
    with Loader(photos, transforms=transforms, batch_size=4, device="cpu") as loader:
        batch = loader.batch(0)
    assert batch["image"].shape == (4, 3, 224, 224)
    assert batch["soft_label"].shape == (4, 3)
    # Without noise and policies, the range is that of the model's mean and standard deviation.
    plain = gpufeed.presets.train(224, mean=0.5, std=0.5)
    with Loader(photos, transforms=plain, batch_size=4, device="cpu") as loader:
        image = loader.batch(0)["image"]
    assert -1 <= image.min() < -0.8
    assert 0.8 < image.max() <= 1
