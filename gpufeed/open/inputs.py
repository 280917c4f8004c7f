"""What a graph is fed: its inputs, their names, and the arrays of a batch by these names."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy.typing as npt
from nvidia.dali import Pipeline, fn, tensors

from gpufeed.plan.stages import map_arrays

__all__ = ["declare", "declare_images", "feeds", "share"]


def declare(part: Any, prefix: str = "array") -> Any:
    """Return stages with an input of the current graph, a CPU `DataNode`, for each array.

    Args:
        part: stages, or what is in them.
        prefix: what the inputs' names begin with: one for each caller.
    """
    numbers = itertools.count()
    return map_arrays(lambda _: _input(f"{prefix} {next(numbers)}"), part)


def _input(name: str) -> Any:
    node = fn.external_source(name=name, no_copy=True, preserve=True)
    # DALI leaves out, and then refuses to be fed, what no operator takes.
    Pipeline.current().add_sink(node)
    return node


def declare_images(name: str, layout: str = "") -> Any:
    """Return an input of the current graph for images in host memory, which are not copied."""
    return fn.external_source(name=name, no_copy=True, layout=layout)


def feeds(part: Any, prefix: str = "array") -> dict[str, npt.NDArray[Any]]:
    """Return a batch's arrays by the names of the inputs that `declare` makes for them."""
    arrays: list[npt.NDArray[Any]] = []
    map_arrays(arrays.append, part)
    return {f"{prefix} {number}": values for number, values in enumerate(arrays)}


def share(buffers: Sequence[Any], layout: str = "") -> Any:
    """Return a DALI `TensorList` that shares the memory of some buffers."""
    # As a TensorList, since feed_input() takes three times as long for a list of arrays.
    return tensors.TensorListCPU(
        [tensors.TensorCPU(buffer, layout) for buffer in buffers], layout, contiguous=False
    )
