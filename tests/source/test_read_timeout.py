"""Storage that hangs: what is read is given up in time, and nothing else is held up by it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gpufeed import ConfigError, IndexSampler, Manifest, SequentialSampler
from gpufeed.errors import SourceError
from gpufeed.source import timeout
from gpufeed.source.threads import THREADS
from gpufeed.source.timeout import Timeout
from gpufeed.source.wrapper import ReadCancelled
from tests.support.loaders import digest, make
from tests.support.media import make_manifest
from tests.support.patient_clock import patient
from tests.support.scripts import run_held

LONG = 1000.0
"""Seconds that no test waits."""


class Storage:
    """A source whose images are their own numbers; those of `hung` come when they are let go."""

    def __init__(self, *hung: int) -> None:
        self.hung = set(hung)
        self.asked: list[int] = []
        self.threads: set[int] = set()
        self.free = threading.Event()

    def read(self, keys: npt.NDArray[np.int64]) -> list[bytes]:
        self.asked += keys.tolist()
        self.threads.add(threading.get_ident())
        if self.hung.intersection(keys.tolist()):
            assert self.free.wait(60)
        return numbered(keys)

    def name(self, key: int) -> str:
        return f"image {key}"


def numbered(keys: Iterable[int]) -> list[bytes]:
    return [b"%d" % key for key in keys]


@pytest.fixture
def storage() -> Iterator[Storage]:
    made = Storage()
    yield made
    made.free.set()


@pytest.fixture
def no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file counts as slow, however busy the machine is."""
    monkeypatch.setattr(timeout, "SLOW", 60)
    monkeypatch.setattr(timeout, "_PARALLEL_AFTER", 60)


@pytest.fixture
def patience(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only reads that hang are late, however busy the machine is."""
    monkeypatch.setattr(timeout, "time", patient(lambda: storage.hung))


def read_threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == "gpufeed-read"}


def wait_for(done: Callable[[], bool]) -> None:
    """Wait for what other threads do; it takes no time, or for ever."""
    for _ in range(6000):
        if done():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not come")


def given_up(found: list[Any]) -> list[int]:
    """The places that had no answer."""
    for each in found:
        assert not isinstance(each, TimeoutError) or "no answer within" in str(each)
    return [place for place, each in enumerate(found) if isinstance(each, TimeoutError)]


@pytest.mark.usefixtures("no_hurry")
def test_what_comes_at_once_is_read_in_turn_on_one_thread(storage: Storage) -> None:
    with Timeout(storage, LONG) as reader:
        for _ in range(3):
            assert reader.read(np.arange(200)) == numbered(range(200))
        assert reader.read(np.arange(0)) == []
    assert storage.asked == [*range(200)] * 3
    assert len(storage.threads) == 1
    assert threading.get_ident() not in storage.threads


def test_slow_files_are_read_side_by_side() -> None:
    together = threading.Barrier(THREADS)

    class Slow(Storage):
        def read(self, keys: npt.NDArray[np.int64]) -> list[bytes]:
            if keys[0] < 2:
                threading.Event().wait(0.002)
            else:
                together.wait(60)
            return numbered(keys)

    with Timeout(Slow(), LONG) as reader:
        assert reader.read(np.arange(2 + THREADS)) == numbered(range(2 + THREADS))


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("hung", [{0}, {5}, {19}, {0, 1, 2, 10}, set(range(20))])
def test_what_hangs_costs_its_own_place(storage: Storage, hung: set[int]) -> None:
    storage.hung = hung
    with Timeout(storage, 0.1) as reader:
        found = reader.read(np.arange(20))
        assert set(given_up(found)) == hung
        assert [each for place, each in enumerate(found) if place not in hung] == numbered(
            place for place in range(20) if place not in hung
        )
        assert str(found[min(hung)]) == "no answer within 0.1 s"


def test_where_all_hang_all_are_waited_for_at_once(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one eighth after the other, each as long as is allowed."""
    monkeypatch.setattr(timeout, "_STALLED_AFTER", 0.05)
    count = 3 * THREADS
    storage.hung = set(range(count))
    found: list[Any] = []
    with Timeout(storage, LONG) as reader:
        reading = threading.Thread(target=lambda: found.extend(reader.read(np.arange(count))))
        reading.start()
        wait_for(lambda: len(storage.asked) == count)
        storage.free.set()
        reading.join(60)
    assert found == numbered(range(count))


@pytest.mark.usefixtures("patience")
def test_a_file_that_hangs_is_not_asked_for_again_before_it_is_back(storage: Storage) -> None:
    storage.hung = {3}
    with Timeout(storage, 0.1) as reader:
        for _ in range(3):
            assert given_up(reader.read(np.arange(6))) == [3]
        assert storage.asked.count(3) == 1
        assert len(read_threads()) <= 1 + THREADS
        storage.hung = set()
        storage.free.set()
        wait_for(lambda: not reader._hanging)
        assert reader.read(np.arange(6)) == numbered(range(6))
        assert storage.asked.count(3) == 2


@pytest.mark.usefixtures("patience")
def test_an_answer_that_comes_too_late_is_nobodys(storage: Storage) -> None:
    storage.hung = {0}
    with Timeout(storage, 0.1) as reader:
        found = reader.read(np.arange(3))
        storage.free.set()
        wait_for(lambda: not reader._hanging)
        assert given_up(found) == [0]


def test_who_waits_can_be_told_to_go(storage: Storage) -> None:
    storage.hung = {1}
    reader = Timeout(storage, LONG)
    threading.Thread(target=lambda: (wait_for(lambda: 1 in storage.asked), reader.cancel())).start()
    with pytest.raises(ReadCancelled):
        reader.read(np.arange(3))
    # For those who come later it reads on.
    assert reader.read(np.array([0, 2])) == numbered([0, 2])
    reader.close()


@pytest.mark.parametrize("error", [MemoryError, SystemExit, ZeroDivisionError])
def test_what_no_file_is_to_blame_for_is_raised(error: type[BaseException]) -> None:
    class Broken(Storage):
        def read(self, keys: npt.NDArray[np.int64]) -> list[bytes]:  # noqa: ARG002
            raise error("no such luck")

    told = SourceError if error is ZeroDivisionError else error
    with Timeout(Broken(), LONG) as reader, pytest.raises(told, match="no such luck"):
        reader.read(np.arange(3))


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize("ending", ["close", "collect"])
def test_threads_end_with_who_has_them(storage: Storage, ending: str) -> None:
    before = read_threads()
    storage.hung = {1}
    reader = Timeout(storage, 0.1)
    reader.read(np.arange(20))
    mine = read_threads() - before
    assert mine
    if ending == "close":
        reader.close()
    del reader
    gc.collect()
    # But for the one that hangs.
    wait_for(lambda: len(mine & read_threads()) == 1)
    storage.free.set()
    wait_for(lambda: not mine & read_threads())


# ------------------------------------------------------------------------------ the loader


@pytest.mark.usefixtures("no_hurry")
def test_a_healthy_run_is_the_same(pictures: Manifest) -> None:
    # No third epoch, of which batches would be read meanwhile.
    sampler = IndexSampler(len(pictures), shuffle=True, num_epochs=2)
    with make(pictures, sampler=sampler) as loader:
        wanted = [digest(batch) for _ in range(2) for batch in loader]
    with make(pictures, sampler=sampler, read_timeout=LONG) as loader:
        assert [digest(batch) for _ in range(2) for batch in loader] == wanted
        threads = loader._maker._reader._threads
        wait_for(lambda: len(threads._idle) == len(read_threads()))
        kept = read_threads()
        assert digest(loader.batch(3)) == wanted[3]
        assert read_threads() == kept
    wait_for(lambda: not read_threads())


@pytest.mark.parametrize("value", [0, -1, True, "30", float("nan"), float("inf")])
def test_it_must_be_seconds(pictures: Manifest, value: Any) -> None:
    with pytest.raises(
        ConfigError, match=f"read_timeout is {value!r}; it must be a number of seconds above 0"
    ):
        make(pictures, read_timeout=value)


@pytest.fixture
def fifty(tmp_path: Path) -> Manifest:
    return make_manifest(tmp_path, [(40, 50)] * 50)


def test_a_file_that_hangs_counts_as_bad(fifty: Manifest) -> None:
    """As one that is missing; and the process ends while its read still hangs."""
    found = run_held(
        fifty,
        "00007.jpg",
        """
from gpufeed.source import timeout
from tests.support.patient_clock import patient
timeout.time = patient(lambda: [7])
loader = make(manifest, on_error="substitute", max_failures=1, read_timeout=0.3)
for _ in range(2):
    for batch in loader:
        print(digest(batch))
(failure,) = loader.quarantine
print(failure.record_key, failure.reason)
with make(manifest, read_timeout=0.3) as other:
    steps = []
    for step in range(6):
        try:
            other.batch(step)
        except gpufeed.DecodeError as error:
            steps.append((step, error.record_key))
    print(len(steps), steps[0][1])
    held.let_go()
    # Now it has its answer, and is held anew when it is asked for anew.
""",
    )
    (fifty.root / "00007.jpg").unlink()
    with make(fifty, on_error="substitute", max_failures=1) as loader:
        wanted = [digest(batch) for _ in range(2) for batch in loader]
    assert found == [*wanted, "7 cannot be read: no answer within 0.3 s", "1 7"]


def test_batches_out_of_turn_share_what_hangs(
    fifty: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would wait for it anew, and leave a thread behind."""
    images = fifty.source.read(np.arange(50))

    class Images(Storage):
        def read(self, keys: npt.NDArray[np.int64]) -> Any:
            super().read(keys)
            return [images[key] for key in keys]

    hangs = Images(3)
    monkeypatch.setattr(timeout, "time", patient(lambda: hangs.hung))
    manifest = Manifest(fifty.frame, hangs, fifty.classes)
    try:
        with make(
            manifest, sampler=SequentialSampler(50), read_timeout=0.3, on_error=print
        ) as loader:
            for _ in range(4):
                assert not loader.batch(0)["valid"][3]
            assert hangs.asked.count(3) == 1
    finally:
        hangs.free.set()


def test_what_hangs_holds_nobody_up(fifty: Manifest) -> None:
    """Neither Ctrl-C nor close() nor the process's end, though no read is given up yet."""
    found = run_held(
        fifty,
        "00020.jpg",
        f"""
sampler = gpufeed.SequentialSampler(50)

def interrupt():
    held.wait()
    os.kill(os.getpid(), signal.SIGINT)

loader = make(manifest, sampler=sampler, read_timeout={LONG})
threading.Thread(target=interrupt).start()
try:
    for batch in loader:
        pass
except KeyboardInterrupt:
    print("interrupted")
loader.close()
held.let_go()
with make(manifest, sampler=sampler, read_timeout={LONG}) as loader:
    iterator = iter(loader)
    next(iterator)
    held.wait()
print("closed")
held.let_go()
loader = make(manifest, sampler=sampler, read_timeout={LONG})
iterator = iter(loader)
next(iterator)
held.wait()
""",
    )
    assert found == ["interrupted", "closed"]
