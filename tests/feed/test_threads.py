"""Forks, threads and slow consumers: whoever uses a loader, batches are as if alone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpufeed
from gpufeed import IndexSampler, Loader, Manifest
from tests.support.loaders import digest, make
from tests.support.scripts import run_scripts


def test_a_fork_disturbs_nobody(pictures: Manifest) -> None:
    """The child may end as it likes, and make a loader of its own; the parent goes on.

    Its copy of the parent's loader says what it is. All this in a process of its own, since other
    libraries' threads would have a say in the fork.
    """
    body = """
import gc, os, signal
loader = make(manifest)
iterator = iter(loader)
print(digest(next(iterator)), flush=True)
for ending in ("return", "close", "drop", "new", "turn"):
    if ending == "turn":  # which another thread has, that is in next()
        loader._cursor.turn.acquire()
    child = os.fork()
    if child:
        print(ending, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        if ending == "turn":
            loader._cursor.turn.release()
        continue
    signal.alarm(200)
    if ending == "close":
        for work in (lambda: next(iterator), lambda: loader.batch(3)):
            try:
                work()
            except gpufeed.ConfigError as error:
                assert "was forked" in str(error)
            else:
                raise AssertionError
        loader.close()
    elif ending == "turn":
        try:
            next(iter(loader))
        except gpufeed.ConfigError:
            pass
    elif ending == "drop":
        del loader, iterator
        gc.collect()
    elif ending == "new":
        with make(manifest) as own:
            next(iter(own))
    raise SystemExit
for batch in iterator:
    print(digest(batch))
"""
    (ran,) = run_scripts(pictures, [body], "-Wignore")
    with make(pictures) as loader:
        first, *others = [digest(batch) for batch in loader]
    endings = ["return 0", "close 0", "drop 0", "new 0", "turn 0"]
    assert ran.stdout.splitlines() == [first, *endings, *others], ran.stderr


def test_loaders_side_by_side_are_as_if_alone(pictures: Manifest, own_pictures: Manifest) -> None:
    for number in (2, 9):
        (own_pictures.root / f"{number:05}.jpg").write_bytes(b"")
    kinds: list[Callable[[], Loader]] = [
        lambda: make(pictures),
        lambda: make(pictures, batch_size=5, sampler=IndexSampler(50, shuffle=True, seed=8)),
        lambda: make(
            own_pictures, batch_size=4, on_error="substitute", max_failures=1.0, read_timeout=60
        ),
        lambda: make(pictures, transforms=gpufeed.presets.simclr(16), batch_size=10),
    ]

    def told(batch: dict[str, Any]) -> str:
        views = batch["image"]
        parts = views if isinstance(views, list) else [views]
        return " ".join(digest({**batch, "image": view}) for view in parts)

    alone = []
    for kind in kinds:
        with kind() as loader:
            alone.append([told(batch) for batch in loader])
    drawn = np.random.default_rng(11)
    with contextlib.ExitStack() as stack:
        loaders = [stack.enter_context(kind()) for kind in kinds]
        found: list[list[str]] = [[] for _ in kinds]
        left = [each for each, batches in enumerate(alone) for _ in batches]
        for each in drawn.permutation(left).tolist():
            loader, step = loaders[each], len(found[each])
            if step == 3:
                loader.close()
            found[each].append(told(next(iter(loader))))
            if step % 3 == 1:
                other = int(drawn.integers(len(alone[each])))
                assert told(loader.batch(other)) == alone[each][other]
    assert found == alone


def test_any_thread_may_use_a_loader(pictures: Manifest) -> None:
    with make(pictures) as loader:
        wanted = [digest(batch) for _ in range(2) for batch in loader]
    seen: list[str] = []
    loader = make(pictures)

    def take(count: int) -> None:
        seen.extend(digest(next(iter(loader))) for _ in range(count))

    for count in (1, 5, 4, 2):
        thread = threading.Thread(target=take, args=(count,))
        thread.start()
        thread.join()
    thread = threading.Thread(target=loader.close)
    thread.start()
    thread.join()
    assert seen == wanted


def test_threads_that_end_each_others_iterations_lose_and_double_nothing(
    pictures: Manifest,
) -> None:
    """Each begins a new iteration whenever another's has ended its own."""
    with make(pictures) as loader:
        wanted = [digest(batch) for _ in range(4) for batch in loader]
    seen: list[str] = []
    with make(pictures) as loader:
        last = len(wanted)

        def take() -> None:
            while loader.step < last:
                # Ended by another thread's, or by the end of the epoch.
                with contextlib.suppress(gpufeed.ConfigError, StopIteration):
                    seen.append(digest(next(iter(loader))))

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    # A thread may take one more, which it was at when the last was taken.
    assert len(wanted) <= len(seen) < len(wanted) + 4
    assert len(set(seen)) == len(seen)
    assert set(wanted) <= set(seen)


def test_an_iteration_that_is_ended_while_it_reads_ahead_loses_nothing(pictures: Manifest) -> None:
    """Another thread ends it between two batches that it gives to the thread that plans."""
    with make(pictures) as loader:
        wanted = digest(loader.batch(3))
        batches = iter(loader)
        next(batches)
        loader.seek(3)
        prefetcher = loader._cursor._prefetcher
        steps_from = prefetcher._steps_from
        free = threading.Event()
        assert prefetcher._thread is not None
        prefetcher._thread.submit(free.wait)  # so that nothing is planned meanwhile

        def ended(step: int) -> Iterator[int]:
            yield step
            loader._cursor.supersede()
            free.set()
            yield from steps_from(step + 1)

        prefetcher._steps_from = ended
        with pytest.raises(gpufeed.ConfigError, match="this iteration was ended"):
            next(batches)
        prefetcher._steps_from = steps_from
        assert digest(next(iter(loader))) == wanted


def test_a_loader_closed_by_another_thread_ends_what_is_under_way(pictures: Manifest) -> None:
    """Wherever it is, with an error of gpufeed's own; the next iteration goes on."""
    with make(pictures) as loader:
        wanted = [digest(batch) for _ in range(4) for batch in loader]
    loader, seen, failed, seen_alone = make(pictures), [], [], set()
    done = threading.Event()

    def take() -> None:
        while loader.step < len(wanted):
            try:
                iterator = iter(loader)
                while loader.step < len(wanted):
                    seen.append(digest(next(iterator)))
            except StopIteration:
                continue
            except BaseException as error:
                if not str(error).startswith("this iteration was ended by"):
                    failed.append(error)
                    break
        done.set()

    def alone() -> None:
        while not done.is_set():
            seen_alone.add(digest(loader.batch(3)))

    threads = [threading.Thread(target=each, daemon=True) for each in (take, alone)]
    for thread in threads:
        thread.start()
    # So many times only, since a machine may be too slow for a batch between two of them.
    for pause in np.random.default_rng(5).exponential(0.03, size=30):
        if not done.wait(pause):
            loader.close()
    assert done.wait(300)
    for thread in threads:
        thread.join(60)
    loader.close()
    assert failed == []
    assert seen == wanted
    assert seen_alone <= {wanted[3]}


def test_a_collate_fn_may_iterate_itself(pictures: Manifest) -> None:
    """Which ends the iteration that called it."""
    found: list[Any] = []

    def collate(records: list[Any]) -> int:
        if not found:
            found.append(None)
            found.append(next(iter(loader)))
        return len(records)

    with make(pictures, collate_fn=collate) as loader:
        iterator = iter(loader)
        assert next(iterator) == 8
        with pytest.raises(gpufeed.ConfigError, match="this iteration was ended by a later one"):
            next(iterator)
    assert found == [None, 8]


def test_threads_that_can_not_be_started_are_told_of(
    pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if "gpufeed-decode" in thread.name:
            raise RuntimeError("can't start new thread")
        start(thread)

    with make(pictures) as loader, monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refused)
        message = "no thread to decode images could start: can't start new thread"
        with pytest.raises(gpufeed.PipelineError, match=message):
            next(iter(loader))
        with pytest.raises(gpufeed.PipelineError, match=message):
            loader.batch(0)


@pytest.mark.parametrize("prefetch", [1, 3])
@pytest.mark.parametrize("timeout", [None, 60.0])
def test_a_slow_consumer_is_not_read_ahead_of_without_end(
    pictures: Manifest, prefetch: int, timeout: float | None, opened: list[str]
) -> None:
    with make(pictures, prefetch=prefetch, batch_size=2, read_timeout=timeout) as loader:
        for _ in range(2):
            for _ in loader:
                # As long as the consumer takes: until nothing is left to be read.
                loader._cursor._prefetcher._thread.submit(int).result(60)
                ahead = len(opened) - 2 * loader.step
                assert 0 < ahead <= 2 * (2 * prefetch + 1)
