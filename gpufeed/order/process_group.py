"""The process groups of torch.distributed and jax.distributed, as far as they are initialized."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from typing import Any, Protocol

__all__ = ["ProcessGroup", "process_groups"]


class ProcessGroup(Protocol):
    """Processes that know of each other, and the store of texts by which they met.

    The store serves the rendezvous of the processes on CPUs, whatever moves their arrays. Using it
    is no collective, so it may happen at any time beside the user's own collectives.
    """

    name: str
    rank: int
    size: int

    @property
    def has_store(self) -> bool:
        """Whether there is a store; MPI has none."""
        ...

    def put(self, folder: str, text: str) -> None:
        """Store a text of this process in a folder."""
        ...

    def read(self, folder: str, ranks: Collection[int]) -> dict[int, str]:
        """Return the texts in a folder that these ranks have stored so far, without waiting."""
        ...


class _Torch:
    name = "torch.distributed"

    def __init__(self, distributed: Any) -> None:
        self._distributed = distributed
        self.rank: int = distributed.get_rank()
        self.size: int = distributed.get_world_size()

    @property
    def has_store(self) -> bool:
        return self._store is not None

    @property
    def _store(self) -> Any:
        # Newer versions have a public method for it; all since 1.7 have this.
        return self._distributed.distributed_c10d._get_default_store()

    def put(self, folder: str, text: str) -> None:
        self._store.set(f"{folder}/{self.rank}", text)

    def read(self, folder: str, ranks: Collection[int]) -> dict[int, str]:
        store = self._store
        stored = [rank for rank in ranks if store.check([f"{folder}/{rank}"])]
        return {rank: store.get(f"{folder}/{rank}").decode() for rank in stored}


class _Jax:
    name = "jax.distributed"

    def __init__(self, jax: Any) -> None:
        self.rank: int = jax.process_index()
        self.size: int = jax.process_count()

    @property
    def has_store(self) -> bool:
        return True

    @property
    def _client(self) -> Any:
        # JAX has no public face for it; Orbax takes it from here too.
        return sys.modules["jax._src.distributed"].global_state.client

    def put(self, folder: str, text: str) -> None:
        self._client.key_value_set(f"{folder}/{self.rank}", text, allow_overwrite=True)

    def read(self, folder: str, ranks: Collection[int]) -> dict[int, str]:
        stored = self._client.key_value_dir_get(f"{folder}/")
        texts = {int(key.rpartition("/")[2]): text for key, text in stored}
        return {rank: texts[rank] for rank in ranks if rank in texts}


def process_groups() -> Iterator[ProcessGroup]:
    """Yield the groups that are initialized; neither library is imported or initialized for it."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    distributed = getattr(torch, "distributed", None)
    if distributed and distributed.is_available() and distributed.is_initialized():
        yield _Torch(distributed)
    distributed = getattr(jax, "distributed", None)
    if jax and distributed and distributed.is_initialized():
        yield _Jax(jax)
