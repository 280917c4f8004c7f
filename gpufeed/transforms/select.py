"""Operators of the graph for some records of a batch, at no cost for the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpufeed._util.dali_private import merge_batch, split_batch

__all__ = ["Nodes", "where"]

Nodes = dict[str, Any]
"""DALI `DataNode`s, or dictionaries of them, by name."""


def where(mask: Any, image: Any, branch: Callable[[Any, Nodes], Any], params: Nodes) -> Any:
    """Apply operators to the images that `mask` selects.

    Args:
        mask: CPU `DataNode` with one bool per record.
        image: `DataNode` of images.
        branch: called once with the selected images and their parameters; returns as many images.
        params: CPU `DataNode`s with one value per record, also in nested dictionaries.

    Returns:
        `DataNode` of all images, in their order.
    """
    selected, others = split_batch(image, mask)
    return merge_batch(branch(selected, _select(params, mask)), others, mask)


def _select(params: Nodes, mask: Any) -> Nodes:
    return {
        name: _select(value, mask) if isinstance(value, dict) else split_batch(value, mask)[0]
        for name, value in params.items()
    }
