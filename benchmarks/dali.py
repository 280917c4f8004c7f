"""The pipelines of DALI's documentation, shared by all benchmarks that compare with them.

Call the operators within a pipeline's definition. **They have not been run on a GPU yet.**
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nvidia.dali import fn, pipeline_def, types

from gpufeed.transforms.output import IMAGENET_MEAN, IMAGENET_STD

__all__ = ["decoded", "documented", "normalised", "random_window", "read", "tuned", "windows"]


def read(files: Sequence[str], mapped: bool = True, **options: Any) -> tuple[Any, Any]:
    """Return encoded images in a shuffled order, and their places in `files`.

    Files are `mapped` into memory, as DALI has it by default, or read. Those in its shuffle buffer
    stay mapped, and so in the page cache.
    """
    encoded, label = fn.readers.file(
        files=list(files),
        random_shuffle=True,
        initial_fill=min(1024, len(files)),
        name="reader",
        dont_use_mmap=not mapped,
        **options,
    )
    return encoded, label


def random_window(encoded: Any, on_gpu: bool, **options: Any) -> Any:
    """Decode the windows of random crops alone."""
    return fn.decoders.image_random_crop(
        encoded,
        device="mixed" if on_gpu else "cpu",
        output_type=types.RGB,
        random_area=[0.08, 1.0],
        random_aspect_ratio=[3 / 4, 4 / 3],
        **options,
    )


def decoded(encoded: Any, on_gpu: bool, **options: Any) -> Any:
    """Decode whole images."""
    device = "mixed" if on_gpu else "cpu"
    return fn.decoders.image(encoded, device=device, output_type=types.RGB, **options)


def normalised(image: Any, **options: Any) -> Any:
    """Return float32 CHW, with ImageNet's mean and deviation."""
    return fn.crop_mirror_normalize(
        image,
        mean=[255 * value for value in IMAGENET_MEAN],
        std=[255 * value for value in IMAGENET_STD],
        dtype=types.FLOAT,
        output_layout="CHW",
        **options,
    )


@pipeline_def  # type: ignore[untyped-decorator]
def documented(
    files: Sequence[str], size: int, on_gpu: bool, preset: str = "train", mapped: bool = True
) -> Any:
    """The pipeline that DALI's documentation gives, to train or to evaluate.

    Args:
        files: the images.
        size: side of the output, pixels.
        on_gpu: whether pixels are made there.
        preset: "train" or "evaluate".
        mapped: as for `read`.
    """
    encoded, label = read(files, mapped)
    filtered: dict[str, Any] = {"interp_type": types.INTERP_LINEAR, "antialias": True}
    if preset == "evaluate":
        image = decoded(encoded, on_gpu)
        image = fn.resize(image, size=round(size * 256 / 224), mode="not_smaller", **filtered)
        return normalised(image, crop=(size, size)), label
    image = random_window(encoded, on_gpu)
    image = fn.resize(image, size=[size, size], **filtered)
    return normalised(image, mirror=fn.random.coin_flip()), label


@pipeline_def  # type: ignore[untyped-decorator]
def tuned(
    files: Sequence[str], size: int, on_gpu: bool, preset: str = "train", mapped: bool = True
) -> Any:
    """The same work, as one would write it who measures: fewer operators, reading ahead.

    Resize, crop and flip are one operator; its output is then normalised in one pass.
    """
    encoded, label = read(files, mapped, read_ahead=True, prefetch_queue_depth=3)
    options: dict[str, Any] = {"hw_decoder_load": 0.2} if on_gpu else {}
    side = [size, size]
    if preset == "evaluate":
        image = decoded(encoded, on_gpu, **options)
        shorter = round(size * 256 / 224)
        how: dict[str, Any] = {"size": [shorter, shorter], "mode": "not_smaller"}
    else:
        image = random_window(encoded, on_gpu, **options)
        how = {"size": side, "mirror": fn.random.coin_flip()}
    image = fn.resize_crop_mirror(
        image, crop=side, interp_type=types.INTERP_LINEAR, antialias=True, **how
    )
    return normalised(image), label


@pipeline_def  # type: ignore[untyped-decorator]
def windows(files: Sequence[str], on_gpu: bool, mapped: bool = True) -> Any:
    """The decode of the windows of random crops, and nothing else."""
    encoded, label = read(files, mapped)
    return random_window(encoded, on_gpu), label
