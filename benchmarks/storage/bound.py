"""The fewest misses that any cache can have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["fewest_misses"]


def fewest_misses(keys: Sequence[int], room: int) -> int:
    """Return the fewest misses of a cache of `room` images of one size, for uses in this order.

    An image is kept from one use to its next wherever there is room all the while. Taken in the
    order of their ends, the intervals that fit are as many as can fit. This shares no code with
    gpufeed's tiers.
    """
    last: dict[int, int] = {}
    taken = np.zeros(len(keys), np.int64)
    hits = 0
    for place, key in enumerate(keys):
        if key in last:
            between = taken[last[key] : place]
            if between.max() < room:
                between += 1
                hits += 1
        last[key] = place
    return len(keys) - hits
