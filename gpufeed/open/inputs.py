"""The inputs of a graph: declaring them, and feeding them the arrays of a batch by name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt
from nvidia.dali import Pipeline, fn, tensors

from gpufeed.plan.stages import map_arrays

__all__ = ["declare", "declare_images", "feeds", "share"]


def declare(
    part: Any, prefix: str = "array", select: Callable[[Any], Any] = lambda node: node
) -> Any:
    """Return stages in which each array is replaced by an input of the current graph.

    Args:
        part: stages, or a part of them.
        prefix: the prefix of the inputs' names; each caller needs its own.
        select: applied to the `DataNode` of each input; it may select some of the records.

    Returns:
        The same structure with CPU `DataNode`s.
    """
    numbers = itertools.count()
    return map_arrays(lambda _: select(_input(f"{prefix} {next(numbers)}")), part)


def _input(name: str) -> Any:
    node = fn.external_source(name=name, no_copy=True, preserve=True)
    # Without a sink, DALI removes an input that no operator uses, and then rejects its data.
    Pipeline.current().add_sink(node)
    return node


def declare_images(name: str, layout: str = "") -> Any:
    """Return an input of the current graph for images in host memory, without a copy."""
    return fn.external_source(name=name, no_copy=True, layout=layout)


def feeds(part: Any, prefix: str = "array") -> dict[str, npt.NDArray[Any]]:
    """Return a batch's arrays by the names of the inputs that `declare` made for them."""
    arrays: list[npt.NDArray[Any]] = []
    map_arrays(arrays.append, part)
    return {f"{prefix} {number}": values for number, values in enumerate(arrays)}


def share(buffers: Sequence[Any], layout: str = "") -> Any:
    """Return a DALI `TensorList` that shares the memory of some buffers."""
    # feed_input() takes three times as long for a list of arrays.
    return tensors.TensorListCPU(
        [tensors.TensorCPU(buffer, layout) for buffer in buffers], layout, contiguous=False
    )
