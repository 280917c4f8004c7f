"""The images of one view of a batch, made of decoded windows by threads of the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpufeed._util.memory import Memory
from gpufeed.open.base import Pixels
from gpufeed.open.kinds import THREADS, Kind
from gpufeed.open.resize import Resizer
from gpufeed.plan.stages import Resample, map_arrays
from gpufeed.transforms.function import Lambda

if TYPE_CHECKING:
    from gpufeed.plan.stages import View

__all__ = ["OpenedView"]

Shapes = Sequence[Sequence[float]]
"""(height, width) for each image, whole numbers."""
_Call = Callable[[int, Pixels], Pixels]
"""A `Lambda` for one batch, which takes an image's place in it and the image."""


class OpenedView:
    """The images of one view of a batch, and the stages that make them.

    Args:
        view: the view, with arrays.
        shapes: the shape of each decoded window.
        kinds: the opener of each image.
        memory: where the images are made.

    Attributes:
        images: the n output arrays, uint8 (height, width, 3); (1, 1, 3) for images of the graph.
    """

    def __init__(self, view: View, shapes: Shapes, kinds: Sequence[Kind], memory: Memory) -> None:
        self._stages: list[_Resampling | _Call] = []
        for stage in view.opening:
            if isinstance(stage, Resample):
                own = _Resampling(stage, shapes)
                self._stages.append(own)
                shapes = own.shapes
            elif isinstance(stage.transform, Lambda):
                self._stages.append(partial(stage.transform, stage.params))
                if stage.transform.size is not None:
                    shapes = [stage.transform.size] * len(shapes)
        pairs = zip(shapes, kinds, strict=True)
        here = [shape if kind == THREADS else (1, 1) for shape, kind in pairs]
        self.images = _allocate(here, memory)

    def write(self, place: int, image: Pixels, resizer: Resizer) -> None:
        """Carry out the stages on a decoded window, and write the image at `place`."""
        *before, last = self._stages
        for stage in before:
            if not isinstance(stage, _Resampling):
                image = stage(place, image)
                continue
            height, width = (int(side) for side in stage.shapes[place])
            out = np.empty((height, width, 3), np.uint8)
            stage.write(image, place, resizer, out)
            image = out
        if isinstance(last, _Resampling):
            last.write(image, place, resizer, self.images[place])
        else:
            self.images[place][...] = last(place, image)


class _Resampling:
    """A `Resample` for one batch, with its arrays as lists, which are faster to index.

    Args:
        stage: the stage, with arrays.
        shapes: the input shape of each image.

    Attributes:
        shapes: the output shape of each image.
    """

    def __init__(self, stage: Resample, shapes: Shapes) -> None:
        listed: Any = map_arrays(np.ndarray.tolist, stage)
        self._stage = listed
        if listed.cut is not None:
            shapes = listed.cut.shape
        self._inner: Shapes = shapes if listed.resize is None else listed.resize.size
        self.shapes: Shapes = self._inner if listed.canvas is None else listed.canvas.shape

    def write(self, image: Pixels, place: int, resizer: Resizer, out: Pixels) -> None:
        """Resample an image into `out`."""
        stage = self._stage
        if stage.upturn is not None and stage.upturn[place]:
            out = out[::-1]  # writing in reverse order costs nothing
        if stage.mirror is not None and stage.mirror[place]:
            out = out[:, ::-1]
        if stage.cut is not None:
            (top, left), (height, width) = stage.cut.start[place], stage.cut.shape[place]
            image = image[top : top + height, left : left + width]
        if stage.canvas is not None:
            out[...] = np.rint(stage.canvas.fill)
            top, left = (-start for start in stage.canvas.start[place])
            if top < 0 or left < 0:  # the image lies outside of the canvas
                return
            height, width = (int(side) for side in self._inner[place])
            out = out[top : top + height, left : left + width]
        if stage.resize is None:
            out[...] = image
            return
        region = None
        if stage.resize.first is not None:
            region = (*stage.resize.first[place], *stage.resize.last[place])
        resizer.resize(image, stage.resize.interpolation, region, out)


def _allocate(shapes: Shapes, memory: Memory) -> list[Pixels]:
    """Return an array for each (height, width), all in one block."""
    sizes = [(int(height), int(width), 3) for height, width in shapes]
    ends = np.cumsum([height * width * 3 for height, width, _ in sizes]).tolist()
    whole = memory.take(ends[-1])
    return [
        whole[end - height * width * 3 : end].reshape(height, width, 3)
        for end, (height, width, _) in zip(ends, sizes, strict=True)
    ]
