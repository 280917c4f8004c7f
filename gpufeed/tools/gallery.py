"""The contact sheet of all transforms: several draws of each, applied to one image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import gpufeed
from gpufeed import transforms as tf
from gpufeed._util.progress import progress as progress_bar
from gpufeed.engine.device import resolve_device
from gpufeed.errors import ConfigError
from gpufeed.feed.loader import Loader
from gpufeed.order.shard import ShardOptions
from gpufeed.order.uniform import SequentialSampler
from gpufeed.records import Manifest
from gpufeed.sheets.sheet import Row, draw_rows
from gpufeed.tools.called import Called, call, purpose

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Example", "draw_gallery", "examples"]

Pixels = npt.NDArray[np.uint8]

_GREY = 200
"""Pixel value around images that are smaller than their cell."""


@dataclass(frozen=True)
class Example:
    """A transform with those needed to show it.

    Attributes:
        shown: the transform.
        before: the transforms that prepare its input.
        after: the transforms that bring its output to one size.
        needs_boxes: whether it can only be shown for records with a box.
    """

    shown: Called
    before: tuple[tf.Transform, ...] = ()
    after: tuple[tf.Transform, ...] = ()
    needs_boxes: bool = False

    @property
    def kind(self) -> type:
        """The transform's class."""
        return type(self.shown.made)


def upside_down(image: Pixels) -> Pixels:
    """Flip an image vertically: an example for `Lambda`."""
    return image[::-1].copy()


def examples(size: int) -> list[Example]:
    """Return one or more examples of every transform that changes images.

    Args:
        size: the side of the images shown, in pixels.
    """
    fit = (tf.ResizeLongest(size), tf.PadToSquare(size, _GREY))
    cut = (tf.Resize(size), tf.CenterCrop(size))
    centred = (tf.PadToSquare(size, _GREY),)
    half, three_quarters = size // 2, size * 3 // 4

    def moving(kind: Any, *arguments: Any, **named: Any) -> Example:
        return Example(call(kind, *arguments, **named), after=fit)

    def small(kind: Any, *arguments: Any, **named: Any) -> Example:
        return Example(call(kind, *arguments, **named), after=centred)

    def after_cut(kind: Any, *arguments: Any, **named: Any) -> Example:
        return Example(call(kind, *arguments, **named), before=cut)

    def boxed(kind: Any, *arguments: Any) -> Example:
        return Example(call(kind, *arguments), after=fit, needs_boxes=True)

    return [
        Example(call(tf.RandomResizedCrop, size)),
        small(tf.Resize, half, max_size=size),
        small(tf.ResizeLongest, three_quarters),
        Example(call(tf.CenterCrop, half), cut, centred),
        Example(call(tf.RandomCrop, three_quarters), cut, centred),
        Example(call(tf.RandomCrop, size, padding=size // 4), cut),
        Example(call(tf.Pad, size // 8, fill=(200, 60, 60)), cut, fit),
        Example(call(tf.PadToSquare, size), (tf.ResizeLongest(size),)),
        boxed(tf.BoxCrop, (0.0, 0.5)),
        after_cut(tf.RandomHorizontalFlip),
        after_cut(tf.RandomVerticalFlip),
        after_cut(tf.RandomRotation, 30, "bilinear"),
        Example(call(tf.RandomRotation, 30, "bilinear", expand=True), cut, fit),
        after_cut(tf.RandomAffine, 20, (0.1, 0.1), (0.8, 1.2), 10, "bilinear"),
        after_cut(tf.RandomPerspective, 0.5, 1.0),
        boxed(tf.RandomIoUCrop),
        moving(tf.RandomZoomOut, 114, p=1.0),
        Example(call(tf.RandomResize, size // 4, size), cut, centred),
        small(tf.RandomShortestSize, [size // 4, half, size], max_size=size),
        small(tf.ScaleJitter, (size, size), (0.2, 1.0)),
        Example(call(tf.FiveCrop, half), cut),
        Example(call(tf.TenCrop, half), cut),
        after_cut(tf.ColorJitter, 0.4, 0.4, 0.4),
        after_cut(tf.ColorJitter, hue=0.5),
        after_cut(tf.RandomGrayscale, 0.5),
        after_cut(tf.RandomInvert),
        after_cut(tf.RandomPosterize, 2),
        after_cut(tf.RandomSolarize, 128),
        after_cut(tf.RandomAdjustSharpness, 4),
        after_cut(tf.RandomAutocontrast),
        after_cut(tf.RandomEqualize),
        after_cut(tf.GaussianBlur, 23, (0.1, 4.0)),
        after_cut(tf.Gamma, (0.4, 2.0)),
        after_cut(tf.Contrast, (0.3, 2.0)),
        after_cut(tf.JPEG, (2, 30)),
        after_cut(tf.AutoAugment),
        after_cut(tf.AutoAugment, "cifar10"),
        after_cut(tf.AutoAugment, "svhn"),
        after_cut(tf.RandAugment),
        after_cut(tf.TrivialAugmentWide),
        after_cut(tf.AugMix),
        after_cut(tf.TimmRandAugment),
        after_cut(tf.Lambda, upside_down),
        after_cut(tf.RandomApply, [call(tf.GaussianBlur, 23, 4.0), call(tf.RandomGrayscale, 1.0)]),
        after_cut(
            tf.RandomChoice,
            [call(tf.GaussianBlur, 23, 4.0), call(tf.RandomSolarize, 128, 1.0)],
        ),
        after_cut(tf.RandomErasing, 1.0, value=128),
        after_cut(tf.MixUp),
        after_cut(tf.CutMix),
    ]


def draw_gallery(
    manifest: Manifest,
    record: int | None = None,
    *,
    size: int = 128,
    draws: int = 8,
    seed: int = 0,
    device: str = "auto",
    progress: bool | None = None,
) -> Image:
    """Draw the sheet: for each example its call, the image, and several draws.

    Each draw belongs to a record of its own with the same image. Transforms that mix images use the
    images of the next records as partners. Examples that need a box are left out if the record has
    none.

    Args:
        manifest: the records.
        record: the row to show; None for the one closest to a square.
        size: the side of the images in pixels, 16 or more.
        draws: the number of draws, 1 or more; `FiveCrop` and `TenCrop` show at most their crops.
        seed: the seed of the draws.
        device: as for `Loader`.
        progress: True or False to force or silence the progress bar; None shows it on a terminal.

    Raises:
        ConfigError: an argument is out of range.
        DecodeError: an image cannot be read or decoded.
    """
    if record is None:
        height, width = manifest.sizes().astype(np.float64).T
        record = int(np.abs(np.log(height / width)).argmin())
    if not 0 <= record < len(manifest):
        raise ConfigError(f"record is {record}; the data have records 0 to {len(manifest) - 1}")
    if size < 16 or draws < 1:
        raise ConfigError(f"size is {size} and draws {draws}; they must be at least 16 and 1")
    maker = _Maker(manifest, record, size, draws, device)
    chosen = [example for example in examples(size) if maker.can_show(example)]
    with progress_bar("drawing", len(chosen), show=progress, unit="transforms") as advance:
        rows = []
        for place, example in enumerate(chosen):
            rows.append(maker.row(example, seed + place))
            advance(1)
    frame = manifest.frame.row(record, named=True)
    credit = [f"Photo: {frame['photographer']}"] if frame.get("photographer") else []
    facts = [f"gpufeed {gpufeed.__version__}", str(frame["path"]), *credit, f"seed {seed}"]
    return draw_rows(rows, ["", "the image", f"{draws} draws"], facts, size=size)


class _Maker:
    """Makes the rows of one sheet."""

    def __init__(self, manifest: Manifest, record: int, size: int, draws: int, device: str) -> None:
        self._size, self._draws = size, draws
        self._device = resolve_device(device, "numpy")
        self._plain: dict[tuple[tf.Transform, ...], Pixels] = {}
        others = [(record + 1 + step) % len(manifest) for step in range(draws)]
        # Even rows are the record, odd rows its partners.
        self._manifest = manifest.take([key for other in others for key in (record, other)])
        boxes = manifest.take([record]).objects()
        self._has_boxes = boxes is not None and len(boxes[0]) > 0 and manifest.boxes() is not None

    def can_show(self, example: Example) -> bool:
        """Return whether the record has the boxes it needs and the device supports it."""
        on_cpu = not self._device.is_cuda
        return (self._has_boxes or not example.needs_boxes) and (
            on_cpu or example.kind != tf.Lambda
        )

    def row(self, example: Example, seed: int) -> Row:
        """Return an example's row: first the input of the transform, then the draws."""
        fit = [tf.ResizeLongest(self._size), tf.PadToSquare(self._size, _GREY)]
        if example.before not in self._plain:
            (self._plain[example.before], *_) = self._made([*example.before, *fit], (), seed)
        plain = self._plain[example.before]
        shown = example.shown.made
        if isinstance(shown, tf.LateTransform | tf.MixTransform):
            drawn = self._made([*example.before], (shown,), seed)
        else:
            drawn = self._made([*example.before, shown, *example.after], (), seed)
        note = purpose(example.kind).replace("`", "")
        return Row(example.shown.text, note, [plain, *drawn[: self._draws]])

    def _made(
        self, chain: Sequence[tf.Transform], late: Sequence[tf.Transform], seed: int
    ) -> list[Pixels]:
        """Return the record's images, one for each draw; with views, those of the first draw."""
        count = len(self._manifest)
        with Loader(
            self._manifest,
            sampler=SequentialSampler(count, seed=seed),
            transforms=[*chain, tf.ToDtype("uint8", layout="NHWC"), *late],
            batch_size=count,
            device=self._device,
            shard=ShardOptions(),
        ) as loader:
            images = loader.batch(0)["image"]
            if isinstance(images, list):
                return [self._on_grey(np.asarray(view)[0]) for view in images]
            return list(np.array(images)[::2])

    def _on_grey(self, image: Pixels) -> Pixels:
        spare_y, spare_x = (self._size - side for side in image.shape[:2])
        around = [(spare // 2, spare - spare // 2) for spare in (spare_y, spare_x)]
        return np.pad(image, (*around, (0, 0)), constant_values=_GREY)
