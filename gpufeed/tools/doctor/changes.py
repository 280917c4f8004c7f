"""The changes to a run that may be worth it, each as something to try on a sample."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gpufeed._util.limits import quarter_of_memory
from gpufeed.errors import ConfigError, MissingExtraError
from gpufeed.feed.loader import Loader
from gpufeed.open.kinds import THREADS
from gpufeed.plan.prefix import place
from gpufeed.records import Manifest
from gpufeed.records.bounding_box import corners
from gpufeed.tiers.caches import DiskCache, MemoryCache
from gpufeed.tools.doctor.storage import Storage
from gpufeed.tools.prepare.run import prepare
from gpufeed.transforms import Resize, ToDtype, Transform, Views
from gpufeed.transforms.base import GeometricTransform, OutputFormat

__all__ = [
    "BATCH",
    "Candidate",
    "cache_candidate",
    "candidates",
    "prepare_candidate",
    "tier_candidate",
]

BATCH = 64
_ENOUGH = 0.6
"""Share of an image's pixels above which making it smaller gains nothing."""
_ROOM = 256 / 224


@dataclass(frozen=True)
class Candidate:
    """A change to try.

    Attributes:
        name: such as "uint8", or the kind of a transform.
        advice: what to do, as a sentence.
        options: of the loader, in the place of its own.
        prepared: the sample after the change, if its images are others.
        part: the part of the costs that it leaves out; "" for none.
        advised: whether it may be advised, and is not only for knowing what a part costs.
    """

    name: str
    advice: str
    options: Mapping[str, Any] = field(default_factory=dict)
    prepared: Manifest | None = None
    part: str = ""
    advised: bool = True


def candidates(loader: Loader, options: Mapping[str, Any]) -> Iterator[Candidate]:
    """Yield the changes that may lower the costs of an image, besides caches.

    Args:
        loader: a loader of the sample with `options`.
        options: of the user's loader.
    """
    transforms = options["transforms"]
    yield from _each_without(transforms)
    yield Candidate(
        "uint8",
        'Hand over uint8 (dtype="uint8" in the preset, or ToDtype("uint8")), and normalise in the '
        "training step, which on a GPU takes almost nothing.",
        {
            "transforms": _changed(
                transforms,
                lambda each: (
                    ToDtype("uint8", layout=each.layout) if isinstance(each, OutputFormat) else each
                ),
            )
        },
        part="output",
    )
    if not loader.device.is_cuda:
        other = "graph" if THREADS in loader._shares else "threads"
        yield Candidate(
            "opener",
            f'Use opener="{other}". Pixels differ by a few grey levels.',
            {"opener": other},
        )
    if options["batch_size"] < BATCH:
        yield Candidate(
            "batch size",
            f"Use batches of {BATCH}, if training allows: each batch takes time of its own.",
            {"batch_size": BATCH},
        )


def _each_without(transforms: Any) -> Iterator[Candidate]:
    """Yield the lists without each of the transforms in turn."""
    views = transforms.views if isinstance(transforms, Views) else [transforms]
    seen: list[object] = []
    for transform in (each for view in views for each in view):
        if isinstance(transform, OutputFormat) or transform.identity in seen:
            continue
        seen.append(identity := transform.identity)
        left = _changed(
            transforms,
            lambda each, gone=identity: None if each.identity == gone else each,  # type: ignore[misc]
        )
        name = type(transform).__name__
        yield Candidate(
            name,
            f"Replace {name} by something cheaper, if training allows, or apply it to fewer "
            "images. The gain is that of leaving it out.",
            {"transforms": left},
            part=name,
            advised=not isinstance(transform, GeometricTransform),
        )


def _changed(transforms: Any, change: Callable[[Any], Transform | None]) -> Any:
    """Return transforms, of one view or several, with each changed, or left out if it is None."""
    if isinstance(transforms, Views):
        return Views([_changed(view, change) for view in transforms.views])
    changed = [change(each) for each in transforms]
    return [each for each in changed if each is not None]


def prepare_candidate(
    sample: Manifest, transforms: Any, sides: Sequence[int], folder: Path
) -> Candidate | None:
    """Prepare a sample as it would be best; None if that would not make its images smaller.

    Args:
        sample: images that can be decoded.
        transforms: of the loader.
        sides: the shorter side of each view, pixels.
        folder: to write to.
    """
    views = transforms.views if isinstance(transforms, Views) else [transforms]
    sizes, boxes = sample.sizes().astype(np.int64), corners(sample.boxes())
    leading: list[Transform] = []
    if len(views) == 1:
        for transform in views[0]:
            try:
                place([*leading, transform], sizes, boxes)
            except ConfigError:
                break
            leading.append(transform)
    side = round(max(sides) * _ROOM)
    if leading:
        names = ", ".join(type(each).__name__ for each in leading)
        what = f"Prepare the images once with {names} (gpufeed.prepare); the loader then skips them"
    else:
        leading = [Resize(side)]
        what = (
            f"Prepare the images once with a shorter side of {side} (gpufeed prepare --size {side})"
            ". Crops then come from smaller images"
        )
    pixels = place(leading, sizes, boxes).size.prod(axis=1).sum()
    if pixels > _ENOUGH * sizes.prod(axis=1).sum():
        return None
    try:
        prepared = prepare(sample, folder, leading, to="files", workers=1, progress=False)
    except MissingExtraError:
        return None
    share = pixels / sizes.prod(axis=1).sum()
    advice = f"{what}. Their pixels are {100 * share:.0f} % of the originals', as JPEG."
    return Candidate("prepare", advice, prepared=prepared)


def cache_candidate(whole: Manifest, options: Mapping[str, Any]) -> Candidate | None:
    """Return the cache of decoded images, or None if the images of a manifest do not fit."""
    try:
        Loader(whole, **{**options, "cache": "host"}).close()
    except ConfigError:
        return None
    return Candidate(
        "cache",
        'Use cache="host": decoded images fit into memory, and are read from there from the second '
        "epoch on.",
        {"cache": "host"},
    )


def tier_candidate(storage: Storage, count: int, folder: Path) -> Candidate:
    """Return the tier that has room for the encoded images of a manifest."""
    size = int(storage.mean_bytes * count * 1.1) + (1 << 20)
    amount = f"{max(size / 1e9, 0.1):.1f} GB"
    room = min(quarter_of_memory(), shutil.disk_usage(MemoryCache.shared_memory).free)
    if size < room:
        tier: Any = MemoryCache(amount)
        made = f'MemoryCache("{amount}")'
    else:
        tier = DiskCache(folder, size)
        made = f'DiskCache("/a/local/disk", "{amount}")'
    return Candidate(
        "tier",
        f"Keep encoded images in this machine: cache=[{made}]. From the second epoch on they come "
        "from there; `gpufeed stage` copies them to a disk before the first.",
        {"cache": [tier]},
    )
