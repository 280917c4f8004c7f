"""What a graph is fed: the names of its inputs, and the arrays of a batch by these names."""

from __future__ import annotations

import itertools
from typing import Any

import numpy.typing as npt
from nvidia.dali import Pipeline, fn

from gpufeed.plan.stages import map_arrays

__all__ = ["declare", "feeds", "images_name"]


def declare(part: Any) -> Any:
    """Return stages with an input of the current graph, a CPU `DataNode`, for each array."""
    numbers = itertools.count()
    return map_arrays(lambda _: _input(_name(next(numbers))), part)


def _input(name: str) -> Any:
    node = fn.external_source(name=name, no_copy=True, preserve=True)
    # DALI leaves out, and then refuses to be fed, what no operator takes.
    Pipeline.current().add_sink(node)
    return node


def feeds(part: Any) -> dict[str, npt.NDArray[Any]]:
    """Return a batch's arrays by the names of the inputs that `declare` makes for them."""
    arrays: list[npt.NDArray[Any]] = []
    map_arrays(arrays.append, part)
    return {_name(number): values for number, values in enumerate(arrays)}


def images_name(number: int) -> str:
    """Name of the input that takes images.

    Encoded images are number 0; opened ones have the number of their view.
    """
    return f"images {number}"


def _name(number: int) -> str:
    return f"array {number}"
