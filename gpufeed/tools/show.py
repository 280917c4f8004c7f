"""Contact sheets of batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpufeed.errors import ConfigError
from gpufeed.feed.loader import Loader
from gpufeed.order.shard import ShardOptions
from gpufeed.order.uniform import IndexSampler
from gpufeed.sheets import batch as draw
from gpufeed.tools.resolve import Preset, is_training, make_transforms
from gpufeed.transforms import ToDtype

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
    has = {
        "boxes": manifest.has_objects,
        "box_points": manifest.box_points([0]) is not None,
        "points": manifest.has_points,
    }
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
    views = len(batch["image"]) if isinstance(batch["image"], list) else 1
    sheet = draw.draw_batch(
        batch,
        loader.manifest,
        [ToDtype("uint8", layout="NHWC")] * views,
        [f"step {step} (epoch {epoch})", *facts, f"device {loader.device}"],
    )
    return Shown(sheet, len(batch["record_key"]), epoch, len(loader))
