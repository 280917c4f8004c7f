"""What a graph is fed: the names of its inputs, and the arrays of a batch by these names."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from nvidia.dali import Pipeline, fn

from gpufeed.plan.stages import Path, map_arrays

__all__ = ["declare", "feeds", "images_name"]


def declare(part: Any) -> Any:
    """Return stages with an input of the current graph, a CPU `DataNode`, for each array."""
    return map_arrays(lambda path, _: _input(_name(path)), part)


def _input(name: str) -> Any:
    node = fn.external_source(name=name, no_copy=True, preserve=True)
    # DALI leaves out, and then refuses to be fed, what no operator takes.
    Pipeline.current().add_sink(node)
    return node


def feeds(part: Any) -> dict[str, npt.NDArray[Any]]:
    """Return a batch's arrays by the names of the inputs that `declare` makes for them."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    map_arrays(lambda path, values: arrays.setdefault(_name(path), values), part)
    return arrays


def images_name(number: int) -> str:
    """Name of the input that takes images.

    Encoded images are number 0; opened ones have the number of their view.
    """
    return f"images {number}"


def _name(path: Path) -> str:
    return ".".join(str(step) for step in path)
