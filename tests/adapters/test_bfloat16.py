"""bfloat16, which DALI does not have, is float32 rounded to nearest even."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import torch

from gpufeed import ConfigError, Manifest, Views
from gpufeed import transforms as tf
from tests.support.loaders import make


def chain(dtype: Any) -> list[tf.Transform]:
    return [
        tf.RandomResizedCrop(24),
        tf.Normalize(dtype=dtype),
        tf.RandomErasing(0.5, value="random"),
        tf.MixUp(0.4),
    ]


def bits(image: Any) -> np.ndarray:
    if isinstance(image, torch.Tensor):
        return image.view(torch.uint16).numpy()
    return np.asarray(jax.lax.bitcast_convert_type(image, jax.numpy.uint16))


def rounded(image: Any) -> np.ndarray:
    """The upper 16 bits, rounded to nearest, ties to even."""
    whole = np.ascontiguousarray(image).view(np.uint32).astype(np.uint64)
    return ((whole + 0x7FFF + ((whole >> 16) & 1)) >> 16).astype(np.uint16)


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_images_are_float32_rounded_to_nearest_even(pictures: Manifest, framework: Any) -> None:
    options: dict[str, Any] = {"framework": framework, "ledger": "pixels", "batch_size": 8}
    with (
        make(pictures, transforms=chain("bfloat16"), **options) as loader,
        make(pictures, transforms=chain("float32"), **options) as exact,
    ):
        for batch, wanted in zip(loader, exact, strict=True):
            assert str(batch["image"].dtype).removeprefix("torch.") == "bfloat16"
            assert np.array_equal(bits(batch["image"]), rounded(wanted["image"]))
            assert str(batch["lam"].dtype).removeprefix("torch.") == "float32"
        assert loader.show().size == exact.show().size


def test_each_view_has_its_own_dtype(pictures: Manifest) -> None:
    views = Views([chain("bfloat16")[:-1], chain("float16")[:-1]])
    with make(pictures, transforms=views, framework="torch", batch_size=8) as loader:
        first, second = loader.batch(0)["image"]
        assert (first.dtype, second.dtype) == (torch.bfloat16, torch.float16)


def test_numpy_has_none(pictures: Manifest) -> None:
    with pytest.raises(ConfigError, match='dtype "bfloat16", which NumPy does not have'):
        make(pictures, transforms=chain("bfloat16"))
