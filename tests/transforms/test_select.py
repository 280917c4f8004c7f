"""`where` in the graph: some records changed, the others untouched, whoever is beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpufeed import Loader, Manifest, SequentialSampler
from gpufeed import transforms as tf
from gpufeed.rng import BatchRng
from gpufeed.transforms.select import where

CHAIN = [tf.Resize((20, 24))]


class Sometimes(tf.PixelTransform):
    """Adds a drawn number to images that are drawn."""

    def __init__(self, p: float) -> None:
        self.p = p

    def draw(self, rng: BatchRng, records: tf.Records) -> tf.Params:  # noqa: ARG002
        return {"chosen": rng.bernoulli(self.p), "by": rng.integers(1, 50)}

    def build(self, image: Any, params: dict[str, Any]) -> Any:
        from nvidia.dali import fn, types

        def add(image: Any, own: dict[str, Any]) -> Any:
            return fn.cast_like(fn.cast(image, dtype=types.INT32) + own["nested"]["by"], image)

        return where(params["chosen"], image, add, {"nested": {"by": params["by"]}})


def feed(manifest: Manifest, chain: list[tf.Transform], **options: Any) -> dict[int, np.ndarray]:
    chain = [*CHAIN, *chain, tf.ToDtype("uint8", layout="NHWC")]
    options = {"batch_size": 8, "last_batch": "partial", "device": "cpu", **options}
    sampler = SequentialSampler(len(manifest), seed=4)
    with Loader(manifest, sampler=sampler, transforms=chain, **options) as loader:
        return {
            int(key): image
            for batch in loader
            for key, image in zip(batch["record_key"], batch["image"], strict=True)
        }


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_only_chosen_records_change(pictures: Manifest, p: float) -> None:
    plain, some = feed(pictures, []), feed(pictures, [Sometimes(p)])
    n = len(pictures)
    rng = BatchRng(4, np.zeros(n, np.int64), np.arange(n), len(CHAIN))
    drawn = Sometimes(p).draw(rng, None)  # type: ignore[arg-type]
    for key in range(n):
        by = int(drawn["by"][key]) if drawn["chosen"][key] else 0
        wanted = np.minimum(plain[key].astype(int) + by, 255)
        np.testing.assert_array_equal(some[key], wanted)
