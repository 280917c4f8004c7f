"""Does something to some records of a batch in the graph, and costs nothing for the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Nodes", "where"]

Nodes = dict[str, Any]


def where(mask: Any, image: Any, branch: Callable[[Any, Nodes], Any], params: Nodes) -> Any:
    """Apply operators to the pictures that `mask` chooses.

    Args:
        mask: CPU `DataNode`, a bool for each record.
        image: `DataNode` of pictures.
        branch: called once, with the chosen pictures and their parameters; returns as many.
        params: CPU `DataNode`s, a value for each record.

    Returns:
        `DataNode` of all pictures, in their order.
    """
    from nvidia.dali import fn

    # What DALI turns an `if` of a pipeline definition into.
    def chosen(node: Any) -> tuple[Any, Any]:
        taken, left = fn._conditional.split(node, predicate=mask, _if_stmt=True)
        return taken, left

    taken, left = chosen(image)
    own = {name: chosen(node)[0] for name, node in params.items()}
    return fn._conditional.merge(branch(taken, own), left, predicate=mask)
