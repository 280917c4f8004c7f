"""Contact sheets of batches, of any framework, layout and normalisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import gpufeed
from gpufeed.errors import ConfigError
from gpufeed.sheets.draw_targets import draw_map, draw_mask, draw_targets
from gpufeed.sheets.sheet import captions_of, draw_sheet

if TYPE_CHECKING:
    from PIL.Image import Image

    from gpufeed.records import Manifest
    from gpufeed.transforms import OutputFormat

__all__ = ["draw_batch", "levels_of"]

Pixels = npt.NDArray[np.uint8]
ToNumpy = Callable[[Any], npt.NDArray[Any]]

_GAP = 2
"""Pixels between two views."""
_OF_BOXES = ("boxes", "box_labels", "box_points", "box_point_visible")
_DRAWN = (*_OF_BOXES, "box_valid", "points", "point_visible")


def draw_batch(
    batch: Any,
    manifest: Manifest,
    outputs: Sequence[OutputFormat],
    facts: Sequence[str] = (),
    *,
    box_format: str = "xyxy",
    to_numpy: ToNumpy = np.asarray,
    max_images: int | None = None,
    masks: Mapping[str, float] | None = None,
    maps: Mapping[str, float] | None = None,
    pairs: Sequence[str] = (),
) -> Image:
    """Draw the images of a batch with their targets; views of a record side by side.

    Args:
        batch: a batch as a loader hands it out, with the keys `image` and `record_key`, or a
            record.
        manifest: the loader's manifest.
        outputs: for each view, the output format that is to be undone.
        facts: texts for the sheet's last line.
        box_format: "xyxy" or "xywh".
        to_numpy: from an array of the batch to one in host memory.
        max_images: the number of records to draw at most; None for all.
        masks: names of masks, with the values of theirs that mean no class.
        maps: names of maps of numbers, which are drawn beside their view, with the values of
            theirs that mean nothing.
        pairs: names of other images of the records, which are drawn there too.

    Raises:
        ConfigError: the batch has other keys, or other images than such a loader's.
    """
    masks, maps = masks or {}, maps or {}
    if not isinstance(batch, Mapping) or not {"image", "record_key"} <= batch.keys():
        raise ConfigError(
            f"batch is a {type(batch).__name__} without the keys image and record_key; pass a "
            "batch as the loader makes it, without a collate_fn of your own"
        )
    if np.ndim(to_numpy(batch["record_key"])) == 0:  # one record: a batch of one
        batch = {
            name: [each[None] for each in value] if isinstance(value, list) else value[None]
            for name, value in batch.items()
            if name in {"image", "record_key", *_DRAWN, *masks, *maps, *pairs}
        }
    several = isinstance(batch["image"], list)
    images = batch["image"] if several else [batch["image"]]
    if len(images) != len(outputs):
        raise ConfigError(f"batch has {len(images)} view(s), and the loader makes {len(outputs)}")
    keys = to_numpy(batch["record_key"])
    if max_images is not None and max_images < len(keys):
        facts = [f"{max_images} of {len(keys)} images", *facts]
        keys = keys[:max_images]
    views = []
    for place, (view, output) in enumerate(zip(images, outputs, strict=True)):
        targets = {
            name: [to_numpy(each) for each in (batch[name][place] if several else batch[name])]
            for name in _DRAWN
            if name in batch
        }
        levels = levels_of(to_numpy(view[: len(keys)]), output)
        for name, ignored in masks.items():
            values = batch[name][place] if several else batch[name]
            levels = draw_mask(levels, to_numpy(values[: len(keys)]), ignored)
        views.append(_marked(levels, targets, box_format) if targets else levels)
        for name, missing in maps.items():
            values = batch[name][place] if several else batch[name]
            views.append(draw_map(to_numpy(values[: len(keys)]), missing))
        for name in pairs:
            values = batch[name][place] if several else batch[name]
            views.append(levels_of(to_numpy(values[: len(keys)]), output))
    captions = captions_of(manifest, manifest.rows(keys))
    return draw_sheet(_side_by_side(views), captions, [f"gpufeed {gpufeed.__version__}", *facts])


def levels_of(images: npt.NDArray[Any], output: OutputFormat) -> Pixels:
    """Return the pixel values that an output format was given, rounded: uint8 NHWC."""
    channels = 1 if output.layout == "NCHW" else -1
    if images.ndim != 4 or images.shape[channels] != 3:
        raise ConfigError(
            f"the batch's images are {images.dtype} {images.shape}, and the loader makes "
            f"{output.dtype} in the layout {output.layout}"
        )
    images = np.moveaxis(images, channels, -1)
    if images.dtype == np.uint8:
        return images
    levels = np.nan_to_num(images * np.array(output.std) + np.array(output.mean))
    return np.asarray(np.rint(np.clip(levels, 0, 255)), dtype=np.uint8)


def _marked(images: Pixels, targets: dict[str, list[Any]], box_format: str) -> Pixels:
    """Return images with the targets of their view drawn on them."""
    valid = targets.pop("box_valid", None)
    if valid is not None:
        for name in targets.keys() & set(_OF_BOXES):
            targets[name] = [all_[own] for all_, own in zip(targets[name], valid, strict=True)]
    if box_format == "xywh" and "boxes" in targets:
        targets["boxes"] = [
            np.hstack([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]]) for boxes in targets["boxes"]
        ]
    return draw_targets(images, targets)


def _side_by_side(views: Sequence[Pixels]) -> Pixels:
    """Return each record's views side by side in one image, on white."""
    height = max(view.shape[1] for view in views)
    joined: list[Pixels] = []
    for view in views:
        below, right = height - view.shape[1], _GAP if joined else 0
        joined.append(np.pad(view, ((0, 0), (0, below), (right, 0), (0, 0)), constant_values=255))
    return np.concatenate(joined, axis=2)
