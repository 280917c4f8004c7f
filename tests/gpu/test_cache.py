"""Batches from the cache on the device are those without it, whatever decodes them."""

from __future__ import annotations

from typing import Any

import pytest

from gpufeed import Manifest
from gpufeed import transforms as tf
from tests.support.devices import WAYS
from tests.support.loaders import digest, make

FINISHED = [tf.Resize((24, 30)), tf.RandomHorizontalFlip(), tf.Normalize()]
WHOLE = [tf.RandomResizedCrop(24), tf.RandomHorizontalFlip(), tf.Normalize()]


def assert_alike(manifest: Manifest, **options: Any) -> None:
    options["last_batch"] = "partial"
    with make(manifest, **options) as loader:
        plain = [digest(batch) for _ in range(3) for batch in loader]
    with make(manifest, cache="device", **options) as loader:
        assert [digest(batch) for _ in range(3) for batch in loader] == plain
        assert f" {len(manifest)} images in a device cache " in repr(loader)


@pytest.mark.parametrize("way", WAYS)
def test_finished_images_are_those_without_a_cache(pictures: Manifest, way: dict[str, Any]) -> None:
    assert_alike(pictures, transforms=FINISHED, **way)


# Threads resize nothing that is on the device.
@pytest.mark.parametrize("way", [way for way in WAYS if "threads" not in way.values[0]["opener"]])
def test_crops_of_whole_images_are_those_without_a_cache(
    pictures: Manifest, way: dict[str, Any]
) -> None:
    assert_alike(pictures, transforms=WHOLE, **way)


@pytest.mark.gpu
def test_what_does_not_fit_on_a_gpu_is_refused(pictures: Manifest) -> None:
    import torch

    from gpufeed import ConfigError

    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0]
    side = int((free / 3 / len(pictures)) ** 0.5) + 1
    chain = [tf.Resize((side, side)), tf.RandomCrop(24), tf.Normalize()]
    chain.insert(1, tf.RandomInvert())  # so that the resized images are kept
    with pytest.raises(ConfigError, match=r'cache="device" needs .* more memory for 50 images'):
        make(pictures, device="cuda", transforms=chain, cache="device")
