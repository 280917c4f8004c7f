"""Transforms: geometry against Pillow, draws against torchvision's rules, arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import gpufeed
from gpufeed import ConfigError, Loader, Manifest, SequentialSampler
from gpufeed import transforms as tf
from gpufeed._util.identity import encode
from gpufeed.plan.compose import compose
from gpufeed.plan.stages import Pixel
from gpufeed.rng import BatchRng
from gpufeed.tools.rebuild import rebuild_transforms
from gpufeed.transforms.frame import Frame
from tests.support.media import make_manifest
from tests.support.pillow_reference import Edges, difference, reference

UINT8 = tf.ToDtype("uint8", layout="NHWC")


def feed(
    manifest: Manifest, transforms: list[tf.Transform], seed: int = 0, *, in_graph: bool = False
) -> dict[str, np.ndarray]:
    """One batch of all; `in_graph` has DALI do everything, as it does on a GPU."""
    loader = Loader(
        manifest,
        sampler=SequentialSampler(len(manifest), seed=seed),
        transforms=transforms,
        batch_size=len(manifest),
        device="cpu",
        num_threads=2,
        opener="graph" if in_graph else "threads",
    )
    with loader:
        return loader.batch(0)


def expected(
    manifest: Manifest, transforms: list[tf.Transform], seed: int = 0, edges: Edges = "left out"
) -> Iterator[np.ndarray]:
    boxes = manifest.boxes()
    for key, path in enumerate(manifest.frame["path"]):
        x, y, width, height = boxes[key].tolist()
        with Image.open(manifest.root / path) as image:
            yield reference(
                image,
                transforms,
                seed=seed,
                epoch=0,
                key=key,
                box=(x, y, x + width, y + height),
                edges=edges,
            )


def few(manifest: Manifest) -> Manifest:
    """The first dozen: enough shapes, and quick."""
    return Manifest(manifest.frame.head(12), manifest.root, manifest.classes)


# ------------------------------------------------------------ pixels, against Pillow

CHAINS = {
    "train": [tf.RandomResizedCrop(48), tf.RandomHorizontalFlip()],
    "train, oblong": [tf.RandomResizedCrop((30, 60)), tf.RandomHorizontalFlip()],
    "bicubic": [tf.RandomResizedCrop(48, interpolation="bicubic")],
    "evaluate": [tf.Resize(48), tf.CenterCrop(42)],
    "evaluate, bicubic": [tf.Resize(48, interpolation="bicubic"), tf.CenterCrop(42)],
    "enlarge": [tf.Resize(200), tf.CenterCrop(190)],
    "squash": [tf.Resize((33, 55))],
    "crop of what may be smaller": [tf.CenterCrop(100)],
    "crop larger than the resized": [tf.Resize(40), tf.CenterCrop(90)],
    "longest, padded": [tf.ResizeLongest(64), tf.PadToSquare(64, fill=(10, 200, 30))],
    "longest with max_size": [tf.Resize(None, max_size=64), tf.PadToSquare(64)],
    "limited longest": [tf.Resize(30, max_size=40), tf.CenterCrop(30)],
    "course": [
        tf.BoxCrop(0.2),
        tf.ResizeLongest(60),
        tf.PadToSquare(60),
        tf.RandomCrop(50),
        tf.RandomHorizontalFlip(),
    ],
    "flip before crop": [tf.Resize(60), tf.RandomHorizontalFlip(), tf.RandomCrop(41)],
    "flip between paddings": [
        tf.ResizeLongest(31),
        tf.PadToSquare(40),
        tf.RandomHorizontalFlip(),
        tf.RandomCrop((33, 21)),
        tf.CenterCrop(44),
    ],
    "crop of a crop": [tf.Resize(80), tf.RandomCrop(70), tf.CenterCrop(50), tf.RandomCrop(31)],
    "crops before a resize": [tf.BoxCrop(), tf.Resize((20, 20))],
    "a crop that misses the image": [
        tf.ResizeLongest(20),
        tf.PadToSquare(200),
        tf.RandomCrop(40),
    ],
    "both flips": [tf.RandomResizedCrop(40), tf.RandomVerticalFlip(), tf.RandomHorizontalFlip()],
    "top to bottom": [tf.Resize((40, 30)), tf.RandomVerticalFlip()],
    "top to bottom of a part": [tf.Resize(60), tf.RandomVerticalFlip(), tf.RandomCrop((41, 37))],
    "both flips between paddings": [
        tf.RandomVerticalFlip(),
        tf.ResizeLongest(31),
        tf.PadToSquare(40),
        tf.RandomHorizontalFlip(),
        tf.RandomVerticalFlip(),
        tf.RandomCrop((33, 21)),
        tf.CenterCrop(44),
        tf.RandomVerticalFlip(),
    ],
    "border": [tf.Resize((30, 40)), tf.Pad((1, 2, 3, 4), fill=(9, 80, 200)), tf.RandomCrop(32)],
    "crop of padded": [tf.Resize((32, 32)), tf.RandomCrop(32, padding=4), tf.RandomVerticalFlip()],
    "crop of what is padded if needed": [
        tf.RandomCrop((90, 120), padding=(3, 5), pad_if_needed=True, fill=(100, 3, 50)),
        tf.RandomHorizontalFlip(),
    ],
    "large scale jitter": [
        tf.ScaleJitter((64, 48)),
        tf.RandomVerticalFlip(),
        tf.RandomCrop((48, 64), pad_if_needed=True, fill=114),
    ],
    "random resize": [tf.RandomResize(20, 50), tf.RandomCrop(60, None, True)],
    "shortest": [tf.RandomShortestSize((20, 30, 44), max_size=60), tf.RandomCrop(60, None, True)],
    "overlap": [tf.RandomIoUCrop(), tf.Resize((30, 30)), tf.RandomHorizontalFlip()],
    "box with a drawn margin": [tf.BoxCrop((0.0, 0.5)), tf.Resize((30, 30))],
    "zoomed out, then cut": [tf.RandomZoomOut(fill=(124, 116, 104)), tf.CenterCrop(90)],
    "nothing but a flip": [tf.RandomResizedCrop(32, scale=(1, 1)), tf.RandomHorizontalFlip(1.0)],
}


@pytest.mark.parametrize("name", CHAINS)
def test_one_resampling_is_pillows_to_two_levels(pictures: Manifest, name: str) -> None:
    """Both round twice on the way, each to within a level of the exact image, in other orders.

    Where a cubic filter overshoots, they also cut at 0 and 255 in other orders.
    """
    some, chain = few(pictures), [*CHAINS[name], UINT8]
    images = feed(some, chain)["image"]
    for key, wanted in enumerate(expected(some, chain)):
        assert images[key].shape == wanted.shape
        largest, mean = difference(images[key], wanted)
        assert mean < 0.3, f"record {key}"
        assert largest <= (8 if "bicubic" in name else 2), f"record {key}"


@pytest.mark.parametrize("name", CHAINS)
def test_a_gpus_graph_is_pillows_with_repeated_edges(pictures: Manifest, name: str) -> None:
    """DALI rounds once, and repeats the edge where the filter reaches out of the image."""
    some, chain = few(pictures), [*CHAINS[name], UINT8]
    images = feed(some, chain, in_graph=True)["image"]
    for key, wanted in enumerate(expected(some, chain, edges="repeated")):
        assert images[key].shape == wanted.shape
        largest, mean = difference(images[key], wanted)
        assert largest <= 1, f"record {key}"
        assert mean < 0.3, f"record {key}"


TWICE = {
    "resize twice": [tf.Resize(90), tf.CenterCrop(80), tf.Resize((37, 41))],
    "pad, then resize": [tf.ResizeLongest(50), tf.PadToSquare(60, fill=255), tf.Resize(30)],
    "two fills": [
        tf.ResizeLongest(30),
        tf.PadToSquare(40, fill=255),
        tf.RandomHorizontalFlip(),
        tf.PadToSquare(50, fill=7),
    ],
    "single shot": [
        tf.RandomZoomOut(fill=(124, 116, 104), side_range=(1.0, 3.0)),
        tf.RandomIoUCrop(min_scale=0.5),
        tf.Resize((40, 40)),
        tf.RandomHorizontalFlip(),
    ],
    "turned over, then resized": [
        tf.Resize((50, 60)),
        tf.RandomVerticalFlip(),
        tf.Resize((30, 30)),
        tf.RandomVerticalFlip(),
        tf.RandomHorizontalFlip(),
    ],
    "flip, then resize of a padded": [
        tf.ResizeLongest(50),
        tf.PadToSquare(60),
        tf.RandomHorizontalFlip(),
        tf.RandomResizedCrop(30),
        tf.RandomHorizontalFlip(),
    ],
}


@pytest.mark.parametrize("name", TWICE)
def test_two_resamplings_are_pillows_to_a_few_levels(pictures: Manifest, name: str) -> None:
    some, chain = few(pictures), [*TWICE[name], UINT8]
    images = feed(some, chain)["image"]
    for key, wanted in enumerate(expected(some, chain)):
        largest, mean = difference(images[key], wanted)
        assert largest <= 4, f"record {key}"
        assert mean < 0.3, f"record {key}"


@pytest.mark.parametrize("name", TWICE)
def test_two_resamplings_of_a_gpus_graph(pictures: Manifest, name: str) -> None:
    some, chain = few(pictures), [*TWICE[name], UINT8]
    images = feed(some, chain, in_graph=True)["image"]
    for key, wanted in enumerate(expected(some, chain, edges="repeated")):
        assert difference(images[key], wanted)[0] <= 2, f"record {key}"


STEPS = st.one_of(
    st.builds(tf.RandomResizedCrop, st.integers(8, 60)),
    st.builds(tf.Resize, st.integers(8, 60)),
    st.builds(tf.Resize, st.tuples(st.integers(8, 60), st.integers(8, 60))),
    st.builds(tf.ResizeLongest, st.integers(8, 60)),
    st.builds(tf.CenterCrop, st.integers(4, 70)),
    st.builds(tf.RandomCrop, st.integers(4, 20)),
    st.builds(tf.PadToSquare, st.integers(60, 90), fill=st.sampled_from([0, 128])),
    st.builds(tf.RandomHorizontalFlip),
    st.builds(tf.RandomVerticalFlip),
    st.builds(tf.Pad, st.tuples(*[st.integers(0, 9)] * 4), fill=st.sampled_from([0, 128])),
    st.builds(
        tf.RandomCrop,
        st.integers(20, 70),
        st.none() | st.integers(0, 9),
        st.just(True),
        st.sampled_from([0, 128]),
    ),
    st.builds(tf.RandomResize, st.integers(8, 30), st.integers(31, 60)),
    st.builds(tf.RandomShortestSize, st.lists(st.integers(8, 60), min_size=1, max_size=3)),
    st.builds(tf.ScaleJitter, st.tuples(*[st.integers(8, 60)] * 2), st.just((0.5, 2.0))),
    st.builds(tf.RandomZoomOut, st.sampled_from([0, 128]), st.just((1.0, 1.5))),
)
RESIZES = (
    tf.RandomResize,
    tf.RandomResizedCrop,
    tf.RandomShortestSize,
    tf.Resize,
    tf.ResizeLongest,
    tf.ScaleJitter,
)


@settings(max_examples=40)
@given(st.lists(STEPS, min_size=1, max_size=5), st.integers(0, 2**32), st.booleans())
def test_any_composition_is_pillows(
    pictures: Manifest, steps: list[tf.GeometricTransform], seed: int, in_graph: bool
) -> None:
    """Each resampling may differ by a level or two, which a later one can hardly raise."""
    some, chain = few(pictures), [*steps, tf.CenterCrop(40), UINT8]
    try:
        images = feed(some, chain, seed, in_graph=in_graph)["image"]
    except ConfigError as error:
        assert "smaller" in str(error) or "got record" in str(error)  # noqa: PT017
        return
    resamplings = sum(isinstance(step, RESIZES) for step in steps)
    edges: Edges = "repeated" if in_graph else "left out"
    for key, wanted in enumerate(expected(some, chain, seed, edges)):
        largest, mean = difference(images[key], wanted)
        assert largest <= resamplings * (1 if in_graph else 2), f"record {key}"
        assert mean < 0.3 * max(resamplings, 1), f"record {key}"


def test_exif_orientation_is_undone(testdata: Path) -> None:
    """Windows, sizes and pixels are those of the image as it is meant to be seen."""
    folder = testdata / "odd_jpegs" / "exif_orientation"
    names = sorted(path.name for path in folder.glob("*.jpg"))
    assert len(names) == 18
    table = pl.DataFrame({"path": names, "label": [0] * len(names)})
    manifest = gpufeed.read_table(table, root=folder)
    chain = [tf.Resize(64), tf.CenterCrop((40, 56)), UINT8]
    images = feed(manifest, chain)["image"]
    for key, path in enumerate(manifest.frame["path"]):
        with Image.open(manifest.root / path) as image:
            wanted = reference(image, chain, seed=0, epoch=0, key=key)
        assert difference(images[key], wanted)[0] <= 1, path


# ---------------------------------------------------------------------- output formats


def test_normalisation_is_torchvisions(pictures: Manifest) -> None:
    some = few(pictures)
    chain = [tf.Resize((32, 32))]
    levels = feed(some, [*chain, UINT8])["image"].astype(np.float64)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    wanted = ((levels / 255 - mean) / std).transpose(0, 3, 1, 2)
    image = feed(some, [*chain, tf.Normalize()])["image"]
    assert (image.dtype, image.shape) == (np.float32, (12, 3, 32, 32))
    np.testing.assert_allclose(image, wanted, atol=2e-6)
    half = feed(some, [*chain, tf.Normalize(dtype="float16", layout="NHWC")])["image"]
    assert (half.dtype, half.shape) == (np.float16, (12, 32, 32, 3))
    np.testing.assert_allclose(half, wanted.transpose(0, 2, 3, 1), atol=2e-3)


def test_output_formats_agree(pictures: Manifest) -> None:
    some = few(pictures)
    chain = [tf.RandomResizedCrop(32), tf.RandomHorizontalFlip()]
    plain = feed(some, [*chain, UINT8])["image"]
    channels_first = feed(some, [*chain, tf.ToDtype("uint8")])["image"]
    np.testing.assert_array_equal(channels_first, plain.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(feed(some, chain)["image"], channels_first)
    unscaled = feed(some, [*chain, tf.ToDtype("float32", layout="NHWC")])["image"]
    np.testing.assert_array_equal(unscaled, plain.astype(np.float32))
    scaled = feed(some, [*chain, tf.ToDtype("float32", scale=True, layout="NHWC")])["image"]
    np.testing.assert_allclose(scaled, plain / 255, atol=1e-6)


# ------------------------------------------------------------------------------- draws


def records(height: int, width: int, count: int) -> tuple[BatchRng, tf.Records]:
    keys = np.arange(count)
    rng = BatchRng(11, np.zeros(count, dtype=np.int64), keys, 0)
    return rng, tf.Records(keys, np.full(count, height), np.full(count, width), None)


@pytest.mark.parametrize(("height", "width"), [(10, 1000), (1000, 10), (1, 1)])
def test_where_no_window_fits_the_widest_allowed_is_taken(height: int, width: int) -> None:
    """torchvision's fallback: the whole short side, and the ratio's bound on the long one."""
    rng, some = records(height, width, 500)
    drawn = tf.RandomResizedCrop(10, scale=(0.9, 1.0)).draw(rng, some)
    assert set(drawn["height"]) == {min(height, round(width / (3 / 4)))}
    assert set(drawn["width"]) == {min(width, round(height * (4 / 3)))}
    assert set(drawn["top"]) == {(height - drawn["height"][0]) // 2}
    assert set(drawn["left"]) == {(width - drawn["width"][0]) // 2}


def test_transforms_draw_independently(pictures: Manifest) -> None:
    """The same transform twice in a list draws two numbers: two flips agree half the time."""
    rng, some = records(10, 10, 10_000)
    flip = tf.RandomHorizontalFlip()
    first, second = (flip.draw(rng.spawn(place), some)["flip"] for place in (0, 1))
    assert abs((first == second).mean() - 0.5) < 0.0165


# ------------------------------------------------------------------- boxes and points


@settings(max_examples=60)
@given(st.lists(STEPS, min_size=1, max_size=5), st.integers(0, 2**32))
def test_points_go_where_their_pixels_go(steps: list[tf.GeometricTransform], seed: int) -> None:
    """Two points of a frame determine its map; a third must follow, and the corners must fit."""
    sizes = np.array([[97, 61], [64, 130]])
    keys = np.arange(2)
    frame = Frame.whole(sizes)
    seen = []
    try:
        for number, step in enumerate(steps):
            rng = BatchRng(seed, np.zeros(2, dtype=np.int64), keys, number)
            before = frame
            some = tf.Records(keys, frame.height, frame.width, None)
            drawn = step.draw(rng, some)
            frame = step.place(frame, drawn)
            seen.append((step, before, drawn, frame))
    except ConfigError:
        return
    points = np.random.default_rng(seed).uniform(0, 60, size=(2, 5, 2))
    for step, before, drawn, after in seen:
        start, end = before.map_points(points), after.map_points(points)
        for row in range(2):
            height, width = before.size[row]
            new_height, new_width = after.size[row]
            x, y = start[row, :, 0], start[row, :, 1]
            match step:
                case tf.RandomHorizontalFlip():
                    wanted = (width - x if drawn["flip"][row] else x), y
                case tf.RandomResizedCrop():
                    wanted = (
                        (x - drawn["left"][row]) * new_width / drawn["width"][row],
                        (y - drawn["top"][row]) * new_height / drawn["height"][row],
                    )
                case tf.RandomVerticalFlip():
                    wanted = x, (height - y if drawn["flip"][row] else y)
                case tf.Pad():
                    wanted = x + step.padding[0], y + step.padding[1]
                case tf.RandomCrop():
                    # What is missing is added on both sides, after the padding that is asked for.
                    left, top, *_ = [(step.padding or (0,))[0]] * 2
                    x = x + left + max(new_width - (width + 2 * left), 0)
                    y = y + top + max(new_height - (height + 2 * top), 0)
                    wanted = x - drawn["left"][row], y - drawn["top"][row]
                case _ if isinstance(step, RESIZES) and not isinstance(step, tf.RandomResizedCrop):
                    wanted = x * new_width / width, y * new_height / height
                case tf.PadToSquare() | tf.RandomZoomOut():
                    wanted = x + drawn["left"][row], y + drawn["top"][row]
                case _:
                    continue
            np.testing.assert_allclose(end[row], np.stack(wanted, axis=1), atol=1e-6)


def test_boxes_are_cut_to_the_canvas() -> None:
    frame = Frame.whole(np.array([[100, 200]])).crop(20, 50, 60, 100).resize(30, 50, "bilinear")
    inside = frame.map_boxes(np.array([[60.0, 30.0, 80.0, 50.0]]))
    np.testing.assert_allclose(inside, [[5, 5, 15, 15]])
    over = frame.map_boxes(np.array([[0.0, 0.0, 70.0, 500.0]]))
    np.testing.assert_allclose(over, [[0, 0, 10, 30]])
    outside = frame.map_boxes(np.array([[0.0, 0.0, 40.0, 10.0]]))
    assert outside[0, 2] == outside[0, 0]


# --------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tf.RandomResizedCrop(0), "size is 0; it must be an integer of 1 or more"),
        (
            lambda: tf.RandomResizedCrop((1, 2, 3)),
            r"size is \(1, 2, 3\); it must be one integer or",
        ),
        (
            lambda: tf.RandomResizedCrop(8, scale=(0, 1)),
            r"scale is \(0, 1\); it must satisfy 0 < low",
        ),
        (lambda: tf.RandomResizedCrop(8, ratio=1.0), r"ratio is 1.0; it must be two numbers"),
        (lambda: tf.Resize(None), "Resize has neither size nor max_size; give at least one"),
        (lambda: tf.Resize(20, max_size=20), "max_size is 20; it must be more than size, 20"),
        (
            lambda: tf.Resize((2, 3), max_size=9),
            r"max_size is 9 and size is \(2, 3\); max_size needs",
        ),
        (lambda: tf.Resize(20, interpolation="area"), "interpolation is 'area'; it must be one of"),
        (lambda: tf.BoxCrop(-0.1), "margin is -0.1; it must be a number of 0 or more"),
        (lambda: tf.BoxCrop((0.2, 0.1)), r"margin is \(0.2, 0.1\); it must be .* or \(low, high\)"),
        (
            lambda: tf.Pad(-1),
            r"padding is -1; it must be an integer of 0 or more, \(left and right",
        ),
        (lambda: tf.Pad((1, 2, 3)), r"padding is \(1, 2, 3\); it must be an integer"),
        (lambda: tf.RandomCrop(8, 1.5), "padding is 1.5; it must be an integer"),
        (lambda: tf.ScaleJitter(64), r"target_size is 64; it must be \(width, height\)"),
        (
            lambda: tf.ScaleJitter((1, 2), (0, 1)),
            r"scale_range is \(0, 1\); it must satisfy 0 < low",
        ),
        (lambda: tf.RandomResize(8, 8), "max_size is 8; it must be an integer of 9 or more"),
        (lambda: tf.RandomShortestSize([]), "min_size is empty; give at least one size"),
        (lambda: tf.RandomShortestSize("ab"), "min_size is 'ab'; it must be an integer of 1"),
        (
            lambda: tf.RandomZoomOut(side_range=(0.5, 2)),
            r"side_range is \(0.5, 2\); its numbers must be 1 or more",
        ),
        (lambda: tf.RandomIoUCrop(max_scale=1.5), "max_scale is 1.5; it must be at most 1"),
        (lambda: tf.RandomIoUCrop(sampler_options=[]), r"sampler_options is \[\]; it must be num"),
        (lambda: tf.RandomIoUCrop(sampler_options=[-1]), r"sampler_options is \[-1\]; it must be"),
        (
            lambda: tf.RandomIoUCrop(trials=1001),
            "trials is 1001; it must be an integer from 1 to 1000",
        ),
        (lambda: tf.PadToSquare(9, fill=256), "fill is 256; it must be from 0 to 255"),
        (lambda: tf.PadToSquare(9, fill=(1, 2)), r"fill is \(1, 2\); it must be one number or"),
        (lambda: tf.RandomHorizontalFlip(1.5), "p is 1.5; it must be a number from 0 to 1"),
        (lambda: tf.Normalize(std=0), "std is 0; it must be above 0"),
        (lambda: tf.Normalize(127.5, 0.5), "mean is 127.5, but pixel values are scaled to 0..1 fi"),
        (lambda: tf.Normalize(0, (58.4, 57, 57)), r"std is \(58.4, 57, 57\), but .* by 255"),
        (lambda: tf.Normalize(mean=float("nan")), "mean is nan; its numbers must be finite"),
        (lambda: tf.Normalize(dtype="uint8"), 'dtype is "uint8", which Normalize cannot return'),
        (lambda: tf.ToDtype(jnp.float64), 'dtype is .*float64.*; it must be one of "float32"'),
        (lambda: tf.ToDtype("int8"), "dtype is 'int8'; it must be one of \"float32\""),
        (lambda: tf.ToDtype("uint8", scale=True), 'dtype is "uint8", which cannot hold'),
        (lambda: tf.ToDtype(layout="CHW"), "layout is 'CHW'; it must be one of \"NCHW\""),
    ],
)
def test_bad_arguments_are_named(make: Callable[[], tf.Transform], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    "dtype",
    [
        np.float32,
        np.dtype("float16"),
        torch.bfloat16,
        torch.uint8,
        jnp.bfloat16,
        jnp.dtype("bfloat16"),
    ],
    ids=str,
)
def test_a_dtype_may_be_that_of_a_library(dtype: Any) -> None:
    name = jnp.dtype(dtype).name if "torch" not in str(dtype) else str(dtype).removeprefix("torch.")
    assert tf.ToDtype(dtype).identity == tf.ToDtype(name).identity  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("chain", "message"),
    [
        (
            [tf.Resize(32)],
            r"give images of different sizes: record \d+ is \d+ x \d+ and record \d+ is",
        ),
        (
            [tf.RandomCrop(500)],
            r"RandomCrop\(500 x 500\) got record \d+ of .* resize or pad before",
        ),
        ([tf.PadToSquare(50)], r"PadToSquare\(50\) got record \d+ of .*; resize before it"),
        ([tf.Normalize(), tf.CenterCrop(3)], r"CenterCrop, which must come before Normalize"),
        ([tf.CenterCrop], r"transforms\[0\] is <class .*CenterCrop'>, .*pass an instance"),
        ([len], r"transforms\[0\] is <built-in function len>, .* not a gpufeed transform; pass a "),
    ],
)
def test_lists_that_can_not_work_say_so_at_once(
    pictures: Manifest, chain: list[tf.Transform], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Loader(pictures, transforms=chain, batch_size=4, device="cpu")


def test_box_crop_needs_boxes(pictures: Manifest) -> None:
    frame = pictures.frame.select("path", "label", "width", "height")
    bare = Manifest(frame, pictures.root, pictures.classes)
    with pytest.raises(
        ConfigError, match="BoxCrop needs the columns box_x, box_y, box_width and box"
    ):
        Loader(bare, transforms=[tf.BoxCrop(), tf.Resize((8, 8))], batch_size=4, device="cpu")


def test_a_box_that_was_cut_off_is_an_error(pictures: Manifest) -> None:
    corner = pictures.frame.with_columns(
        pl.lit(value, pl.Int32).alias(f"box_{name}")
        for name, value in (("x", 0), ("y", 0), ("width", 3), ("height", 3))
    )
    manifest = Manifest(corner, pictures.root, pictures.classes)
    # Nor does padding bring it back.
    for chain in ([tf.CenterCrop(8)], [tf.CenterCrop(8), tf.PadToSquare(64)]):
        steps = [*chain, tf.BoxCrop(), tf.Resize((8, 8))]
        with pytest.raises(
            ConfigError, match=r"record \d+, whose box was cropped away .* put BoxCrop first"
        ):
            Loader(manifest, transforms=steps, batch_size=4, device="cpu")


def test_boxes_do_not_reach_into_padding() -> None:
    whole = Frame.whole(np.array([[100, 200]]))
    frame = whole.crop(20, 40, 50, 50).pad(10, 10, 10, 10, (0.0, 0.0, 0.0))
    inside, across, beyond = [[50, 30, 60, 40]], [[0, 0, 200, 100]], [[0, 0, 30, 10]]
    assert frame.map_boxes(np.array(inside, dtype=float)).tolist() == [[20, 20, 30, 30]]
    assert frame.map_boxes(np.array(across, dtype=float)).tolist() == [[10, 10, 60, 60]]
    x0, y0, x1, y1 = frame.map_boxes(np.array(beyond, dtype=float))[0]
    assert (x1 - x0) * (y1 - y0) == 0
    flipped = frame.flip(np.array([True]))
    assert flipped.map_boxes(np.array(inside, dtype=float)).tolist() == [[40, 20, 50, 30]]


def test_boxes_stay_cut_in_the_frames_that_follow() -> None:
    frame = Frame.whole(np.array([[100, 200]])).crop(20, 40, 50, 50)
    frame = frame.pad(10, 10, 10, 10, (0.0, 0.0, 0.0)).resize(140, 140, "bilinear")
    across, beyond = [[0, 0, 200, 100]], [[0, 0, 30, 10]]
    assert frame.map_boxes(np.array(across, dtype=float)).tolist() == [[20, 20, 120, 120]]
    x0, y0, x1, y1 = frame.map_boxes(np.array(beyond, dtype=float))[0]
    assert (x1 - x0) * (y1 - y0) == 0


class Untouched(tf.PixelTransform):
    def build(self, image: object, params: dict[str, object]) -> object:  # noqa: ARG002
        return image


def test_a_pixel_transform_does_not_stand_in_the_way(pictures: Manifest) -> None:
    manifest = few(pictures)
    between = feed(manifest, [tf.Resize((40, 40)), Untouched(), tf.CenterCrop(16), UINT8])
    without = feed(manifest, [tf.Resize((40, 40)), tf.CenterCrop(16), UINT8])
    assert difference(between["image"], without["image"])[0] <= 1
    frame = Frame.whole(np.array([[80, 160]])).resize(40, 40, "bilinear").then()
    points = frame.crop(12, 12, 16, 16).map_points(np.array([[[80.0, 40.0]]]))
    assert points.tolist() == [[[8, 8]]]


class Watching(Untouched):
    """Notes which boxes it is shown."""

    def __init__(self) -> None:
        self._seen: np.ndarray | None = None

    def draw(self, rng: BatchRng, records: tf.Records) -> tf.Params:  # noqa: ARG002
        self._seen = records.boxes
        return {}


def test_boxes_are_shown_as_the_transforms_before_left_them() -> None:
    keys, watching = np.arange(1), [Watching() for _ in range(4)]
    chain = [
        watching[0],
        tf.Resize((50, 50)),
        watching[1],
        watching[2],
        tf.CenterCrop(30),
        tf.RandomHorizontalFlip(1.0),
        watching[3],
        UINT8,
    ]
    rng = BatchRng(0, np.zeros(1, np.int64), keys, 0)
    sizes, boxes = np.array([[100, 200]]), np.array([[40.0, 20.0, 120.0, 60.0]])
    compose([chain], keys, sizes, boxes, rng, np.arange)
    assert [each._seen.tolist()[0] for each in watching] == [
        [40, 20, 120, 60],
        [10, 10, 30, 30],
        [10, 10, 30, 30],
        [10, 0, 30, 20],
    ]


class Brighten(tf.PixelTransform):
    """A user's own: numbers of 64 bits, as rng gives them."""

    def draw(self, rng: BatchRng, records: tf.Records) -> dict[str, np.ndarray]:  # noqa: ARG002
        return {"by": rng.uniform(20.0, 30.0)}

    def build(self, image: object, params: dict[str, object]) -> object:
        from nvidia.dali import fn, types

        return fn.brightness_contrast(
            image, brightness_shift=params["by"] / 255.0, dtype=types.UINT8
        )


class Broken(Brighten):
    def build(self, image: object, params: dict[str, object]) -> object:  # noqa: ARG002
        raise KeyError("no such parameter")


def test_a_users_own_pixel_transform_draws_as_it_likes(pictures: Manifest) -> None:
    manifest = few(pictures)
    plain = feed(manifest, [tf.Resize((16, 16)), UINT8])["image"].astype(int)
    bright = feed(manifest, [tf.Resize((16, 16)), Brighten(), UINT8])["image"].astype(int)
    gained = (bright - plain)[plain < 200]
    assert 19 <= gained.min() <= gained.max() <= 31


def test_pixel_transforms_draw_independently() -> None:
    keys, epochs = np.arange(50), np.zeros(50, dtype=np.int64)
    rng = BatchRng(0, epochs, keys, 0)
    chain = [Brighten(), Brighten(), tf.RandomHorizontalFlip(), Brighten(), UINT8]
    (view,) = compose([chain], keys, np.full((50, 2), 40), None, rng, np.arange).stages.views
    drawn = [stage.params["by"] for stage in view.stages if isinstance(stage, Pixel)]
    assert len(drawn) == 3
    assert len(np.unique(np.concatenate(drawn))) == 150


def test_a_resize_after_a_pixel_transform_is_dalis(pictures: Manifest) -> None:
    """It repeats the edge where its filter reaches out of the image."""
    some = few(pictures)
    chain = [tf.Resize(90), tf.CenterCrop(80), Untouched(), tf.Resize((37, 41)), UINT8]
    images = feed(some, chain)["image"]
    for key, wanted in enumerate(expected(some, chain, edges="repeated")):
        assert difference(images[key], wanted)[0] <= 3


def test_a_graph_that_can_not_be_made_is_named(pictures: Manifest) -> None:
    message = "^the transform Broken failed: KeyError: 'no such param"
    with pytest.raises(gpufeed.TransformError, match=message):
        feed(few(pictures), [tf.Resize((16, 16)), Broken(), UINT8])


@pytest.mark.parametrize("small", [(40, 100), (100, 40)])
def test_a_picture_too_small_is_found_before_training(
    small: tuple[int, int], tmp_path: Path
) -> None:
    """Of neither the least area nor an extreme shape, but too low or too narrow for the crop."""
    sizes = [(300, 300), (60, 60), small, (55, 400), (400, 55)]
    manifest = make_manifest(tmp_path, sizes)
    with pytest.raises(ConfigError, match="got record 2 of"):
        Loader(manifest, transforms=[tf.RandomCrop(50)], batch_size=1, device="cpu")


def test_a_picture_too_long_is_found_before_training(tmp_path: Path) -> None:
    """It is neither the smallest nor the largest, in area or either side."""
    manifest = make_manifest(tmp_path, [(300, 300), (30, 30), (100, 290)])
    chain = [tf.ResizeLongest(100), tf.RandomCrop(50)]
    with pytest.raises(ConfigError, match="got record 2 of"):
        Loader(manifest, transforms=chain, batch_size=1, device="cpu")


def test_an_identity_says_all() -> None:
    """Every public setting is part of it: a changed recipe is seen when a run is resumed."""
    assert tf.RandomResizedCrop(8).identity == tf.RandomResizedCrop((8, 8)).identity
    kinds = [
        tf.RandomResizedCrop(8),
        tf.RandomResizedCrop(9),
        tf.RandomResizedCrop(8, scale=(0.1, 1)),
        tf.RandomResizedCrop(8, ratio=(0.5, 2)),
        tf.RandomResizedCrop(8, interpolation="bicubic"),
        tf.CenterCrop(8),
        tf.RandomCrop(8),
        tf.RandomCrop(8, 1),
        tf.RandomCrop(8, pad_if_needed=True),
        tf.RandomCrop(8, fill=1),
        tf.Pad(1),
        tf.RandomVerticalFlip(),
        tf.RandomHorizontalFlip(),
        tf.Normalize(),
        tf.Normalize(mean=0.5),
        tf.Normalize(std=0.5),
        tf.Normalize(dtype="float16"),
        tf.Normalize(layout="NHWC"),
        tf.ToDtype("uint8"),
    ]
    assert len({str(kind.identity) for kind in kinds}) == len(kinds)


@pytest.mark.parametrize(
    "transform",
    [
        tf.BoxCrop(0.1 + 0.2),
        tf.BoxCrop((0.1, 0.1 + 0.2)),
        tf.Pad((1, 2, 3, 4), fill=(1, 2, 3)),
        tf.RandomIoUCrop(0.1, 1 / 3, 0.7, 1.1, (0.3, 1 / 3), 7),
        tf.RandomResize(8, 9, "bicubic"),
        tf.RandomShortestSize((8, 9), 11, "bicubic"),
        tf.RandomVerticalFlip(1 / 3),
        tf.RandomZoomOut((1, 2, 3), (1.5, 7 / 3), 0.3),
        tf.ScaleJitter((8, 9), (0.2, 1 / 3), "bicubic"),
        tf.CenterCrop((8, 9)),
        tf.Normalize((0.1, 0.2, 0.3), 1 / 3, dtype="float16", layout="NHWC"),
        tf.PadToSquare(9, fill=(1, 2, 3)),
        tf.RandomCrop((8, 9), (1, 2, 3, 4), True, (7, 8, 9)),
        tf.RandomHorizontalFlip(1 / 3),
        tf.RandomResizedCrop(8, (0.1, 0.9), (0.5, 1 / 3 + 1), "bicubic"),
        tf.Resize(8, "bicubic", max_size=11),
        tf.ResizeLongest(8, "bicubic"),
        tf.ToDtype("float16", scale=True, layout="NHWC"),
    ],
    ids=lambda transform: type(transform).__name__,
)
def test_a_transform_is_made_again_from_its_fingerprint(transform: tf.Transform) -> None:
    """All it was given is in there, to the last digit."""
    named = set(inspect.signature(type(transform)).parameters)
    assert transform.identity.keys() == {"kind", *named}
    (again,) = rebuild_transforms(encode([transform.identity]))
    assert vars(again) == vars(transform)


def test_a_setting_without_fingerprint_is_an_error() -> None:
    class Odd(tf.GeometricTransform):
        def __init__(self) -> None:
            self.function = len

        def place(self, frame: Frame, _params: tf.Params) -> Frame:
            return frame

    with pytest.raises(ConfigError, match="Odd has a setting that cannot be fingerprinted"):
        _ = Odd().identity


def as_kinds(value: Any, whole: Any, real: Any) -> Any:
    """A structure of numbers with each number as another type."""
    if isinstance(value, list | tuple):
        return type(value)(as_kinds(each, whole, real) for each in value)
    if isinstance(value, dict):
        return {name: as_kinds(each, whole, real) for name, each in value.items()}
    kinds = {int: whole, float: real}
    return kinds[type(value)](value) if type(value) in kinds else value


@pytest.mark.parametrize(
    ("kind", "given_"),
    [
        (tf.Resize, {"size": 8}),
        (tf.Resize, {"size": [8], "max_size": 9}),
        (tf.RandomResizedCrop, {"size": (8, 9), "scale": (0.5, 1.0)}),
        (tf.Pad, {"padding": 3, "fill": 7}),
        (tf.BoxCrop, {"margin": 0.25}),
        (tf.RandomRotation, {"degrees": 10.0}),
        (tf.ColorJitter, {"brightness": 0.5, "contrast": (0.5, 1.5), "saturation": 1}),
        (tf.GaussianBlur, {"kernel_size": 5, "sigma": 1.0}),
        (tf.JPEG, {"quality": 50}),
        (tf.RandomErasing, {"p": 0.5, "value": 1.0}),
        (tf.MixUp, {"alpha": 0.25, "group": 4}),
        (tf.SoftLabels, {"num_classes": 5, "smoothing": 0.125}),
        (tf.AugMix, {"severity": 3, "alpha": 1.0}),
    ],
)
def test_numpys_numbers_are_numbers(kind: type, given_: dict[str, Any]) -> None:
    own = encode(kind(**given_).identity)
    for whole, real in ((np.int64, np.float64), (np.uint8, np.float32)):
        assert encode(kind(**as_kinds(given_, whole, real)).identity) == own
    with pytest.raises(ConfigError):
        kind(**as_kinds(given_, bool, bool))
