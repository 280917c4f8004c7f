"""How far each colour transform may be from its reference, and how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import gpufeed
from gpufeed import Loader, Manifest, SequentialSampler
from gpufeed import transforms as tf
from gpufeed.rng import BatchRng
from tests.support import colour_reference as wanted
from tests.support.colour_reference import Levels

SEED = 3
SQUARE: list[tf.Transform] = [tf.Resize(96), tf.CenterCrop(96)]
LEVELS = tf.ToDtype("uint8", layout="NHWC")


@dataclass(frozen=True)
class Case:
    """A transform, its reference given what was drawn, and bounds in grey levels."""

    transform: tf.PixelTransform
    reference: Callable[[Levels, dict[str, Any]], Levels]
    mean: float
    largest: int


def jittered(levels: Levels, p: dict[str, Any]) -> Levels:
    """What ColorJitter comes to: its steps, written out."""
    one = {name[0]: name for name in ("brightness", "contrast", "saturation", "hue") if name in p}
    steps = "bcbsbcbhbcbsbcb" if "h" in one else "bcbsbcb"
    for step, letter in enumerate(steps):
        if p.get(f"step{step}", True):
            levels = getattr(wanted, one[letter])(levels, p[one[letter]])
    return levels


def sigma(across: np.ndarray) -> np.ndarray:
    """The sigma of a Gaussian, from the weights of the middle and of its neighbour."""
    middle = across.shape[-1] // 2
    return (2 * np.log(across[..., middle] / across[..., middle + 1])) ** -0.5


def blurred(levels: Levels, p: dict[str, Any], window: tuple[int, int]) -> Levels:
    """What GaussianBlur comes to."""
    return wanted.gaussian_blur(levels, sigma(np.array(p["across"])).item(), window)


# Pillow and torchvision cut fractions off where these do, so that nearly all agree to the level.
# A step after another may tear a level apart: a contrast of 1.4 makes 1 level 1 or 2.
CASES = {
    "ColorJitter(0.4, 0.4, 0.4)": Case(tf.ColorJitter(0.4, 0.4, 0.4), jittered, 0.005, 3),
    "ColorJitter(0.8, 0.8, 0.8, 0.2)": Case(tf.ColorJitter(0.8, 0.8, 0.8, 0.2), jittered, 0.005, 5),
    "ColorJitter(brightness=0.4)": Case(
        tf.ColorJitter(brightness=0.4), lambda x, p: wanted.brightness(x, p["brightness"]), 0.001, 1
    ),
    "ColorJitter(contrast=0.4)": Case(
        tf.ColorJitter(contrast=0.4), lambda x, p: wanted.contrast(x, p["contrast"]), 0.001, 1
    ),
    "ColorJitter(saturation=0.4)": Case(
        tf.ColorJitter(saturation=0.4), lambda x, p: wanted.saturation(x, p["saturation"]), 0.001, 1
    ),
    "ColorJitter(hue=0.5)": Case(
        tf.ColorJitter(hue=0.5), lambda x, p: wanted.hue(x, p["hue"]), 0.001, 1
    ),
    "RandomGrayscale": Case(tf.RandomGrayscale(1), lambda x, _: wanted.grayscale(x), 0.002, 1),
    "RandomInvert": Case(tf.RandomInvert(1), lambda x, _: wanted.invert(x), 0, 0),
    "RandomPosterize(3)": Case(tf.RandomPosterize(3, 1), lambda x, _: wanted.posterize(x, 3), 0, 0),
    "RandomSolarize(100)": Case(
        tf.RandomSolarize(100, 1), lambda x, _: wanted.solarize(x, 100), 0, 0
    ),
    "RandomSolarize(127.5)": Case(
        tf.RandomSolarize(127.5, 1), lambda x, _: wanted.solarize(x, 127.5), 0, 0
    ),
    "RandomAutocontrast": Case(
        tf.RandomAutocontrast(1), lambda x, _: wanted.autocontrast(x), 0.03, 1
    ),
    "RandomEqualize": Case(tf.RandomEqualize(1), lambda x, _: wanted.equalize(x), 1.0, 8),
    "RandomAdjustSharpness(0)": Case(
        tf.RandomAdjustSharpness(0, 1), lambda x, _: wanted.sharpness(x, 0), 0, 0
    ),
    "RandomAdjustSharpness(2.5)": Case(
        tf.RandomAdjustSharpness(2.5, 1), lambda x, _: wanted.sharpness(x, 2.5), 0.4, 1
    ),
    "GaussianBlur(5)": Case(tf.GaussianBlur(5), lambda x, p: blurred(x, p, (5, 5)), 0.15, 1),
    "GaussianBlur((23, 9), (0.1, 5))": Case(
        tf.GaussianBlur((23, 9), (0.1, 5)),
        lambda x, p: blurred(x, p, (9, 23)),
        0.15,
        1,
    ),
    "JPEG((5, 95))": Case(tf.JPEG((5, 95)), lambda x, p: wanted.jpeg(x, p["quality"]), 0.01, 1),
    "Gamma((0.3, 3))": Case(tf.Gamma((0.3, 3)), lambda x, p: wanted.gamma(x, p["gamma"]), 0.001, 1),
    "Contrast((0.5, 2))": Case(
        tf.Contrast((0.5, 2)), lambda x, p: wanted.channel_contrast(x, p["factor"]), 0.001, 1
    ),
}


def feed(manifest: Manifest, chain: list[tf.Transform], **options: Any) -> dict[int, Levels]:
    """The images of an epoch by their record keys."""
    options = {"batch_size": 8, "last_batch": "partial", "device": "cpu", **options}
    sampler = options.pop("sampler", SequentialSampler(len(manifest), seed=SEED, num_epochs=1))
    with Loader(manifest, sampler=sampler, transforms=[*chain, LEVELS], **options) as loader:
        return {
            int(key): image
            for batch in loader
            for key, image in zip(batch["record_key"], batch["image"], strict=True)
        }


def drawn(transform: tf.PixelTransform, count: int, place: int = len(SQUARE)) -> tf.Params:
    """What a transform at this place of a list draws for records 0, 1, and so on."""
    keys = np.arange(count)
    rng = BatchRng(SEED, np.zeros(count, np.int64), keys, place)
    return transform.draw(rng, tf.Records(keys, keys + 96, keys + 96, None))


def photos(folder: Path, count: int = 12) -> Manifest:
    """A few of the JPEGs below a folder, spread over it."""
    paths = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.jpg"))
    names = paths[:: max(len(paths) // count, 1)][:count]
    return gpufeed.read_table(pl.DataFrame({"path": names, "label": [0] * len(names)}), root=folder)


def difference(manifest: Manifest, case: Case, plain: dict[int, Levels]) -> tuple[float, int]:
    """Mean and largest difference in grey levels, `plain` being the images to change."""
    changed = feed(manifest, [*SQUARE, case.transform])
    numbers = drawn(case.transform, len(manifest))
    apart = []
    for key, image in plain.items():
        own = {name: row[key].tolist() for name, row in numbers.items()}
        apart.append(np.abs(changed[key].astype(int) - case.reference(image, own)))
    return float(np.mean(apart)), int(np.max(apart))


def differences(manifest: Manifest) -> dict[str, tuple[float, int]]:
    """Mean and largest difference of every case in grey levels, on these images at 96 pixels."""
    plain = feed(manifest, SQUARE)
    return {name: difference(manifest, case, plain) for name, case in CASES.items()}
