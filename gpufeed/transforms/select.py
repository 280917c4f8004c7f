"""Operators of the graph for some records of a batch, at no cost for the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpufeed._util.dali_private import merge_batch, split_batch

__all__ = ["Nodes", "where"]

Nodes = dict[str, Any]


def where(mask: Any, image: Any, branch: Callable[[Any, Nodes], Any], params: Nodes) -> Any:
    """Apply operators to the images that `mask` chooses.

    Args:
        mask: CPU `DataNode`, a bool for each record.
        image: `DataNode` of images.
        branch: called once, with the chosen images and their parameters; returns as many.
        params: CPU `DataNode`s, a value for each record.

    Returns:
        `DataNode` of all images, in their order.
    """
    chosen, others = split_batch(image, mask)
    own = {name: split_batch(node, mask)[0] for name, node in params.items()}
    return merge_batch(branch(chosen, own), others, mask)
