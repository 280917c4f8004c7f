"""The changes to a run that may be worth it, each as something to try on a sample."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from gpufeed._util.limits import quarter_of_memory
from gpufeed.errors import ConfigError, MissingExtraError
from gpufeed.feed.loader import Loader
from gpufeed.open.kinds import THREADS
from gpufeed.plan.prefix import place
from gpufeed.records import Manifest
from gpufeed.records.bounding_box import corners
from gpufeed.source.files import FileSource
from gpufeed.tiers.caches import DiskCache, MemoryCache
from gpufeed.tools.doctor.sample import BATCH, Sample
from gpufeed.tools.doctor.storage import measure_storage
from gpufeed.tools.prepare.run import prepare
from gpufeed.transforms import Resize, ToDtype, Transform, Views
from gpufeed.transforms.base import GeometricTransform, OutputFormat

__all__ = ["Candidate", "candidates", "tier"]

_ENOUGH = 0.6
"""Share of an image's pixels above which making it smaller gains nothing."""
_ROOM = 256 / 224


@dataclass(frozen=True)
class Candidate:
    """A change to try: other options of the loader, or other images, the sample prepared.

    `part` is the part of the costs that it leaves out; "" for none.
    """

    name: str
    advice: str
    options: Mapping[str, Any] = field(default_factory=dict)
    prepared: Manifest | None = None
    part: str = ""


def candidates(
    loader: Loader, sample: Sample, whole: Manifest, folder: Path
) -> Iterator[Candidate]:
    """Yield the changes that may lower the CPU time of an image.

    Prepared images are written to the folder. The loader is one of the sample.
    """
    options = sample.options
    transforms = options["transforms"]
    yield from _each_without(transforms)
    yield Candidate(
        "uint8",
        'Hand over uint8 (dtype="uint8" in the preset, or ToDtype("uint8")), and normalise in the '
        "training step, which on a GPU takes almost nothing.",
        {"transforms": _changed(transforms, _to_uint8)},
        part="output",
    )
    if not loader.device.is_cuda:
        other = "graph" if THREADS in loader._shares else "threads"
        advice = f'Use opener="{other}". Pixels differ by a few grey levels.'
        yield Candidate("opener", advice, {"opener": other})
    if sample.scale == 1 and options["batch_size"] < BATCH:
        advice = f"Use batches of {BATCH}, if training allows: each batch takes time of its own."
        yield Candidate("batch size", advice, {"batch_size": BATCH})
    side = max(min(view.size) for view in loader._planner.stages.views)
    yield from _prepared(sample, round(side * _ROOM), folder)
    with contextlib.suppress(ConfigError):  # the images do not fit
        Loader(whole, **{**options, "cache": "host"}).close()
        yield Candidate(
            "cache",
            'Use cache="host": decoded images fit into memory, and are read from there from the '
            "second epoch on.",
            {"cache": "host"},
        )


def _each_without(transforms: Any) -> Iterator[Candidate]:
    """Yield the lists without each of the transforms that only change pixels."""
    seen: list[object] = []
    for transform in (each for view in _views(transforms) for each in view):
        identity = transform.identity
        if isinstance(transform, OutputFormat | GeometricTransform) or identity in seen:
            continue
        seen.append(identity)
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
        )


def _views(transforms: Any) -> Any:
    return transforms.views if isinstance(transforms, Views) else [transforms]


def _to_uint8(transform: Any) -> Transform:
    changes = isinstance(transform, OutputFormat)
    return ToDtype("uint8", layout=transform.layout) if changes else transform


def _changed(transforms: Any, change: Callable[[Any], Transform | None]) -> Any:
    """Return transforms, of one view or several, with each changed, or left out if it is None."""
    if isinstance(transforms, Views):
        return Views([_changed(view, change) for view in transforms.views])
    return [changed for each in transforms if (changed := change(each)) is not None]


def _prepared(sample: Sample, side: int, folder: Path) -> Iterator[Candidate]:
    """Prepare the sample as it would be best, if that makes its images smaller."""
    manifest, views = sample.held, _views(sample.options["transforms"])
    sizes, boxes = manifest.sizes().astype(np.int64), corners(manifest.boxes())
    leading: list[Transform] = []
    with contextlib.suppress(ConfigError):  # the first transform that cannot be prepared
        for transform in views[0] if len(views) == 1 else []:
            place([*leading, transform], sizes, boxes)
            leading.append(transform)
    if leading:
        names = ", ".join(type(each).__name__ for each in leading)
        what = f"Prepare the images once with {names} (gpufeed.prepare); the loader then skips them"
    else:
        leading = [Resize(side)]
        what = (
            f"Prepare the images once with a shorter side of {side} (gpufeed prepare --size {side})"
            ". Crops then come from smaller images"
        )
    share = place(leading, sizes, boxes).size.prod(axis=1).sum() / sizes.prod(axis=1).sum()
    if share > _ENOUGH:
        return
    with contextlib.suppress(MissingExtraError):
        yield Candidate(
            "prepare",
            f"{what}. Their pixels are {100 * share:.0f} % of the originals', as JPEG.",
            prepared=prepare(manifest, folder, leading, to="files", workers=1, progress=False),
        )


def tier(sample: Sample, count: int, folder: Path) -> tuple[Candidate, float] | None:
    """Return the tier with room for so many images, and its seconds of reading one.

    None if the images are not encoded.
    """
    images = sample.held.source.read(np.arange(len(sample.held)))
    encoded = [each for each in images if not isinstance(each, np.ndarray | OSError)]
    if not encoded:
        return None
    size = int(sample.storage.mean_bytes * count * 1.1) + (1 << 20)
    amount = f"{max(size / 1e9, 0.1):.1f} GB"
    cache: Any = MemoryCache(amount)
    made = f'MemoryCache("{amount}")'
    if size >= min(quarter_of_memory(), shutil.disk_usage(MemoryCache.shared_memory).free):
        cache = DiskCache(folder, size)
        made = f'DiskCache("/a/local/disk", "{amount}")'
    names = [f"copy-{number}" for number in range(len(encoded))]
    for name, image in zip(names, encoded, strict=True):
        (folder / name).write_bytes(image)
    local = FileSource(folder, pl.Series(names))
    found, _ = measure_storage(local, [np.arange(len(names))], count, seconds=1.0)
    advice = (
        f"Keep encoded images in this machine: cache=[{made}]. From the second epoch on they come "
        "from there; `gpufeed stage` copies them to a disk before the first."
    )
    return Candidate("tier", advice, {"cache": [cache]}), found.fetch
