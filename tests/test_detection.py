"""What detectors' geometry draws, against torchvision's rules written down once more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gpufeed import ConfigError
from gpufeed import transforms as tf
from gpufeed.rng import BatchRng
from gpufeed.transforms.compose import compose

COUNT = 4000
UINT8 = tf.ToDtype("uint8", layout="NHWC")


def same_distribution(first: np.ndarray, second: np.ndarray) -> None:
    """Kolmogorov and Smirnov's test of two samples; one in 100,000 fails for nothing."""
    places = np.unique(np.concatenate([first, second]))
    shares = [
        np.searchsorted(np.sort(each), places, side="right") / len(each) for each in (first, second)
    ]
    apart = np.abs(shares[0] - shares[1]).max()
    assert apart < 2.47 * np.sqrt(1 / len(first) + 1 / len(second))


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


# Each gives one record's parameters, as torchvision's documentation and source have the rule.


def zoomed(rng: np.random.Generator, height: int, width: int) -> dict[str, int]:
    if rng.random() >= 0.5:
        return dict.fromkeys(("top", "left", "bottom", "right"), 0)
    r = 1 + rng.random() * 3
    new_width, new_height = int(width * r), int(height * r)
    x, y = rng.random(2)
    left, top = int((new_width - width) * x), int((new_height - height) * y)
    right, bottom = new_width - (left + width), new_height - (top + height)
    return {"top": top, "left": left, "bottom": bottom, "right": right}


def jittered(rng: np.random.Generator, height: int, width: int) -> dict[str, int]:
    scale = 0.1 + rng.random() * 1.9
    r = min(300 / height, 500 / width) * scale
    return {"height": int(height * r), "width": int(width * r)}


def shortened(rng: np.random.Generator, height: int, width: int) -> dict[str, int]:
    r = rng.choice([50, 60, 90]) / min(height, width)
    r = min(r, 110 / max(height, width))
    return {"height": int(height * r), "width": int(width * r)}


def cropped(rng: np.random.Generator, height: int, width: int) -> dict[str, int]:
    """With padding 3 and pad_if_needed, of a picture narrower and higher than the window."""
    missing = max(300 - (width + 6), 0)
    spare_y, spare_x = height + 6 - 100, width + 6 + 2 * missing - 300
    return {"top": rng.integers(0, spare_y + 1), "left": rng.integers(0, spare_x + 1)}


@pytest.mark.parametrize(
    ("transform", "rule"),
    [
        (tf.RandomZoomOut(), zoomed),
        (tf.ScaleJitter((500, 300)), jittered),
        (tf.RandomShortestSize([50, 60, 90], max_size=110), shortened),
        (tf.RandomCrop((100, 300), padding=3, pad_if_needed=True), cropped),
    ],
    ids=lambda value: getattr(value, "__name__", None) or type(value).__name__,
)
def test_draws_follow_torchvisions_rule(
    transform: tf.GeometricTransform, rule: Callable[..., dict[str, int]]
) -> None:
    height, width = 217, 203
    records = some(height, width)
    drawn = transform.draw(numbers(records.record_key), records)
    rng = np.random.default_rng(8)
    wanted = [rule(rng, height, width) for _ in range(COUNT)]
    assert set(drawn) == set(wanted[0])
    for name, values in drawn.items():
        same_distribution(values, np.array([each[name] for each in wanted]))
    if len(drawn) > 2:
        together = [each["top"] / max(each["top"] + each["bottom"], 1) for each in wanted]
        total = np.maximum(drawn["top"] + drawn["bottom"], 1)
        same_distribution(drawn["top"] / total, np.array(together))


BOXES = np.array([[10, 20, 60, 90], [100, 30, 190, 140], [150, 5, 160, 25]])


def overlapping(rng: np.random.Generator, height: int, width: int) -> tuple[int, int, int, int]:
    """Window (x0, y0, x1, y1) of torchvision's RandomIoUCrop, one trial after the other."""
    while True:
        least = rng.choice([0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
        if least >= 1:
            return 0, 0, width, height
        for _ in range(40):
            w, h = (int(side * (0.3 + 0.7 * rng.random())) for side in (width, height))
            if not 0.5 <= w / h <= 2:
                continue
            x, y = int((width - w) * rng.random()), int((height - h) * rng.random())
            best = -1.0
            for x0, y0, x1, y1 in BOXES:
                if x < (x0 + x1) / 2 < x + w and y < (y0 + y1) / 2 < y + h:
                    across = max(min(x1, x + w) - max(x0, x), 0)
                    common = across * max(min(y1, y + h) - max(y0, y), 0)
                    union = (x1 - x0) * (y1 - y0) + w * h - common
                    best = max(best, common / union)
            if best >= least and best >= 0:
                return x, y, x + w, y + h


def test_overlapping_windows_follow_torchvisions_rule() -> None:
    records = some(150, 200, BOXES)
    drawn = tf.RandomIoUCrop().draw(numbers(records.record_key), records)
    rng = np.random.default_rng(4)
    wanted = np.array([overlapping(rng, 150, 200) for _ in range(COUNT)])
    left, top = drawn["left"], drawn["top"]
    same_distribution(left, wanted[:, 0])
    same_distribution(top, wanted[:, 1])
    same_distribution(left + drawn["width"], wanted[:, 2])
    same_distribution(top + drawn["height"], wanted[:, 3])
    area = drawn["width"] * drawn["height"]
    same_distribution(area, (wanted[:, 2:] - wanted[:, :2]).prod(axis=1))


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
    composed = compose([chain], keys, np.full((200, 2), (150, 200)), None, numbers(keys), objects)
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
    np.testing.assert_array_equal(composed.kept[0].reshape(200, 3), inside)


def test_windows_need_boxes() -> None:
    with pytest.raises(ConfigError, match="RandomIoUCrop needs boxes in the manifest: a column"):
        tf.RandomIoUCrop().draw(numbers(np.arange(3)), some(9, 9))


def test_a_drawn_margin_lies_between_its_bounds() -> None:
    keys = np.arange(COUNT)
    boxes = np.tile([1000.0, 2000.0, 2000.0, 2500.0], (COUNT, 1))
    records = tf.Records(keys, np.full(COUNT, 9000), np.full(COUNT, 9000), boxes)
    drawn = tf.BoxCrop((0.1, 0.4)).draw(numbers(keys), records)
    wide, high = 1000 - drawn["left"], 2000 - drawn["top"]
    same_distribution(wide, np.random.default_rng(1).uniform(100, 400, COUNT))
    assert np.all(np.abs(wide - 2 * high) <= 1)  # one share for all sides
    assert np.all(drawn["width"] == 1000 + 2 * wide)


def test_vertical_flips_come_as_often_as_asked() -> None:
    flips = tf.RandomVerticalFlip(0.3).draw(numbers(np.arange(COUNT)), some(9, 9))["flip"]
    assert abs(flips.mean() - 0.3) < 0.03
