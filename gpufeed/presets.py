"""Lists of transforms of well-known recipes; they are ordinary lists and can be edited."""

from __future__ import annotations

from collections.abc import Sequence

from gpufeed.transforms import (
    BoxCrop,
    CenterCrop,
    ColorJitter,
    Contrast,
    CutMix,
    DType,
    Gamma,
    GaussianBlur,
    Layout,
    MixUp,
    Normalize,
    OutputFormat,
    PadToSquare,
    RandomApply,
    RandomChoice,
    RandomCrop,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomResize,
    RandomResizedCrop,
    RandomSolarize,
    Resize,
    ResizeLongest,
    SoftLabels,
    TimmRandAugment,
    ToDtype,
    Transform,
    TrivialAugmentWide,
    Views,
)
from gpufeed.transforms.frame import Interpolation
from gpufeed.transforms.output import IMAGENET_MEAN, IMAGENET_STD

__all__ = [
    "course_cleaned",
    "course_evaluate",
    "course_train",
    "dino",
    "evaluate",
    "segment_evaluate",
    "segment_train",
    "simclr",
    "timm_train",
    "torchvision_train",
    "train",
]


def _output(
    dtype: DType, layout: Layout | None, mean: float | Sequence[float], std: float | Sequence[float]
) -> OutputFormat:
    if dtype == "uint8":
        return ToDtype("uint8", layout=layout)
    return Normalize(mean, std, dtype=dtype, layout=layout)


def train(
    size: int = 224,
    *,
    interpolation: Interpolation = "bilinear",
    mean: float | Sequence[float] = IMAGENET_MEAN,
    std: float | Sequence[float] = IMAGENET_STD,
    dtype: DType = "float32",
    layout: Layout | None = None,
) -> list[Transform]:
    """Random resized crop and flip, normalised with ImageNet's mean and standard deviation.

    The recipe of torchvision's classification reference without its optional parts.

    Args:
        size: side of the output, pixels.
        interpolation: "bilinear" or "bicubic".
        mean: mean of each channel, with pixel values from 0 to 1.
        std: standard deviation of each channel.
        dtype: "float32", "float16", "bfloat16", or "uint8" for values that are not normalised.
        layout: "NCHW" or "NHWC"; None for NHWC with framework="jax", otherwise NCHW.
    """
    return [
        RandomResizedCrop(size, interpolation=interpolation),
        RandomHorizontalFlip(),
        _output(dtype, layout, mean, std),
    ]


def evaluate(
    size: int = 224,
    *,
    resize: int | None = None,
    interpolation: Interpolation = "bilinear",
    mean: float | Sequence[float] = IMAGENET_MEAN,
    std: float | Sequence[float] = IMAGENET_STD,
    dtype: DType = "float32",
    layout: Layout | None = None,
) -> list[Transform]:
    """Resize of the shorter side and centre crop, normalised as in `train`.

    Args:
        size: side of the output, pixels.
        resize: shorter side after the resize, pixels; None for 256/224 of `size`. Models trained
            with `torchvision_train` are evaluated with 232 for a size of 224.
        interpolation: "bilinear" or "bicubic".
        mean: mean of each channel, with pixel values from 0 to 1.
        std: standard deviation of each channel.
        dtype: "float32", "float16", "bfloat16", or "uint8" for values that are not normalised.
        layout: "NCHW" or "NHWC"; None for NHWC with framework="jax", otherwise NCHW.
    """
    return [
        Resize(resize or round(size * 256 / 224), interpolation=interpolation),
        CenterCrop(size),
        _output(dtype, layout, mean, std),
    ]


def torchvision_train(
    size: int = 176,
    *,
    num_classes: int | None = None,
    interpolation: Interpolation = "bilinear",
    mean: float | Sequence[float] = IMAGENET_MEAN,
    std: float | Sequence[float] = IMAGENET_STD,
    dtype: DType = "float32",
    layout: Layout | None = None,
) -> list[Transform]:
    """Torchvision's recipe for its second set of ResNet weights.

    Random resized crop and flip, TrivialAugment, erasing with probability 0.1; with `num_classes`
    also either mixup (alpha 0.2) or CutMix (alpha 1), and labels smoothed by 0.1. Other parts of
    the recipe (EMA, 600 epochs, repeated augmentation: `RepeatedAugmentationSampler(repeats=4)`)
    are not included. torchvision, "How to train state-of-the-art models using TorchVision's latest
    primitives" (2021).

    Args:
        size: side of the output, pixels; the default, 176, is the recipe's, for evaluation at 224.
        num_classes: number of classes; None leaves images and labels unmixed.
        interpolation: "bilinear" or "bicubic".
        mean: mean of each channel, with pixel values from 0 to 1.
        std: standard deviation of each channel.
        dtype: "float32", "float16", "bfloat16", or "uint8" for values that are not normalised.
        layout: "NCHW" or "NHWC"; None for NHWC with framework="jax", otherwise NCHW.
    """
    return [
        RandomResizedCrop(size, interpolation=interpolation),
        RandomHorizontalFlip(),
        TrivialAugmentWide(interpolation="bilinear"),
        _output(dtype, layout, mean, std),
        RandomErasing(p=0.1),
        *_mix(num_classes, mixup=0.2, cutmix=1.0),
    ]


def timm_train(
    size: int = 224,
    *,
    num_classes: int | None = None,
    interpolation: Interpolation = "bicubic",
    mean: float | Sequence[float] = IMAGENET_MEAN,
    std: float | Sequence[float] = IMAGENET_STD,
    dtype: DType = "float32",
    layout: Layout | None = None,
) -> list[Transform]:
    """Timm's recipe for ResNets and vision transformers, `rand-m9-mstd0.5-inc1`.

    Random resized crop and flip, timm's RandAugment, erasing with normal noise with probability
    0.25; with `num_classes` also either mixup (alpha 0.8) or CutMix (alpha 1), and labels smoothed
    by 0.1. Touvron et al., "Training data-efficient image transformers" (2021). timm itself draws
    the crop's filter from two, and draws one mix per batch.

    Args:
        size: side of the output, pixels.
        num_classes: number of classes; None leaves images and labels unmixed.
        interpolation: "bilinear" or "bicubic".
        mean: mean of each channel, with pixel values from 0 to 1.
        std: standard deviation of each channel.
        dtype: "float32", "float16", "bfloat16", or "uint8" for values that are not normalised.
        layout: "NCHW" or "NHWC"; None for NHWC with framework="jax", otherwise NCHW.
    """
    return [
        RandomResizedCrop(size, interpolation=interpolation),
        RandomHorizontalFlip(),
        TimmRandAugment("rand-m9-mstd0.5-inc1"),
        _output(dtype, layout, mean, std),
        RandomErasing(
            p=0.25,
            scale=(0.02, 1 / 3),
            ratio=(0.3, 1 / 0.3),
            value=0.0 if dtype == "uint8" else "random",
        ),
        *_mix(num_classes, mixup=0.8, cutmix=1.0),
    ]


def simclr(
    size: int = 224,
    *,
    strength: float = 1.0,
    dtype: DType = "float32",
    layout: Layout | None = None,
) -> Views:
    """SimCLR's two views of each image, scaled to 0..1.

    Chen et al., "A simple framework for contrastive learning of visual representations" (2020),
    appendix A: random resized crop and flip, colour distortion, blur.

    Args:
        size: side of the output, pixels.
        strength: strength of the colour distortion; 1 for ImageNet, 0.5 for CIFAR-10.
        dtype: "float32", "float16", "bfloat16", or "uint8" for pixel values of 0 to 255.
        layout: "NCHW" or "NHWC"; None for NHWC with framework="jax", otherwise NCHW.
    """
    jitter = ColorJitter(0.8 * strength, 0.8 * strength, 0.8 * strength, 0.2 * strength)
    view: list[Transform] = [
        RandomResizedCrop(size),
        RandomHorizontalFlip(),
        RandomApply([jitter], p=0.8),
        RandomGrayscale(0.2),
        RandomApply([GaussianBlur(size // 20 * 2 + 1, (0.1, 2.0))], p=0.5),
        _output(dtype, layout, 0.0, 1.0),
    ]
    return Views([view, view])


def dino(
    size: int = 224,
    *,
    local_size: int = 96,
    local_crops: int = 8,
    dtype: DType = "float32",
    layout: Layout | None = None,
) -> Views:
    """DINO's two global views and several local views of each image.

    Caron et al., "Emerging properties in self-supervised vision transformers" (2021), and its code:
    crops of 0.4 to 1 (global) and of 0.05 to 0.4 (local) of the image's area, colour jitter, blur
    with probability 1 (first view), 0.1 (second) and 0.5 (local), solarization with probability 0.2
    (second view).

    Args:
        size: side of the global views, pixels.
        local_size: side of the local views, pixels.
        local_crops: number of local views.
        dtype: "float32", "float16", "bfloat16", or "uint8" for values that are not normalised.
        layout: "NCHW" or "NHWC"; None for NHWC with framework="jax", otherwise NCHW.
    """
    output = _output(dtype, layout, IMAGENET_MEAN, IMAGENET_STD)

    def view(side: int, scale: tuple[float, float], *blur: Transform) -> list[Transform]:
        return [
            RandomResizedCrop(side, scale=scale, interpolation="bicubic"),
            RandomHorizontalFlip(),
            RandomApply([ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
            RandomGrayscale(0.2),
            *blur,
            output,
        ]

    # DINO uses Pillow's blur, whose window grows with sigma; 17 pixels are four sigma to each side.
    blur = GaussianBlur(17, (0.1, 2.0))
    global_scale, local_scale = (0.4, 1.0), (0.05, 0.4)
    local = view(local_size, local_scale, RandomApply([blur], p=0.5))
    return Views(
        [
            view(size, global_scale, blur),
            view(size, global_scale, RandomApply([blur], p=0.1), RandomSolarize(128, p=0.2)),
            # The same list each time: views of identical transforms are planned together.
            *[local] * local_crops,
        ]
    )


def _mix(num_classes: int | None, *, mixup: float, cutmix: float) -> list[Transform]:
    if num_classes is None:
        return []
    return [RandomChoice([MixUp(mixup), CutMix(cutmix)]), SoftLabels(num_classes, 0.1)]


def segment_train(
    size: int = 480,
    *,
    base: int | None = None,
    interpolation: Interpolation = "bilinear",
    mean: float | Sequence[float] = IMAGENET_MEAN,
    std: float | Sequence[float] = IMAGENET_STD,
    dtype: DType = "float32",
    layout: Layout | None = None,
) -> list[Transform]:
    """Torchvision's recipe for segmentation: random resize, flip, random crop.

    The shorter side becomes 0.5 to 2 times `base`. Images that are then smaller than the crop are
    padded with black, and masks with their `fill`: see `Mask`.

    Args:
        size: side of the output, pixels.
        base: size of the shorter side that is scaled, pixels; None for 520/480 of `size`.
        interpolation: "bilinear" or "bicubic".
        mean: mean of each channel, with pixel values from 0 to 1.
        std: standard deviation of each channel.
        dtype: "float32", "float16", "bfloat16", or "uint8" for values that are not normalised.
        layout: "NCHW" or "NHWC"; None for NHWC with framework="jax", otherwise NCHW.
    """
    base = base or round(size * 520 / 480)
    return [
        RandomResize(max(base // 2, 1), 2 * base, interpolation),
        RandomHorizontalFlip(),
        RandomCrop(size, pad_if_needed=True),
        _output(dtype, layout, mean, std),
    ]


def segment_evaluate(
    size: int = 480,
    *,
    interpolation: Interpolation = "bilinear",
    mean: float | Sequence[float] = IMAGENET_MEAN,
    std: float | Sequence[float] = IMAGENET_STD,
    dtype: DType = "float32",
    layout: Layout | None = None,
) -> list[Transform]:
    """Each image whole, in the middle of a black square, normalised as in `segment_train`.

    torchvision evaluates images one by one, in sizes of their own; here all pixels count too, and
    the padding has the masks' `fill`.

    Args:
        size: side of the output, pixels.
        interpolation: "bilinear" or "bicubic".
        mean: mean of each channel, with pixel values from 0 to 1.
        std: standard deviation of each channel.
        dtype: "float32", "float16", "bfloat16", or "uint8" for values that are not normalised.
        layout: "NCHW" or "NHWC"; None for NHWC with framework="jax", otherwise NCHW.
    """
    return [
        ResizeLongest(size, interpolation),
        PadToSquare(size),
        _output(dtype, layout, mean, std),
    ]


def course_cleaned() -> list[Transform]:
    """The data preparation of the WestDRI course on the JAX AI stack, for `prepare`.

    The bounding box with a margin of 0.2, fitted into a black square of 269 pixels. `course_train`
    begins with it.
    """
    return [BoxCrop(margin=0.2), ResizeLongest(269), PadToSquare(269)]


def course_train(
    *, photometric: bool = True, dtype: DType = "float32", layout: Layout | None = None
) -> list[Transform]:
    """The training feed of the WestDRI course on the JAX AI stack, from the original photos.

    First the course's data preparation: the bounding box with a margin of 0.2, fitted into a black
    square of 269 pixels. Then its random crop of 224 pixels and flip, its changes of contrast and
    gamma, and values scaled to -1..1. Boxes that extend beyond their photo are clipped before the
    margin is added; the course clips them after. The course's prepared files went through one more
    JPEG encoding (quality 75), which this does not repeat.

    Args:
        photometric: whether to change contrast and gamma.
        dtype: "float32", "float16", "bfloat16", or "uint8" for pixel values that are not scaled.
        layout: "NCHW" or "NHWC"; None for NHWC with framework="jax", otherwise NCHW.
    """
    return [
        *course_cleaned(),
        RandomCrop(224),
        RandomHorizontalFlip(),
        *([Contrast((0.8, 1.2)), Gamma((0.6, 1.2))] if photometric else []),
        _output(dtype, layout, 0.5, 0.5),
    ]


def course_evaluate(*, dtype: DType = "float32", layout: Layout | None = None) -> list[Transform]:
    """The validation feed of the same course: the box without margin, in a black square of 224.

    Args:
        dtype: "float32", "float16", "bfloat16", or "uint8" for pixel values that are not scaled.
        layout: "NCHW" or "NHWC"; None for NHWC with framework="jax", otherwise NCHW.
    """
    return [
        BoxCrop(),
        ResizeLongest(224),
        PadToSquare(224),
        _output(dtype, layout, 0.5, 0.5),
    ]
