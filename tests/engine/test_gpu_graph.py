"""Graphs for a GPU, defined where there is none: DALI has every operator in them, as it is used.

To build and to run a graph takes a GPU; to define it does not. `faults` holds each operator against
what DALI declares of it and the dtypes that its kernels take. It sees neither shapes, nor values,
nor what a kernel computes; `PLANTED` shows what it finds.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from nvidia import dali
from nvidia.dali import Pipeline, fn, types
from nvidia.dali.types import DALIDataType as D

from gpufeed import Manifest, presets
from gpufeed import transforms as tf
from gpufeed.engine import device_cache
from gpufeed.engine.device import Device
from gpufeed.engine.device_cache import DeviceCache
from gpufeed.engine.graph import define_pipeline, rest_feeds
from gpufeed.open.choice import Choice
from gpufeed.open.kinds import resolve_shares
from gpufeed.tools.gallery import examples
from tests.support.gpu_graph import CODE, LETTERS, TAKES, faults
from tests.support.loaders import make

OPENERS: dict[str, Any] = {name: name for name in ("threads", "cuda", "cuda_windows", "hardware")}
OPENERS["mix"] = {"threads": 0.25, "cuda": 0.25, "cuda_windows": 0.25, "hardware": 0.25}
DTYPES = {"float32": D.FLOAT, "float16": D.FLOAT16, "bfloat16": D.FLOAT, "uint8": D.UINT8}
FORMATS = [(dtype, layout) for dtype in DTYPES for layout in ("NCHW", "NHWC")]
SQUARE = [tf.Resize(24), tf.CenterCrop(24)]


def output(dtype: Any, layout: Any) -> tf.OutputFormat:
    return (tf.ToDtype if dtype == "uint8" else tf.Normalize)(dtype=dtype, layout=layout)


def every_transform() -> Iterator[tuple[str, Any]]:
    for number, example in enumerate(examples(32)):
        before, after, shown = [*example.before], [*example.after], example.shown.made
        if isinstance(shown, tf.LateTransform | tf.MixTransform):
            before, after, late = [*before, *after], [], [shown]
        else:
            before, late = [*before, shown], []
        for dtype, layout in FORMATS if late else FORMATS[number % 8 :: 8]:
            name = f"{example.shown.text}, {dtype} {layout}"
            yield name, [*before, *after, output(dtype, layout), *late]


def every_preset() -> Iterator[tuple[str, Any]]:
    mixes = {"num_classes": 3}
    options = {"torchvision_train": mixes, "timm_train": mixes, "dino": {"local_crops": 1}}
    fed = [name for name in presets.__all__ if name != "course_cleaned"]  # which is for `prepare`
    for number, name in enumerate(fed):
        preset, own = getattr(presets, name), options.get(name, {})
        for dtype, layout in FORMATS[::3] if own is mixes else FORMATS[number % 3 :: 5]:
            yield f"{name}, {dtype} {layout}", preset(dtype=dtype, layout=layout, **own)


def others() -> Iterator[tuple[str, Any]]:
    pixels = {
        "warps": [
            tf.RandAugment(3, 17, interpolation="bilinear"),
            tf.AutoAugment(interpolation="bilinear"),
            tf.TimmRandAugment("rand-m7-n3-p0.9-mstd101", "nearest"),
            tf.AugMix(10, 2, 2, 0.3, all_ops=False),
        ],
        "containers": [
            tf.RandomApply([tf.TrivialAugmentWide(), tf.RandomApply([tf.GaussianBlur(3)])]),
            tf.RandomChoice([[tf.RandomEqualize(), tf.JPEG((40, 90))], tf.RandAugment()]),
        ],
        "resizes": [
            tf.RandomInvert(),
            tf.RandomResizedCrop(24, interpolation="bicubic"),
            tf.RandomVerticalFlip(),
            tf.RandomInvert(),
            tf.RandomCrop(20, padding=6),
            tf.RandomRotation(20),
            tf.Resize((30, 30)),
            tf.RandomHorizontalFlip(),
        ],
    }
    for number, (name, chain) in enumerate(pixels.items()):
        yield name, [*SQUARE, *chain, output(*FORMATS[2 * number + 1])]
    late = {
        "colour": [tf.RandomErasing(value=(0.1, 0.2, 0.3))],
        "noise": [tf.RandomErasing(value="random"), tf.RandomChoice([tf.MixUp(), tf.CutMix()])],
    }
    for name, chain in late.items():
        for dtype, layout in FORMATS[:-2]:
            yield f"{name}, {dtype} {layout}", [*SQUARE, output(dtype, layout), *chain]
    unlike = [[tf.CenterCrop(9), *chain, tf.RandomInvert()] for chain in ([], SQUARE)]
    yield "views", tf.Views([[*view, output("float16", "NHWC")] for view in unlike])


CHAINS = dict([*every_transform(), *every_preset(), *others()])
EVERY = {"threads": 3, "cuda": 1, "cuda_windows": 16, "hardware": 16, "mix": 16}
"""All that another opener has on the GPU, "cuda" has too; a function is on the CPU."""
CASES = [
    (opener, name)
    for opener, every in EVERY.items()
    for number, name in enumerate(CHAINS)
    if (opener == "threads" if name.startswith("Lambda") else number % every == 0)
]


@pytest.mark.parametrize(("opener", "name"), CASES)
def test_dali_has_what_a_graph_asks_for(pictures: Manifest, opener: str, name: str) -> None:
    shares = resolve_shares(OPENERS[opener], "cuda", on_gpu=True)
    with make(pictures, transforms=CHAINS[name], framework="torch") as loader:
        maker = loader._maker
        # Before the opener is made, which is that of a GPU then.
        maker._device = Device(0)
        maker._choice = Choice(shares, pictures)
        with maker.reader() as reader:
            opened = maker.prepare(0, reader).result()
        stages = opened.plan.stages
        outputs = [(DTYPES[view.output.dtype], view.output.layout[1:]) for view in stages.views]
        options: dict[str, Any] = {"batch_size": 8, "num_threads": 1, "depth": 1}
        define = partial(define_pipeline, stages, maker.opener, device=Device(0), **options)
        assert faults(define, {**opened.feeds, **rest_feeds(stages)}, outputs) == []


CACHED = [
    (opener, name)
    for opener in OPENERS
    for name in ("evaluate, float32 NCHW", "dino, float16 NCHW", "resizes")
    # Threads resize nothing that is on the device.
    if name.startswith("evaluate") or "threads" not in OPENERS[opener]
]


@pytest.mark.parametrize(("opener", "name"), CACHED)
def test_dali_has_what_a_cache_on_the_device_asks_for(
    pictures: Manifest, monkeypatch: pytest.MonkeyPatch, opener: str, name: str
) -> None:
    shares = resolve_shares(OPENERS[opener], "cuda", on_gpu=True)
    options: dict[str, Any] = {"cache": "device", "opener": "graph", "framework": "torch"}
    with make(pictures, transforms=CHAINS[name], **options) as loader:
        maker = loader._maker
        maker.open()
        with maker.reader() as reader:
            opened = maker.prepare(0, reader).result()
            maker._device = Device(0)
            maker._choice = Choice(shares, pictures)
            monkeypatch.setattr(device_cache, "DeviceStore", mock.Mock())
            cache = maker._make_opener()
            assert isinstance(cache, DeviceCache)
            encoded, _ = maker._read(opened.plan, reader)
        size, stages = len(opened.plan), opened.plan.stages
        with Pipeline(batch_size=size, num_threads=1, device_id=0):
            assert {image.device for image in cache.build(stages)} == {"gpu"}
        outputs = [(DTYPES[view.output.dtype], view.output.layout[1:]) for view in stages.views]
        define = partial(define_pipeline, batch_size=size, device=Device(0), num_threads=1, depth=1)
        feeds = {**opened.feeds, **rest_feeds(stages)}
        assert faults(partial(define, stages, cache), feeds, outputs) == []
        # What is kept is opened by a graph of its own.
        first = cache._first(opened.plan, np.arange(size), np.zeros(size, np.bool_))
        own = cache._opener.open(replace(opened.plan, stages=first), encoded).result()
        feeds = {**own.feeds, **rest_feeds(first)}
        assert faults(partial(define, first, cache._opener), feeds, [BYTES]) == []
        cache.close()


def test_the_dtypes_are_those_of_dalis_library() -> None:
    """Its names of templates say which dtypes their kernels were compiled for."""
    operators = {code.encode(): (name, place) for name, (code, place) in CODE.items()}
    letters = b"|".join(letter.encode() for letter in LETTERS)
    pattern = rb"N4dali(%b)I((?:%b)+)" % (b"|".join(operators), letters)
    library = Path(dali.__file__).with_name("libdali_operators.so")
    named: dict[str, set[D]] = {name: set() for name in CODE}
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
        for found in re.finditer(pattern, content):
            name, place = operators[found[1]]
            arguments = re.findall(letters, found[2])
            named[name] |= {LETTERS[each.decode()] for each in arguments[place : place + 1]}
    assert named == {name: TAKES[name][0] for name in CODE}


# ------------------------------------------------------------------- what `faults` finds

N = 4
FEEDS = {
    "file": np.zeros((N, 99), np.uint8),
    "int32": np.zeros((N, 2), np.int32),
    "int16": np.zeros((N, 2), np.int16),
    "int64": np.zeros((N, 2), np.int64),
    "float32": np.zeros((N, 2), np.float32),
    "float64": np.zeros((N, 2), np.float64),
    "flag": np.zeros(N, np.int32),
    "number": np.zeros(N, np.float32),
}
HALF = (D.FLOAT16, "CHW")
BYTES = (D.UINT8, "HWC")


def decoded(fed: Any, window: str = "int32") -> Any:
    return fn.decoders.image_slice(
        fed["file"], fed[window], fed[window], axes=(0, 1), device="mixed"
    )


def half(fed: Any) -> Any:
    return fn.crop_mirror_normalize(decoded(fed), dtype=types.FLOAT16, output_layout="CHW")


def erased(image: Any, fed: Any, anchor: str = "float32") -> Any:
    return fn.erase(image, anchor=fed[anchor], shape=fed["float32"], axis_names="HW")


def faults_of(build: Callable[[Any], Any], output: tuple[D, str]) -> str:
    def define() -> Pipeline:
        pipeline = Pipeline(batch_size=N, num_threads=1, device_id=0)
        with pipeline:
            pipeline.set_outputs(build({name: fn.external_source(name=name) for name in FEEDS}))
        return pipeline

    return "; ".join(faults(define, FEEDS, [output]))


SOUND: list[tuple[Callable[[Any], Any], tuple[D, str]]] = [
    (lambda fed: erased(decoded(fed), fed), BYTES),
    (lambda fed: decoded(fed, "int64"), BYTES),  # positional inputs take these too
    (half, HALF),
    (lambda fed: fn.flip(decoded(fed), horizontal=fed["flag"]), BYTES),
]

PLANTED: dict[str, tuple[Callable[[Any], Any], tuple[D, str], str]] = {
    "float16 is erased": (
        lambda fed: erased(half(fed), fed),
        HALF,
        "Erase on gpu: input 0 is FLOAT16",
    ),
    "float16 is doubled": (lambda fed: half(fed) * 2, HALF, "GenericOp on gpu: input 0 is FLOAT16"),
    "an argument is float64": (
        lambda fed: erased(decoded(fed), fed, "float64"),
        BYTES,
        "anchor is FLOAT64, must be FLOAT",
    ),
    "an argument is int64": (
        lambda fed: fn.slice(decoded(fed), start=fed["int64"], shape=[1, 1], axes=(0, 1)),
        BYTES,
        "start is INT64, must be INT32",
    ),
    "an argument is two numbers": (
        lambda fed: fn.brightness_contrast(decoded(fed), brightness=fed["float32"]),
        BYTES,
        "brightness has 1 dimensions, must be one number",
    ),
    "an argument is on the GPU": (
        lambda fed: fn.flip(decoded(fed), horizontal=fed["flag"].gpu()),
        BYTES,
        "Named arguments must be on CPU",
    ),
    "an argument is no tensor's": (
        lambda fed: fn.resize(decoded(fed), size=[9, 9], antialias=fed["flag"]),
        BYTES,
        "`antialias`",
    ),
    "an argument is unknown": (
        lambda fed: fn.resize(decoded(fed), size=[9, 9], sharpen=True),
        BYTES,
        """Argument "sharpen" is not defined""",
    ),
    "a window is int16": (
        lambda fed: decoded(fed, "int16"),
        BYTES,
        "input 1 is INT16, must be of",
    ),
    "no kernel is on the GPU": (
        lambda _: fn.random.beta(device="gpu"),
        BYTES,
        "random__Beta on gpu: DALI has no such kernel",
    ),
    "a GPU's images on the CPU": (
        lambda fed: fn.flip(decoded(fed), device="cpu").gpu(),
        BYTES,
        """is stored on incompatible device "gpu".""",
    ),
    "a CPU's images on the GPU": (
        lambda fed: fn.flip(fn.decoders.image(fed["file"]), device="gpu"),
        BYTES,
        """is stored on incompatible device "cpu".""",
    ),
    "channels first": (
        lambda fed: fn.jpeg_compression_distortion(fn.transpose(decoded(fed), perm=[2, 0, 1])),
        BYTES,
        "input 0 is CHW, must be of",
    ),
    "an operator is new": (
        lambda fed: fn.hsv(decoded(fed), hue=9.0),
        BYTES,
        "Hsv on gpu: is not in",
    ),
    "images come out on the CPU": (
        lambda fed: fn.decoders.image(fed["file"]),
        BYTES,
        "output 0 is Tensor(device='cpu'",
    ),
    "images come out as float16": (half, (D.FLOAT, "CHW"), "output 0 is"),
}


@pytest.mark.parametrize("case", range(len(SOUND)))
def test_nothing_is_found_in_sound_graphs(case: int) -> None:
    assert faults_of(*SOUND[case]) == ""


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(name: str) -> None:
    build, output, said = PLANTED[name]
    assert said in faults_of(build, output)
