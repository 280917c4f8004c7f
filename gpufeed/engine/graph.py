"""The DALI graph of a program."""

from __future__ import annotations

from typing import Any

from nvidia.dali import Pipeline, fn, types

from gpufeed._util.dali_private import skip_api_check
from gpufeed.engine.device import Device
from gpufeed.transforms.base import Made, MixTransform, OutputFormat
from gpufeed.transforms.blame import Blaming
from gpufeed.transforms.program import WINDOW, Pixels, Program, Resample, View, Warping
from gpufeed.transforms.select import where
from gpufeed.transforms.warp import warp

__all__ = ["build_pipeline", "input_name"]

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
    of them, the last flip left to right aside, as uint8 HWC in host memory.

    Returns:
        The pipeline, and the names of the parameters that it takes. Its outputs are the pictures of
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
        graph = _Graph(device)
        outputs = graph.views_opened(program) if opened else graph.views(program)
        pipeline.set_outputs(*outputs)
    pipeline.build()
    skip_api_check(pipeline)
    return pipeline, graph.inputs


def input_name(number: int) -> str:
    """Name of the input that takes pictures; parameters go by their names in the plan.

    Encoded pictures are number 0; opened ones have the number of their view.
    """
    return f"pictures {number}"


class _Graph:
    """What is said of a program while its graph is written down.

    Attributes:
        inputs: the names of the parameters that were asked for.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self.inputs: list[str] = []

    def views(self, program: Program) -> list[Any]:
        """Decode, and make all views."""
        encoded = fn.external_source(name=input_name(0), no_copy=True)
        window = fn.decoders.image_slice(
            encoded,
            self._fed(f"{WINDOW}.start"),
            self._fed(f"{WINDOW}.shape"),
            **_PLACES,
            device="mixed" if self._device.is_cuda else "cpu",
            output_type=types.RGB,
            # Smooth upsampling of chroma, as on the CPU; and all pictures through one decoder,
            # since which of two takes a picture depends on its batch.
            **(_ONE_DECODER if self._device.is_cuda else {}),
        )
        return [self._view(view, window, 0) for view in program.views]

    def views_opened(self, program: Program) -> list[Any]:
        """Go on with what became of each view's opening, its last flip aside."""
        made = []
        for number, view in enumerate(program.views):
            given = fn.external_source(name=input_name(number), no_copy=True, layout="HWC")
            image = self._view(view, given, len(view.opening))
            # What comes in as it goes out must not be the memory that it came in.
            made.append(fn.copy(image) if image is given else image)
        return made

    def _view(self, view: View, image: Any, opened: int) -> Any:
        """Write down a view's stages, of which some, their last flip aside, were done before."""
        mirror = None
        for number, stage in enumerate(view.stages):
            own = f"{view.prefix}{number}"
            if number < opened and isinstance(stage, Pixels):
                continue
            if isinstance(stage, Pixels):
                params = {name: self._fed(f"{own}.{name}") for name in stage.names}
                with Blaming(stage.transform):
                    image = stage.transform.build(image, params)
            elif isinstance(stage, Warping):
                matrix, mask = self._fed(f"{own}.matrix"), self._fed(f"{own}.mask")
                image = _warp(stage, image, matrix, mask)
            elif number >= opened - 1:
                done = number < opened
                if not done:
                    image = self._resample(stage, own, image)
                if stage.mirrored and (done or not _flips_in_resize(stage)):
                    mirror = self._fed(f"{own}.mirror")
                    if number < len(view.stages) - 1:
                        image, mirror = fn.flip(image, horizontal=mirror), None
        image = _finish(view.output, image, mirror)
        made = Made(view.output.dtype, view.output.layout, *view.size)
        for number, late in enumerate(view.late):
            own = f"{view.prefix}late {number}"
            params = {name: self._fed(f"{own}.{name}") for name in late.names}
            if isinstance(late.transform, MixTransform):
                partner = fn.permute_batch(image, indices=params.pop("partner"))
                with Blaming(late.transform):
                    image = late.transform.build(image, partner, params)
            else:
                with Blaming(late.transform):
                    image = late.transform.build(image, params, made)
        return image

    def _fed(self, name: str) -> Any:
        self.inputs.append(name)
        return fn.external_source(name=name, no_copy=True)

    def _resample(self, stage: Resample, own: str, image: Any) -> Any:
        if stage.cut:
            image = fn.slice(image, self._fed(f"{own}.start"), self._fed(f"{own}.shape"), **_PLACES)
        if stage.interpolation is not None:
            size = self._fed(f"{own}.size")
            how = {"interp_type": _FILTERS[stage.interpolation], "antialias": True}
            if _flips_in_resize(stage):
                # DALI's mask: 1 is left to right, 2 top to bottom.
                mirror = self._fed(f"{own}.mirror") if stage.mirrored else 0
                if stage.upturned:
                    mirror = mirror + 2 * self._fed(f"{own}.upturn")
                image = fn.resize_crop_mirror(image, size=size, crop=size, mirror=mirror, **how)
            elif stage.trimmed:
                first, last = self._fed(f"{own}.roi_start"), self._fed(f"{own}.roi_end")
                image = fn.resize(image, size=size, roi_start=first, roi_end=last, **how)
            else:
                image = fn.resize(image, size=size, **how)
        if stage.fill is not None:
            image = fn.slice(
                image,
                self._fed(f"{own}.pad_start"),
                self._fed(f"{own}.pad_shape"),
                **_PLACES,
                out_of_bounds_policy="pad",
                fill_values=list(stage.fill),
            )
        if stage.upturned and not _flips_in_resize(stage):
            image = fn.flip(image, horizontal=0, vertical=self._fed(f"{own}.upturn"))
        return image


def _flips_in_resize(stage: Resample) -> bool:
    """Whether flips can be had for nothing, as the order in which the resize writes.

    Not where padding comes after it, or a window is resized, which DALI's operator can not do.
    """
    resized = stage.interpolation is not None
    flipped = stage.mirrored or stage.upturned
    return flipped and resized and not (stage.trimmed or stage.fill)


def _warp(stage: Warping, image: Any, matrix: Any, mask: Any) -> Any:
    def warped(image: Any, own: dict[str, Any]) -> Any:
        return warp(image, own["matrix"], stage.fill, stage.sampling)

    return where(mask, image, warped, {"matrix": matrix})


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
