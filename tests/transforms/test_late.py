"""What is done to finished images: erasing, mixing, soft labels; against NumPy, bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufeed import ConfigError, IndexSampler, Loader, Manifest, SequentialSampler, ShardOptions
from gpufeed import transforms as tf
from gpufeed.plan.planner import _partners
from gpufeed.rng import BatchRng
from tests.support.late_reference import erased, mixed, rows

SIZE = (24, 30)
OUTPUTS = {
    "NCHW float32": tf.Normalize(),
    "NHWC float32": tf.Normalize(layout="NHWC"),
    "NCHW float16": tf.Normalize(dtype="float16"),
    "NHWC uint8": tf.ToDtype("uint8", layout="NHWC"),
}


def make(manifest: Manifest, output: tf.Transform, *late: tf.Transform, **options: Any) -> Loader:
    options = {"sampler": SequentialSampler(len(manifest), seed=9), "batch_size": 8, **options}
    options = {"last_batch": "partial", "device": "cpu", **options}
    return Loader(manifest, transforms=[tf.Resize(SIZE), output, *late], **options)


def records(n: int, size: tuple[int, int] = SIZE) -> tf.Records:
    height, width = (np.full(n, side) for side in size)
    return tf.Records(record_key=np.arange(n), height=height, width=width, boxes=None)


def numbers(keys: np.ndarray, place: int, epoch: int = 0) -> BatchRng:
    return BatchRng(9, np.full(len(keys), epoch), keys, place)


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("value", [0.0, (1.0, 2.0, 3.0)])
def test_erasing_writes_its_rectangle_and_nothing_else(
    pictures: Manifest, name: str, value: Any
) -> None:
    output, erasing = OUTPUTS[name], tf.RandomErasing(p=0.7, value=value)
    count = 0
    with make(pictures, output) as plain, make(pictures, output, erasing) as some:
        for before, after in zip(plain, some, strict=True):
            keys = before["record_key"]
            drawn = erasing.draw(numbers(keys, 2), records(len(keys)))
            count += int(drawn["mask"].sum())
            for place in range(len(keys)):
                wanted = erased(before["image"][place], place, drawn, value, output)
                np.testing.assert_array_equal(rows(output, after["image"][place]), wanted)
    assert 20 < count < 48


@pytest.mark.parametrize("name", ["NCHW float32", "NHWC float32", "NCHW float16"])
def test_erasing_with_noise(pictures: Manifest, name: str) -> None:
    output, erasing = OUTPUTS[name], tf.RandomErasing(p=0.8, scale=(0.2, 0.33), value="random")
    noise = []
    with make(pictures, output) as plain, make(pictures, output, erasing) as some:
        for before, after in zip(plain, some, strict=True):
            drawn = erasing.draw(numbers(before["record_key"], 2), records(len(before["label"])))
            for place in range(len(before["label"])):
                one, other = (rows(output, b["image"][place]) for b in (before, after))
                (top, left), (height, width) = (
                    drawn[part][place].astype(int) for part in ("anchor", "shape")
                )
                inside = np.zeros(SIZE, dtype=bool)
                inside[top : top + height, left : left + width] = True
                np.testing.assert_array_equal(one[~inside], other[~inside])
                if drawn["mask"][place]:
                    noise.append(other[inside].ravel())
    whole = np.concatenate(noise).astype(np.float64)
    assert abs(whole.mean()) < 0.03
    assert abs(whole.std() - 1) < 0.03
    assert len({patch.tobytes() for patch in noise}) == len(noise)


PAIRS = {
    "mixup": tf.MixUp(alpha=0.4),
    "cutmix": tf.CutMix(alpha=1.0),
    "sometimes": tf.MixUp(p=0.5, group=4),
    "either": tf.RandomChoice([tf.MixUp(alpha=0.2), tf.CutMix()], p=[0.3, 0.7]),
}


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("kind", PAIRS)
def test_mixes_are_numpys(pictures: Manifest, kind: str, name: str) -> None:
    output, mix = OUTPUTS[name], PAIRS[kind]
    with make(pictures, output) as plain, make(pictures, output, mix) as both:
        for before, after in zip(plain, both, strict=True):
            keys = before["record_key"]
            n = len(keys)
            drawn = mix.draw(numbers(keys, 2), records(n))
            first = np.arange(n) - np.arange(n) % mix.group
            partner = first + (np.arange(n) + 1 - first) % np.minimum(mix.group, n - first)
            wanted = mixed(mix, np.array(before["image"]), partner, drawn[0], output)
            found = np.array(after["image"])
            if output.dtype != "float32":  # halves may be rounded either way
                step = 1 if output.dtype == "uint8" else 2.0**-9
                assert np.abs(found.astype(float) - wanted).max() <= step
            else:
                np.testing.assert_array_equal(found, wanted)
            np.testing.assert_array_equal(after["label"], before["label"])
            np.testing.assert_array_equal(after["label_b"], before["label"][partner])
            np.testing.assert_array_equal(after["lam"], drawn[1])


def test_who_meets_whom_is_the_orders_alone(pictures: Manifest) -> None:
    """The same mixed images at any batch size and any number of shards."""
    sampler = IndexSampler(len(pictures), shuffle=True, seed=9)

    def fed(**options: Any) -> dict[int, tuple[bytes, int, float]]:
        found = {}
        with make(pictures, OUTPUTS["NCHW float32"], PAIRS["either"], **options) as loader:
            for batch in loader:
                for place, key in enumerate(batch["record_key"].tolist()):
                    if "valid" in batch and not batch["valid"][place]:
                        continue
                    lam, other = float(batch["lam"][place]), int(batch["label_b"][place])
                    found[key] = (batch["image"][place].tobytes(), other, lam)
        return found

    whole = fed(sampler=sampler)
    assert len(whole) == len(pictures)
    assert fed(sampler=sampler, batch_size=2, num_threads=1) == whole
    assert fed(sampler=sampler, last_batch="pad", batch_size=14) == whole
    parts: dict[int, tuple[bytes, int, float]] = {}
    for index in range(3):
        parts |= fed(sampler=sampler, batch_size=4, shard=ShardOptions(index, 3))
    assert parts == whole


def test_an_epochs_tail_is_paired_within_itself(pictures: Manifest) -> None:
    labels = np.arange(len(pictures))
    seven = Manifest(pictures.frame.head(7), pictures.root, pictures.classes)
    with make(seven, OUTPUTS["NHWC uint8"], tf.MixUp(group=4), batch_size=8) as loader:
        (batch,) = loader
    own = seven.frame["label"].to_numpy()
    assert batch["label_b"].tolist() == own[[1, 2, 3, 0, 5, 6, 4]].tolist()
    assert len(labels) > 7


@given(st.integers(1, 40), st.integers(2, 8), st.integers(0, 8), st.integers(0, 30))
def test_partners_are_a_round_of_each_group(n: int, group: int, padded: int, batch: int) -> None:
    places = batch * group + np.minimum(np.arange(n + padded), n - 1)
    valid = np.arange(n + padded) < n
    none = np.zeros(n + padded, dtype=np.bool_)
    partner = _partners(places, valid, none, group)
    for first in range(0, n, group):
        members = list(range(first, min(first + group, n)))
        assert partner[members].tolist() == members[1:] + members[:1]
    assert partner[n:].tolist() == list(range(n, n + padded))
    # A blank image is its own, and so is who would have been mixed with it; nobody else changes.
    blank = none.copy()
    blank[:: group + 1] = True
    rows = np.arange(n + padded)
    changed = _partners(places, valid, blank, group)
    assert changed.tolist() == np.where(blank | blank[partner], rows, partner).tolist()


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_shares_are_betas(alpha: float) -> None:
    """Against NumPy's own generator: two samples of 100,000, by Kolmogorov and Smirnov."""
    n = 100_000
    ours = np.sort(tf.MixUp(alpha).draw(numbers(np.arange(n), 3), records(n))[1])
    theirs = np.sort(np.random.default_rng(1).beta(alpha, alpha, n).astype(np.float32))
    grid = np.concatenate([ours, theirs])
    both = (np.searchsorted(each, grid, side="right") for each in (ours, theirs))
    apart = np.abs(np.subtract(*both)).max() / n
    assert apart < 1.95 * np.sqrt(2 / n)  # one chance in a thousand
    assert 0 <= ours[0] <= ours[-1] <= 1


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("mix", [(), (tf.MixUp(),), (tf.CutMix(),)])
def test_soft_labels_give_torchs_loss(pictures: Manifest, smoothing: float, mix: Any) -> None:
    import torch

    soft = tf.SoftLabels(3, smoothing)
    with make(pictures, OUTPUTS["NHWC uint8"], *mix, soft, framework="torch") as loader:
        batch = loader.batch(0)
    logits = torch.linspace(-2, 2, 24).reshape(8, 3)
    loss = torch.nn.CrossEntropyLoss(label_smoothing=smoothing, reduction="none")
    lam = batch.get("lam", torch.ones(8))
    other = batch.get("label_b", batch["label"])
    wanted = lam * loss(logits, batch["label"]) + (1 - lam) * loss(logits, other)
    found = torch.nn.CrossEntropyLoss(reduction="none")(logits, batch["soft_label"])
    torch.testing.assert_close(found, wanted)


WRONG = {
    "order": (
        [tf.RandomErasing(), tf.Normalize()],
        r"transforms\[1\] .* must come after Normalize",
    ),
    "late before": ([tf.Normalize(), tf.Resize(8)], "Resize, which must come before Normalize"),
    "two outputs": ([tf.Normalize(), tf.Normalize()], "a list has one output format"),
    "two mixes": ([tf.Normalize(), tf.MixUp(), tf.CutMix()], "several mixes"),
    "two labels": ([tf.Normalize(), tf.SoftLabels(3), tf.SoftLabels(3, 0.1)], "several SoftLabels"),
    "labels": (
        [tf.Normalize(), tf.SoftLabels(2)],
        "a label is 2, but SoftLabels has num_classes=2",
    ),
    "groups": (
        [tf.Normalize(), tf.MixUp(group=3)],
        "batch_size is 8; it must be a multiple of 3, the groups in which",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_lists_are_named(pictures: Manifest, name: str) -> None:
    chain, message = WRONG[name]
    with pytest.raises(ConfigError, match=message):
        make(pictures, *chain).batch(0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tf.MixUp(alpha=0), "alpha is 0"),
        (lambda: tf.MixUp(group=1), "group is 1"),
        (lambda: tf.CutMix(p=2), "p is 2"),
        (lambda: tf.RandomErasing(scale=(0.5, 1.5)), "scale is"),
        (lambda: tf.RandomErasing(value="noise"), "value is 'noise'"),
        (lambda: tf.SoftLabels(0), "num_classes is 0"),
        (lambda: tf.SoftLabels(3, 1.5), "smoothing is 1.5"),
        (lambda: tf.RandomChoice([tf.MixUp(), tf.CutMix(group=4)]), r"group=\[2, 4\]; all must"),
    ],
)
def test_wrong_arguments_are_named(call: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()


def test_views_do_not_mix(pictures: Manifest) -> None:
    chain = [tf.Resize(SIZE), tf.Normalize(), tf.MixUp()]
    with pytest.raises(ConfigError, match="all views of a record have one label"):
        Loader(pictures, transforms=tf.Views([chain, chain]), batch_size=8, device="cpu")
