"""Decoding in the DALI graph, and merging its images with those that threads opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from nvidia.dali import fn, types

from gpufeed._util.dali_private import merge_batch, split_batch
from gpufeed.open.dali_errors import sample_of
from gpufeed.open.geometry import PLACES, carry_out
from gpufeed.open.inputs import declare, declare_images, feeds, share
from gpufeed.open.kinds import THREADS, WHOLE, Kind

if TYPE_CHECKING:
    from gpufeed.plan.stages import Stages
    from gpufeed.source.base import Encoded

__all__ = ["GraphDecoders"]

_ENCODED = "encoded"
_NOTHING = np.zeros(1, np.uint8)
"""In the place of an image that the graph does not decode; DALI takes no empty buffer."""

# Either one decoder takes all images of an operator or another does: with a load between 0 and 1,
# the batch would decide which of them decodes an image.
_ON_GPU: dict[Kind, dict[str, Any]] = {
    "cuda": {"hw_decoder_load": 0.0, "jpeg_fancy_upsampling": True},
    "cuda_windows": {"hw_decoder_load": 0.0, "jpeg_fancy_upsampling": False},
    # No preallocation hints: memory for `batch_size` of the largest image would be taken at once.
    "hardware": {"hw_decoder_load": 1.0, "jpeg_fancy_upsampling": True},
}
# Bytes for each pixel of a 4:2:0 JPEG, and DALI's defaults, which each thread of each decoder
# allocates. A larger image makes its thread's memory grow.
_DEVICE_BYTES, _MAX_DEVICE_PADDING = 6, 1 << 24
_HOST_BYTES, _MAX_HOST_PADDING = 4, 1 << 23


class GraphDecoders:
    """The decoders of a graph, of which each decodes the records that are chosen for it.

    nvImageCodec decodes formats other than JPEG on the CPU, whatever the kind.

    Args:
        kinds: the kinds of decoders.
        with_threads: whether threads open some of the records.
        largest: the most pixels of an image that is decoded here.
    """

    def __init__(self, kinds: Sequence[Kind], *, with_threads: bool, largest: int) -> None:
        self._kinds = tuple(kinds)
        self._with_threads = with_threads
        self._on_gpu = kinds[0] in _ON_GPU
        # A mask separates the records of each of these from those of the kinds after it.
        self._masked = (*[THREADS] * with_threads, *kinds[:-1])
        self._padding = {
            "device_memory_padding": min(_MAX_DEVICE_PADDING, _DEVICE_BYTES * largest),
            "host_memory_padding": min(_MAX_HOST_PADDING, _HOST_BYTES * largest),
        }

    def build(self, stages: Stages, images: Sequence[Any]) -> list[Any]:
        """Add decoding and each view's opening to the current graph.

        Args:
            stages: the stages of any batch.
            images: for each view a `DataNode` of the images that threads opened, with placeholders
                for the others; empty if threads open none.

        Returns:
            For each view a `DataNode` of uint8 HWC images.
        """
        masks = [_declare_mask(kind) for kind in self._masked]
        encoded = declare_images(_ENCODED)
        if self._with_threads:
            on_threads, *masks = masks
            encoded, *masks = [split_batch(node, on_threads)[1] for node in (encoded, *masks)]
            own = declare(_parts(stages), "opening", lambda node: split_batch(node, on_threads)[1])
        else:
            own = declare(_parts(stages), "opening")
        window = self._windows(self._kinds, masks, [encoded, *vars(own["window"]).values()])
        opened = carry_out(own["openings"], window)
        if not self._with_threads:
            return opened
        done = [split_batch(image, on_threads)[0] for image in images]
        if self._on_gpu:
            done = [image.gpu() for image in done]
        pairs = zip(done, opened, strict=True)
        return [merge_batch(ready, image, on_threads) for ready, image in pairs]

    def _windows(self, kinds: Sequence[Kind], masks: Sequence[Any], nodes: Sequence[Any]) -> Any:
        """Return a `DataNode` of decoded windows; `nodes` are images, starts and shapes."""
        kind, *others = kinds
        if not others:
            return self._window(kind, *nodes)
        mask, *masks = masks
        own = [split_batch(node, mask)[0] for node in nodes]
        rest = self._windows(
            others,
            [split_batch(node, mask)[1] for node in masks],
            [split_batch(node, mask)[1] for node in nodes],
        )
        return merge_batch(self._window(kind, *own), rest, mask)

    def _window(self, kind: Kind, encoded: Any, start: Any, shape: Any) -> Any:
        how: dict[str, Any] = {"output_type": types.RGB, "device": "cpu"}
        if kind in _ON_GPU:
            # Affinity needs NVML, which containers may lack, and pins threads to cores.
            how |= {"device": "mixed", "affine": False, **_ON_GPU[kind], **self._padding}
        if kind in WHOLE:
            return fn.slice(fn.decoders.image(encoded, **how), start, shape, **PLACES)
        return fn.decoders.image_slice(encoded, start, shape, **PLACES, **how)

    def feeds(
        self, stages: Stages, contents: Sequence[Encoded | None], kinds: Sequence[Kind]
    ) -> dict[str, Any]:
        """Return a batch's inputs by name.

        Args:
            stages: its stages.
            contents: the encoded images; None for those that threads open.
            kinds: the kind of decoder of each record.
        """
        encoded = share([_NOTHING if content is None else content for content in contents])
        fed = {_ENCODED: encoded, **feeds(_parts(stages), "opening")}
        for kind in self._masked:
            fed[_mask(kind)] = np.array([each == kind for each in kinds])
        return fed

    def first_bad(self, message: str, kinds: Sequence[Kind]) -> int | None:
        """Return the place of the image that DALI's message names, None if it names none.

        DALI names the first bad image of an operator, by its number among those of the operator. It
        does not say which operator, so with several kinds no image is known.
        """
        number = sample_of(message)
        if number is None or len(self._kinds) > 1:
            return None
        places = [place for place, kind in enumerate(kinds) if kind != THREADS]
        return places[number] if number < len(places) else None


def _mask(kind: Kind) -> str:
    return f"which {kind}"


def _declare_mask(kind: Kind) -> Any:
    return fn.external_source(name=_mask(kind), no_copy=True)


def _parts(stages: Stages) -> dict[str, Any]:
    """Return the stages that a graph carries out after decoding."""
    return {"window": stages.window, "openings": stages.openings}
