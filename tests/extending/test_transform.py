"""Transforms of your own: fog, and a crop to a third of the image."""

from __future__ import annotations

import io

import numpy as np
import polars as pl
import pytest
from PIL import Image

import gpufeed


# [docs]
class Fog(gpufeed.PixelTransform):
    """Blend each image with white, by a share of its own."""

    def __init__(self, most):
        self.most = most

    def draw(self, rng, records):
        return {"share": rng.uniform(0.0, self.most)}  # a number for each record

    def build(self, image, params):
        from nvidia.dali import fn, types

        share = params["share"]
        return fn.cast(image * (1.0 - share) + 255.0 * share, dtype=types.UINT8)


# [/docs]


# [docs]
class RandomThird(gpufeed.GeometricTransform):
    """Crop to the left, middle or right third."""

    def draw(self, rng, records):
        return {"third": rng.integers(0, 3)}

    def place(self, frame, params):
        width = frame.width // 3
        return frame.crop(0, params["third"] * width, frame.height, width)


# [/docs]


@pytest.fixture(scope="module")
def manifest() -> gpufeed.Manifest:
    drawn, images = np.random.default_rng(0), []
    for _ in range(12):
        buffer = io.BytesIO()
        Image.fromarray(drawn.integers(0, 200, (20, 60, 3), np.uint8)).save(buffer, "PNG")
        images.append(buffer.getvalue())
    table = pl.DataFrame({"label": range(12), "boxes": [[[0.0, 0.0, 60.0, 20.0]]] * 12})
    return gpufeed.read_table(table, boxes="boxes", source=gpufeed.MemorySource(images))


def feed(manifest: gpufeed.Manifest, transforms: list, **options: object) -> dict:
    sampler = gpufeed.SequentialSampler(12)
    with gpufeed.Loader(
        manifest, sampler=sampler, transforms=transforms, batch_size=12, device="cpu", **options
    ) as loader:
        return loader.batch(0)


def test_fog_is_a_blend_with_white(manifest: gpufeed.Manifest) -> None:
    plain = feed(manifest, [])["image"].astype(float)
    foggy = feed(manifest, [Fog(0.5)])["image"].astype(float)
    share = (foggy - plain).sum(axis=(1, 2, 3)) / (255.0 - plain).sum(axis=(1, 2, 3))
    assert 0.0 <= share.min() < share.max() <= 0.5
    blended = plain * (1 - share)[:, None, None, None] + 255 * share[:, None, None, None]
    assert np.abs(blended - foggy).max() <= 1.0


def test_a_third_is_a_third_and_boxes_follow(manifest: gpufeed.Manifest) -> None:
    plain = feed(manifest, [gpufeed.ToDtype("uint8", layout="NHWC")])["image"]
    batch = feed(
        manifest,
        [RandomThird(), gpufeed.ToDtype("uint8", layout="NHWC")],
        targets=("boxes",),
    )
    thirds = np.stack([plain[:, :, 20 * third : 20 * third + 20] for third in range(3)])
    same = (thirds == batch["image"]).all(axis=(2, 3, 4))
    assert same.sum(axis=0).tolist() == [1] * 12
    assert same.any(axis=1).all()
    assert all(boxes.tolist() == [[0.0, 0.0, 20.0, 20.0]] for boxes in batch["boxes"])
