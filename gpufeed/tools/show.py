"""Contact sheets of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import gpufeed
from gpufeed.errors import ConfigError
from gpufeed.feed.loader import Batch, Loader
from gpufeed.order.shard import ShardOptions
from gpufeed.order.uniform import IndexSampler
from gpufeed.tools.draw_targets import draw_targets
from gpufeed.tools.resolve import Preset, is_training, make_transforms
from gpufeed.tools.sheet import captions_of, draw_sheet

if TYPE_CHECKING:
    from PIL.Image import Image

    from gpufeed.order.schedule import LastBatch
    from gpufeed.records import Manifest

__all__ = ["Shown", "draw_batch", "show_batch"]


@dataclass(frozen=True)
class Shown:
    """A contact sheet and its batch.

    Attributes:
        sheet: the contact sheet.
        images: the number of images on it.
        epoch: the epoch of the batch.
        steps_per_epoch: batches in an epoch.
        incomplete: whether the set is smaller than a batch, so that training would drop it.
    """

    sheet: Image
    images: int
    epoch: int
    steps_per_epoch: int
    incomplete: bool = False


def show_batch(
    manifest: Manifest,
    step: int = 0,
    *,
    preset: Preset = "train",
    size: int = 224,
    batch_size: int = 64,
    seed: int = 0,
    device: str = "auto",
    split: str = "",
    targets: bool = False,
) -> Shown:
    """Draw the images that training or evaluation with these settings receives at `step`.

    The images are made as uint8 pixels. The random numbers of a preset do not depend on its output
    format, so these are the images of the normalised batch. Training presets are shuffled with
    last_batch="drop"; evaluation presets go through the manifest in order, to the last record.

    Args:
        manifest: the records.
        step: the number of the batch, from 0.
        preset: the name of the transforms.
        size: the side of the images in pixels.
        batch_size: records in a batch.
        seed: the seed of the order and of the random transforms.
        device: as for `Loader`.
        split: the name of the split for the sheet's last line; "" for none.
        targets: whether to draw boxes and points on the images.

    Raises:
        ConfigError: an argument is out of range, there is no such batch, or there are no targets.
        DecodeError: an image cannot be read or decoded.
    """
    has = {"boxes": manifest.has_objects, "points": manifest.has_points}
    kinds = [kind for kind, there in has.items() if targets and there]
    if targets and not kinds:
        raise ConfigError(
            "targets were requested, but the data have neither boxes nor points; leave out targets"
        )
    training = is_training(preset)
    # A set that is smaller than a batch is shown nevertheless.
    incomplete = training and len(manifest) < batch_size
    last_batch: LastBatch = "drop" if training and not incomplete else "partial"
    with Loader(
        manifest,
        sampler=IndexSampler(len(manifest), shuffle=training, seed=seed),
        transforms=make_transforms(preset, size, dtype="uint8", layout="NHWC"),
        batch_size=batch_size,
        last_batch=last_batch,
        device=device,
        targets=kinds,
        shard=ShardOptions(),
    ) as loader:
        facts = [f"seed {seed}", f"preset {preset}", *([f"split {split}"] if split else [])]
        return replace(draw_batch(loader, step, facts), incomplete=incomplete)


_GAP = 2
"""Pixels between two views."""
_DRAWN = ("boxes", "box_labels", "points", "point_visible")


def draw_batch(loader: Loader, step: int, facts: Sequence[str]) -> Shown:
    """Draw the contact sheet of a loader's batch.

    Args:
        loader: a loader whose transforms end in uint8 NHWC.
        step: the number of the batch.
        facts: additional text for the sheet's last line.

    Raises:
        ConfigError: there is no such batch.
        DecodeError: an image cannot be read or decoded.
    """
    try:
        batch = loader.batch(step)
    except IndexError as error:
        raise ConfigError(f"step is {step}: {error}") from None
    epoch = step // len(loader)
    sheet = draw_sheet(
        _side_by_side(_with_targets(batch)),
        captions_of(loader.manifest, loader.rows(batch)),
        [
            f"gpufeed {gpufeed.__version__}",
            f"step {step} (epoch {epoch})",
            *facts,
            f"device {loader.device}",
        ],
    )
    return Shown(sheet, len(batch["label"]), epoch, len(loader))


def _with_targets(batch: Batch) -> Any:
    """Return a batch's images, with its targets drawn on them if it has any."""
    images = batch["image"]
    drawn = {name: batch[name] for name in _DRAWN if name in batch}
    if not drawn:
        return images
    if not isinstance(images, list):
        return draw_targets(np.asarray(images), drawn)
    return [
        draw_targets(np.asarray(view), {name: values[place] for name, values in drawn.items()})
        for place, view in enumerate(images)
    ]


def _side_by_side(images: Any) -> npt.NDArray[np.uint8]:
    """Return each record's views side by side in one image, on white."""
    if not isinstance(images, list):
        return np.asarray(images)
    height = max(view.shape[1] for view in images)
    joined: list[npt.NDArray[np.uint8]] = []
    for view in images:
        below, right = height - view.shape[1], _GAP if joined else 0
        joined.append(np.pad(view, ((0, 0), (0, below), (right, 0), (0, 0)), constant_values=255))
    return np.concatenate(joined, axis=2)
