"""The DALI graph of a program."""

from __future__ import annotations

from typing import Any

from nvidia.dali import Pipeline, fn, types

from gpufeed.engine.device import Device
from gpufeed.transforms.base import OutputFormat
from gpufeed.transforms.compose import Pixels, Program, Resample

__all__ = ["PICTURES", "build_pipeline"]

PICTURES = "pictures"
"""Name of the input that takes the pictures; parameters go by their names in the plan."""

_FILTERS = {"bilinear": types.INTERP_LINEAR, "bicubic": types.INTERP_CUBIC}
_DTYPES = {"float32": types.FLOAT, "float16": types.FLOAT16, "uint8": types.UINT8}
_ONE_DECODER: dict[str, Any] = {"jpeg_fancy_upsampling": True, "hw_decoder_load": 0.0}
_PLACES: dict[str, Any] = {"axes": (0, 1), "normalized_anchor": False, "normalized_shape": False}


def build_pipeline(
    program: Program,
    *,
    opened: bool,
    batch_size: int,
    device: Device,
    num_threads: int,
    depth: int,
) -> tuple[Pipeline, list[str]]:
    """Build the pipeline that carries out `program`.

    It takes encoded pictures; or, where they were `opened` before, what the program's opening makes
    of them, the last flip aside, as uint8 HWC in host memory.

    Returns:
        The pipeline, and the names of the parameters that it takes. Its outputs are the pictures,
        on `device`, and of encoded ones their sizes, int64 (n, 3) of oriented height, width and
        channels, on the CPU.
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
        outputs, inputs = _Graph(program, device, opened).build()
        pipeline.set_outputs(*outputs)
    pipeline.build()
    return pipeline, inputs


class _Graph:
    """What is said of a program while its graph is written down."""

    def __init__(self, program: Program, device: Device, opened: bool) -> None:
        self._program = program
        self._device = device
        self._inputs: list[str] = []
        self._made_before = len(program.opening) if opened else 0

    def build(self) -> tuple[list[Any], list[str]]:
        """Return the outputs, and the names of the parameters."""
        given = fn.external_source(
            name=PICTURES, no_copy=True, **({"layout": "HWC"} if self._made_before else {})
        )
        image = given
        stages = self._program.stages
        mirror = None
        for number, stage in enumerate(stages):
            if number < self._made_before - 1:
                continue
            if isinstance(stage, Pixels):
                params = {name: self._fed(f"{number}.{name}") for name in stage.names}
                image = stage.transform.build(image, params)
                continue
            if number >= self._made_before:
                image = self._resample(stage, number, image)
            if stage.mirrored and not self._flips_in_resize(stage, number):
                mirror = self._fed(f"{number}.mirror")
                if number < len(stages) - 1:
                    image, mirror = fn.flip(image, horizontal=mirror), None
        image = _finish(self._program.output, image, mirror)
        if not self._made_before:
            return [image, fn.peek_image_shape(given)], self._inputs
        # What comes in as it goes out must not be the memory that it came in.
        return [fn.copy(image) if image is given else image], self._inputs

    def _fed(self, name: str) -> Any:
        self._inputs.append(name)
        return fn.external_source(name=name, no_copy=True)

    def _flips_in_resize(self, stage: Resample, number: int) -> bool:
        """Whether the flip can be had for nothing, as the order in which the resize writes.

        Not where padding comes after it, or a window is resized, which DALI's operator can not do.
        """
        return (
            number >= self._made_before
            and stage.mirrored
            and stage.interpolation is not None
            and not (stage.trimmed or stage.fill)
        )

    def _resample(self, stage: Resample, number: int, source: Any) -> Any:
        start, shape = self._fed(f"{number}.start"), self._fed(f"{number}.shape")
        if number == 0:
            image = fn.decoders.image_slice(
                source,
                start,
                shape,
                **_PLACES,
                device="mixed" if self._device.is_cuda else "cpu",
                output_type=types.RGB,
                # Smooth upsampling of chroma, as on the CPU; and all pictures through one decoder,
                # since which of two takes a picture depends on its batch.
                **(_ONE_DECODER if self._device.is_cuda else {}),
            )
        else:
            image = fn.slice(source, start, shape, **_PLACES)
        if stage.interpolation is not None:
            size = self._fed(f"{number}.size")
            how = {"interp_type": _FILTERS[stage.interpolation], "antialias": True}
            if self._flips_in_resize(stage, number):
                mirror = self._fed(f"{number}.mirror")
                image = fn.resize_crop_mirror(image, size=size, crop=size, mirror=mirror, **how)
            elif stage.trimmed:
                first, last = self._fed(f"{number}.roi_start"), self._fed(f"{number}.roi_end")
                image = fn.resize(image, size=size, roi_start=first, roi_end=last, **how)
            else:
                image = fn.resize(image, size=size, **how)
        if stage.fill is not None:
            image = fn.slice(
                image,
                self._fed(f"{number}.pad_start"),
                self._fed(f"{number}.pad_shape"),
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
