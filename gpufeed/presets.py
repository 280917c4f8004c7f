"""Lists of transforms that reproduce known recipes; each can be edited as any list."""

from __future__ import annotations

from collections.abc import Sequence

from gpufeed.transforms import (
    BoxCrop,
    CenterCrop,
    DType,
    Layout,
    Normalize,
    OutputFormat,
    PadToSquare,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    ResizeLongest,
    ToDtype,
    Transform,
)
from gpufeed.transforms.frame import Interpolation
from gpufeed.transforms.output import IMAGENET_MEAN, IMAGENET_STD

__all__ = ["course_evaluate", "course_train", "evaluate", "train"]


def _output(
    dtype: DType, layout: Layout, mean: float | Sequence[float], std: float | Sequence[float]
) -> OutputFormat:
    if dtype == "uint8":
        return ToDtype("uint8", layout=layout)
    return Normalize(mean, std, dtype=dtype, layout=layout)


def train(
    size: int = 224,
    *,
    interpolation: Interpolation = "bilinear",
    dtype: DType = "float32",
    layout: Layout = "NCHW",
) -> list[Transform]:
    """Random resized crop and flip, normalised with ImageNet's mean and deviation.

    The recipe of torchvision's classification reference without its optional parts.

    Args:
        size: side of the output, pixels.
        interpolation: "bilinear" or "bicubic".
        dtype: "float32", "float16", or "uint8" for levels that are not normalised.
        layout: "NCHW" or "NHWC".
    """
    return [
        RandomResizedCrop(size, interpolation=interpolation),
        RandomHorizontalFlip(),
        _output(dtype, layout, IMAGENET_MEAN, IMAGENET_STD),
    ]


def evaluate(
    size: int = 224,
    *,
    interpolation: Interpolation = "bilinear",
    dtype: DType = "float32",
    layout: Layout = "NCHW",
) -> list[Transform]:
    """Resize the shorter side to 256/224 of `size`, and cut out the centre.

    Args:
        size: side of the output, pixels.
        interpolation: "bilinear" or "bicubic".
        dtype: "float32", "float16", or "uint8" for levels that are not normalised.
        layout: "NCHW" or "NHWC".
    """
    return [
        Resize(round(size * 256 / 224), interpolation=interpolation),
        CenterCrop(size),
        _output(dtype, layout, IMAGENET_MEAN, IMAGENET_STD),
    ]


def course_train(*, dtype: DType = "float32", layout: Layout = "NHWC") -> list[Transform]:
    """The training feed of the WestDRI course on the JAX AI stack, from the original photos.

    Its prepared form is made on the way: the bounding box with a margin of a fifth, fitted into a
    black square of 269 pixels; then its random crop of 224 and flip, and levels scaled to -1..1.
    Boxes that overrun their photo are clamped before the margin is taken, which the course does
    after. Its prepared files went through one more JPEG encoding (quality 75), which this does not
    repeat, and its changes of contrast and gamma are not made.

    Args:
        dtype: "float32", "float16", or "uint8" for levels that are not scaled.
        layout: "NHWC", as JAX models have it, or "NCHW".
    """
    return [
        BoxCrop(margin=0.2),
        ResizeLongest(269),
        PadToSquare(269),
        RandomCrop(224),
        RandomHorizontalFlip(),
        _output(dtype, layout, 0.5, 0.5),
    ]


def course_evaluate(*, dtype: DType = "float32", layout: Layout = "NHWC") -> list[Transform]:
    """The validation feed of the same course: the bare box in a black square of 224 pixels.

    Args:
        dtype: "float32", "float16", or "uint8" for levels that are not scaled.
        layout: "NHWC", as JAX models have it, or "NCHW".
    """
    return [
        BoxCrop(),
        ResizeLongest(224),
        PadToSquare(224),
        _output(dtype, layout, 0.5, 0.5),
    ]
