"""The feeds of a model: ready batches, gpufeed, and other loaders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.compare.field import all_peers
from benchmarks.compare.peer import Peer
from benchmarks.compare.peers import ours
from benchmarks.compare.work import Work

__all__ = ["CEILING", "all_feeds", "choose", "find_feed"]


def _there(work: Work) -> Iterator[tuple[Any, Any]]:
    """One batch of noise, made on the device, again and again."""
    import torch

    image = torch.randn(work.batch_size, 3, work.size, work.size, device=work.device)
    label = torch.randint(len(work.paths), (work.batch_size,), device=work.device)
    while True:
        yield image, label


CEILING = Peer("synthetic", _there, needs=("torch",))


def all_feeds() -> list[Peer]:
    """The ceiling, gpufeed, then the loaders of the comparison; not its limits, which feed none."""
    peers = [peer for peer in all_peers() if not peer.name.startswith("limit")]
    others = [peer for peer in peers if peer.name != ours.IN_TORCH.name]
    return [CEILING, ours.IN_TORCH, *others]


def find_feed(name: str) -> Peer:
    """Return the feed of this name."""
    return next(feed for feed in all_feeds() if feed.name == name)


def choose(only: Sequence[str], cores: int) -> list[Peer]:
    """Return the ceiling and the feeds that have one of these parts in their name.

    Where no part is given: gpufeed, and torch's DataLoader with a worker for each core.

    Raises:
        ValueError: no feed has this part in its name.
    """
    feeds = all_feeds()[1:]
    if not only:
        workers = f"{cores} worker{'s' * (cores != 1)}"
        loaders = [f"torch DataLoader, {job}, {workers}" for job in ("Pillow", "torchvision v2")]
        wanted = {ours.IN_TORCH.name, *loaders}
        return [CEILING, *(feed for feed in feeds if feed.name in wanted)]
    for part in only:
        if not any(part.lower() in feed.name.lower() for feed in feeds):
            names = "; ".join(feed.name for feed in feeds)
            raise ValueError(f"no feed has {part!r} in its name; there are: {names}")
    return [
        CEILING,
        *(feed for feed in feeds if any(part.lower() in feed.name.lower() for part in only)),
    ]
