"""The DALI graph of a program."""

from __future__ import annotations

from typing import Any

from nvidia.dali import Pipeline, fn, types

from gpufeed.engine.device import Device
from gpufeed.transforms.base import OutputFormat
from gpufeed.transforms.compose import Pixels, Program, Resample

__all__ = ["ENCODED", "build_pipeline"]

ENCODED = "encoded"
"""Name of the input that takes the encoded pictures; parameters go by their names in the plan."""

_FILTERS = {"bilinear": types.INTERP_LINEAR, "bicubic": types.INTERP_CUBIC}
_DTYPES = {"float32": types.FLOAT, "float16": types.FLOAT16, "uint8": types.UINT8}
_PLACES: dict[str, Any] = {"axes": (0, 1), "normalized_anchor": False, "normalized_shape": False}


def build_pipeline(
    program: Program, *, batch_size: int, device: Device, num_threads: int, depth: int
) -> Pipeline:
    """Build the pipeline that carries out `program`.

    Its outputs are the pictures, on `device`, and their encoded sizes, int64 (n, 3) of oriented
    height, width and channels, on the CPU.
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
        encoded = _fed(ENCODED)
        image: Any = None
        last = len(program.stages) - 1
        for number, stage in enumerate(program.stages):
            if isinstance(stage, Pixels):
                params = {name: _fed(f"{number}.{name}") for name in stage.names}
                image = stage.transform.build(image, params)
                continue
            image = _resample(stage, number, encoded if image is None else image, device)
            if stage.mirrored and number != last and not _flips_in_resize(stage):
                image = fn.flip(image, horizontal=_fed(f"{number}.mirror"))
        mirror = None
        final = program.stages[last]
        if isinstance(final, Resample) and final.mirrored and not _flips_in_resize(final):
            mirror = _fed(f"{last}.mirror")
        image = _finish(program.output, image, mirror)
        pipeline.set_outputs(image, fn.peek_image_shape(encoded))
    pipeline.build()
    return pipeline


def _fed(name: str) -> Any:
    return fn.external_source(name=name, no_copy=True)


def _flips_in_resize(stage: Resample) -> bool:
    """Whether the flip can be had for nothing, as the order in which the resize writes.

    Not where padding comes after it, or a window is resized, which DALI's operator can not do.
    """
    return stage.mirrored and stage.interpolation is not None and not (stage.trimmed or stage.fill)


def _resample(stage: Resample, number: int, source: Any, device: Device) -> Any:
    start, shape = _fed(f"{number}.start"), _fed(f"{number}.shape")
    if number == 0:
        image = fn.decoders.image_slice(
            source,
            start,
            shape,
            **_PLACES,
            device="mixed" if device.is_cuda else "cpu",
            output_type=types.RGB,
            # Smooth upsampling of chroma on the GPU too, as the CPU always does; and all pictures
            # through one decoder, since which of two takes a picture depends on its batch.
            **({"jpeg_fancy_upsampling": True, "hw_decoder_load": 0.0} if device.is_cuda else {}),
        )
    else:
        image = fn.slice(source, start, shape, **_PLACES)
    if stage.interpolation is not None and _flips_in_resize(stage):
        size = _fed(f"{number}.size")
        image = fn.resize_crop_mirror(
            image,
            size=size,
            crop=size,
            mirror=_fed(f"{number}.mirror"),
            interp_type=_FILTERS[stage.interpolation],
            antialias=True,
        )
    elif stage.interpolation is not None:
        window = {}
        if stage.trimmed:
            window = {
                "roi_start": _fed(f"{number}.roi_start"),
                "roi_end": _fed(f"{number}.roi_end"),
            }
        image = fn.resize(
            image,
            size=_fed(f"{number}.size"),
            interp_type=_FILTERS[stage.interpolation],
            antialias=True,
            **window,
        )
    if stage.fill is not None:
        image = fn.slice(
            image,
            _fed(f"{number}.pad_start"),
            _fed(f"{number}.pad_shape"),
            **_PLACES,
            out_of_bounds_policy="pad",
            fill_values=list(stage.fill),
        )
    return image


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
