"""The sheet of all transforms: all are on it, and each image is what its transform makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gpufeed
from gpufeed import ConfigError, Manifest, cli
from gpufeed import transforms as tf
from gpufeed.sheets.sheet import Row, draw_rows
from gpufeed.tools import gallery
from gpufeed.tools.called import call
from gpufeed.tools.gallery import Example, draw_gallery, examples
from gpufeed.tools.synth import write_nabirds
from tests.support.differences import kinds

MARGIN, NAMES, GAP, ROW_GAP, HEAD = 24, 288, 16, 8, 26


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_nabirds(
        tmp_path_factory.mktemp("gallery") / "birds", images=8, max_side=200, progress=False
    )


@pytest.fixture(scope="module")
def birds(folder: Path) -> Manifest:
    return gpufeed.read_nabirds(folder)


def place(sheet: Image.Image, row: int, column: int, size: int) -> np.ndarray:
    left = MARGIN + NAMES + GAP + column * (size + ROW_GAP) + (GAP if column else 0)
    top = MARGIN + HEAD + row * (size + ROW_GAP)
    return np.asarray(sheet)[top : top + size, left : left + size]


def test_every_transform_is_on_it() -> None:
    shown = {example.kind for example in examples(64)}
    # Lists and views of others, and what changes no image.
    assert set(kinds()) - shown == {tf.Compose, tf.Views, tf.Normalize, tf.ToDtype, tf.SoftLabels}


def test_all_examples_can_be_drawn(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "sheet.png"
    options = [str(folder), "--size", "32", "--device", "cpu", "--out", str(out)]
    assert cli.main(["transforms", *options]) == 0
    with Image.open(out) as sheet:
        assert sheet.size[0] == 2 * MARGIN + NAMES + 2 * GAP + 9 * 32 + 8 * ROW_GAP
        assert sheet.size[1] > len(examples(32)) * 40


def test_rows_are_the_transforms_pictures(birds: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 80
    cut = (tf.Resize(size), tf.CenterCrop(size))
    few = [
        Example(call(tf.RandomInvert, 1.0), cut),
        Example(call(tf.CutMix), cut),
        Example(call(tf.FiveCrop, size // 2), cut),
        Example(call(tf.ColorJitter, 0.8), cut),
    ]
    monkeypatch.setattr(gallery, "examples", lambda _: few)
    sheet = draw_gallery(birds, 3, size=size, draws=4, device="cpu", progress=False)
    again = draw_gallery(birds, 3, size=size, draws=4, device="cpu", progress=False)
    assert sheet.tobytes() == again.tobytes()
    chain = [*cut, tf.ToDtype("uint8", layout="NHWC")]
    with gpufeed.Loader(
        birds, sampler=gpufeed.SequentialSampler(8), transforms=chain, batch_size=8, device="cpu"
    ) as loader:
        pictures = loader.batch(0)["image"]
    for row in range(4):
        np.testing.assert_array_equal(place(sheet, row, 0, size), pictures[3])
    for column in range(1, 5):
        np.testing.assert_array_equal(place(sheet, 0, column, size), 255 - pictures[3])
        mixed, other = place(sheet, 1, column, size), pictures[(3 + column) % 8]
        assert ((mixed == pictures[3]) | (mixed == other)).all()
    corner = place(sheet, 2, 1, size)[20:60, 20:60]
    assert np.abs(corner.astype(int) - pictures[3][:40, :40]).max() <= 1
    assert len({place(sheet, 3, column, size).tobytes() for column in range(1, 5)}) == 4


def test_what_needs_boxes_is_left_out_without(
    birds: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = (tf.Resize((40, 40)),)
    few = [
        Example(call(tf.BoxCrop), after=fit, needs_boxes=True),
        Example(call(tf.Resize, (40, 40))),
    ]
    monkeypatch.setattr(gallery, "examples", lambda _: few)
    bare = birds.frame.drop("box_x", "box_y", "box_width", "box_height")
    without = Manifest(bare, birds.root, birds.classes)
    with_boxes, fewer = (
        draw_gallery(some, size=80, draws=1, device="cpu", progress=False)
        for some in (birds, without)
    )
    assert with_boxes.size[1] - fewer.size[1] == 80 + ROW_GAP


def test_the_picture_nearest_to_a_square_is_shown(
    birds: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gallery, "examples", lambda _: [Example(call(tf.Resize, (40, 40)))])
    height, width = birds.sizes().T
    nearest = int(np.abs(np.log(height / width)).argmin())
    sheets = [
        draw_gallery(birds, record, size=40, draws=1, device="cpu", progress=False)
        for record in (None, nearest)
    ]
    assert sheets[0].tobytes() == sheets[1].tobytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"record": 8}, "record is 8; the data have records 0 to 7"),
        ({"size": 8}, "size is 8 and draws 8; they must be at least 16 and 1"),
        ({"device": "tpu"}, "device is 'tpu'"),
    ],
)
def test_wrong_arguments_are_named(birds: Manifest, options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        draw_gallery(birds, **options)


def test_names_stay_in_their_column() -> None:
    picture = np.zeros((30, 30, 3), np.uint8)
    blank, written = (
        np.asarray(draw_rows([Row(text, text, [picture])], ["", "", ""], size=40)).astype(int)
        for text in ("", "RandomThing(" + "many, " * 60)
    )
    changed = np.flatnonzero((blank[:70] != written[:70]).any((0, 2)))
    assert changed.max() < MARGIN + NAMES
    with pytest.raises(ConfigError, match="no rows"):
        draw_rows([], ["", "", ""], size=40)
