"""`loader.show()`: the images of the batch, whatever they were made into."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from gpufeed import ConfigError, Loader, Manifest, SequentialSampler
from gpufeed import transforms as tf
from tests.support.loaders import make

GEOMETRY = [tf.RandomResizedCrop(24), tf.RandomHorizontalFlip()]
PLAIN = tf.ToDtype("uint8", layout="NHWC")
MARGIN, GAP, CELL, CAPTION = 24, 16, 192, 44


def cells(sheet: Image.Image, columns: int, count: int, width: int = 24) -> npt.NDArray[np.uint8]:
    """The images on a sheet of this many columns, of 24 pixels in height."""
    levels = np.asarray(sheet)
    found = []
    for row, column in (divmod(place, columns) for place in range(count)):
        left = MARGIN + column * (CELL + GAP) + (CELL - width) // 2
        top = MARGIN + row * (24 + CAPTION + GAP)
        found.append(levels[top : top + 24, left : left + width])
    return np.stack(found)


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
@pytest.mark.parametrize(
    "output",
    [
        PLAIN,
        tf.ToDtype("uint8"),
        tf.Normalize(),
        tf.Normalize((0.1, 0.5, 0.9), (0.2, 1.0, 0.3), dtype="float16", layout="NHWC"),
        tf.ToDtype("float32", scale=True, layout="NCHW"),
    ],
    ids=repr,
)
def test_images_are_shown_as_they_were(
    pictures: Manifest, framework: Any, output: tf.OutputFormat
) -> None:
    with make(pictures, transforms=[*GEOMETRY, PLAIN]) as loader:
        expected = [np.array(loader.batch(step)["image"]) for step in (0, 3)]
    with make(pictures, transforms=[*GEOMETRY, output], framework=framework) as loader:
        sheets = loader.show(), loader.show(loader.batch(3))
        assert loader.step == 0
    for sheet, levels in zip(sheets, expected, strict=True):
        np.testing.assert_array_equal(cells(sheet, 2, 8), levels)


def test_the_next_batch_is_shown_and_handed_out_all_the_same(pictures: Manifest) -> None:
    with make(pictures, transforms=[*GEOMETRY, PLAIN]) as loader:
        steps = iter(loader)
        next(steps)
        shown = cells(loader.show(), 2, 8)
        np.testing.assert_array_equal(next(steps)["image"], shown)


def test_what_notebooks_display_is_what_is_saved(pictures: Manifest, tmp_path: Path) -> None:
    with make(pictures) as loader:
        sheet: Any = loader.show(path=tmp_path / "b.png")
        loader.show(path=tmp_path)
        with pytest.raises(ConfigError, match=r"b\.jpg is neither a folder nor"):
            loader.show(path=tmp_path / "b.jpg")
    assert sheet._repr_png_().startswith(b"\x89PNG")
    for name in ("b.png", "batch.png"):
        with Image.open(tmp_path / name) as saved:
            np.testing.assert_array_equal(saved, sheet)


def test_views_stand_side_by_side(pictures: Manifest) -> None:
    lists = [[*GEOMETRY, tf.Normalize()], [tf.Resize((20, 30)), tf.ToDtype("float32")]]
    plain = [[*view[:-1], PLAIN] for view in lists]
    with make(pictures, transforms=tf.Views(plain)) as loader:
        large, small = (np.array(view) for view in loader.batch(0)["image"])
    with make(pictures, transforms=tf.Views(lists), framework="torch") as loader:
        joined = cells(loader.show(), 2, 8, width=24 + 2 + 30)
    np.testing.assert_array_equal(joined[:, :, :24], large)
    np.testing.assert_array_equal(joined[:, :20, 26:], small)
    assert (joined[:, 20:, 26:] == 255).all()


def test_no_more_are_shown_than_asked_for(pictures: Manifest) -> None:
    with make(pictures, transforms=[*GEOMETRY, PLAIN], targets=["boxes"]) as loader:
        loader.show(max_images=3)
        batch = loader.batch(0)
        del batch["boxes"], batch["box_labels"]
        shown = cells(loader.show(batch, max_images=3), 1, 3)
        np.testing.assert_array_equal(shown, batch["image"][:3])
        with pytest.raises(ConfigError, match="max_images is 0; it must be an integer of 1"):
            loader.show(max_images=0)


def test_targets_are_drawn_in_any_form(pictures: Manifest) -> None:
    chain = [tf.RandomResizedCrop(96), tf.Normalize()]

    def shown(**options: Any) -> npt.NDArray[np.uint8]:
        with make(pictures, transforms=chain, **options) as loader:
            held = np.asarray(loader.show(loader.batch(0)))
            return np.array(held[: -MARGIN - 18])  # the last line names the step

    bare = shown()
    boxes = shown(targets=["boxes"])
    assert (boxes != bare).any()
    for framework in ("numpy", "torch", "jax"):
        options = {"targets": ["boxes"], "framework": framework}
        np.testing.assert_array_equal(shown(**options, box_format="xywh"), boxes)
        np.testing.assert_array_equal(shown(**options, collate_fn="pad", max_boxes=3), boxes)
    views = tf.Views([chain, chain])
    with make(pictures, transforms=views, targets=["boxes"]) as marked:
        batch = marked.batch(0)
        both = np.asarray(marked.show(batch))
        del batch["boxes"], batch["box_labels"]
        assert (both != np.asarray(marked.show(batch))).any()


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("views", [1, 2])
def test_a_record_is_a_batch_of_one(pictures: Manifest, framework: Any, views: int) -> None:
    chain = [tf.RandomResizedCrop(96), tf.Normalize()]
    options = {"targets": ["boxes"], "framework": framework}
    transforms = chain if views == 1 else tf.Views([chain, chain])
    with make(pictures, transforms=transforms, **options) as loader:
        key = int(loader.batch(0)["record_key"][0])
        shown = np.asarray(loader.show(loader.record(key)))
        expected = np.asarray(loader.show(loader.batch(0), max_images=1))
    height = MARGIN + 96 + CAPTION  # below it a line says how many of the batch are shown
    width = MARGIN + CELL
    np.testing.assert_array_equal(shown[:height, :width], expected[:height, :width])


def test_what_is_no_batch_is_refused(pictures: Manifest) -> None:
    with make(pictures, transforms=[*GEOMETRY, PLAIN], collate_fn=len) as loader:
        assert np.asarray(loader.show()).shape[2] == 3
        with pytest.raises(ConfigError, match="batch is a int without the keys image and record"):
            loader.show(loader.batch(0))
    with make(pictures, transforms=[*GEOMETRY, PLAIN]) as loader:
        batch = loader.batch(0)
        with pytest.raises(ConfigError, match=r"batch has 2 view\(s\), and the loader makes 1"):
            loader.show({**batch, "image": [batch["image"]] * 2})
        turned = batch["image"].transpose(0, 3, 1, 2)
        with pytest.raises(ConfigError, match=r"images are uint8 \(8, 3, 24, 24\), and the loader"):
            loader.show({**batch, "image": turned})


def test_the_end_has_no_next_batch_but_where_each_pass_is_the_same(pictures: Manifest) -> None:
    with make(pictures, sampler=SequentialSampler(len(pictures), num_epochs=1)) as loader:
        for _ in loader:
            pass
        with pytest.raises(IndexError, match="no batch"):
            loader.show()
    options: dict[str, Any] = {"transforms": [*GEOMETRY, PLAIN], "device": "cpu"}
    with Loader.for_evaluation(pictures, batch_size=10, **options) as loader:
        first = np.array(loader.batch(0)["image"])
        for _ in loader:
            pass
        np.testing.assert_array_equal(cells(loader.show(), 2, 8), first[:8])
