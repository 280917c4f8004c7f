"""Base classes of transforms.

A transform has two halves. `draw` runs on the host, in NumPy, over a whole batch, and draws all
random numbers per record. The other half applies them: a `GeometricTransform` moves a `Frame`; a
`PixelTransform` adds DALI operators to the graph; an `OutputFormat` converts pixel values to the
batch's dtype and layout; a `LateTransform` adds operators after that; a `MixTransform` does so too,
with a partner image beside each image.
"""

from __future__ import annotations

import abc
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from gpufeed._util.written import written
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
"""Drawn parameters by name: arrays (n,) or (n, ...), row i for record i."""

Tree: TypeAlias = "Mapping[str, npt.NDArray[Any] | Tree]"
"""`Params`, or, for a transform made of others, nested dictionaries of them."""

DType = Literal["float32", "float16", "bfloat16", "uint8"]
"""DALI has no bfloat16: it makes float32, which the framework rounds to nearest even."""
Layout = Literal["NCHW", "NHWC"]


@dataclass(frozen=True)
class Records:
    """The records of one batch as the transforms before this one leave them.

    Attributes:
        record_key: int64 (n,).
        height: int64 (n,), pixels.
        width: int64 (n,), pixels.
        boxes: float64 (n, 4) of (x0, y0, x1, y1) in pixels, clipped to the image; None if the
            manifest has no such boxes.
        objects: all boxes of each record, also clipped, without those that were dropped or have no
            area left. None if the manifest has none, or if the transform's `uses_objects` is False.
    """

    record_key: npt.NDArray[np.int64]
    height: npt.NDArray[np.int64]
    width: npt.NDArray[np.int64]
    boxes: npt.NDArray[np.float64] | None
    objects: Objects | None = None

    def __len__(self) -> int:
        return len(self.record_key)


class Transform(abc.ABC):  # noqa: B024 - a common root; what is abstract differs by kind
    """Base class of all transforms. Public attributes are a transform's complete settings."""

    @property
    def loses_targets(self) -> bool:
        """Whether pixels move in ways that boxes and points cannot follow."""
        return False

    @property
    def identity(self) -> dict[str, object]:
        """Kind and settings as JSON values: transforms of equal identity do the same."""
        kind = type(self)
        settings = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        own = kind.__module__.startswith("gpufeed.transforms")
        name = kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}"
        described = {"kind": name, **settings}
        try:
            plain: dict[str, object] = json.loads(json.dumps(described))
        except TypeError as error:
            raise ConfigError(
                f"{kind.__name__} has a setting that cannot be fingerprinted: {error}; public "
                "attributes must be numbers, strings or tuples; start other names with an "
                "underscore"
            ) from None
        return plain

    def __repr__(self) -> str:
        return written(self)


class GeometricTransform(Transform):
    """A transform that moves pixels, and boxes and points with them: a crop, resize, pad or flip.

    Attributes:
        uses_objects: whether the transform reads all boxes of a record, or drops some of them.
    """

    uses_objects: ClassVar[bool] = False

    def draw(self, rng: BatchRng, records: Records) -> Params:  # noqa: ARG002
        """Draw or compute this transform's parameters for each record; {} if it has none."""
        return {}

    @abc.abstractmethod
    def place(self, frame: Frame, params: Params) -> Frame:
        """Move `frame` as drawn.

        The methods of `frame` that are called must not depend on the drawn numbers.
        """

    def keep(self, boxes: npt.NDArray[np.float64], drawn: Params) -> npt.NDArray[np.bool_]:  # noqa: ARG002
        """Return which boxes to keep: bool (m,). Called only if `uses_objects` is True.

        Args:
            boxes: float64 (m, 4) of (x0, y0, x1, y1) in pixels, before this transform.
            drawn: what `draw` returned, row i for box i.
        """
        return np.ones(len(boxes), dtype=np.bool_)


class PixelTransform(Transform):
    """A transform that changes pixel values, in the DALI graph."""

    def draw(self, rng: BatchRng, records: Records) -> Tree:  # noqa: ARG002
        """Draw this transform's parameters for each record; {} if it has none.

        The graph gets float64 as float32 and int64 as int32.
        """
        return {}

    @abc.abstractmethod
    def build(self, image: Any, params: dict[str, Any]) -> Any:
        """Add the operators to the graph.

        Args:
            image: DALI `DataNode` of uint8 HWC images, on the CPU or the GPU.
            params: what `draw` returns, with a CPU `DataNode` in place of each array.

        Returns:
            `DataNode` of uint8 HWC images of unchanged size.
        """


class OutputFormat(Transform):
    """The conversion of pixel values 0..255 to the batch's dtype, scale and layout.

    Each channel's value v becomes (v - mean) / std.

    Attributes:
        dtype: "float32", "float16", "bfloat16" or "uint8".
        layout: "NCHW" or "NHWC"; None for the loader to choose.
    """

    dtype: DType
    layout: Layout | None

    @property
    @abc.abstractmethod
    def mean(self) -> tuple[float, float, float]:
        """Subtracted from each channel, on the scale 0..255."""

    @property
    @abc.abstractmethod
    def std(self) -> tuple[float, float, float]:
        """Divides each channel after that, on the scale 0..255."""


@dataclass(frozen=True)
class Made:
    """Type, layout and size of finished images.

    Attributes:
        dtype: "float32", "float16", "bfloat16" or "uint8".
        layout: "NCHW" or "NHWC".
        height: pixels.
        width: pixels.
    """

    dtype: DType
    layout: Layout
    height: int
    width: int


class LateTransform(Transform):
    """A transform of finished images, in the DALI graph; follows the output format in a list."""

    def draw(self, rng: BatchRng, records: Records) -> Tree:  # noqa: ARG002
        """Draw this transform's parameters for each record; {} if it has none.

        The graph gets float64 as float32 and int64 as int32.
        """
        return {}

    @abc.abstractmethod
    def build(self, image: Any, params: dict[str, Any], made: Made) -> Any:
        """Add the operators to the graph.

        Args:
            image: DALI `DataNode` of finished images. Many operators of DALI do not take float16;
                cast to float32 and back.
            params: what `draw` returns, with a CPU `DataNode` in place of each array.
            made: type, layout and size of the images.

        Returns:
            `DataNode` of the same type and shape.
        """


class MixTransform(Transform):
    """A transform that mixes each image and label with a partner's, in the DALI graph.

    The sampler's order is cut into groups of neighbours. In a group each record's partner is the
    next one, and the last record's is the first. Partners depend on the order alone, so they are
    the same for any batch size and any number of shards.

    Attributes:
        group: records per group, 2 or more; the batch size must be a multiple of it.
    """

    group: int

    @property
    def loses_targets(self) -> bool:
        """True: the batch has no boxes of the partner's image."""
        return True

    @abc.abstractmethod
    def draw(self, rng: BatchRng, records: Records) -> tuple[Tree, npt.NDArray[np.float32]]:
        """Draw this transform's parameters for each record.

        Args:
            rng: the batch's random numbers.
            records: the records, with the final sizes of their images.

        Returns:
            The parameters, and the share of each record's own label: float32 (n,), 0 to 1.
        """

    @abc.abstractmethod
    def build(self, image: Any, partner: Any, params: dict[str, Any]) -> Any:
        """Add the operators to the graph.

        Args:
            image: DALI `DataNode` of finished images.
            partner: DALI `DataNode` of the partners' images.
            params: what `draw` returns, with a CPU `DataNode` in place of each array.

        Returns:
            `DataNode` of the same type and shape.
        """
