"""What a transform is.

Each has a half that runs on the host, in NumPy, over a whole batch, and draws every number it
needs per record; and a half that does what was drawn: a `GeometricTransform` moves a `Frame`, a
`PixelTransform` adds DALI operators to the graph, an `OutputFormat` turns levels into numbers, and
a `LateTransform` adds operators after that; a `MixTransform` is one that sees a partner too.
"""

from __future__ import annotations

import abc
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from gpufeed.errors import ConfigError
from gpufeed.rng import BatchRng
from gpufeed.transforms.frame import Frame
from gpufeed.transforms.objects import Objects

__all__ = [
    "DType",
    "GeometricTransform",
    "LateTransform",
    "Layout",
    "Made",
    "MixTransform",
    "OutputFormat",
    "Params",
    "PixelTransform",
    "Records",
    "Transform",
    "Tree",
]

Params = dict[str, npt.NDArray[Any]]
"""One array per drawn parameter, each (n,) or (n, ...), row i for record i."""

Tree: TypeAlias = "Mapping[str, npt.NDArray[Any] | Tree]"
"""`Params`, or, of a transform made of others, such dictionaries by name."""

DType = Literal["float32", "float16", "uint8"]
Layout = Literal["NCHW", "NHWC"]


@dataclass(frozen=True)
class Records:
    """The records of one batch as a transform finds them: after those before it in the list.

    Attributes:
        record_key: int64 (n,).
        height: int64 (n,), pixels.
        width: int64 (n,), pixels.
        boxes: float64 (n, 4) of (x0, y0, x1, y1) in pixels, cut to the image; None where the
            manifest has no such boxes.
        objects: all boxes of each record, likewise cut, without those that were dropped or of which
            nothing is left; only for transforms whose `uses_objects` says so, and None where the
            manifest has none.
    """

    record_key: npt.NDArray[np.int64]
    height: npt.NDArray[np.int64]
    width: npt.NDArray[np.int64]
    boxes: npt.NDArray[np.float64] | None
    objects: Objects | None = None

    def __len__(self) -> int:
        return len(self.record_key)


class Transform(abc.ABC):  # noqa: B024 - a common root; what is abstract differs by kind
    """Something done to every image; its public attributes say all about what it does."""

    @property
    def loses_targets(self) -> bool:
        """Whether boxes and points are no longer where they were, and cannot follow."""
        return False

    @property
    def identity(self) -> dict[str, object]:
        """Kind and settings as JSON values: two transforms with one identity do the same."""
        kind = type(self)
        settings = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        own = kind.__module__.startswith("gpufeed.transforms")
        name = kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}"
        described = {"kind": name, **settings}
        try:
            plain: dict[str, object] = json.loads(json.dumps(described))
        except TypeError as error:
            raise ConfigError(
                f"{kind.__name__} has a setting that no fingerprint can be made of: {error}; keep "
                "numbers, strings and tuples, or name other attributes with a leading underscore"
            ) from None
        return plain


class GeometricTransform(Transform):
    """Moves pixels without changing their levels: crops, resizes, pads, flips.

    Attributes:
        uses_objects: whether it looks at all boxes of a record, or drops some of them.
    """

    uses_objects: ClassVar[bool] = False

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Draw or work out what this transform needs for each record; {} where it needs nothing."""
        return {}

    @abc.abstractmethod
    def place(self, frame: Frame, params: Params) -> Frame:
        """Move `frame` as drawn. Call the same methods of `frame` whatever the numbers are."""

    def keep(self, boxes: npt.NDArray[np.float64], drawn: Params) -> npt.NDArray[np.bool_]:  # noqa: ARG002
        """Say which boxes are kept: bool (m,). Asked only where `uses_objects`.

        Args:
            boxes: float64 (m, 4) of (x0, y0, x1, y1) in pixels, before this transform.
            drawn: what `draw` returned, row i for box i.
        """
        return np.ones(len(boxes), dtype=np.bool_)


class PixelTransform(Transform):
    """Changes levels, in the DALI graph."""

    def draw(self, rng: BatchRng, records: Records) -> Tree:  # noqa: ARG002
        """Draw what this transform needs for each record; {} where it needs nothing.

        Numbers of 64 bits reach the graph as float32 and int32.
        """
        return {}

    @abc.abstractmethod
    def build(self, image: Any, params: dict[str, Any]) -> Any:
        """Add the operators.

        Args:
            image: DALI `DataNode` of uint8 HWC images, on the CPU or the GPU.
            params: what `draw` returns, with a CPU `DataNode` in place of each array.

        Returns:
            `DataNode` of uint8 HWC images of unchanged size.
        """


class OutputFormat(Transform):
    """The last of a list: how levels 0..255 become the batch's numbers.

    A level v leaves as (v - mean) / std of its channel.

    Attributes:
        dtype: "float32", "float16" or "uint8".
        layout: "NCHW" or "NHWC".
    """

    dtype: DType
    layout: Layout

    @property
    @abc.abstractmethod
    def mean(self) -> tuple[float, float, float]:
        """Subtracted from the channels' levels, on the scale 0..255."""

    @property
    @abc.abstractmethod
    def std(self) -> tuple[float, float, float]:
        """What the levels are then divided by, on the scale 0..255."""


@dataclass(frozen=True)
class Made:
    """What finished images are like.

    Attributes:
        dtype: "float32", "float16" or "uint8".
        layout: "NCHW" or "NHWC".
        height: pixels.
        width: pixels.
    """

    dtype: DType
    layout: Layout
    height: int
    width: int


class LateTransform(Transform):
    """Changes what the output format gives, in the DALI graph; comes after it in a list."""

    def draw(self, rng: BatchRng, records: Records) -> Tree:  # noqa: ARG002
        """Draw what this transform needs for each record; {} where it needs nothing.

        Numbers of 64 bits reach the graph as float32 and int32.
        """
        return {}

    @abc.abstractmethod
    def build(self, image: Any, params: dict[str, Any], made: Made) -> Any:
        """Add the operators.

        Args:
            image: DALI `DataNode` of finished images.
            params: what `draw` returns, with a CPU `DataNode` in place of each array.
            made: what they are like.

        Returns:
            `DataNode` of the same type and shape.
        """


class MixTransform(Transform):
    """Mixes each image with its partner's, in the DALI graph, and their labels alike.

    Partners are records of one small group of neighbours in the sampler's order, each paired with
    the next and the last with the first. So who meets whom is a matter of the order alone, and the
    same for any batch size and any number of shards.

    Attributes:
        group: records in a group, 2 or more; the batch size must be a multiple of it.
    """

    group: int

    @property
    def loses_targets(self) -> bool:
        """True: the partner's boxes are not the record's."""
        return True

    @abc.abstractmethod
    def draw(self, rng: BatchRng, records: Records) -> tuple[Tree, npt.NDArray[np.float32]]:
        """Draw what this transform needs for each record.

        Args:
            rng: the batch's numbers.
            records: with the images' final sizes.

        Returns:
            The parameters, and float32 (n,): the share of the record's own label, 0 to 1.
        """

    @abc.abstractmethod
    def build(self, image: Any, partner: Any, params: dict[str, Any]) -> Any:
        """Add the operators; as `LateTransform.build`, with the partners' images beside."""
