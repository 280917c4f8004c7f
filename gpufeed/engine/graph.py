"""The DALI graph that carries out stages."""

from __future__ import annotations

import contextlib
from typing import Any

from nvidia.dali import Pipeline, fn, types

from gpufeed.engine.device import Device
from gpufeed.engine.inputs import declare, images_name
from gpufeed.plan.stages import Mixing, Pixel, Resample, Stages, View, Warp, Window
from gpufeed.transforms.base import Made, OutputFormat
from gpufeed.transforms.blame import Blaming
from gpufeed.transforms.select import where
from gpufeed.transforms.warp import warp

__all__ = ["build_pipeline"]

_FILTERS = {"bilinear": types.INTERP_LINEAR, "bicubic": types.INTERP_CUBIC}
_DTYPES = {"float32": types.FLOAT, "float16": types.FLOAT16, "uint8": types.UINT8}
_ONE_DECODER: dict[str, Any] = {"jpeg_fancy_upsampling": True, "hw_decoder_load": 0.0}
_UNCHECKED = contextlib.nullcontext()
_PLACES: dict[str, Any] = {"axes": (0, 1), "normalized_anchor": False, "normalized_shape": False}


def build_pipeline(
    stages: Stages | tuple[View, ...],
    *,
    batch_size: int,
    device: Device,
    num_threads: int,
    depth: int,
) -> Pipeline:
    """Build the pipeline that carries out stages of the structure of `stages`.

    It takes encoded images; of views without a window to decode it takes opened images, uint8 HWC
    in host memory. Its other inputs are those of `declare(stages)`. Its outputs are the images of
    each view, on `device`.
    """
    pipeline = Pipeline(
        batch_size=batch_size,
        num_threads=num_threads,
        device_id=device.index,
        prefetch_queue_depth=depth,
        # Only this executor lets outputs outlive their iteration, and go on after a bad picture.
        exec_dynamic=True,
    )
    with pipeline:
        fed = declare(stages)
        if isinstance(fed, Stages):
            window = _decode(fed.window, device)
            outputs = [_view(view, window) for view in fed.views]
        else:
            outputs = [_opened(view, number) for number, view in enumerate(fed)]
        pipeline.set_outputs(*outputs)
    pipeline.build()
    # DALI's own, which tells who mixes ways to run a pipeline, makes a class at each call (as of
    # 2.4.0, and with enable_api_check(False) too): three a batch, each in a cycle of references.
    pipeline._check_api_type_scope = lambda _: _UNCHECKED
    return pipeline


def _decode(window: Window, device: Device) -> Any:
    return fn.decoders.image_slice(
        fn.external_source(name=images_name(0), no_copy=True),
        window.start,
        window.shape,
        **_PLACES,
        device="mixed" if device.is_cuda else "cpu",
        output_type=types.RGB,
        # Smooth upsampling of chroma, as on the CPU; and all pictures through one decoder,
        # since which of two takes a picture depends on its batch.
        **(_ONE_DECODER if device.is_cuda else {}),
    )


def _opened(view: View, number: int) -> Any:
    given = fn.external_source(name=images_name(number), no_copy=True, layout="HWC")
    image = _view(view, given)
    # What comes in as it goes out must not be the memory that it came in.
    return fn.copy(image) if image is given else image


def _view(view: View, image: Any) -> Any:
    mirror = None
    for number, stage in enumerate(view.stages):
        if isinstance(stage, Pixel):
            with Blaming(stage.transform):
                image = stage.transform.build(image, dict(stage.params))
        elif isinstance(stage, Warp):
            image = _warp(stage, image)
        else:
            image = _resample(stage, image)
            if stage.mirror is not None and not _flips_in_resize(stage):
                mirror = stage.mirror
                if number < len(view.stages) - 1:
                    image, mirror = fn.flip(image, horizontal=mirror), None
    image = _finish(view.output, image, mirror)
    made = Made(view.output.dtype, view.output.layout, *view.size)
    for late in view.late:
        with Blaming(late.transform):
            if isinstance(late, Mixing):
                partner = fn.permute_batch(image, indices=late.partner)
                image = late.transform.build(image, partner, dict(late.params))
            else:
                image = late.transform.build(image, dict(late.params), made)
    return image


def _resample(stage: Resample, image: Any) -> Any:
    if stage.cut is not None:
        image = fn.slice(image, stage.cut.start, stage.cut.shape, **_PLACES)
    if stage.resize is not None:
        size = stage.resize.size
        how = {"interp_type": _FILTERS[stage.resize.interpolation], "antialias": True}
        if _flips_in_resize(stage):
            # DALI's mask: 1 is left to right, 2 top to bottom.
            mirror: Any = 0 if stage.mirror is None else stage.mirror
            if stage.upturn is not None:
                mirror = mirror + 2 * stage.upturn
            image = fn.resize_crop_mirror(image, size=size, crop=size, mirror=mirror, **how)
        elif stage.resize.first is not None:
            region = {"roi_start": stage.resize.first, "roi_end": stage.resize.last}
            image = fn.resize(image, size=size, **region, **how)
        else:
            image = fn.resize(image, size=size, **how)
    if stage.canvas is not None:
        image = fn.slice(
            image,
            stage.canvas.start,
            stage.canvas.shape,
            **_PLACES,
            out_of_bounds_policy="pad",
            fill_values=list(stage.canvas.fill),
        )
    if stage.upturn is not None and not _flips_in_resize(stage):
        image = fn.flip(image, horizontal=0, vertical=stage.upturn)
    return image


def _flips_in_resize(stage: Resample) -> bool:
    """Whether flips can be had for nothing, as the order in which the resize writes.

    Not where padding comes after it, or a window is resized, which DALI's operator can not do.
    """
    flipped = stage.mirror is not None or stage.upturn is not None
    resized = stage.resize is not None and stage.resize.first is None
    return flipped and resized and stage.canvas is None


def _warp(stage: Warp, image: Any) -> Any:
    def warped(image: Any, own: dict[str, Any]) -> Any:
        return warp(image, own["matrix"], stage.fill, stage.sampling)

    return where(stage.mask, image, warped, {"matrix": stage.matrix})


def _finish(output: OutputFormat, image: Any, mirror: Any) -> Any:
    layout = output.layout.removeprefix("N")
    if output.dtype == "uint8" and layout == "HWC":
        return image if mirror is None else fn.flip(image, horizontal=mirror)
    return fn.crop_mirror_normalize(
        image,
        mean=list(output.mean),
        std=list(output.std),
        dtype=_DTYPES[output.dtype],
        output_layout=layout,
        **({} if mirror is None else {"mirror": mirror}),
    )
