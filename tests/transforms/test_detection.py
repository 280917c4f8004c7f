"""What detectors' geometry draws for records and their boxes."""

from __future__ import annotations

import numpy as np
import pytest

from gpufeed import ConfigError
from gpufeed import transforms as tf
from gpufeed.plan.compose import compose
from gpufeed.rng import BatchRng
from tests.support.draw_cases import LIMIT, statistic
from tests.support.torchvision_rules import BOXES

COUNT = 4000
UINT8 = tf.ToDtype("uint8", layout="NHWC")


def some(height: int, width: int, boxes: np.ndarray | None = None) -> tf.Records:
    keys = np.arange(COUNT)
    objects = None
    if boxes is not None:
        each = len(boxes)
        flat, offsets = np.tile(boxes, (COUNT, 1)), np.arange(COUNT + 1) * each
        objects = tf.Objects(flat.astype(float), offsets, np.zeros(COUNT * each, np.int32))
    full = np.full(COUNT, height), np.full(COUNT, width)
    return tf.Records(keys, *full, boxes=None, objects=objects)


def numbers(keys: np.ndarray, seed: int = 3) -> BatchRng:
    return BatchRng(seed, np.zeros(len(keys), dtype=np.int64), keys, 0)


def test_an_overlapping_window_is_a_records_own() -> None:
    """Records of a batch try on for as long as each must, and draw the same alone."""
    records = some(150, 200, BOXES)
    crop = tf.RandomIoUCrop(sampler_options=[0.7, 0.9, 1.0])
    together = crop.draw(numbers(records.record_key), records)
    assert len(np.unique(together["width"])) > 20
    for key in range(60):
        one = np.array([key])
        alone = tf.Records(
            one, records.height[one], records.width[one], None, records.objects.take(one)
        )
        drawn = crop.draw(numbers(one), alone)
        assert {name: values[0] for name, values in drawn.items()} == {
            name: values[key] for name, values in together.items()
        }


def test_what_no_window_can_be_found_for_stays_whole() -> None:
    nothing = some(150, 200, np.zeros((0, 4)))
    drawn = tf.RandomIoUCrop().draw(numbers(nothing.record_key), nothing)
    assert {name: set(values) for name, values in drawn.items()} == {
        "top": {0},
        "left": {0},
        "height": {150},
        "width": {200},
    }
    # A box that no window of this size can overlap by nine tenths.
    tiny = some(150, 200, np.array([[0, 0, 4, 4]]))
    few = np.arange(5)
    tiny = tf.Records(few, tiny.height[few], tiny.width[few], None, tiny.objects.take(few))
    drawn = tf.RandomIoUCrop(sampler_options=[0.9]).draw(numbers(few), tiny)
    assert set(drawn["height"]) == {150}


def test_boxes_whose_centre_is_cut_off_are_dropped() -> None:
    keys = np.arange(200)
    objects = tf.Objects(
        np.tile(BOXES.astype(float), (200, 1)), np.arange(201) * 3, np.tile([0, 1, 2], 200)
    )
    chain = [tf.Resize((300, 400)), tf.RandomIoUCrop(), tf.Resize((30, 30)), UINT8]
    composed = compose(
        [chain], keys, np.full((200, 2), (150, 200)), None, numbers(keys), np.arange, objects
    )
    window = tf.RandomIoUCrop().draw(
        numbers(keys).spawn(1),
        tf.Records(
            keys,
            np.full(200, 300),
            np.full(200, 400),
            None,
            tf.Objects(objects.boxes * 2, objects.offsets, objects.labels),
        ),
    )
    centre = BOXES[:, :2] + BOXES[:, 2:]  # at twice the size
    inside = (
        (window["left"][:, None] < centre[:, 0])
        & (centre[:, 0] < (window["left"] + window["width"])[:, None])
        & (window["top"][:, None] < centre[:, 1])
        & (centre[:, 1] < (window["top"] + window["height"])[:, None])
    )
    assert 0.3 < inside.mean() < 0.9
    np.testing.assert_array_equal(composed.views[0].kept.reshape(200, 3), inside)


def test_windows_need_boxes() -> None:
    with pytest.raises(ConfigError, match="RandomIoUCrop needs boxes in the manifest: a column"):
        tf.RandomIoUCrop().draw(numbers(np.arange(3)), some(9, 9))


def test_a_drawn_margin_lies_between_its_bounds() -> None:
    keys = np.arange(COUNT)
    boxes = np.tile([1000.0, 2000.0, 2000.0, 2500.0], (COUNT, 1))
    records = tf.Records(keys, np.full(COUNT, 9000), np.full(COUNT, 9000), boxes)
    drawn = tf.BoxCrop((0.1, 0.4)).draw(numbers(keys), records)
    wide, high = 1000 - drawn["left"], 2000 - drawn["top"]
    assert statistic(wide, np.random.default_rng(1).uniform(100, 400, COUNT)) < LIMIT
    assert np.all(np.abs(wide - 2 * high) <= 1)  # one share for all sides
    assert np.all(drawn["width"] == 1000 + 2 * wide)
