"""The real photos, laid out as NABirds: through reading, planning, DALI and every framework."""

from __future__ import annotations

import uuid
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gpufeed
from gpufeed import Loader, Manifest, SequentialSampler
from tests.support.pillow_reference import difference, reference

MEAN = np.array([0.485, 0.456, 0.406])
STD = np.array([0.229, 0.224, 0.225])


def lay_out(photos: list[Path], folder: Path) -> None:
    """Write the distribution's files around copies of some photos; a third of each is its box."""
    lines: dict[str, list[str]] = {}
    numbered = sorted((uuid.UUID(int=place * 7919 + 1), path) for place, path in enumerate(photos))
    for place, (number, path) in enumerate(numbered):
        kind = 295 + place % 5
        name = f"{kind:04}/{number.hex}.jpg"
        target = folder / "images" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
        with Image.open(path) as image:
            width, height = image.size
        for file, text in {
            "images": name,
            "image_class_labels": kind,
            "sizes": f"{width} {height}",
            "bounding_boxes": f"{width // 4} {height // 5} {width // 3} {height // 2}",
            "photographers": f"Nobody, No. {place}",
            "train_test_split": int(place % 3 > 0),
        }.items():
            lines.setdefault(file, []).append(f"{number} {text}")
    lines["classes"] = ["0 Birds", *(f"{295 + kind} Bird {kind}" for kind in range(5))]
    lines["hierarchy"] = [f"{295 + kind} 0" for kind in range(5)]
    for file, text in lines.items():
        (folder / f"{file}.txt").write_text("\n".join(text) + "\n")


@pytest.fixture(scope="module")
def birds(testdata: Path, tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    photos = sorted((testdata / "photos").rglob("*.jpg"))
    assert len(photos) == 105
    folder = tmp_path_factory.mktemp("nabirds")
    lay_out(photos, folder)
    return gpufeed.read_nabirds(folder)


PRESETS = ["train", "evaluate", "course_train", "course_evaluate"]


def chain_of(preset: str, **options: str) -> list[gpufeed.transforms.Transform]:
    """The preset's geometry and output; contrast and gamma are tested with the colours."""
    if preset == "course_train":
        return gpufeed.presets.course_train(photometric=False, **options)
    return getattr(gpufeed.presets, preset)(**options)


def in_pillow(manifest: Manifest, preset: str, key: int) -> np.ndarray:
    x, y, width, height = manifest.boxes()[key].tolist()
    with Image.open(manifest.root / manifest.frame["path"][key]) as image:
        return reference(
            image,
            chain_of(preset),
            seed=11,
            epoch=0,
            key=key,
            box=(x, y, x + width, y + height),
        )


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_pillows_to_one_level(birds: Manifest, preset: str) -> None:
    """All pixels, before normalisation, of every fourth photo; all presets together, of all."""
    some = Manifest(birds.frame[PRESETS.index(preset) :: 4], birds.root, birds.classes)
    loader = Loader(
        some,
        sampler=SequentialSampler(len(some), seed=11, num_epochs=1),
        transforms=chain_of(preset, dtype="uint8", layout="NHWC"),
        batch_size=7,
        last_batch="partial",
        device="cpu",
    )
    with loader:
        images = np.concatenate([batch["image"] for batch in loader])
    assert len(images) == len(some) >= 26
    means = []
    for key in range(len(some)):
        largest, mean = difference(images[key], in_pillow(some, preset, key))
        assert largest <= 1, f"record {key}"
        means.append(mean)
    assert np.mean(means) < 0.2


@pytest.mark.parametrize(
    ("preset", "framework"), [("train", "torch"), ("train", "jax"), ("evaluate", "numpy")]
)
def test_every_framework_gets_them_normalised(birds: Manifest, preset: str, framework: str) -> None:
    split = birds.split("train" if preset == "train" else "test")
    assert split.classes == birds.classes
    split = Manifest(split.frame.head(12), split.root, split.classes)
    loader = Loader(
        split,
        sampler=SequentialSampler(len(split), seed=11, num_epochs=1),
        transforms=getattr(gpufeed.presets, preset)(),
        batch_size=8,
        last_batch="pad",
        device="cpu",
        framework=framework,
    )
    counted = 0
    with loader:
        for batch in loader:
            images, valid = np.asarray(batch["image"]), np.asarray(batch["valid"])
            rows = loader.rows(batch)
            assert rows["label"].to_list() == np.asarray(batch["label"]).tolist()
            for place in np.flatnonzero(valid)[::5]:
                key = int(batch["record_key"][place])
                wanted = (in_pillow(split, preset, key) / 255 - MEAN) / STD
                image = images[place] if framework == "jax" else images[place].transpose(1, 2, 0)
                apart = np.abs(image - wanted)
                assert apart.max() <= 1.01 / 255 / STD.min()
            counted += int(valid.sum())
    assert counted == len(split)
