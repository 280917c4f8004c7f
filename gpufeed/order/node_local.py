"""A sampler that shuffles records within machines, so that each machine reads only its own."""

from __future__ import annotations

import numpy as np

from gpufeed.errors import ConfigError
from gpufeed.order.permutation import MAX_SIZE, permute_each
from gpufeed.order.sampler import Int64, Sampler, Visits, check_count

__all__ = ["NodeLocalSampler"]

_DIVISION = 1 << 31
"""The purpose of the permutation that divides records among nodes; shuffles have smaller ones."""


class NodeLocalSampler(Sampler):
    """Every record once per epoch, each always on the same node, in an order that is reshuffled.

    Records are divided among the nodes at random, once, by the seed. In each epoch, every node goes
    through its own in a new order, and its part of each global batch consists of these. So a tier
    or a local disk of a node needs to hold only a share of the data, and each image is read from a
    distant store once by the whole cluster. In return, only records of different nodes' parts meet
    in new combinations: two records of one node are as likely to be in one batch as in a full
    shuffle, but a record never moves to another node. `gpufeed shuffle-report --sampler node-local`
    shows the order's figures.

    The last batch of an epoch, if it is not full, is divided otherwise, so that a few of its
    records may come on other nodes. If the number of records is not a multiple of `nodes`, up to
    `nodes` - 1 records come twice in an epoch.

    Args:
        num_records: length of the manifest, at least `nodes`.
        nodes: number of machines, each of which has equally many processes with successive ranks.
        global_batch: records in the batch of all processes together, a multiple of `nodes`.
        seed: seed of the division, of the shuffle and of the transforms.
        num_epochs: number of epochs; None for no end.

    Raises:
        ConfigError: an argument is out of range.
    """

    def __init__(
        self,
        num_records: int,
        *,
        nodes: int,
        global_batch: int,
        seed: int = 0,
        num_epochs: int | None = None,
    ) -> None:
        count = check_count("num_records", num_records, MAX_SIZE)
        self.nodes = check_count("nodes", nodes, count)
        self._each = -(-count // self.nodes)
        size = self._each * self.nodes
        super().__init__(count, seed=seed, num_epochs=num_epochs, epoch_size=size)
        self.global_batch = check_count("global_batch", global_batch, 1 << 40)
        if self.global_batch % self.nodes:
            raise ConfigError(
                f"global_batch is {global_batch}; it must be a multiple of nodes, {nodes}"
            )

    @property
    def group(self) -> int:  # type: ignore[override]
        """The global batch, of which each node has a part."""
        return self.global_batch

    def visits(self, positions: Int64) -> Visits:
        """Return the records at `positions`."""
        epoch, within = np.divmod(positions, self.epoch_size)
        step, place = np.divmod(within, self.global_batch)
        part = self.global_batch // self.nodes
        whole = self._each // part
        # What is left for the last batch is divided evenly too.
        parts = np.where(step < whole, part, max(self._each - whole * part, 1))
        node, inner = np.divmod(place, parts)
        index = step * part + inner
        shuffled = permute_each(index, self._each, self.seed, epoch, node)
        record = self._record(node, shuffled)
        again = (node > 0) & (self._first(node) + shuffled < self._first(node - 1) + self._each)
        return Visits(epoch, record, record + self.num_records * again)

    def records(self, node: int) -> Int64:
        """Return the records of one node, int64 (k,), as for `stage`.

        Raises:
            IndexError: there is no such node.
        """
        if not 0 <= node < self.nodes:
            raise IndexError(f"node is {node}; there are nodes 0 to {self.nodes - 1}")
        return self._record(np.full(self._each, node), np.arange(self._each))

    def _first(self, node: Int64) -> Int64:
        # Successive nodes overlap by one record where they do not divide the records evenly.
        return node * self.num_records // self.nodes

    def _record(self, node: Int64, index: Int64) -> Int64:
        place = self._first(node) + index
        zeros = np.zeros_like(place)
        return permute_each(place, self.num_records, self.seed, zeros, zeros + _DIVISION)

    @property
    def has_repeats(self) -> bool:
        """Whether a record may occur more than once in an epoch."""
        return self.epoch_size > self.num_records

    @property
    def identity(self) -> dict[str, object]:
        """Everything that decides the order, as JSON values."""
        return {
            "kind": type(self).__name__,
            "num_records": self.num_records,
            "nodes": self.nodes,
            "global_batch": self.global_batch,
            "seed": self.seed,
        }
