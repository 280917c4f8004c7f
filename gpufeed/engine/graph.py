"""The DALI graph that carries out stages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from nvidia.dali import Pipeline, fn, types

from gpufeed._util.dali_private import skip_api_check
from gpufeed.open.geometry import resample
from gpufeed.open.inputs import declare, feeds
from gpufeed.plan.stages import Mixing, Pixel, Resample, Stages, View, Warp
from gpufeed.transforms.base import Made, OutputFormat
from gpufeed.transforms.error_context import errors_from
from gpufeed.transforms.operators.warp import warp
from gpufeed.transforms.select import where

if TYPE_CHECKING:
    from gpufeed.engine.device import Device
    from gpufeed.open.base import Opener
    from gpufeed.transforms.base import DType, Layout

__all__ = ["define_pipeline", "rest_feeds"]

_DTYPES = {"float32": types.FLOAT, "float16": types.FLOAT16, "uint8": types.UINT8}


def define_pipeline(
    stages: Stages,
    opener: Opener,
    *,
    batch_size: int,
    device: Device,
    num_threads: int,
    depth: int,
) -> Pipeline:
    """Define the pipeline that carries out stages with the same structure as `stages`.

    Its inputs are those of the opener and of `rest_feeds`; its outputs are the images of each view,
    on `device`. To build it, DALI needs the device.
    """
    pipeline = Pipeline(
        batch_size=batch_size,
        num_threads=num_threads,
        device_id=device.gpu,
        prefetch_queue_depth=depth,
        # Only this executor lets outputs outlive their iteration, and continues after a bad image.
        exec_dynamic=True,
    )
    with pipeline:
        opened = opener.build(stages)
        if device.is_cuda:  # some openers make images in host memory
            opened = [image.gpu() for image in opened]
        rest = declare(stages.rest, "rest")
        outputs = [_view(view, image) for view, image in zip(rest, opened, strict=True)]
        # An output must not share memory with an input.
        outputs = [
            fn.copy(output) if output is image else output
            for output, image in zip(outputs, opened, strict=True)
        ]
        pipeline.set_outputs(*outputs)
    skip_api_check(pipeline)
    return pipeline


def rest_feeds(stages: Stages) -> dict[str, Any]:
    """Return the inputs of the graph other than opened images, by name."""
    return feeds(stages.rest, "rest")


def _view(view: View, image: Any) -> Any:
    stages, mirror = list(view.stages), None
    last = stages[-1] if stages else None
    if isinstance(last, Resample) and not last.flips_in_resize:
        # A flip at the end costs nothing when the output is written.
        mirror, stages[-1] = last.mirror, replace(last, mirror=None)
    for stage in stages:
        if isinstance(stage, Pixel):
            with errors_from(stage.transform):
                image = stage.transform.build(image, dict(stage.params))
        elif isinstance(stage, Warp):
            image = _warp(stage, image)
        else:
            image = resample(stage, image)
    # `check_views` has given a layout to each output format.
    dtype: DType = "float32" if view.output.dtype == "bfloat16" else view.output.dtype
    made = Made(dtype, cast("Layout", view.output.layout), *view.size)
    image = _finish(view.output, made, image, mirror)
    for late in view.late:
        with errors_from(late.transform):
            if isinstance(late, Mixing):
                partner = fn.permute_batch(image, indices=late.partner)
                image = late.transform.build(image, partner, dict(late.params))
            else:
                image = late.transform.build(image, dict(late.params), made)
    return image


def _warp(stage: Warp, image: Any) -> Any:
    def apply(image: Any, params: dict[str, Any]) -> Any:
        return warp(image, params["matrix"], stage.fill, stage.sampling)

    return where(stage.mask, image, apply, {"matrix": stage.matrix})


def _finish(output: OutputFormat, made: Made, image: Any, mirror: Any) -> Any:
    layout = made.layout.removeprefix("N")
    if made.dtype == "uint8" and layout == "HWC":
        return image if mirror is None else fn.flip(image, horizontal=mirror)
    return fn.crop_mirror_normalize(
        image,
        mean=list(output.mean),
        std=list(output.std),
        dtype=_DTYPES[made.dtype],
        output_layout=layout,
        **({} if mirror is None else {"mirror": mirror}),
    )
