"""Batches in their order, made ahead on an engine that is kept from one pass to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from gpufeed.errors import ConfigError
from gpufeed.source.wrapper import GivenUp

if TYPE_CHECKING:
    from gpufeed.engine.engine import Engine
    from gpufeed.feed.maker import Maker
    from gpufeed.feed.read_ahead import Begun, ReadAhead
    from gpufeed.open.job import Failed, Job
    from gpufeed.plan.planner import BatchPlan

__all__ = ["ENDED", "Stream"]

ENDED = (
    "this iteration was ended by a later one over the same loader, by close(), or by seek() or "
    "load_state_dict() to another epoch; use a new iterator, or a second loader"
)


class Stream:
    """Makes batches one after the other, and those that follow meanwhile.

    There are two stages: files are read ahead, and an engine works on what was read. Between
    passes nothing more is read, and the engine keeps what it has: with that the next pass begins.

    Args:
        maker: makes them.
        steps_from: gives the numbers of the batches from a step on that have records.
        prefetch: batches worked on ahead of the one asked for, at least 1.
    """

    def __init__(
        self, maker: Maker, steps_from: Callable[[int], Iterator[int]], prefetch: int
    ) -> None:
        self._maker = maker
        self._steps_from = steps_from
        self._prefetch = prefetch
        # Made when first used; single batches have another.
        self._engine: Engine | None = None
        self._reader: ReadAhead[Job | Failed] | None = None
        # What was begun beyond what the engine was given, when reading ahead was paused.
        self._begun: Begun[Job | Failed] = ()

    def take(self, step: int) -> tuple[BatchPlan, list[Any]]:
        """Return batch `step`, as `Maker.make` does, and go on with those after it.

        Raises:
            ConfigError: another thread has interrupted it.
            GpufeedError: the batch can not be made; that of the step before can not either, if it
                was not taken.
        """
        from gpufeed.open.job import BadPictures

        engine = self._engine
        if engine is None:
            engine = self._engine = self._maker.engine(self._prefetch)
        under_way = engine.steps
        if under_way and under_way[0] != step:
            engine.drain()
            under_way = []
        if self._reader is None:
            self._reader = self._read_ahead(engine, under_way[-1] + 1 if under_way else step)
        self._fill(engine, self._reader)
        if not len(engine):  # another thread called pause() meanwhile
            raise ConfigError(ENDED)
        try:
            return engine.collect()
        except BadPictures as bad:
            return self._maker.make(step, bad)

    def _read_ahead(self, engine: Engine, first: int) -> ReadAhead[Job | Failed]:
        """Read what comes from step `first` on, beginning with what is begun already."""
        begun, self._begun = self._begun, ()
        if begun and begun[0][0] != next(self._steps_from(first), None):
            begun = ()
        return self._maker.read_ahead(
            engine,
            self._steps_from(begun[-1][0] + 1 if begun else first),
            begun=begun,
            ahead=self._prefetch + 1,
        )

    def _fill(self, engine: Engine, reader: ReadAhead[Job | Failed]) -> None:
        """Give the engine what is there."""
        # One more than `prefetch`, of which one is taken out at once. What is under way already
        # does not wait for files that are slow to come; only the start does.
        while len(engine) <= self._prefetch and (
            not engine.started or not len(engine) or reader.ready
        ):
            try:
                job = next(reader, None)
            except (GivenUp, CancelledError):  # another thread called close(), say
                raise ConfigError(ENDED) from None
            if job is None:
                return
            engine.submit(job)

    def pause(self) -> None:
        """Read no more ahead, and go on with what was begun when the next batch is asked for."""
        if self._reader is not None:
            self._begun = self._reader.close()
            self._reader = None

    def interrupt(self) -> None:
        """Drop what is read ahead; any batch may be asked for next."""
        if self._reader is not None:
            self._reader.close(keep=False)
            self._reader = None

    def abandon(self) -> None:
        """Drop the engine too: it was stopped halfway, and what it has noted may be wrong."""
        self._engine = None
        self._begun = ()
        self.interrupt()

    def close(self) -> None:
        """Free the engine; using the stream again makes another."""
        self.interrupt()
        if self._engine is not None:
            self._engine.close()
        self._engine = None
        self._begun = ()
