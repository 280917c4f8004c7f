"""Masks beside torchvision's, given the same drawn numbers: the share of pixels that differ.

This script measures on synthetic birds, where torchvision is installed, and writes the table of
docs/how-to/segmentation.md:

    python -m tests.support.mask_differences
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from benchmarks.compare.peers.torch_loader import import_transforms
from gpufeed import Manifest, read_nabirds
from gpufeed import transforms as tf
from gpufeed.plan.lookup import Lookup
from gpufeed.presets import segment_train
from gpufeed.rng import BatchRng
from gpufeed.tools.synth import write_nabirds
from gpufeed.transforms.frame import Frame
from gpufeed.transforms.objects import Objects
from tests.support.written import Document

DOCUMENT = Document(
    Path(__file__).parents[2] / "docs" / "how-to" / "segmentation.md",
    "python -m tests.support.mask_differences",
)
BIRDS = 64
Steps = Sequence[tf.GeometricTransform]

CUT = tf.CenterCrop(160)
CASES: list[tuple[str, Steps]] = [
    ("`CenterCrop`, `RandomCrop`, `Pad`, `RandomZoomOut`, `RandomIoUCrop`, flips", [
        tf.RandomIoUCrop(), tf.RandomZoomOut(p=1.0), tf.Pad(9), tf.RandomHorizontalFlip(),
        tf.RandomVerticalFlip(), tf.RandomCrop(100, 3, True), CUT,
    ]),
    ("`Resize(100)`", [tf.Resize(100)]),
    ("`Resize(400)`", [tf.Resize(400)]),
    ("`RandomResizedCrop(128)`", [tf.RandomResizedCrop(128)]),
    ("`ScaleJitter((200, 200))`", [tf.ScaleJitter((200, 200))]),
    ("`RandomRotation(45)`", [tf.RandomRotation(45)]),
    ("`RandomRotation(45, expand=True)`", [tf.RandomRotation(45, expand=True)]),
    ("`RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 10)`",
     [tf.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 10)]),
    ("`RandomPerspective(0.5, 1.0)`", [tf.RandomPerspective(0.5, 1.0)]),
    ("`presets.segment_train(240)`",
     [each for each in segment_train(240) if isinstance(each, tf.GeometricTransform)]),
    ("`Resize(200)`, `RandomRotation(20)`, `RandomResizedCrop(128)`",
     [tf.Resize(200), tf.RandomRotation(20), tf.RandomResizedCrop(128)]),
    ("`RandomRotation(20)`, `RandomAffine(0, (0.1, 0.1))`",
     [tf.RandomRotation(20), tf.RandomAffine(0, (0.1, 0.1))]),
]  # fmt: skip


def drawn(steps: Steps, birds: Manifest) -> Iterator[tuple[tf.GeometricTransform, Any, Frame]]:
    """Draw each step's numbers, and place it: the step, its numbers, and the frame after it."""
    keys, sizes = np.arange(len(birds)), birds.sizes().astype(np.int64)
    frame, objects = Frame.whole(sizes), Objects.of(birds)
    assert objects is not None
    for number, step in enumerate(steps):
        rng = BatchRng(5, np.zeros_like(keys), keys, number)
        records = tf.Records(keys, frame.height, frame.width, None, objects.followed(frame))
        params = step.draw(rng, records)
        frame = step.place(frame, params)
        yield step, params, frame


def moved(step: Any, p: Any, size: list[int], mask: Any, mode: Any) -> Any:
    """Return what torchvision makes of one mask, given the numbers of one record."""
    from torchvision.transforms.v2 import functional as F  # noqa: N812

    height, width = mask.shape[-2:]
    match step:
        case tf.CenterCrop():
            return F.center_crop(mask, list(step.size))
        case tf.RandomIoUCrop():
            return F.crop(mask, p["top"], p["left"], p["height"], p["width"])
        case tf.RandomResizedCrop():
            cut = F.crop(mask, p["top"], p["left"], p["height"], p["width"])
            return F.resize(cut, list(step.size), mode)
        case tf.RandomZoomOut():
            return F.pad(mask, [p["left"], p["top"], p["right"], p["bottom"]])
        case tf.Pad():
            return F.pad(mask, list(step.padding))
        case tf.RandomCrop():
            left, top, right, bottom = step._borders(np.array(height), np.array(width))
            padded = F.pad(mask, [int(left), int(top), int(right), int(bottom)])
            return F.crop(padded, p["top"], p["left"], *size)
        case tf.RandomHorizontalFlip() | tf.RandomVerticalFlip():
            vertical = isinstance(step, tf.RandomVerticalFlip)
            flip = F.vertical_flip if vertical else F.horizontal_flip
            return flip(mask) if p["flip"] else mask
        case tf.RandomRotation():
            return F.rotate(mask, p["angle"], expand=step.expand, fill=0)
        case tf.RandomAffine():
            shift = [int(each) for each in p["translate"]]
            return F.affine(mask, p["angle"], shift, p["scale"], list(p["shear"]), fill=0)
        case tf.RandomPerspective():
            if not p["mask"]:
                return mask
            right, bottom = width - 1, height - 1
            whole = [[0, 0], [right, 0], [right, bottom], [0, bottom]]
            return F.perspective(mask, whole, p["corners"].tolist(), fill=0)
    return F.resize(mask, size, mode)


def shares(steps: Steps, birds: Manifest, masks: Sequence[np.ndarray]) -> list[float]:
    """Return the shares of pixels that differ from torchvision's masks, by its interpolation."""
    from torchvision import tv_tensors
    from torchvision.transforms import InterpolationMode

    placed = list(drawn(steps, birds))
    found: list[float] = []
    for mode in (InterpolationMode.NEAREST, InterpolationMode.NEAREST_EXACT):
        differ = total = 0
        for row, values in enumerate(masks):
            mask: Any = tv_tensors.Mask(torch.tensor(values))
            for step, params, frame in placed:
                own = {name: np.asarray(each)[row].tolist() for name, each in params.items()}
                own = {n: np.asarray(v) if isinstance(v, list) else v for n, v in own.items()}
                mask = moved(step, own, frame.size[row].tolist(), mask, mode)
            lookup = Lookup(placed[-1][2].take(slice(row, row + 1)))
            ours = np.zeros(lookup.size, np.uint8)
            ours *= lookup(0, values, ours, "nearest")
            differ += int((ours != mask.numpy()).sum())
            total += ours.size
        found.append(differ / total)
    return found


def _cell(share: float) -> str:
    return "0" if share == 0 else "a few pixels" if share < 1e-4 else f"{share:.2%}"


def table() -> str:
    """Measure, and return the table."""
    import_transforms()
    lines = ["| transforms | of `NEAREST`, the default | of `NEAREST_EXACT` |", "|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        birds = read_nabirds(write_nabirds(folder, images=BIRDS, max_side=320))
        masks = []
        for path in birds.frame["path"]:
            name = Path(folder, "segmentations", path.removeprefix("images/"))
            with Image.open(name.with_suffix(".png")) as image:
                masks.append(np.asarray(image.convert("L")))
        for name, steps in CASES:
            cells = [_cell(share) for share in shares(steps, birds, masks)]
            lines.append(f"| {name} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


if __name__ == "__main__":
    DOCUMENT.write({"masks": table()})
