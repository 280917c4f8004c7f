"""Transforms that images have been through are left out, and all others keep their numbers."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from gpufeed import (
    ConfigError,
    Loader,
    Manifest,
    Mask,
    MemorySource,
    Views,
    concat,
    presets,
    read_manifest,
)
from gpufeed import transforms as tf
from gpufeed.plan.prefix import place
from gpufeed.transforms.frame import Warp
from tests.support.loaders import digest
from tests.support.media import picture

CROP = tf.CenterCrop(64)
REST = [tf.RandomResizedCrop(24), tf.RandomHorizontalFlip(), tf.RandomErasing(0.5)]
AUGMENTED = [CROP, *REST[:2], tf.ColorJitter(0.3), tf.Normalize(), REST[2]]
LISTS: dict[str, Any] = {
    "one view": AUGMENTED,
    "views": Views([AUGMENTED, [CROP, tf.RandomCrop(24), tf.Normalize()], AUGMENTED]),
    "five crops": [CROP, tf.RandomHorizontalFlip(), tf.FiveCrop(24), tf.RandomVerticalFlip()],
}


@pytest.fixture(scope="module")
def both() -> tuple[Manifest, Manifest]:
    """Images, and the same ones cropped by Pillow."""
    whole = [picture(64 + 2 * number, 90 - 2 * number, seed=number) for number in range(12)]
    cropped = []
    for image in whole:
        left, top = (image.width - 64) // 2, (image.height - 64) // 2
        cropped.append(image.crop((left, top, left + 64, top + 64)))
    prepared = manifest_of(cropped)
    prepared._prepared = (CROP.identity,)
    return manifest_of(whole), prepared


def manifest_of(images: Sequence[Any]) -> Manifest:
    contents = []
    for image in images:
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        contents.append(buffer.getvalue())
    frame = pl.DataFrame(
        {
            "path": [str(number) for number in range(len(images))],
            "label": [number % 3 for number in range(len(images))],
            "width": [image.width for image in images],
            "height": [image.height for image in images],
        }
    )
    return Manifest(frame, MemorySource(contents), ["a", "b", "c"])


def batches(manifest: Manifest, transforms: Any, **options: Any) -> list[str]:
    with Loader(manifest, transforms=transforms, batch_size=4, num_threads=1, **options) as loader:
        return [digest(loader.batch(step)) for step in range(4)]


@pytest.mark.parametrize("name", LISTS)
def test_batches_are_those_of_the_originals(name: str, both: tuple[Manifest, Manifest]) -> None:
    whole, prepared = both
    assert batches(prepared, LISTS[name]) == batches(whole, LISTS[name])


def test_a_state_loads_with_another_manifest(both: tuple[Manifest, Manifest]) -> None:
    whole, prepared = both
    with Loader(whole, transforms=AUGMENTED, batch_size=4) as loader:
        next(iter(loader))
        state = loader.state_dict()
        wanted = digest(loader.batch(1))
    with Loader(prepared, transforms=AUGMENTED, batch_size=4) as loader:
        loader.load_state_dict(state, ignore=["manifest"])
        assert digest(next(iter(loader))) == wanted


def test_masks_of_the_originals_are_refused(both: tuple[Manifest, Manifest]) -> None:
    with pytest.raises(ConfigError, match=r"targets has Mask\('path'\), but prepare has moved the"):
        Loader(both[1], targets=[Mask("path")])


def test_another_list_is_applied_as_it_is(both: tuple[Manifest, Manifest]) -> None:
    """Also in views, of which only some begin with the same transforms."""
    prepared = both[1]
    bare = manifest_of([record.image() for record in prepared])
    other = [tf.CenterCrop(60), *AUGMENTED[1:]]
    for transforms in (other, Views([AUGMENTED, other])):
        assert batches(prepared, transforms) == batches(bare, transforms)


def test_selections_and_files_remember(both: tuple[Manifest, Manifest], tmp_path: Any) -> None:
    whole, prepared = both
    assert whole.prepared == ()
    prepared.save(tmp_path / "some.manifest")
    saved = read_manifest(tmp_path / "some.manifest", source=prepared.source)
    for manifest in (prepared[2:], prepared.random_split([0.5, 0.5])[1], saved):
        assert manifest.prepared == (CROP.identity,)
    assert concat([prepared, prepared[:3]]).prepared == (CROP.identity,)
    assert concat([prepared, whole]).prepared == ()


class Turned(tf.GeometricTransform):
    """A warp without random numbers."""

    def place(self, frame: tf.Frame, params: tf.Params) -> tf.Frame:  # noqa: ARG002
        turn = np.tile(np.diag([-1.0, -1.0, 1.0]), (len(frame), 1, 1))
        turn[:, :2, 2] = frame.size[:, ::-1]
        every = np.ones(len(frame), np.bool_)
        return frame.warp(Warp(turn, every, "nearest", (0.0, 0.0, 0.0)))


@pytest.mark.parametrize(
    ("transform", "problem"),
    [
        (tf.RandomHorizontalFlip(1.0), "RandomHorizontalFlip, which draws random numbers"),
        (tf.BoxCrop((0.0, 0.5)), "BoxCrop, which draws random numbers"),
        (tf.RandomGrayscale(1.0), "RandomGrayscale, which is not a geometric transform"),
        (tf.RandomIoUCrop(), "RandomIoUCrop, which reads or drops boxes"),
        (Turned(), "Turned, which warps images"),
    ],
)
def test_what_differs_between_epochs_is_refused(transform: Any, problem: str) -> None:
    sizes, boxes = np.array([[40, 50]]), np.array([[0.0, 0.0, 20.0, 30.0]])
    with pytest.raises(ConfigError, match=rf"transforms\[1\] is {problem}; images are prepared"):
        place([CROP, transform], sizes, boxes)


def test_the_course_begins_with_its_cleaning(pictures: Manifest) -> None:
    cleaned = presets.course_cleaned()
    whole = [each.identity for each in presets.course_train()]
    assert whole[: len(cleaned)] == [each.identity for each in cleaned]
    sizes, box = pictures.sizes().astype(np.int64), pictures.boxes()
    assert box is not None
    corners = np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], axis=1).astype(np.float64)
    assert (place(cleaned, sizes, corners).size == 269).all()
