"""Presets in DALI's own operators, as one would write them without gpufeed.

DALI draws their random numbers. RandAugment and TrivialAugment are those of `nvidia.dali.auto_aug`,
and colour changes are one operator in a fixed order: less work than gpufeed's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.auto_aug import rand_augment, trivial_augment

from benchmarks.dali import decoded, documented, normalised, random_window, read

__all__ = ["PIPELINES", "batches"]

_BLUR = 23


def _cropped(files: Sequence[str], size: int) -> Any:
    encoded, _label = read(files)
    image = random_window(encoded, on_gpu=False)
    image = fn.resize(image, size=[size, size], interp_type=types.INTERP_LINEAR, antialias=True)
    return fn.flip(image, horizontal=fn.random.coin_flip())


def _erased(image: Any, p: float) -> Any:
    """One rectangle of a share of 0.02 to 0.33, for a part of the images."""
    share = fn.random.uniform(range=[0.02, 0.33]) ** 0.5
    none = fn.random.coin_flip(probability=p)
    return fn.erase(
        image,
        anchor=fn.random.uniform(range=[0.0, 0.7], shape=2),
        shape=fn.stack(share, share) * none,
        axis_names="HW",
        normalized_anchor=True,
        normalized_shape=True,
    )


@pipeline_def(enable_conditionals=True)  # type: ignore[untyped-decorator]
def _trivial(files: Sequence[str]) -> Any:
    image = _cropped(files, 176)
    image = trivial_augment.trivial_augment_wide(image, fill_value=0)
    return _erased(normalised(image), 0.1)


@pipeline_def(enable_conditionals=True)  # type: ignore[untyped-decorator]
def _rand(files: Sequence[str]) -> Any:
    image = _cropped(files, 224)
    image = rand_augment.rand_augment(image, n=2, m=9, fill_value=128)
    return _erased(normalised(image), 0.25)


@pipeline_def(enable_conditionals=True)  # type: ignore[untyped-decorator]
def _two_views(files: Sequence[str]) -> Any:
    encoded, _label = read(files)
    whole = decoded(encoded, on_gpu=False)
    views = []
    for _ in range(2):
        image = fn.random_resized_crop(
            whole, size=[224, 224], interp_type=types.INTERP_LINEAR, antialias=True
        )
        image = fn.flip(image, horizontal=fn.random.coin_flip())
        factors = [fn.random.uniform(range=[0.2, 1.8]) for _ in range(3)]
        turn = fn.random.uniform(range=[-72.0, 72.0])
        jittered = fn.random.coin_flip(probability=0.8, dtype=types.BOOL)
        grey = fn.random.coin_flip(probability=0.2, dtype=types.BOOL)
        blurred = fn.random.coin_flip(probability=0.5, dtype=types.BOOL)
        sigma = fn.random.uniform(range=[0.1, 2.0])
        if jittered:
            image = fn.color_twist(
                image, brightness=factors[0], contrast=factors[1], saturation=factors[2], hue=turn
            )
        if grey:
            image = fn.saturation(image, saturation=0.0)
        if blurred:
            image = fn.gaussian_blur(image, sigma=sigma, window_size=_BLUR)
        views.append(normalised(image))
    return tuple(views)


def _documented(preset: str) -> Callable[..., Any]:
    return lambda files, **options: documented(files, 224, False, preset, **options)


PIPELINES: dict[str, Callable[..., Any]] = {
    "train": _documented("train"),
    "evaluate": _documented("evaluate"),
    "torchvision_train": _trivial,
    "timm_train": _rand,
    "simclr": _two_views,
}
"""By the preset that they are like."""


def batches(preset: str, files: Sequence[str], batch_size: int, threads: int) -> Iterator[Any]:
    """Endless batches of a preset's pipeline."""
    pipeline = PIPELINES[preset](
        list(files),
        batch_size=batch_size,
        num_threads=threads,
        device_id=None,
        prefetch_queue_depth=2,
    )
    pipeline.build()
    while True:
        yield pipeline.run()
