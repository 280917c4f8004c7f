"""Colour transforms: pixels against Pillow, draws against torchvision's rules, arguments."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpufeed import ConfigError, Manifest
from gpufeed import transforms as tf
from gpufeed.transforms.operators import colour as ops
from tests.support import colour_reference as wanted
from tests.support.colour_cases import (
    CASES,
    LEVELS,
    SQUARE,
    difference,
    differences,
    drawn,
    feed,
    photos,
    sigma,
)
from tests.support.colour_reference import Levels
from tests.support.devices import DEVICES

# ------------------------------------------------------------ pixels, against Pillow


@pytest.fixture(scope="module")
def plain(pictures: Manifest) -> dict[int, Levels]:
    """The synthetic images before their levels are changed."""
    return feed(pictures, SQUARE)


@pytest.mark.parametrize("name", CASES)
def test_synthetic_pictures_are_pillows(
    pictures: Manifest, plain: dict[int, Levels], name: str
) -> None:
    case = CASES[name]
    mean, largest = difference(pictures, case, plain)
    assert largest <= case.largest
    assert mean <= case.mean


def test_photos_are_pillows(small_photos: Path) -> None:
    found = differences(photos(small_photos))
    assert found.keys() == CASES.keys()
    for name, (mean, largest) in found.items():
        assert largest <= CASES[name].largest, name
        assert mean <= CASES[name].mean, name


def test_a_window_is_of_width_and_height(pictures: Manifest, plain: dict[int, Levels]) -> None:
    """One column wide, a window blurs down the columns only."""
    blurred = feed(pictures, [*SQUARE, tf.GaussianBlur((1, 9), 2.0)])
    for key, image in plain.items():
        apart = np.abs(blurred[key].astype(int) - wanted.gaussian_blur(image, 2.0, (9, 1)))
        assert apart.max() <= 1


# --------------------------------------------------------------- operations by themselves

NOISE = np.random.default_rng(2).integers(0, 256, (6, 40, 33, 3), dtype=np.uint8)
FLAT = np.full((20, 30, 3), (7, 200, 255), dtype=np.uint8)
GREY = np.arange(256, dtype=np.uint8).repeat(3).reshape(16, 16, 3)
ODD = [FLAT, GREY, NOISE[0, :, :, ::-1].copy(), NOISE[1, :7, :5], np.zeros((9, 9, 3), np.uint8)]


def run(
    change: Callable[..., Any], images: list[Levels], *values: Any, device: str = "cpu"
) -> list[Levels]:
    """Carry out an operation, a value of each kind for each image."""
    from nvidia.dali import Pipeline, fn

    on_gpu = device == "cuda"
    pipeline = Pipeline(len(images), 2, 0 if on_gpu else None, exec_dynamic=True)
    with pipeline:
        image = fn.external_source(name="image", layout="HWC")
        names = [f"value{number}" for number in range(len(values))]
        numbers = [fn.external_source(name=name) for name in names]
        changed = change(image.gpu() if on_gpu else image, *numbers)
        pipeline.set_outputs(changed.cpu() if on_gpu else changed)
    pipeline.build()
    pipeline.feed_input("image", [np.ascontiguousarray(image) for image in images])
    for name, value in zip(names, values, strict=True):
        pipeline.feed_input(name, [np.asarray(row) for row in value])
    (out,) = pipeline.run()
    return [np.array(out[number]) for number in range(len(images))]


def floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, dtype=np.float32)


NOTHING: dict[str, tuple[float | int, ...]] = {
    "brightness": (1.0,),
    "channel_contrast": (1.0,),
    "contrast": (1.0,),
    "saturation": (1.0,),
    "hue": (0.0,),
    "sharpness": (1.0,),
    "posterize": (8,),
    "solarize": (256.0,),
    "gamma": (1.0,),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", NOTHING)
def test_what_means_nothing_changes_nothing(name: str, device: str) -> None:
    images = [*NOISE, *ODD]
    values = [
        np.full(len(images), value, np.float32 if isinstance(value, float) else np.int32)
        for value in NOTHING[name]
    ]
    made = run(getattr(ops, name), images, *values, device=device)
    for image, same in zip(images, made, strict=True):
        np.testing.assert_array_equal(same, image)


VALUES: dict[str, tuple[np.ndarray, int]] = {
    "brightness": (floats(0, 0.3, 1.7, 2, 9), 0),
    "channel_contrast": (floats(0, 0.3, 1.7, 2, 9), 1),
    "contrast": (floats(0, 0.3, 1.7, 2, 9), 1),
    "saturation": (floats(0, 0.3, 1.7, 2, 9), 1),
    "sharpness": (floats(0, 0.3, 1.7, 2, 3), 1),
    "hue": (floats(-0.5, 0.5, -0.1, 1 / 3, 0.02), 1),
    "posterize": (np.array([0, 1, 4, 7, 8], np.int32), 0),
    "solarize": (floats(0, 256, 255, 0.5, 100), 0),
    "gamma": (floats(0, 0.2, 1.5, 3, 2), 1),
    "jpeg": (np.array([1, 100, 50, 30, 75], np.int32), 0),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", VALUES)
def test_extremes_are_pillows(name: str, device: str) -> None:
    values, most = VALUES[name]
    for turn in range(len(values)):
        turned = np.roll(values, turn)
        for image, value, found in zip(
            ODD, turned, run(getattr(ops, name), ODD, turned, device=device), strict=True
        ):
            reference = getattr(wanted, name)(image, value.item())
            apart = np.abs(found.astype(int) - reference)
            if name == "jpeg" and device == "cuda":  # nvJPEG rounds otherwise than libjpeg-turbo
                assert apart.mean() < 2, (image.shape, value)
            else:  # on a GPU a float may fall on the other side of a level
                assert apart.max() <= most + (device == "cuda"), (image.shape, value)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["autocontrast", "grayscale", "invert"])
def test_odd_pictures_are_pillows(name: str, device: str) -> None:
    for image, found in zip(ODD, run(getattr(ops, name), ODD, device=device), strict=True):
        reference = getattr(wanted, name)(image)
        assert np.abs(found.astype(int) - reference).max() <= 1, image.shape


@pytest.mark.parametrize("device", DEVICES)
def test_a_picture_of_one_level_is_not_equalized(device: str) -> None:
    (found,) = run(ops.equalize, [FLAT], device=device)
    np.testing.assert_array_equal(found, FLAT)


@pytest.mark.parametrize("device", DEVICES)
def test_equalized_levels_go_from_end_to_end(device: str) -> None:
    """As in Pillow, the lowest level becomes 0; DALI has it by how often it comes."""
    image = NOISE[0] // 4 + 60
    image[:30] = 60
    (found,) = run(ops.equalize, [image], device=device)
    assert (found.min(), found.max()) == (0, 255)
    assert (found[image == 60] == 0).all()


# ------------------------------------------------------------------------------ laws

SOMETIMES = {
    "RandomGrayscale": tf.RandomGrayscale,
    "RandomInvert": tf.RandomInvert,
    "RandomPosterize": lambda p: tf.RandomPosterize(3, p),
    "RandomSolarize": lambda p: tf.RandomSolarize(100, p),
    "RandomAdjustSharpness": lambda p: tf.RandomAdjustSharpness(0, p),
    "RandomAutocontrast": tf.RandomAutocontrast,
    "RandomEqualize": tf.RandomEqualize,
}


@pytest.mark.parametrize("name", SOMETIMES)
def test_only_chosen_pictures_change(
    pictures: Manifest, plain: dict[int, Levels], name: str
) -> None:
    always = feed(pictures, [*SQUARE, SOMETIMES[name](1)])
    some = feed(pictures, [*SQUARE, SOMETIMES[name](0.4)])
    never = feed(pictures, [*SQUARE, SOMETIMES[name](0)])
    chosen = drawn(SOMETIMES[name](0.4), len(pictures))["chosen"]
    assert 10 <= chosen.sum() <= 30
    for key, image in plain.items():
        np.testing.assert_array_equal(some[key], always[key] if chosen[key] else image)
        np.testing.assert_array_equal(never[key], image)
    assert any((always[key] != image).any() for key, image in plain.items())


EVERYTHING: list[tf.Transform] = [
    tf.ColorJitter(0.4, 0.4, 0.4, 0.1),
    tf.RandomGrayscale(0.3),
    tf.GaussianBlur((9, 5)),
    tf.RandomInvert(),
    tf.RandomPosterize(5),
    tf.RandomSolarize(150),
    tf.RandomAdjustSharpness(2),
    tf.RandomAutocontrast(),
    tf.RandomEqualize(),
    tf.Gamma((0.6, 1.2)),
    tf.Contrast((0.8, 1.2)),
    tf.JPEG((40, 90)),
    tf.RandomApply(
        [
            tf.ColorJitter(0.2, 0.2, 0.2, 0.1),
            tf.RandomApply([tf.RandomInvert()]),
            tf.GaussianBlur(3),
        ]
    ),
]


def test_pictures_of_two_pixels_are_not_sharpened(pictures: Manifest) -> None:
    for size in ((2, 9), (9, 2), (1, 1)):
        small = [tf.Resize(size)]
        same = feed(pictures, [*small, tf.RandomAdjustSharpness(2, 1)])
        for key, image in feed(pictures, small).items():
            np.testing.assert_array_equal(same[key], image)


def test_nothing_asked_for_is_nothing_done(pictures: Manifest, plain: dict[int, Levels]) -> None:
    for nothing in (tf.ColorJitter(), tf.ColorJitter(0, (1, 1), 0.0, (0, 0))):
        same = feed(pictures, [*SQUARE, nothing])
        for key, image in plain.items():
            np.testing.assert_array_equal(same[key], image)


# ----------------------------------------------------------------------------- draws

COUNT = 20_000


def uniformly(values: np.ndarray, low: float, high: float) -> None:
    """Kolmogorov and Smirnov's test, at a level of one in a thousand."""
    place = np.sort((values - low) / (high - low))
    assert place[0] >= 0
    assert place[-1] < 1
    step = np.arange(len(place) + 1) / len(place)
    apart = max((step[1:] - place).max(), (place - step[:-1]).max())
    assert apart < 1.95 / math.sqrt(len(place))


@pytest.mark.parametrize(
    ("transform", "name", "low", "high"),
    [
        (tf.ColorJitter(brightness=0.4), "brightness", 0.6, 1.4),
        (tf.ColorJitter(brightness=2), "brightness", 0, 3),
        (tf.ColorJitter(brightness=(0.2, 0.7)), "brightness", 0.2, 0.7),
        (tf.ColorJitter(contrast=0.3), "contrast", 0.7, 1.3),
        (tf.ColorJitter(saturation=(0.5, 2)), "saturation", 0.5, 2),
        (tf.ColorJitter(hue=0.1), "hue", -0.1, 0.1),
        (tf.ColorJitter(hue=(-0.3, 0.5)), "hue", -0.3, 0.5),
        (tf.ColorJitter(0.1, 0.2, 0.3, 0.4), "contrast", 0.8, 1.2),
        (tf.ColorJitter(0.1, 0.2, 0.3, 0.4), "hue", -0.4, 0.4),
        (tf.Gamma((0.6, 1.2)), "gamma", 0.6, 1.2),
        (tf.Contrast((0.8, 1.2)), "factor", 0.8, 1.2),
    ],
)
def test_factors_are_drawn_as_torchvision_does(
    transform: tf.PixelTransform, name: str, low: float, high: float
) -> None:
    uniformly(drawn(transform, COUNT)[name], low, high)


def _steps(numbers: tf.Params, count: int) -> np.ndarray:
    """Which steps of a jitter are taken; the one in the middle always is."""
    taken = np.ones((COUNT, count), dtype=bool)
    for step in set(range(count)) - {count // 2}:
        taken[:, step] = numbers[f"step{step}"]
    return taken


def test_factors_of_a_jitter_are_independent() -> None:
    numbers = drawn(tf.ColorJitter(0.1, 0.2, 0.3, 0.4), COUNT)
    columns = [numbers[name] for name in ("brightness", "contrast", "saturation", "hue")]
    steps = np.delete(_steps(numbers, 15), 7, axis=1)
    correlation = np.corrcoef([*columns, *steps.T])[:4]
    np.fill_diagonal(correlation, 0)
    assert np.abs(correlation).max() < 4 / math.sqrt(COUNT)


@pytest.mark.parametrize("letters", ["b", "bs", "bcs", "bch", "bcsh"])
def test_every_order_of_a_jitter_is_as_likely(letters: str) -> None:
    """Each operation is applied once, and all orders come equally often: a chi-squared test."""
    names = {"b": "brightness", "c": "contrast", "s": "saturation", "h": "hue"}
    numbers = drawn(tf.ColorJitter(**{names[letter]: 0.3 for letter in letters}), COUNT)
    ruler = ""
    for letter in letters:
        ruler += letter + ruler
    orders = ["".join(itertools.compress(ruler, row)) for row in _steps(numbers, len(ruler))]
    every = ["".join(order) for order in itertools.permutations(letters)]
    counts = np.array([orders.count(order) for order in every])
    assert counts.sum() == COUNT
    expected = COUNT / len(every)
    freedom = len(every) - 1
    assert ((counts - expected) ** 2 / expected).sum() <= freedom + 4 * math.sqrt(2 * freedom)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("name", SOMETIMES)
def test_pictures_are_chosen_as_often_as_asked(name: str, p: float) -> None:
    share = drawn(SOMETIMES[name](p), COUNT)["chosen"].mean()
    assert abs(share - p) < 4 * math.sqrt(p * (1 - p) / COUNT)


def test_qualities_are_drawn_from_both_ends() -> None:
    quality = drawn(tf.JPEG((20, 23)), COUNT)["quality"]
    values, counts = np.unique(quality, return_counts=True)
    assert values.tolist() == [20, 21, 22, 23]
    assert np.abs(counts / COUNT - 0.25).max() < 0.02
    assert set(drawn(tf.JPEG(50), 10)["quality"].tolist()) == {50}


def test_blurs_are_drawn_as_torchvision_does() -> None:
    for blur, low, high in (
        (tf.GaussianBlur(3), 0.1, 2.0),
        (tf.GaussianBlur((5, 9), (1, 4)), 1, 4),
    ):
        numbers = drawn(blur, COUNT)
        uniformly(sigma(numbers["across"]), low, high)
        np.testing.assert_allclose(sigma(numbers["across"]), sigma(numbers["down"]))
    np.testing.assert_allclose(sigma(drawn(tf.GaussianBlur(5, 1.5), 10)["across"]), 1.5)


def test_a_window_holds_all_that_shows() -> None:
    """What is left out of a window weighs less than a tenth of a level."""
    numbers = drawn(tf.GaussianBlur((31, 61), (0.1, 5)), COUNT)
    assert numbers["across"].shape == (COUNT, 31)
    height = numbers["down"].shape[1]
    assert 1 < height < 61
    beyond = (height // 2 + 0.5) / sigma(numbers["down"]).max()
    assert math.erfc(beyond / math.sqrt(2)) * 255 < 0.1


def test_a_window_of_a_pixel_changes_nothing(pictures: Manifest, plain: dict[int, Levels]) -> None:
    for blur in (tf.GaussianBlur(1), tf.GaussianBlur(9, 1e-3)):
        same = feed(pictures, [*SQUARE, blur])
        for key, image in plain.items():
            np.testing.assert_array_equal(same[key], image)


# ------------------------------------------------------------------ settings, arguments

DEFAULTS: dict[str, tuple[tf.Transform, dict[str, object]]] = {
    "ColorJitter": (
        tf.ColorJitter(),
        {"brightness": None, "contrast": None, "saturation": None, "hue": None},
    ),
    "RandomGrayscale": (tf.RandomGrayscale(), {"p": 0.1}),
    "GaussianBlur": (tf.GaussianBlur(5), {"kernel_size": [5, 5], "sigma": [0.1, 2.0]}),
    "RandomInvert": (tf.RandomInvert(), {"p": 0.5}),
    "RandomPosterize": (tf.RandomPosterize(4), {"bits": 4, "p": 0.5}),
    "RandomSolarize": (tf.RandomSolarize(99), {"threshold": 99.0, "p": 0.5}),
    "RandomAdjustSharpness": (
        tf.RandomAdjustSharpness(2),
        {"sharpness_factor": 2.0, "p": 0.5},
    ),
    "RandomAutocontrast": (tf.RandomAutocontrast(), {"p": 0.5}),
    "RandomEqualize": (tf.RandomEqualize(), {"p": 0.5}),
    "JPEG": (tf.JPEG(75), {"quality": [75, 75]}),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_torchvisions_and_known_by_fingerprints(name: str) -> None:
    transform, settings = DEFAULTS[name]
    assert transform.identity == {"kind": name, **settings}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tf.ColorJitter(brightness=-0.1), r"brightness is -0\.1; .* 0 or more"),
        (
            lambda: tf.ColorJitter(contrast=(1.5, 0.5)),
            r"contrast is \(1\.5, 0\.5\); .* lower bound",
        ),
        (lambda: tf.ColorJitter(saturation="much"), r"saturation is 'much'; .* \(low, high\)"),
        (lambda: tf.ColorJitter(saturation=(0, math.inf)), r"saturation is \(0, inf\)"),
        (lambda: tf.ColorJitter(brightness=math.nan), r"brightness is nan"),
        (lambda: tf.ColorJitter(hue=0.6), r"hue is 0\.6; it must be from 0 to 0\.5"),
        (lambda: tf.ColorJitter(hue=(-0.6, 0)), r"hue is \(-0\.6, 0\); .* from -0\.5 to 0\.5"),
        (lambda: tf.ColorJitter(hue=(0, 0.1, 0.2)), r"hue is \(0, 0\.1, 0\.2\); .* two numbers"),
        (lambda: tf.RandomGrayscale(1.5), r"p is 1\.5; .* from 0 to 1"),
        (lambda: tf.RandomInvert(-1), r"p is -1; .* from 0 to 1"),
        (lambda: tf.RandomPosterize(9), r"bits is 9; it must be an integer from 0 to 8"),
        (lambda: tf.RandomPosterize(2.5), r"bits is 2\.5; it must be an integer from 0 to 8"),
        (lambda: tf.RandomSolarize(256), r"threshold is 256; it must be from 0 to 255"),
        (lambda: tf.RandomSolarize("half"), r"threshold is 'half'; it must be a number"),
        (lambda: tf.RandomAdjustSharpness(-2), r"sharpness_factor is -2; it must be 0 or more"),
        (lambda: tf.GaussianBlur(4), r"kernel_size is 4; .* odd"),
        (lambda: tf.GaussianBlur((3, 0)), r"kernel_size is 0; .* 1 or more"),
        (lambda: tf.GaussianBlur(3, 0), r"sigma is \(0, 0\); it must satisfy 0 < low <= high"),
        (lambda: tf.GaussianBlur(3, (2, 1)), r"sigma is \(2, 1\); it must satisfy 0 < low <= high"),
        (lambda: tf.JPEG(0), r"quality is \(0, 0\); .* from 1 to 100"),
        (lambda: tf.JPEG((10, 101)), r"quality is \(10, 101\); .* from 1 to 100"),
        (lambda: tf.JPEG((10.5, 20)), r"quality is \(10\.5, 20\); its numbers must be integers"),
        (lambda: tf.Gamma(2.0), r"gamma is 2\.0; it must be two numbers"),
        (lambda: tf.Gamma((-1, 2)), r"gamma is \(-1, 2\); its numbers must be 0 or more"),
        (lambda: tf.Contrast((2, 1)), r"contrast is \(2, 1\); .* the lower bound first"),
    ],
)
def test_wrong_arguments_are_named(make: Callable[[], tf.Transform], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_levels_stay_levels(pictures: Manifest) -> None:
    """Whatever was asked for, uint8 images of the same size come out."""
    chain = [*SQUARE, *EVERYTHING, LEVELS]
    for image in feed(pictures, chain[:-1]).values():
        assert (image.dtype, image.shape) == (np.uint8, (96, 96, 3))
