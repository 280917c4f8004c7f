"""A bad image is bad in every way of opening, and touches no other record of its batch."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu.data import DAMAGES, in_memory
from gpufeed import DecodeError, Manifest, MemorySource, SequentialSampler
from gpufeed import transforms as tf
from tests.support.devices import PURE_WAYS, WAYS
from tests.support.loaders import make
from tests.support.media import jpeg, picture

CHAIN = [tf.CenterCrop(60), tf.ToDtype("uint8", layout="NHWC")]
PLACES = dict(zip(DAMAGES, range(1, 20), strict=False))
"""Where each kind of damage is; the other records are whole."""
COUNT = max(PLACES.values()) + 2
SIZE = (90, 70)


def feed(damaged: Collection[str], **options: Any) -> Any:
    contents = [jpeg(picture(SIZE[1], SIZE[0], seed)) for seed in range(COUNT)]
    manifest = in_memory(contents, [SIZE] * COUNT)
    for kind in damaged:
        contents[PLACES[kind]] = DAMAGES[kind](contents[PLACES[kind]])
    manifest = Manifest(manifest.frame, MemorySource(contents), manifest.classes)
    options |= {"sampler": SequentialSampler(COUNT), "transforms": CHAIN, "max_failures": COUNT}
    with make(manifest, **{"batch_size": COUNT, **options}) as loader:
        return loader.batch(0)


@pytest.mark.parametrize("way", WAYS)
def test_bad_images_are_those_of_the_cpu(way: dict[str, Any]) -> None:
    whole = feed((), **way)
    wanted = feed(DAMAGES, on_error="blank", device="cpu", opener="threads")
    refused = {kind for kind, place in PLACES.items() if not wanted["valid"][place]}
    assert {"cut in half", "header only", "bytes before", "web page", "empty"} <= refused
    others = [place for place in range(COUNT) if place not in PLACES.values()]
    for on_error in ("blank", "substitute"):
        batch = feed(DAMAGES, on_error=on_error, **way)
        np.testing.assert_array_equal(batch["image"][others], whole["image"][others])
        if on_error == "blank":
            np.testing.assert_array_equal(batch["valid"], wanted["valid"])
        else:
            replaced = batch["record_key"] != np.arange(COUNT)
            np.testing.assert_array_equal(replaced, ~wanted["valid"])
            for place in np.flatnonzero(replaced):
                own = batch["image"][batch["record_key"][place]]
                np.testing.assert_array_equal(batch["image"][place], own)


@pytest.mark.parametrize("way", PURE_WAYS)
def test_a_bad_image_is_named(way: dict[str, Any]) -> None:
    for kind, why in (
        ("cut in half", "truncated"),
        ("web page", "not a JPEG, PNG, WebP, TIFF, BMP or PNM image"),
    ):
        with pytest.raises(DecodeError, match=why) as raised:
            feed([kind], on_error="raise", **way)
        assert raised.value.record_key == PLACES[kind]
