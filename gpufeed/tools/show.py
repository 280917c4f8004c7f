"""The contact sheet of any batch of any data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import gpufeed
from gpufeed.errors import ConfigError
from gpufeed.feed.loader import Batch, Loader
from gpufeed.order.uniform import IndexSampler
from gpufeed.tools.marks import mark
from gpufeed.tools.named import Preset, is_training, make_transforms
from gpufeed.tools.sheet import captions_of, draw_sheet

if TYPE_CHECKING:
    from PIL.Image import Image

    from gpufeed.order.schedule import LastBatch
    from gpufeed.records import Manifest

__all__ = ["Shown", "draw_batch", "show_batch"]


@dataclass(frozen=True)
class Shown:
    """A contact sheet and what is on it.

    Attributes:
        sheet: the image.
        images: how many images are on it.
        epoch: the epoch that the batch lies in.
        steps_per_epoch: batches in an epoch.
        incomplete: whether the set is smaller than a batch, so that training would leave it out.
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
    """Draw the images that training or evaluating with these settings gets at `step`.

    They are made anew as plain levels: what a preset draws does not depend on its output format,
    so these are the images of the normalised batch. Training presets are shuffled and leave out
    an epoch's tail, as `Loader` does; evaluating ones go through the manifest in its order, to
    the last record.

    Args:
        manifest: the records.
        step: number of the batch, from 0.
        preset: what is done to the images.
        size: side of the images, pixels.
        batch_size: records in a batch.
        seed: of the order and of the random transforms.
        device: as for `Loader`.
        split: named in the sheet's last line where given.
        targets: whether boxes and points are drawn on the images.

    Raises:
        ConfigError: an argument is out of range, there is no such batch, or there are no targets.
        DecodeError: an image cannot be read or decoded.
    """
    has = {"boxes": manifest.has_objects, "points": manifest.has_points}
    kinds = [kind for kind, there in has.items() if targets and there]
    if targets and not kinds:
        raise ConfigError("targets are to be drawn, but the data have neither boxes nor points")
    training = is_training(preset)
    # A set that is smaller than a batch is shown for all that.
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
    ) as loader:
        facts = [f"seed {seed}", f"preset {preset}", *([f"split {split}"] if split else [])]
        return replace(draw_batch(loader, step, facts), incomplete=incomplete)


_GAP = 2
"""Pixels between two views."""
_DRAWN = ("boxes", "box_labels", "points", "point_visible")


def draw_batch(loader: Loader, step: int, facts: Sequence[str]) -> Shown:
    """Draw the contact sheet of a loader's batch.

    Args:
        loader: its transforms end in plain levels, uint8 NHWC.
        step: number of the batch.
        facts: what else is said in the sheet's last line.

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
        _side_by_side(_marked(batch)),
        captions_of(loader.manifest, loader.rows(batch)),
        [
            f"gpufeed {gpufeed.__version__}",
            f"step {step} (epoch {epoch})",
            *facts,
            f"device {loader.device}",
        ],
    )
    return Shown(sheet, len(batch["label"]), epoch, len(loader))


def _marked(batch: Batch) -> Any:
    """A batch's images with its targets drawn on them, where it has any."""
    images = batch["image"]
    drawn = {name: batch[name] for name in _DRAWN if name in batch}
    if not drawn:
        return images
    if not isinstance(images, list):
        return mark(np.asarray(images), drawn)
    return [
        mark(np.asarray(view), {name: values[place] for name, values in drawn.items()})
        for place, view in enumerate(images)
    ]


def _side_by_side(images: Any) -> npt.NDArray[np.uint8]:
    """Each record's views in one image, on white."""
    if not isinstance(images, list):
        return np.asarray(images)
    height = max(view.shape[1] for view in images)
    joined: list[npt.NDArray[np.uint8]] = []
    for view in images:
        below, right = height - view.shape[1], _GAP if joined else 0
        joined.append(np.pad(view, ((0, 0), (0, below), (right, 0), (0, 0)), constant_values=255))
    return np.concatenate(joined, axis=2)
