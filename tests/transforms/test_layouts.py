"""The layout of images: as given, or else the framework's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from gpufeed import Loader, Manifest, SequentialSampler, StateMismatchError, presets
from gpufeed import transforms as tf
from gpufeed.tools.rebuild import rebuild_transforms

OWN = {"numpy": "NCHW", "torch": "NCHW", "jax": "NHWC"}
OTHER = {"NCHW": "NHWC", "NHWC": "NCHW"}


def invert(image: np.ndarray) -> np.ndarray:
    return 255 - image


def five(**options: Any) -> list[Any]:
    return [tf.Resize((10, 12)), tf.FiveCrop(8), tf.ToDtype(**options)]


def nested(**options: Any) -> list[Any]:
    turned = tf.RandomApply([tf.RandomSolarize(99)], p=0.5)
    whole = tf.Compose([tf.Lambda(invert), turned, tf.Normalize(dtype="float16", **options)])
    return [tf.RandomCrop((10, 12)), whole, tf.RandomErasing(1.0, value="random"), tf.CutMix()]


def unlike(**options: Any) -> tf.Views:
    """Views of different sizes, each with an output format of its own."""
    return tf.Views(
        [
            [tf.CenterCrop(9), tf.ToDtype("uint8", **options)],
            [tf.BoxCrop(), tf.Resize((8, 12)), tf.ToDtype("uint8", **options)],
        ]
    )


LISTS: dict[str, Callable[..., Any]] = {
    "train": partial(presets.train, 16),
    "train, uint8": partial(presets.train, 16, dtype="uint8"),
    "evaluate": partial(presets.evaluate, 16),
    "torchvision_train": partial(presets.torchvision_train, 16, num_classes=3),
    "timm_train": partial(presets.timm_train, 16, num_classes=3),
    "simclr": partial(presets.simclr, 20),
    "dino": partial(presets.dino, 16, local_size=8, local_crops=2),
    "segment_train": partial(presets.segment_train, 16),
    "segment_evaluate": partial(presets.segment_evaluate, 16),
    "course_train": presets.course_train,
    "course_evaluate": presets.course_evaluate,
    "five crops": five,
    "containers": nested,
    "unlike views": unlike,
}


def make(manifest: Manifest, framework: str, transforms: Any) -> Loader:
    return Loader(
        manifest,
        sampler=SequentialSampler(len(manifest), seed=4),
        transforms=transforms,
        batch_size=2,
        device="cpu",
        num_threads=1,
        framework=framework,
    )


def feed(manifest: Manifest, framework: str, transforms: Any) -> list[np.ndarray]:
    """Return the images of each view of the second batch."""
    with make(manifest, framework, transforms) as loader:
        image = loader.batch(1)["image"]
    return [np.asarray(view) for view in (image if isinstance(image, list) else [image])]


def test_every_preset_is_fed() -> None:
    # The one that is left out is for `prepare`, and has no output format.
    assert {*presets.__all__} - {"course_cleaned"} <= {*LISTS}


@pytest.mark.parametrize("name", LISTS)
def test_images_have_the_frameworks_layout_or_the_given_one(pictures: Manifest, name: str) -> None:
    """And are the same images."""
    plain = feed(pictures, "numpy", LISTS[name](layout="NCHW"))
    wanted = {"NCHW": plain, "NHWC": [np.moveaxis(view, 1, -1) for view in plain]}
    assert all(view.shape[1] == 3 for view in plain)
    for framework, own in OWN.items():
        if framework != "jax" and name not in ("train", "containers", "unlike views"):
            continue  # whose own layout is that of `plain`
        for layout, options in ((own, {}), (OTHER[own], {"layout": OTHER[own]})):
            found = feed(pictures, framework, LISTS[name](**options))
            assert len(found) == len(plain)
            for one, other in zip(found, wanted[layout], strict=True):
                np.testing.assert_array_equal(one, other, err_msg=f"{framework} {options}")


@pytest.mark.parametrize("framework", OWN)
def test_a_list_without_an_output_format_has_the_frameworks(
    pictures: Manifest, framework: str
) -> None:
    (image,) = feed(pictures, framework, [tf.CenterCrop((8, 9))])
    assert image.dtype == np.uint8
    assert image.shape == {"NCHW": (2, 3, 8, 9), "NHWC": (2, 8, 9, 3)}[OWN[framework]]


def test_a_convolution_is_flaxs_and_torchs(pictures: Manifest) -> None:
    """Each takes the default images of its framework as they are."""
    import jax
    import torch

    kernel = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32)
    with make(pictures, "torch", presets.train(16)) as loader:
        in_torch = torch.nn.functional.conv2d(loader.batch(0)["image"], torch.from_numpy(kernel))
    with make(pictures, "jax", presets.train(16)) as loader:
        in_jax = jax.lax.conv_general_dilated(
            loader.batch(0)["image"],
            kernel.transpose(2, 3, 1, 0),
            window_strides=(1, 1),
            padding="VALID",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),  # as in flax.linen.Conv
        )
    np.testing.assert_allclose(np.moveaxis(np.asarray(in_jax), -1, 1), in_torch, atol=1e-4)


def test_nhwc_is_torchs_channels_last_without_a_copy(pictures: Manifest) -> None:
    import torch

    with make(pictures, "torch", presets.train(16, layout="NHWC")) as loader:
        image = loader.batch(0)["image"]
    moved = image.permute(0, 3, 1, 2)
    assert moved.shape == (2, 3, 16, 16)
    assert moved.is_contiguous(memory_format=torch.channels_last)
    assert moved.data_ptr() == image.data_ptr()


@pytest.mark.parametrize("name", ["train", "five crops", "unlike views"])
@pytest.mark.parametrize("framework", OWN)
def test_a_state_holds_the_layout(pictures: Manifest, framework: str, name: str) -> None:
    own = OWN[framework]
    with make(pictures, framework, LISTS[name]()) as loader:
        loader.seek(3)
        state = loader.state_dict()
    rebuilt = rebuild_transforms(state["fingerprints"]["transforms"])
    for transforms in (LISTS[name](layout=own), rebuilt):
        with make(pictures, "numpy", transforms) as same:
            same.load_state_dict(state)
            assert same.step == 3
    with (
        make(pictures, framework, LISTS[name](layout=OTHER[own])) as other,
        pytest.raises(StateMismatchError, match=rf"layout.*{own}.*{OTHER[own]}"),
    ):
        other.load_state_dict(state)


def test_a_list_serves_every_framework(pictures: Manifest) -> None:
    """A loader leaves the transforms it is given as they are."""
    chain = presets.train(16)
    shapes = [feed(pictures, framework, chain)[0].shape for framework in ("jax", "torch", "jax")]
    assert shapes == [(2, 16, 16, 3), (2, 3, 16, 16), (2, 16, 16, 3)]


def test_views_that_share_a_format_still_do(pictures: Manifest) -> None:
    """Since views of the very same transforms are planned together."""
    with make(pictures, "jax", presets.simclr(20)) as loader:
        one, other = loader._planner.views
    assert [id(each) for each in one] == [id(each) for each in other]
