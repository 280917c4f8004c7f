"""A record's pixels do not depend on its batch, whatever decodes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.gpu.data import FORMATS, encoded_as, in_memory
from gpufeed import IndexSampler, Manifest
from gpufeed import transforms as tf
from tests.support.devices import WAYS
from tests.support.loaders import make
from tests.support.media import picture

CHAIN = [tf.RandomResizedCrop(24), tf.RandomHorizontalFlip(), tf.RandAugment(), tf.Normalize()]


@pytest.fixture(scope="module")
def mixed() -> Manifest:
    """Forty images, of all formats."""
    contents: list[bytes] = []
    sizes: list[tuple[int, int]] = []
    for number, kind in enumerate(FORMATS):
        images = [picture(50 + number, 70 - number, 2 * number + seed) for seed in (0, 1)]
        files, seen = encoded_as(images, kind)
        contents += files
        sizes += seen
    return in_memory(contents, sizes)


def by_record(manifest: Manifest, *, shuffle: bool, **options: Any) -> dict[int, bytes]:
    sampler = IndexSampler(len(manifest), shuffle=shuffle, seed=4, num_epochs=1)
    options |= {"sampler": sampler, "transforms": CHAIN, "last_batch": "partial"}
    found = {}
    with make(manifest, **options) as loader:
        for step, batch in enumerate(loader):
            keys = batch["record_key"].tolist()
            found |= {key: each.tobytes() for key, each in zip(keys, batch["image"], strict=True)}
            if step == 1:  # made beside the batches that are under way
                again = loader.batch(0)
                images = zip(again["record_key"].tolist(), again["image"], strict=True)
                assert all(found[key] == image.tobytes() for key, image in images)
    return found


@pytest.mark.parametrize("way", WAYS)
def test_pixels_are_the_same_in_every_batch(mixed: Manifest, way: dict[str, Any]) -> None:
    wanted = by_record(mixed, shuffle=True, batch_size=8, **way)
    assert len(wanted) == len(mixed)
    assert by_record(mixed, shuffle=False, batch_size=8, **way) == wanted
    assert by_record(mixed, shuffle=True, batch_size=7, num_threads=1, **way) == wanted
    assert by_record(mixed, shuffle=True, batch_size=len(mixed), prefetch=1, **way) == wanted


@pytest.mark.gpu
def test_memory_does_not_grow(mixed: Manifest) -> None:
    """GPU memory after many epochs is that after a few; DALI's pools and the CPU are apart."""
    import torch

    options = {"batch_size": 8, "device": "cuda", "framework": "torch"}
    sampler = IndexSampler(len(mixed), shuffle=True)
    with make(mixed, sampler=sampler, transforms=CHAIN, **options) as loader:
        used = []
        for epoch in range(60):
            for batch in loader:
                del batch
            if epoch in (19, 59):
                free, total = torch.cuda.mem_get_info()
                used.append(total - free)
    assert used[1] - used[0] <= 1 << 26


@pytest.mark.gpu
def test_a_gpu_without_memory_is_said_to_have_none(mixed: Manifest) -> None:
    import torch

    from gpufeed import PipelineError

    options = {"batch_size": 32, "transforms": [tf.Resize((2048, 2048)), tf.Normalize()]}
    held = []
    with make(mixed, device="cuda", **options) as loader:
        torch.cuda.empty_cache()
        size = torch.cuda.mem_get_info()[0] - (200 << 20)
        held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        with pytest.raises(PipelineError, match="out of memory; use a smaller batch_size"):
            loader.batch(0)
        held.clear()
        torch.cuda.empty_cache()
        assert np.isfinite(loader.batch(0)["image"]).all()
