"""Making shards on Ray: its tasks, its retries and its object store."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from gpufeed._util.extras import import_extra
from gpufeed._util.sanitize import short
from gpufeed.errors import ConfigError, PipelineError
from gpufeed.tools.prepare.shard import Job

__all__ = ["make_on_ray"]

_LOCAL = "local"
_RETRIES = 5
"""How often Ray makes a shard anew whose worker or machine was lost."""
_AHEAD = 1000
"""Tasks that Ray is given at a time."""
_POLL_SECONDS = 0.2

_job: tuple[str, Job] | None = None
"""The job that this worker has taken from the object store, and its number there."""


def make_on_ray(
    job: Job, numbers: Sequence[int], address: str, done: Callable[[int], None]
) -> None:
    """Make shards on a Ray cluster, each in a task of one core.

    Args:
        job: what to make.
        numbers: the shards.
        address: of the cluster; "local" starts one. If Ray is initialized already, it is that one.
        done: called with the number of each shard that is finished.

    Raises:
        ConfigError: no cluster answers.
        DecodeError: as `Job.make`.
        MissingExtraError: Ray is not installed.
        OSError: as `Job.make`.
        PipelineError: Ray lost a task too often.
    """
    ray: Any = import_extra("ray", extra="ray")
    started = not ray.is_initialized()
    if started:
        own = {"include_dashboard": False} if address == _LOCAL else {}
        try:
            ray.init(address=address, log_to_driver=False, **own)
        except (ConnectionError, ValueError) as error:  # no cluster, or no address
            raise ConfigError(f"ray is {short(address)}: {error}") from None
    try:
        # In a list, so that a worker takes it once and not for each task.
        held = [ray.put(job)]
        make = ray.remote(num_cpus=1, max_retries=_RETRIES)(_make)
        left = iter(numbers)
        pending: dict[Any, int] = {}
        while True:
            for number in itertools.islice(left, _AHEAD - len(pending)):
                pending[make.remote(held, number)] = number
            if not pending:
                return
            for finished in ray.wait([*pending], timeout=_POLL_SECONDS)[0]:
                ray.get(finished)
                done(pending.pop(finished))
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise PipelineError(
            f"Ray could not make a shard: {error}; those that are finished are kept, so call "
            "prepare again"
        ) from None
    finally:
        if started:
            ray.shutdown()


def _make(held: list[Any], number: int) -> None:
    global _job
    import ray

    (reference,) = held
    if _job is None or _job[0] != reference.hex():
        _job = reference.hex(), ray.get(reference)
    _job[1].make(number)
