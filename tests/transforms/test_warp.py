"""Warps: matrices against Pillow's own geometry, pixels against `Image.transform`."""

from __future__ import annotations

import numpy as np
import pytest
from nvidia.dali import Pipeline, fn
from PIL import Image

from gpufeed.transforms.frame import Sampling
from gpufeed.transforms.operators.warp import warp
from gpufeed.transforms.warp_matrices import affine_matrices
from tests.support.media import picture

FILL = (10.0, 200.0, 30.0)
SYNTHETIC = [np.asarray(picture(h, w, seed=h)) for h, w in ((64, 80), (97, 41), (150, 151))]
PILLOWS = {"nearest": Image.Resampling.NEAREST, "bilinear": Image.Resampling.BILINEAR}


@pytest.fixture(scope="module", params=["synthetic", "photos"])
def images(request: pytest.FixtureRequest) -> list[np.ndarray]:
    """Synthetic images, or some of the real photos, as training sees them."""
    if request.param == "synthetic":
        return SYNTHETIC
    names = sorted(request.getfixturevalue("small_photos").iterdir())[::3]
    return [np.asarray(Image.open(name).resize((224, 200))) for name in names]


def warped(
    images: list[np.ndarray], matrices: np.ndarray, interpolation: Sampling
) -> list[np.ndarray]:
    pipeline = Pipeline(
        batch_size=len(images),
        num_threads=2,
        device_id=None,
        prefetch_queue_depth=1,
        exec_dynamic=True,
    )
    with pipeline:
        image = fn.external_source(name="image", layout="HWC")
        matrix = fn.external_source(name="matrix")
        pipeline.set_outputs(warp(image, matrix, FILL, interpolation))
    pipeline.build()
    pipeline.feed_input("image", images)
    pipeline.feed_input("matrix", matrices)
    (out,) = pipeline.run()
    return [np.array(out.at(place)) for place in range(len(images))]


def by_pillow(image: np.ndarray, matrix: np.ndarray, interpolation: str) -> np.ndarray:
    numbers = (matrix / matrix[2, 2]).ravel()
    affine = not matrix[2, :2].any()
    how = Image.Transform.AFFINE if affine else Image.Transform.PERSPECTIVE
    return np.asarray(
        Image.fromarray(image).transform(
            image.shape[1::-1],
            how,
            tuple(numbers[: 6 if affine else 8].tolist()),
            PILLOWS[interpolation],
            fillcolor=tuple(int(level) for level in FILL),
        )
    )


def sources(shape: tuple[int, ...], matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the centre of each output pixel comes from."""
    y, x = np.mgrid[0 : shape[0], 0 : shape[1]] + 0.5
    u, v, w = np.einsum("ij,jyx->iyx", matrix.astype(float), np.stack([x, y, np.ones_like(x)]))
    return u / w, v / w


def drawn(kind: str, images: list[np.ndarray]) -> np.ndarray:
    rng = np.random.default_rng(8)
    n = len(images)
    sizes = np.array([image.shape[1::-1] for image in images])
    if kind == "translate":
        return affine_matrices(sizes / 2, translate=rng.integers(-30, 31, (n, 2)))
    if kind == "shear":
        shear = np.stack([rng.uniform(-17, 17, n), np.zeros(n)], axis=1)
        return affine_matrices((0, 0), shear=shear)
    if kind == "rotate":
        return affine_matrices(sizes / 2, angle=rng.uniform(-135, 135, n))
    matrices = affine_matrices(
        sizes / 2,
        angle=rng.uniform(-40, 40, n),
        translate=rng.uniform(-30, 30, (n, 2)),
        scale=rng.uniform(0.6, 1.4, n),
        shear=rng.uniform(-20, 20, (n, 2)),
    )
    if kind == "perspective":
        matrices[:, 2, :2] = rng.uniform(-1e-3, 1e-3, (n, 2))
    return matrices


KINDS = ["translate", "shear", "rotate", "affine", "perspective"]


@pytest.mark.parametrize("kind", KINDS)
def test_nearest_is_pillows(images: list[np.ndarray], kind: str) -> None:
    matrices = drawn(kind, images)
    for image, matrix, found in zip(
        images, matrices, warped(images, matrices, "nearest"), strict=True
    ):
        wanted = by_pillow(image, matrix, "nearest")
        differ = (found != wanted).any(axis=-1)
        if kind == "translate":
            assert not differ.any()
            continue
        # Only where a place is on the edge of two pixels, to what Pillow keeps of a matrix, which
        # is 16 bits after the point, and adds up along a row.
        near = np.zeros_like(differ)
        for places in sources(image.shape, matrix):
            near |= np.abs(places - np.rint(places)) < 0.004
        assert not (differ & ~near).any()
        assert differ.mean() < 0.01


def by_numpy(image: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Between four pixels, those outside of the image having the fill."""
    height, width = image.shape[:2]
    canvas = np.full((height + 4, width + 4, 3), FILL)
    canvas[2:-2, 2:-2] = image
    x, y = (places + 1.5 for places in sources(image.shape, matrix))
    x, y = np.clip(x, 0, width + 2.999), np.clip(y, 0, height + 2.999)
    left, top = x.astype(int), y.astype(int)
    right, below = (x - left)[..., None], (y - top)[..., None]
    above = canvas[top, left] * (1 - right) + canvas[top, left + 1] * right
    under = canvas[top + 1, left] * (1 - right) + canvas[top + 1, left + 1] * right
    return above * (1 - below) + under * below


@pytest.mark.parametrize("kind", KINDS)
def test_bilinear_is_pillows_to_a_level(images: list[np.ndarray], kind: str) -> None:
    matrices = drawn(kind, images)
    for image, matrix, found in zip(
        images, matrices, warped(images, matrices, "bilinear"), strict=True
    ):
        # What rounding to a level loses, and what places lose in single precision.
        away = np.abs(found - by_numpy(image, matrix))
        assert away.max() <= 0.51
        x, y = sources(image.shape, matrix)
        height, width = image.shape[:2]
        inside = (x > 0.6) & (x < width - 0.6) & (y > 0.6) & (y < height - 0.6)
        assert inside.mean() > 0.2
        away = np.abs(found.astype(int) - by_pillow(image, matrix, "bilinear"))
        assert away[inside].max(initial=0) <= 1


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_the_unit_matrix_changes_nothing(interpolation: Sampling) -> None:
    same = affine_matrices(np.ones((len(SYNTHETIC), 2)))
    for image, found in zip(SYNTHETIC, warped(SYNTHETIC, same, interpolation), strict=True):
        np.testing.assert_array_equal(found, image)


def test_rotation_is_about_the_centre_and_clockwise() -> None:
    image = SYNTHETIC[2][:, :150].copy()
    (turned,) = warped([image], affine_matrices((75, 75), angle=90), "nearest")
    np.testing.assert_array_equal(turned, np.rot90(image, k=-1))


def test_matrices_are_the_inverses_of_the_steps_they_name() -> None:
    """Shear along x, shear along y, turn, scale, move: each about the centre, as NumPy has it."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        center, moved = rng.uniform(0, 200, 2), rng.uniform(-50, 50, 2)
        angle, (shear_x, shear_y), scale = (
            rng.uniform(-180, 180),
            rng.uniform(-40, 40, 2),
            rng.uniform(0.5, 2),
        )
        turn, along_x, along_y = np.radians([angle, shear_x, shear_y])
        to_center, back, move = np.eye(3), np.eye(3), np.eye(3)
        to_center[:2, 2], back[:2, 2], move[:2, 2] = -center, center, moved
        rotate = np.array(
            [[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]]
        )
        sheared_x = np.array([[1, -np.tan(along_x), 0], [0, 1, 0], [0, 0, 1]])
        sheared_y = np.array([[1, 0, 0], [-np.tan(along_y), 1, 0], [0, 0, 1]])
        forward = (
            move @ back @ rotate @ np.diag([scale, scale, 1]) @ sheared_y @ sheared_x @ to_center
        )
        (found,) = affine_matrices(
            center, angle=angle, translate=moved, scale=scale, shear=(shear_x, shear_y)
        )
        np.testing.assert_allclose(found @ forward, np.eye(3), atol=2e-4)
