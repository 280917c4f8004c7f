"""Transforms and samplers are written as the calls that make them."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpufeed
from gpufeed import Manifest, Sampler, Views
from gpufeed import transforms as tf
from gpufeed.tools.gallery import examples, upside_down
from gpufeed.tools.resolve import Preset, make_transforms
from tests.support.draw_cases import CASES

NAMES = {**{name: getattr(gpufeed, name) for name in gpufeed.__all__}, "upside_down": upside_down}


def evaluated(text: str) -> Any:
    return eval(text, dict(NAMES))  # noqa: S307


def check(made: Any) -> None:
    text = repr(made)
    again = evaluated(text)
    assert type(again) is type(made)
    assert again.identity == made.identity
    assert repr(again) == text


ALL = [
    *(each.shown.made for each in examples(64)),
    *(case.transform for case in CASES.values()),
    *(tf.SoftLabels(9, 0.1), tf.ToDtype("float16", layout="NHWC"), tf.ToDtype(scale=True)),
    *(tf.Normalize(), tf.Normalize(0.5, (0.1, 0.2, 0.3), dtype="float16")),
    *(tf.RandomChoice([tf.MixUp(), tf.CutMix(p=0.5)], p=[1, 2]), tf.Resize(None, max_size=9)),
    *(tf.Lambda(upside_down, name="other"), tf.Lambda(upside_down, random=True, size=8)),
]


@pytest.mark.parametrize("made", ALL, ids=repr)
def test_what_is_written_makes_the_same(made: tf.Transform) -> None:
    check(made)


@pytest.mark.parametrize("preset", get_args(Preset))
def test_presets_are_written(preset: Preset) -> None:
    made = make_transforms(preset)
    if isinstance(made, Views):
        check(made)
    else:
        again = evaluated(repr(made))
        assert [each.identity for each in again] == [each.identity for each in made]


SHARE, SIDE = st.floats(0, 0.5), st.integers(1, 10**6)
CALLS = {
    "ColorJitter": (
        tf.ColorJitter,
        st.one_of(SHARE, st.tuples(SHARE, st.floats(0.5, 2))),
        SHARE,
        SHARE,
    ),
    "RandomRotation": (tf.RandomRotation, st.floats(0, 360)),
    "Pad": (tf.Pad, st.one_of(SIDE, st.tuples(SIDE, SIDE)), st.floats(0, 255)),
    "RandomResizedCrop": (
        tf.RandomResizedCrop,
        st.one_of(SIDE, st.tuples(SIDE, SIDE)),
        st.tuples(st.floats(1e-9, 0.5), st.floats(0.5, 1.0)),
    ),
}


@pytest.mark.parametrize("name", CALLS)
@given(data=st.data())
def test_any_numbers_are_written_to_the_last_bit(name: str, data: st.DataObject) -> None:
    kind, *strategies = CALLS[name]
    check(kind(*(data.draw(each) for each in strategies)))  # type: ignore[operator]


@pytest.mark.parametrize(
    "text",
    [
        "RandomResizedCrop(224)",
        "RandomResizedCrop((64, 32), scale=(0.5, 1.0))",
        "ColorJitter(brightness=0.4, hue=0.1)",
        "Normalize(mean=0.5, std=0.5, layout='NHWC')",
        "Pad(4)",
        "GaussianBlur((3, 5), sigma=1.5)",
        "RandomApply([RandomGrayscale(), ColorJitter(contrast=(0.5, 2.0))], p=0.8)",
        "RandomChoice([RandomInvert(), [RandomInvert(), JPEG(40)]])",
        "RandomChoice([MixUp(), CutMix()])",
        "Views([[CenterCrop(8), Normalize()], [CenterCrop(4), Normalize()]])",
        "Compose([Resize(8), Compose([RandomHorizontalFlip()])])",
        "TimmRandAugment(config='rand-m7')",
        "Lambda(upside_down, random=True)",
        "IndexSampler(50, shuffle=True, seed=3, epoch_size=80)",
        "SubsetSampler(50, [4, 0, 9], num_epochs=2, epoch_size=3)",
    ],
)
def test_the_shortest_call_is_written(text: str) -> None:
    assert repr(evaluated(text)) == text


def test_what_was_changed_since_is_written() -> None:
    crop = tf.RandomResizedCrop(8)
    crop.scale = (0.5, 1.0)
    assert repr(crop) == "RandomResizedCrop(8, scale=(0.5, 1.0))"


SAMPLERS = [
    gpufeed.IndexSampler(9),
    gpufeed.SequentialSampler(9, seed=2, num_epochs=3),
    gpufeed.SubsetSampler(50, [3, 1], shuffle=True),
    gpufeed.RepeatedAugmentationSampler(9, repeats=2),
    gpufeed.WeightedSampler([0.1, 1 / 3, 0], replacement=False),
    gpufeed.MixtureSampler([3, 4], [1, 2]),
    gpufeed.ClassBalancedBatchSampler([1, 1, 2], classes_per_batch=2, records_per_class=1),
]


@pytest.mark.parametrize("made", SAMPLERS, ids=repr)
def test_samplers_are_written(made: Sampler) -> None:
    check(made)
    assert evaluated(repr(made)).num_epochs == made.num_epochs


def test_long_arrays_are_abbreviated() -> None:
    shown = repr(gpufeed.SubsetSampler(10**6, np.arange(10**6)))
    assert shown == (
        "SubsetSampler(1000000, <1,000,000 values, SHA-256 8a3b37fa...>, epoch_size=1000000)"
    )
    shown = repr(gpufeed.SubsetSampler(900, np.arange(900)))
    assert shown == "SubsetSampler(900, [0, 1, 2, ..., 897, 898, 899], epoch_size=900)"
    with pytest.raises(gpufeed.ConfigError):
        evaluated(shown)


class Fog(tf.PixelTransform):
    """A user's transform, which may not be made again: that might be slow."""

    made = 0

    def __init__(self, most: float, *, layers: int = 2) -> None:
        self.most, self._layers = most, layers
        Fog.made += 1

    def build(self, image: Any, params: dict[str, Any]) -> Any:  # noqa: ARG002
        return image


class Otherwise(Fog):
    def __init__(self, *numbers: int) -> None:
        super().__init__(sum(numbers))


class Plain(tf.GeometricTransform):
    def place(self, frame: tf.Frame, params: tf.Params) -> tf.Frame:  # noqa: ARG002
        return frame


def test_transforms_of_the_users_are_written() -> None:
    listed = [Fog(0.5), Fog((0.5, 0.5), layers=3), Otherwise(1, 2), Plain()]  # type: ignore[arg-type]
    made = Fog.made
    assert repr(listed) == "[Fog(0.5), Fog((0.5, 0.5), layers=3), Otherwise(most=3), Plain()]"
    assert Fog.made == made


def test_a_loader_is_written_in_one_line(pictures: Manifest) -> None:
    for sampler in (None, gpufeed.WeightedSampler(np.random.default_rng(0).random(50)), range(50)):
        with gpufeed.Loader(pictures, sampler=sampler, batch_size=8, device="cpu") as loader:
            assert repr(loader).isprintable()
            assert len(repr(loader)) < 300
