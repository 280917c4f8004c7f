"""Whether the processes of a group were given the same data, order and transforms."""

from __future__ import annotations

import collections
import hashlib
import itertools
import json
import threading
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gpufeed
from gpufeed._util.identity import encode
from gpufeed._util.sanitize import sanitize
from gpufeed.errors import ConfigError
from gpufeed.feed.differences import differences, text_of, values_of
from gpufeed.order.process_group import ProcessGroup, process_groups

if TYPE_CHECKING:
    import jax

    from gpufeed.order.schedule import Schedule
    from gpufeed.order.shard import ShardOptions
    from gpufeed.records import Manifest

__all__ = ["Agreement", "Facts", "disagreement", "facts_of", "meet", "taking_part"]

PATIENCE = 1800.0
"""Seconds to wait for the other processes, as long as torch's collectives wait by default."""
TOLD_AFTER = 30.0
"""Seconds of waiting after which a warning says so."""
_MAX_FACT = 20_000
"""Characters of a fact that are sent; of a longer one, the beginning and a digest."""
_MAX_SHOWN, _BEFORE = 200, 40
"""Characters of a value that a message shows, and how many of them come before a difference."""
_MAX_VALUES, _MAX_RUNS = 3, 8
"""Values of one setting that a message shows, and runs of ranks with one value."""

_numbers: dict[str, itertools.count[int]] = collections.defaultdict(itertools.count)
"""Counts the meetings of a group, so that the n-th of each process is one. It never starts again,
since a group that is initialized once more may have the store of the one before."""

Facts = Mapping[str, Any]


class Agreement:
    """Compares what this process was given with the others of its group, once when it is due.

    It is due before the first batch, and again after `renew`. No process goes on before all have
    come, so each raises the same error.

    Args:
        sharding: the loader's, if it has one.
        own_shards: the number of shards that the sampler makes itself.
    """

    def __init__(self, sharding: jax.sharding.NamedSharding | None, own_shards: int) -> None:
        self._sharding = sharding
        self._own_shards = own_shards
        self._lock = threading.Lock()
        self.renew()

    def renew(self) -> None:
        """Compare again before the next batch."""
        self._due, self._folder, self._error = True, "", ""

    def reach(self, shard: ShardOptions, facts: Callable[[], Facts]) -> None:
        """Wait for the other processes and compare, if it is due.

        Args:
            shard: what this process reads.
            facts: returns what all processes must have alike.

        Raises:
            ConfigError: the processes were given different things, or one did not come.
        """
        with self._lock:
            if self._due:
                self._error = self._compare(shard, facts)
                self._due = False
            if self._error:
                raise ConfigError(self._error)

    def _compare(self, shard: ShardOptions, facts: Callable[[], Facts]) -> str:
        found = taking_part(max(shard.shard_count, self._own_shards), self._sharding)
        if found is None:
            return ""
        group, ranks = found
        if len(ranks) < 2 or not group.has_store:
            return ""
        if not self._folder:  # kept when a wait was interrupted
            who = hashlib.sha256(repr([*ranks]).encode()).hexdigest()[:16]
            self._folder = f"gpufeed/{who}/{next(_numbers[group.name + who])}"
        # Processes that a sharding gives the same rows have the same shard.
        derived = self._sharding is not None or self._own_shards > 1
        index = None if derived else shard.shard_index
        given = {name: _bounded(value) for name, value in facts().items()}
        digest = hashlib.sha256(encode(given).encode()).hexdigest()
        # Most often all are alike, and short texts of one size tell.
        if not meet(group, ranks, self._folder, [digest, index], _differ):
            return ""
        return meet(group, ranks, f"{self._folder}/facts", [given, index], disagreement)


def taking_part(
    shard_count: int, sharding: jax.sharding.NamedSharding | None
) -> tuple[ProcessGroup, Sequence[int]] | None:
    """Return the group whose processes take the parts of each global batch, and their ranks.

    None if there is no such group: only the variables of a launcher, a loader that reads all
    records in one process, or one of fewer shards than processes, of which nothing tells which
    processes have it.
    """
    for group in process_groups():
        if sharding is None and group.size == shard_count:
            return group, range(group.size)
        if sharding is not None and group.name == "jax.distributed":
            devices: Collection[Any] = sharding.device_set
            return group, sorted({device.process_index for device in devices})
    return None


def facts_of(
    manifest: Manifest,
    settings: Mapping[str, str],
    schedule: Schedule,
    *,
    own_shards: int,
    restart: bool,
    position: int,
) -> Facts:
    """Return what all processes must have alike.

    Args:
        manifest: the loader's. In a forked process its fingerprint may not be known.
        settings: identities of sampler, transforms and opener, as a state has them.
        schedule: the loader's schedule.
        own_shards: the number of shards that the sampler makes itself.
        restart: as for `Loader`.
        position: the records that all processes have fed before.
    """
    facts = {name: values_of(text) for name, text in settings.items()}
    if own_shards > 1:
        del facts["sampler"]["source"]  # its repr may tell the shard
    sizes, known = schedule.sizes, manifest.known_fingerprint()[:16]
    return {
        "gpufeed": gpufeed.__version__,
        "manifest": f"{len(manifest)} records" + f", fingerprint {known}" * bool(known),
        **facts,
        "batch_size": sizes[0] if len(sizes) == 1 else str(sizes),
        "last_batch": schedule.ending,
        "restart": restart,
        "shard_count": schedule.shard.shard_count,
        "records fed before": position,
    }


def _bounded(value: Any) -> Any:
    text = text_of(value)
    if len(text) <= _MAX_FACT:
        return value
    return f"{text[:_MAX_SHOWN]}... (sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]})"


def _differ(given: Mapping[int, Sequence[Any]]) -> str:
    shards = [shard for _, shard in given.values() if shard is not None]
    alike = len({digest for digest, _ in given.values()}) == 1
    return "" if alike and len({*shards}) == len(shards) else "differ"


def disagreement(given: Mapping[int, tuple[Facts, int | None]]) -> str:
    """Return what processes were given that is not alike, as an error message; "" for nothing.

    Args:
        given: for each rank its facts, which are JSON values by name, and its shard, if no other
            may have that.
    """
    facts = {rank: each for rank, (each, _) in given.items()}
    told = [
        f"{where}: {_listed(values)}"
        for name in next(iter(facts.values()))
        for where, values in _parts(
            name, {rank: each.get(name) for rank, each in facts.items()}
        ).items()
    ]
    by_shard = collections.defaultdict(list)
    for rank, (_, shard) in given.items():
        if shard is not None:
            by_shard[shard].append(rank)
    told += [
        f"shard {shard} is read by {_ranks(ranks)}"
        for shard, ranks in sorted(by_shard.items())
        if len(ranks) > 1
    ]
    if not told:
        return ""
    return (
        f"the processes were given different things: {'; '.join(told)}. Together they would feed "
        "some records twice and others never, or batches that do not fit; give all of them the "
        "same, or pass shard=gpufeed.ShardOptions(0, 1) to a loader that feeds its process alone"
    )


def _parts(name: str, values: Mapping[int, Any]) -> dict[str, dict[int, Any]]:
    """Map the name of each part that differs to its values by rank."""
    base, *others = values
    found: dict[str, dict[int, Any]] = {}
    apart: dict[int, set[str]] = {base: set()}
    for rank in others:
        parts = (
            [] if values[rank] == values[base] else differences(name, values[base], values[rank])
        )
        apart[rank] = set()
        for where, first, second in parts:
            apart[rank].add(where)
            found.setdefault(where, {base: first})[rank] = second
    for where, by_rank in found.items():
        for rank, own in apart.items():
            # A rank that differs in a whole of which this is a part does not have the part.
            if not any(_is_within(where, each) or _is_within(each, where) for each in own):
                by_rank[rank] = by_rank[base]
    return found


def _is_within(part: str, whole: str) -> bool:
    return part == whole or part.startswith((f"{whole} ", f"{whole}["))


def _listed(values: Mapping[int, Any]) -> str:
    """Return the values of one part, each with its ranks."""
    ranks: dict[str, list[int]] = {}
    for rank in sorted(values):
        ranks.setdefault(sanitize(text_of(values[rank]), _MAX_FACT), []).append(rank)
    start = 0
    if max(map(len, ranks)) > _MAX_SHOWN:
        alike = itertools.takewhile(lambda each: len({*each}) == 1, zip(*ranks, strict=False))
        start = max(sum(1 for _ in alike) - _BEFORE, 0)

    def shown(text: str) -> str:
        rest = text[start : start + _MAX_SHOWN]
        return "..." * (start > 0) + rest + "..." * (start + _MAX_SHOWN < len(text))

    told = [f"{shown(text)} on {_ranks(which)}" for text, which in [*ranks.items()][:_MAX_VALUES]]
    more = len(ranks) - len(told)
    return ", ".join(told) + (f", and {more} other values" if more else "")


def _ranks(ranks: Sequence[int]) -> str:
    """Return ranks in words, such as "rank 2" and "ranks 0-3 and 6"."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and runs[-1][-1] == rank - 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    if len(texts) > _MAX_RUNS:
        texts[_MAX_RUNS:] = [f"{len(texts) - _MAX_RUNS} more"]
    return f"rank{'s' * (len(ranks) > 1)} {' and '.join(texts)}"


def meet(
    group: ProcessGroup,
    ranks: Sequence[int],
    folder: str,
    own: Any,
    judge: Callable[[Mapping[int, Any]], str],
) -> str:
    """Return in every process what `judge` says of the values of all.

    The first process judges, and stays until all others have read the verdict, since the store may
    end with it.

    Args:
        group: the process group.
        ranks: those that take part, this one among them.
        folder: where the values are stored; each meeting has its own.
        own: this process's value, of JSON.
        judge: takes the values by rank.

    Raises:
        ConfigError: a process did not come.
    """
    first, *others = ranks
    if group.rank != first:
        group.put(folder, json.dumps(own))
        verdict = _await(group, f"{folder}/verdict", [first])[first]
        group.put(f"{folder}/read", "1")
        return verdict
    texts = _await(group, folder, others)
    given = {first: json.dumps(own), **texts}
    verdict = judge({rank: json.loads(given[rank]) for rank in ranks})
    group.put(f"{folder}/verdict", verdict)
    _await(group, f"{folder}/read", others)
    return verdict


def _await(group: ProcessGroup, folder: str, ranks: Sequence[int]) -> dict[int, str]:
    texts: dict[int, str] = {}
    began, told, pause = time.monotonic(), False, 0.001
    while missing := [rank for rank in ranks if rank not in texts]:
        if new := group.read(folder, missing):
            texts |= new
            continue
        waited = time.monotonic() - began
        if waited > PATIENCE:
            raise ConfigError(_waiting(group, missing, waited))
        if waited > TOLD_AFTER and not told:
            warnings.warn(_waiting(group, missing, waited), stacklevel=2)
            told = True
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    return texts


def _waiting(group: ProcessGroup, missing: Sequence[int], seconds: float) -> str:
    return (
        f"rank {group.rank} of {group.name} has waited {seconds:.0f} s for {_ranks(missing)} to "
        "ask for a first batch, since the processes compare what their loaders were given; all "
        "must iterate the same loaders in the same order, and a loader that only some of them "
        "iterate needs shard=gpufeed.ShardOptions(0, 1)"
    )
