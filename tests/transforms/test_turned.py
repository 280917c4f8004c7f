"""Rotations, affine maps and perspectives: against Pillow, and points that follow their pixels."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import gpufeed
from gpufeed import ConfigError, Loader, Manifest, SequentialSampler
from gpufeed import transforms as tf
from gpufeed.rng import BatchRng
from tests.support.media import make_manifest
from tests.support.turned_reference import (
    HOW,
    affine_coefficients,
    mapped,
    perspective_coefficients,
    rotated,
)

SIZE = (48, 64)
UINT8 = tf.ToDtype("uint8", layout="NHWC")
FILL = (10, 200, 30)


def few(manifest: Manifest) -> Manifest:
    return Manifest(manifest.frame.head(12), manifest.root, manifest.classes)


def feed(manifest: Manifest, *chain: tf.Transform, **options: Any) -> np.ndarray:
    loader = Loader(
        manifest,
        sampler=SequentialSampler(len(manifest), seed=6),
        transforms=[*chain, UINT8],
        batch_size=len(manifest),
        device="cpu",
        **options,
    )
    with loader:
        return np.asarray(loader.batch(0)["image"])


def drawn(transform: tf.GeometricTransform, n: int, size: tuple[int, int] = SIZE) -> tf.Params:
    height, width = (np.full(n, side) for side in size)
    records = tf.Records(record_key=np.arange(n), height=height, width=width, boxes=None)
    return transform.draw(BatchRng(6, np.zeros(n, np.int64), np.arange(n), 1), records)


def near(found: np.ndarray, wanted: np.ndarray, interpolation: str) -> None:
    apart = np.abs(found.astype(int) - wanted).max(axis=-1)
    if interpolation == "nearest":
        assert np.mean(apart > 0) < 0.02  # places that lie on a pixel's edge
    else:
        # Pillow cuts fractions off. Along the edges, where it repeats them, the fill is mixed in.
        assert np.mean(apart > 1) < 0.08


@pytest.mark.parametrize("interpolation", HOW)
@pytest.mark.parametrize("center", [None, (10.0, 20.5)])
def test_a_rotation_is_pillows(pictures: Manifest, interpolation: Any, center: Any) -> None:
    some = few(pictures)
    rotation = tf.RandomRotation(170, interpolation, center=center, fill=FILL)
    plain = feed(some, tf.Resize(SIZE))
    found = feed(some, tf.Resize(SIZE), rotation)
    for place, angle in enumerate(drawn(rotation, len(some))["angle"]):
        wanted = rotated(plain[place], angle, interpolation, FILL, center=center)
        near(found[place], wanted, interpolation)


@pytest.mark.parametrize("angle", [0, 17.5, 45, 90, 133, 180, -90])
def test_an_expanded_rotation_is_pillows(pictures: Manifest, angle: float) -> None:
    some = few(pictures)
    rotation = tf.RandomRotation((angle, angle), "bilinear", expand=True, fill=FILL)
    plain = feed(some, tf.Resize(SIZE))
    found = feed(some, tf.Resize(SIZE), rotation)
    for place in range(len(some)):
        wanted = rotated(plain[place], angle, "bilinear", FILL, expand=True)
        assert np.abs(np.subtract(found[place].shape, wanted.shape)).max() <= 1
        if found[place].shape == wanted.shape:
            near(found[place], wanted, "bilinear")


def test_expanded_pictures_are_resized_after(pictures: Manifest) -> None:
    """Sizes differ by record; the list goes on as with any."""
    chain = [tf.RandomRotation(90, expand=True), tf.Resize((30, 40))]
    assert feed(few(pictures), *chain).shape == (12, 30, 40, 3)


AFFINE = {
    "all": {"degrees": 40, "translate": (0.2, 0.3), "scale": (0.6, 1.5), "shear": (-20, 20, -9, 9)},
    "turned": {"degrees": (30, 60)},
    "moved": {"degrees": 0, "translate": (0.5, 0.0)},
    "sheared": {"degrees": 0, "shear": 25},
    "about a corner": {"degrees": 40, "center": (0.0, 0.0), "scale": (0.5, 0.9)},
}


@pytest.mark.parametrize("interpolation", HOW)
@pytest.mark.parametrize("name", AFFINE)
def test_an_affine_map_is_pillows(pictures: Manifest, name: str, interpolation: Any) -> None:
    some = few(pictures)
    affine = tf.RandomAffine(**AFFINE[name], interpolation=interpolation, fill=FILL)
    plain = feed(some, tf.Resize(SIZE))
    found = feed(some, tf.Resize(SIZE), affine)
    params = drawn(affine, len(some))
    center = AFFINE[name].get("center", (SIZE[1] / 2, SIZE[0] / 2))
    for place in range(len(some)):
        coefficients = affine_coefficients(params, place, center)
        near(found[place], mapped(plain[place], coefficients, interpolation, FILL), interpolation)


@pytest.mark.parametrize("interpolation", HOW)
def test_a_perspective_is_pillows(pictures: Manifest, interpolation: Any) -> None:
    some = few(pictures)
    perspective = tf.RandomPerspective(0.6, p=0.7, interpolation=interpolation, fill=FILL)
    plain = feed(some, tf.Resize(SIZE))
    found = feed(some, tf.Resize(SIZE), perspective)
    params = drawn(perspective, len(some))
    assert 0 < params["mask"].sum() < len(some)
    for place, corners in enumerate(params["corners"]):
        if not params["mask"][place]:
            np.testing.assert_array_equal(found[place], plain[place])
            continue
        coefficients = perspective_coefficients(corners, *SIZE)
        near(found[place], mapped(plain[place], coefficients, interpolation, FILL), interpolation)


MOVES = st.one_of(
    st.builds(tf.RandomRotation, st.integers(0, 40), st.just("bilinear")),
    st.builds(lambda expand: tf.RandomRotation(180, "bilinear", expand=expand), st.booleans()),
    st.just(tf.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 10, interpolation="bilinear")),
    st.just(tf.RandomPerspective(0.3, p=0.8)),
    st.just(tf.RandomHorizontalFlip()),
    st.just(tf.Resize((90, 110))),
)


@settings(max_examples=25)
@given(st.lists(MOVES, min_size=1, max_size=4), st.integers(0, 2**32))
def test_points_follow_their_pixels(
    tmp_path_factory: pytest.TempPathFactory, moves: list[tf.GeometricTransform], seed: int
) -> None:
    """A white disc is where its middle is mapped to."""
    folder = tmp_path_factory.mktemp("discs")
    height, width, n = 80, 100, 4
    rng = np.random.default_rng(seed)
    places = rng.uniform((35, 30), (65, 50), (n, 2))
    y, x = np.mgrid[0:height, 0:width] + 0.5
    for number, (px, py) in enumerate(places):
        disc = (np.hypot(x - px, y - py) < 6).astype(np.uint8) * 255
        Image.fromarray(disc).convert("RGB").save(folder / f"{number}.png")
    table = pl.DataFrame(
        {
            "path": [f"{i}.png" for i in range(n)],
            "label": [0] * n,
            "box": np.concatenate([places - 6, places + 6], axis=1)[:, None].tolist(),
            "point": np.insert(places, 2, 1.0, axis=1)[:, None].tolist(),
        }
    )
    manifest = gpufeed.read_table(table, root=folder, boxes="box", points="point")
    chain = [*moves, tf.Resize((100, 100))]
    with Loader(
        manifest,
        sampler=SequentialSampler(n, seed=seed),
        transforms=[*chain, UINT8],
        batch_size=n,
        device="cpu",
        targets=("boxes", "points"),
    ) as loader:
        batch = loader.batch(0)
    images = np.asarray(batch["image"]).astype(float).mean(axis=-1)
    rows, columns = np.mgrid[0:100, 0:100] + 0.5
    for image, (px, py), boxes in zip(images, batch["points"][:, 0], batch["boxes"], strict=True):
        if not (12 < px < 88 and 12 < py < 88) or image.sum() < 255 * 40:
            continue  # partly outside
        weight = image / image.sum()
        assert math.hypot((weight * columns).sum() - px, (weight * rows).sum() - py) < 0.75
        ((x0, y0, x1, y1),) = boxes
        lit = image > 128
        inside = (columns > x0 - 1) & (columns < x1 + 1) & (rows > y0 - 1) & (rows < y1 + 1)
        assert not (lit & ~inside).any()


def test_neighbouring_warps_are_one(pictures: Manifest) -> None:
    """So two rotations that undo each other leave the image as it was, not blurred twice."""
    some = few(pictures)
    plain = feed(some, tf.Resize(SIZE))
    found = feed(
        some,
        tf.Resize(SIZE),
        tf.RandomRotation((30, 30), "bilinear"),
        tf.RandomRotation((-30, -30), "bilinear"),
    )
    inside = (slice(None), slice(1, -1), slice(1, -1))
    assert np.abs(found[inside].astype(int) - plain[inside]).max() <= 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tf.RandomRotation(-3), "degrees is -3"),
        (lambda: tf.RandomRotation((5, 1)), "the lower bound must come first"),
        (lambda: tf.RandomRotation(5, "bicubic"), "interpolation is 'bicubic'"),  # type: ignore
        (
            lambda: tf.RandomRotation(5, expand=True, center=(1, 2)),
            "cannot be combined with expand=True",
        ),
        (lambda: tf.RandomRotation(5, center=(1, 2, 3)), "center is"),
        (lambda: tf.RandomAffine(5, translate=(0.5, 1.5)), "translate is"),
        (lambda: tf.RandomAffine(5, scale=(0, 1)), "scale is"),
        (lambda: tf.RandomAffine(5, shear="much"), "shear is"),  # type: ignore[arg-type]
        (lambda: tf.RandomPerspective(1.5), "distortion_scale is 1.5"),
        (lambda: tf.RandomPerspective(p=-1), "p is -1"),
        (lambda: tf.RandomRotation(5, fill=300), "fill is 300"),
    ],
)
def test_wrong_arguments_are_named(call: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()


def test_what_has_no_perspective_is_left_as_it_is(tmp_path: Path) -> None:
    """An image of one column, and corners that come to lie in a line."""
    manifest = make_manifest(tmp_path / "thin", [(9, 1), (1, 9), (1, 1), (2, 2), (9, 9)])
    loader = Loader(
        manifest,
        transforms=[tf.RandomPerspective(1.0, p=1.0), tf.Resize((8, 8)), UINT8],
        batch_size=5,
        device="cpu",
    )
    with loader:
        for step in range(30):
            assert loader.batch(step)["image"].shape == (5, 8, 8, 3)
    corners = drawn(tf.RandomPerspective(1.0, p=1.0), 100_000, (8, 8))
    assert 0.7 < corners["mask"].mean() < 1.0


def test_no_rotation_is_one_and_the_same() -> None:
    assert repr(tf.RandomRotation(0).identity) == repr(tf.RandomRotation((0, 0)).identity)
    assert tf.RandomRotation(np.float32(4)).degrees == (-4.0, 4.0)
