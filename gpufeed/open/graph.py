"""Opening images in the DALI graph: decoding windows and carrying out the first stages."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from nvidia.dali import fn, types

from gpufeed.decode.accept import Acceptor
from gpufeed.decode.decoders import NvImageCodec
from gpufeed.decode.diagnose import Name, undecodable
from gpufeed.errors import DecodeError
from gpufeed.open.base import Opened, finished, without_traceback
from gpufeed.open.geometry import PLACES, resample
from gpufeed.open.inputs import declare, declare_images, feeds, share
from gpufeed.plan.stages import Resample

if TYPE_CHECKING:
    from gpufeed.plan.planner import BatchPlan
    from gpufeed.plan.stages import Stages
    from gpufeed.source.base import Encoded

__all__ = ["GraphOpener"]

_ENCODED = "encoded"


class GraphOpener:
    """Opens images with DALI's own operators; does not support `Lambda`.

    Args:
        name: from a record key to the name of its image in errors.
        on_gpu: whether the graph is on a GPU.
        reduce_depth: as for `Manifest`.
        count: the number of records.
    """

    def __init__(self, name: Name, *, on_gpu: bool, reduce_depth: bool, count: int) -> None:
        self._name = name
        self._acceptor = Acceptor(name, reduce_depth=reduce_depth, remembered=count)
        self._on_gpu = on_gpu

    def build(self, stages: Stages) -> list[Any]:
        """Add decoding and each view's opening to the graph: see `Opener`."""
        own = declare(_parts(stages), "opening")
        window = fn.decoders.image_slice(
            declare_images(_ENCODED),
            own["window"].start,
            own["window"].shape,
            **PLACES,
            output_type=types.RGB,
            device="mixed" if self._on_gpu else "cpu",
            # Smooth chroma upsampling, as on the CPU. One decoder for all images: with two, the
            # batch would decide which of them decodes an image.
            **({"jpeg_fancy_upsampling": True, "hw_decoder_load": 0.0} if self._on_gpu else {}),
        )
        opened = []
        for opening in own["openings"]:
            image = window
            for stage in opening:
                image = resample(stage, image)
            opened.append(image)
        return opened

    def open(
        self,
        plan: BatchPlan,
        encoded: Sequence[Encoded | DecodeError],
        before: Opened | None = None,  # noqa: ARG002 - the graph keeps no images
    ) -> Future[Opened]:
        """Check headers, before memory is allocated for the sizes they give: see `Opener`."""
        errors: dict[int, DecodeError] = {}
        accepted: list[Encoded] = []
        keys, sizes = plan.record_keys.tolist(), plan.sizes.tolist()
        for place, content in enumerate(encoded):
            try:
                if isinstance(content, DecodeError):
                    raise content
                size = tuple(sizes[place])
                accepted.append(self._acceptor.accept(content, size, keys[place]))
            except DecodeError as error:
                errors[place] = without_traceback(error)
        if errors:
            return finished(Opened(plan, encoded, errors=errors))
        fed = {_ENCODED: share(accepted), **feeds(_parts(plan.stages), "opening")}
        return finished(Opened(plan, encoded, fed))

    def blame(self, opened: Opened) -> dict[int, DecodeError]:
        """Return the errors of images whose window cannot be decoded: see `Opener`.

        DALI's messages seldom say which they are. Only the window is decoded, so that a damaged
        image counts as bad in every batch or in none.
        """
        decoder = NvImageCodec()
        window, keys = opened.plan.stages.window, opened.plan.record_keys.tolist()
        starts, shapes = window.start.tolist(), window.shape.tolist()
        errors: dict[int, DecodeError] = {}
        for place, content in enumerate(opened.encoded):
            if isinstance(content, DecodeError):
                continue
            if decoder.decode(content, tuple(starts[place]), tuple(shapes[place])) is None:
                errors[place] = undecodable(content, keys[place], self._name)
        return errors

    def close(self) -> None:
        """Do nothing: this opener has no threads."""


def _parts(stages: Stages) -> dict[str, Any]:
    """Return the stages that this opener carries out."""
    openings = tuple(
        tuple([stage for stage in view.opening if isinstance(stage, Resample)])
        for view in stages.views
    )
    return {"window": stages.window, "openings": openings}
