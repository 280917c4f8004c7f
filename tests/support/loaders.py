"""The loader that most tests take, and what tells its batches apart.

It imports little, since processes of their own use it too.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from gpufeed import IndexSampler, Loader, Manifest
from gpufeed import transforms as tf

CHAIN = [tf.RandomResizedCrop(24), tf.RandomHorizontalFlip(), tf.Normalize()]


def make(manifest: Manifest, **options: Any) -> Loader:
    settled = {
        "sampler": IndexSampler(len(manifest), shuffle=True, seed=3),
        "transforms": CHAIN,
        "batch_size": 8,
        "device": "cpu",
        "num_threads": 2,
    }
    return Loader(manifest, **{**settled, **options})


def digest(batch: dict[str, Any]) -> str:
    """Of all that is in a batch."""
    total = hashlib.sha256()
    for name in sorted(batch):
        values = np.asarray(batch[name])
        total.update(f"{name} {values.dtype} {values.shape}".encode())
        total.update(np.ascontiguousarray(values).tobytes())
    return total.hexdigest()
