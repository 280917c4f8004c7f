"""Pixels of the device beside the CPU's: transforms, formats, EXIF orientations, damaged files.

The reference is `device="cpu", opener="threads"`. On the CPU, what is compared with it is DALI's
graph. Rims are left out, since DALI repeats the edge where a filter reaches out of its window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import gpufeed
from benchmarks.gpu.choices import Choice, choices
from benchmarks.gpu.data import DAMAGES, FORMATS, encoded_as, in_memory, shrunk
from benchmarks.gpu.job import Absent, Facts, Job
from gpufeed import transforms as tf
from gpufeed.sheets.sheet import Row, draw_rows
from gpufeed.tools.gallery import Example, examples
from gpufeed.transforms.output import IMAGENET_MEAN, IMAGENET_STD

__all__ = ["cases"]

Images = list[npt.NDArray[Any]]

_SIDE = 96
_RIM = 2
_MEAN = 1.0
"""Grey levels by which images may differ on average."""
_LATE = (tf.LateTransform, tf.MixTransform)
_UINT8 = tf.ToDtype("uint8", layout="NHWC")
_SHEET = 8
"""The cases with the largest mean difference that are drawn side by side."""


def cases(job: Job) -> dict[str, Callable[[], Facts]]:
    """Return transforms, presets, formats by opener, and damaged files."""
    tried = [choice for choice in choices(job.device) if choice.is_pure]
    if not job.on_gpu:  # the reference
        tried = [choice for choice in tried if choice.opener != "threads"]
    worst = _Worst(Path(job.out))
    # All stages run on the GPU after this one, but not after "threads".
    in_graph = next(choice for choice in tried if choice.opener in ("cuda", "graph"))
    listed: dict[str, Callable[[], Facts]] = {}
    for number, example in enumerate(examples(_SIDE)):
        name = f"transform {number}: {example.shown.text}"
        listed[name] = partial(_transform, job, in_graph, example, worst, name)
    for choice in tried:
        for preset in _PRESETS if choice.opener in ("threads", in_graph.opener) else ():
            name = f"{choice.name}: preset {preset}"
            listed[name] = partial(_preset, job, choice, preset, worst, name)
        for kind in FORMATS:
            name = f"{choice.name}: {kind}"
            listed[name] = partial(_format, job, choice, kind, worst, name)
        for kind in DAMAGES:
            listed[f"{choice.name}: {kind}"] = partial(_damaged, job, choice, kind)
    return listed


# ----------------------------------------------------------------------------- transforms


def _transform(job: Job, choice: Choice, example: Example, worst: _Worst, name: str) -> Facts:
    if example.kind is tf.Lambda:
        raise Absent("a Lambda runs on threads alone")
    shown = example.shown.made
    late = isinstance(shown, _LATE)
    chain = [*example.before, *([] if late else [shown]), *example.after]
    # All images of a batch have one size, whatever the transform leaves.
    chain += [] if late or example.after or _has_views(shown) else [tf.PadToSquare(_SIDE)]
    return _both(job, choice, [*chain, _UINT8, *([shown] if late else [])], worst, name)


def _has_views(shown: object) -> bool:
    return isinstance(shown, tf.FiveCrop | tf.TenCrop)


_PRESETS: dict[str, Callable[[], Any]] = {
    "train, float16": lambda: gpufeed.presets.train(_SIDE, dtype="float16"),
    "evaluate, float32": lambda: gpufeed.presets.evaluate(_SIDE),
    "torchvision_train, float16": lambda: gpufeed.presets.torchvision_train(
        _SIDE, num_classes=3, dtype="float16"
    ),
    "timm_train, float16": lambda: gpufeed.presets.timm_train(
        _SIDE, num_classes=3, dtype="float16"
    ),
    "simclr, two views": lambda: gpufeed.presets.simclr(_SIDE),
    "dino, views of two sizes": lambda: gpufeed.presets.dino(),
    "nothing chosen": lambda: [
        tf.RandomResizedCrop(_SIDE),
        *(kind(p=0.0) for kind in (tf.RandomInvert, tf.RandomEqualize, tf.RandomGrayscale)),
        tf.RandomRotation(30),
        _UINT8,
    ],
    "vertical flips": lambda: [tf.Resize((_SIDE, _SIDE)), tf.RandomVerticalFlip(1.0), _UINT8],
    "two resizes": lambda: [tf.Resize(_SIDE), tf.RandomCrop(80), tf.Resize((60, 70)), _UINT8],
}


def _preset(job: Job, choice: Choice, preset: str, worst: _Worst, name: str) -> Facts:
    return _both(job, choice, _PRESETS[preset](), worst, name)


def _both(job: Job, choice: Choice, chain: Any, worst: _Worst, name: str) -> Facts:
    """Feed the same images through the same transforms both ways."""
    files, sizes = encoded_as(shrunk(job, job.pick(16, 6, 4)), "JPEG 4:4:4")
    manifest = in_memory(files, sizes)
    ours = _feed(manifest, chain, device=job.device, opener=choice.opener)
    reference = _feed(manifest, chain, device="cpu", opener="threads")
    return worst.compare(name, ours, reference)


def _feed(manifest: gpufeed.Manifest, chain: Any, **options: Any) -> Images:
    """Return all images of one batch; those of several views follow each other."""
    with gpufeed.Loader(
        manifest,
        sampler=gpufeed.SequentialSampler(len(manifest)),
        transforms=chain,
        batch_size=len(manifest),
        shard=gpufeed.ShardOptions(),
        **options,
    ) as loader:
        image = loader.batch(0)["image"]
        views: Sequence[Any] = image if isinstance(image, list) else [image]
        return [np.array(each) for view in views for each in view]


# -------------------------------------------------------------------------------- files


def _format(job: Job, choice: Choice, kind: str, worst: _Worst, name: str) -> Facts:
    files, sizes = encoded_as(shrunk(job, job.pick(8, 4, 2)), kind)
    manifest = in_memory(files, sizes)
    # Two windows of each image: its size as it is, from within, and shrunk, from anywhere.
    chains = [[tf.CenterCrop(301), _UINT8], [tf.RandomResizedCrop(_SIDE), _UINT8]]
    ours, reference = [], []
    for chain in chains:
        ours += _feed(manifest, chain, device=job.device, opener=choice.opener)
        reference += _feed(manifest, chain, device="cpu", opener="threads")
    return worst.compare(name, ours, reference)


def _damaged(job: Job, choice: Choice, kind: str) -> Facts:
    """Feed a damaged file between good ones; it must count as bad in both ways or in none."""
    files, sizes = encoded_as(shrunk(job, 4), "JPEG 4:2:0")
    manifest = in_memory(files, sizes)
    files[1] = DAMAGES[kind](files[1])  # after it was listed, as it happens to files
    manifest = gpufeed.Manifest(manifest.frame, gpufeed.MemorySource(files), manifest.classes)
    chain = [tf.CenterCrop(301), _UINT8]
    verdicts = []
    for options in (
        {"device": job.device, "opener": choice.opener},
        {"device": "cpu", "opener": "threads"},
    ):
        with gpufeed.Loader(
            manifest,
            sampler=gpufeed.SequentialSampler(4),
            transforms=chain,
            batch_size=4,
            on_error="blank",
            max_failures=4,
            shard=gpufeed.ShardOptions(),
            **options,
        ) as loader:
            batch = loader.batch(0)
            verdicts.append((np.array(batch["valid"]).tolist(), np.array(batch["image"])))
    (ours, image), (wanted, reference) = verdicts
    others = np.delete(np.abs(image.astype(int) - reference), 1, axis=0)
    said = "accepted" if ours[1] else "refused"
    return {
        "here": said,
        "CPU": "accepted" if wanted[1] else "refused",
        "mean": float(others.mean()),
        "ok": ours == wanted and float(others.mean()) <= _MEAN,
    }


# --------------------------------------------------------------------------- comparison


class _Worst:
    """Compares images, and draws those that differ most; after a crash, the drawing begins anew.

    Args:
        out: the folder of the sheet.
    """

    def __init__(self, out: Path) -> None:
        self._out = out
        self._rows: list[tuple[float, Row]] = []

    def compare(self, name: str, ours: Images, reference: Images) -> Facts:
        """Return how far images differ, in grey levels."""
        if [each.shape for each in ours] != [each.shape for each in reference]:
            return {"ok": False, "error": "the shapes differ"}
        pairs = [(_levels(one), _levels(other)) for one, other in zip(ours, reference, strict=True)]
        apart = [np.abs(one - other)[_RIM:-_RIM, _RIM:-_RIM] for one, other in pairs]
        means = [float(each.mean()) for each in apart]
        values = np.concatenate([each.ravel() for each in apart])
        self._keep(name, *pairs[int(np.argmax(means))])
        return {
            "mean": float(values.mean()),
            "99 %": float(np.percentile(values, 99)),
            "largest": float(values.max()),
            "largest mean": max(means),
            "ok": float(values.mean()) <= _MEAN,
        }

    def _keep(self, name: str, one: npt.NDArray[Any], other: npt.NDArray[Any]) -> None:
        apart = np.abs(one - other)
        if len(self._rows) == _SHEET and apart.mean() <= self._rows[-1][0]:
            return
        images = [one, other, 8 * apart]
        small = [np.clip(each[:_SIDE, :_SIDE], 0, 255).astype(np.uint8) for each in images]
        self._rows.append((float(apart.mean()), Row(name, f"mean {apart.mean():.2f}", small)))
        self._rows.sort(key=lambda row: -row[0])
        del self._rows[_SHEET:]
        heads = ["", "device", "CPU, and 8 times the difference"]
        sheet = draw_rows([row for _, row in self._rows], heads, ["the worst"], size=_SIDE)
        sheet.save(self._out / "pixels.png")


def _levels(image: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return grey levels, (height, width, 3)."""
    if image.dtype == np.uint8:
        return image.astype(np.float64)
    mean, std = (np.array(each) for each in (IMAGENET_MEAN, IMAGENET_STD))
    values = np.moveaxis(image.astype(np.float64), 0, -1)
    levels: npt.NDArray[np.float64] = 255 * (values * std + mean)
    return levels
