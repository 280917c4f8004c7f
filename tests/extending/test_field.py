"""A field of your own: the direction in which a bird looks, which flips with its image."""

from __future__ import annotations

import io

import numpy as np
import polars as pl
import pytest
from PIL import Image

import gpufeed


# [docs]
class Heading(gpufeed.Field):
    """The direction from tail to bill, in radians, as it is on the augmented image."""

    name = "heading"
    moves = True  # with the image: one array for each view

    def bind(self, manifest):
        points = manifest.points()
        if points is None:
            raise gpufeed.ConfigError("heading needs a manifest with points")

        def values(keys, frame):
            tail, bill = np.moveaxis(frame.map_points(points[keys, :2, :2]), 1, 0)
            return np.arctan2(*(bill - tail).T[::-1])

        return values


# [/docs]


@pytest.fixture(scope="module")
def manifest() -> gpufeed.Manifest:
    buffer = io.BytesIO()
    Image.new("RGB", (60, 40)).save(buffer, "PNG")
    table = pl.DataFrame(
        {
            "label": range(8),
            "age": [1.5 * n for n in range(8)],
            "parts": [
                [[30.0, 20.0], [30.0 + 10 * np.cos(n), 20.0 + 10 * np.sin(n)]] for n in range(8)
            ],
        }
    )
    return gpufeed.read_table(
        table, points="parts", source=gpufeed.MemorySource([buffer.getvalue()] * 8)
    )


def feed(
    manifest: gpufeed.Manifest, transforms: object, *targets: object, **options: object
) -> dict:
    sampler = gpufeed.SequentialSampler(8)
    with gpufeed.Loader(
        manifest,
        sampler=sampler,
        transforms=transforms,
        targets=targets,
        batch_size=8,
        device="cpu",
        **options,
    ) as loader:
        return loader.batch(0)


def close(ours: object, wanted: object) -> bool:
    turns = (np.asarray(ours) - np.asarray(wanted)) / (2 * np.pi)
    return bool(np.abs(turns - np.rint(turns)).max() < 1e-6)


def test_it_follows_flips(manifest: gpufeed.Manifest) -> None:
    heading = np.arange(8.0)
    assert close(feed(manifest, [], Heading())["heading"], heading)
    flipped = feed(manifest, [gpufeed.RandomHorizontalFlip(1.0)], Heading())
    assert close(flipped["heading"], np.pi - heading)
    assert flipped["heading"].dtype == np.float32


def test_each_view_has_its_own(manifest: gpufeed.Manifest) -> None:
    views = gpufeed.Views([[], [gpufeed.RandomVerticalFlip(1.0)]])
    batch = feed(manifest, views, Heading(), columns=["age"])
    assert close(batch["heading"][0], np.arange(8.0))
    assert close(batch["heading"][1], -np.arange(8.0))
    assert batch["age"].tolist() == [1.5 * n for n in range(8)]


def test_what_does_not_go_together_is_refused(manifest: gpufeed.Manifest) -> None:
    label = Heading()
    label.name = "label"
    for targets, name in (([label], "label"), ([Heading(), Heading()], "heading")):
        with pytest.raises(gpufeed.ConfigError, match=f"a field with the name '{name}'"):
            feed(manifest, [], *targets)
    mixed = [gpufeed.Normalize(), gpufeed.MixUp(0.2)]
    with pytest.raises(gpufeed.ConfigError, match=r"targets has \['heading'\], but MixUp"):
        feed(manifest, mixed, Heading())


def test_blank_images_have_zeros() -> None:
    class Age(gpufeed.Field):
        name = "age"

        def bind(self, manifest: gpufeed.Manifest) -> object:
            ages = manifest.frame["age"].to_numpy()
            return lambda keys, _: ages[keys]

    table = pl.DataFrame({"label": [0] * 4, "age": [7, 8, 9, 10], "width": 9, "height": 9})
    buffer = io.BytesIO()
    Image.new("RGB", (9, 9)).save(buffer, "PNG")
    images = [buffer.getvalue()] * 3 + [b"no image"]
    source = gpufeed.MemorySource(images)
    manifest = gpufeed.read_table(table, source=source, on_bad_image="drop")
    with gpufeed.Loader(
        manifest,
        sampler=gpufeed.SequentialSampler(4),
        transforms=[],
        targets=[Age()],
        batch_size=4,
        on_error="blank",
        max_failures=1,
        device="cpu",
    ) as loader:
        assert loader.batch(0)["age"].tolist() == [7, 8, 9, 0]


def test_a_wrong_answer_is_named(manifest: gpufeed.Manifest) -> None:
    class Wrong(gpufeed.Field):
        name = "wrong"

        def __init__(self, answer: object) -> None:
            self.answer = answer

        def bind(self, _: gpufeed.Manifest) -> object:
            return lambda *_: self.answer

    for answer, said in (
        (np.zeros(3), r"field 'wrong' returned float64 \(3,\) for 8 records"),
        (["x"] * 8, r"field 'wrong' returned <U1 \(8,\) for 8 records"),
        (np.full(8, 1 << 40), "returned 1099511627776, which does not fit in int32"),
        (np.full(8, -(2**63)), "returned -9223372036854775808, which does not fit in int32"),
        ([[1], [2, 3]] * 4, "field 'wrong' raised ValueError"),
    ):
        with pytest.raises(gpufeed.ConfigError, match=said):
            feed(manifest, [], Wrong(answer))
