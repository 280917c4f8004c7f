"""What befalls a run from outside, made for real: files, disks, rights, signals, forks, threads."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import gpufeed
from gpufeed import (
    ConfigError,
    DecodeError,
    IndexSampler,
    Loader,
    Manifest,
    SequentialSampler,
    TransformError,
    read_table,
)
from gpufeed import transforms as tf
from gpufeed.quarantine import Failure, Quarantine
from gpufeed.storage import files
from gpufeed.tools.bench import save_json
from gpufeed.tools.check.dataset import check
from gpufeed.tools.check.page import save_page
from gpufeed.tools.sheet import save_sheet
from gpufeed.whole import write_whole
from loaders import digest, make
from media import jpeg, make_manifest, picture
from test_loader import run_scripts
from test_read_timeout import run_held

COUNT, BATCH = 24, 4
STEPS = COUNT // BATCH


@pytest.fixture
def birds(tmp_path: Path) -> Manifest:
    return make_manifest(tmp_path / "birds", [(40, 50)] * COUNT)


def feed(manifest: Manifest, **options: Any) -> Loader:
    return make(manifest, **{"batch_size": BATCH, **options})


# ------------------------------------------------------------------- files, while a run goes on


def swap(path: Path, content: bytes) -> None:
    """Put another file in the place of one, as `mv` does."""
    other = path.with_suffix(".new")
    other.write_bytes(content)
    other.replace(path)


FILES: dict[str, tuple[Callable[[Path], object], str | None]] = {
    "deleted": (Path.unlink, "can not be read: No such file"),
    "emptied": (lambda path: os.truncate(path, 0), "can not be read: the file is empty"),
    "cut off": (lambda path: os.truncate(path, 900), "the picture is damaged: "),
    "overgrown": (lambda path: os.truncate(path, 1 << 40), "bytes, of which"),
    "replaced by text": (lambda path: swap(path, b"<html>"), "not a picture that can be read"),
    "replaced by a larger one": (
        lambda path: swap(path, jpeg(picture(60, 70, seed=1))),
        r"the picture is 70 x 60 \(width x height\), the manifest says 50 x 40",
    ),
    "replaced by one of its size": (lambda path: swap(path, jpeg(picture(40, 50, seed=99))), None),
}


@pytest.mark.parametrize("fault", FILES)
def test_a_file_that_changes_counts_from_then_on(birds: Manifest, fault: str) -> None:
    """Its own batch is what it is to a loader that never knew it otherwise; others are the same."""
    happens, reason = FILES[fault]
    with feed(birds) as loader:
        healthy = [digest(batch) for _ in range(3) for batch in loader]
        # One that comes in the second epoch's last batch, so that it was not read ahead before.
        key = int(loader.batch(2 * STEPS - 1)["record_key"][1])
    path = birds.root / birds.frame["path"][key]
    with feed(birds, max_failures=1.0) as loader, feed(birds) as other:
        found = [digest(batch) for batch in loader]
        happens(path)
        for step in range(STEPS, 3 * STEPS):
            iterator = iter(loader)
            if step != 2 * STEPS - 1 and key not in other._planner.plan(step).record_keys:
                found.append(digest(next(iterator)))
                continue
            if reason is None:
                found.append(digest(next(iterator)))
                assert found[step] == digest(other.batch(step)) != healthy[step]
                continue
            with pytest.raises(DecodeError, match=reason) as caught:
                next(iterator)
            assert (caught.value.record_key, caught.value.path) == (key, str(path))
            assert loader.step == step
            loader.skip()
            found.append(healthy[step])
        same = [a == b for a, b in zip(found, healthy, strict=True)]
        assert same.count(False) == (0 if reason else 2)


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    """Cut off, it is damaged; replaced, it is what was begun to be read."""
    manifest = make_manifest(tmp_path, [(40, 50)] * COUNT)
    with feed(manifest, sampler=SequentialSampler(COUNT)) as loader:
        healthy = digest(loader.batch(1))
    found = run_held(
        manifest,
        "00006.jpg",
        """
options = {"batch_size": 4, "sampler": gpufeed.SequentialSampler(24)}
old = path.read_bytes()

def meanwhile(change):
    held.wait()
    change()
    held.let_go()

def replace():
    path.with_suffix(".new").write_bytes(b"<html>")
    path.with_suffix(".new").replace(path)

with make(manifest, **options) as loader:
    thread = threading.Thread(target=meanwhile, args=(replace,))
    thread.start()
    print(digest(loader.batch(1)))
    thread.join()
    path.write_bytes(old)
    thread = threading.Thread(target=meanwhile, args=(lambda: os.truncate(path, 900),))
    thread.start()
    try:
        loader.batch(1)
    except gpufeed.DecodeError as error:
        print(error.record_key, error.reason)
    thread.join()
""",
    )
    assert found[0] == healthy
    assert found[1].startswith("6 the picture is damaged: ")


# --------------------------------------------------------------------------------- rights


NO_RIGHTS = """
import ctypes, os, struct
# root's power to read all and write all; who is not root has none to give up.
header, none = struct.pack("Ii", 0x20080522, 0), bytes(24)
assert ctypes.CDLL(None).capset(header, none) == 0
"""


def test_what_may_not_be_read_or_written_is_told(tmp_path: Path) -> None:
    manifest = make_manifest(tmp_path / "birds", [(40, 50)] * COUNT)
    (manifest.root / "shut").mkdir()
    (manifest.root / "00005.jpg").rename(manifest.root / "shut" / "00005.jpg")
    shut = pl.col("path").str.replace("00005", "shut/00005")
    manifest = Manifest(manifest.frame.with_columns(shut), manifest.root, manifest.classes)
    (tmp_path / "mine").mkdir()
    for name in ("bad", "ledger"):
        (tmp_path / "mine" / name).write_bytes(b"old")
    body = f"""
folder = Path({str(tmp_path / "mine")!r})
(manifest.root / "00003.jpg").chmod(0)
(manifest.root / "shut").chmod(0)
folder.chmod(0o500)
try:
    with make(manifest, on_error="substitute", max_failures=2, ledger=True) as loader:
        print(sum(len(batch["label"]) for batch in loader))
        for failure in sorted(loader.quarantine, key=lambda each: each.record_key):
            print(failure.record_key, failure.reason)
        for save, name in ((loader.quarantine.save, "bad"), (loader.ledger.save, "ledger")):
            try:
                save(folder / name)
            except PermissionError as error:
                print(error.filename == str(folder / name), (folder / name).read_bytes())
finally:
    folder.chmod(0o700)
    (manifest.root / "shut").chmod(0o700)
print(sorted(os.listdir(folder)))
"""
    (ran,) = run_scripts(manifest, [NO_RIGHTS + body])
    assert ran.stdout.splitlines() == [
        "24",
        "3 can not be read: Permission denied",
        "5 can not be read: Permission denied",
        "True b'old'",
        "True b'old'",
        "['bad', 'ledger']",
    ], ran.stderr


# ----------------------------------------------------------------------------- full disks


@contextlib.contextmanager
def file_limit(_: Path) -> Iterator[str]:
    """No file of this process may grow beyond 64 bytes; as a quota, and anyone can have it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        yield "File too large"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def full_disk(folder: Path) -> Iterator[str]:
    """A file system is full; `small_disk` has mounted it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(512))
    try:
        yield "No space left on device"
    finally:
        filler.unlink()


Fullness = tuple[Path, Callable[[Path], AbstractContextManager[str]]]


@pytest.fixture(params=[file_limit, full_disk], ids=["file limit", "full disk"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fullness]:
    """A folder, and what makes it full for a while; gives the system's word for it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if request.param is file_limit:
        yield folder, file_limit
        return
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted: {mounted.stderr.strip()}")
    try:
        yield folder, full_disk
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607


def quarantine_of(manifest: Manifest) -> Quarantine:
    failure = Failure(3, manifest.frame["path"][3], "the picture is damaged", 7)
    return Quarantine({3: failure})


def ledger_of(manifest: Manifest) -> gpufeed.Ledger:
    with feed(manifest, ledger=True) as loader:
        next(iter(loader))
        return loader.ledger


Save = Callable[[Path], object]


def writers(manifest: Manifest) -> dict[str, tuple[Save, type[Exception]]]:
    """All that gpufeed writes where a user says, and what it raises."""
    report = check(manifest.frame.head(2), manifest.root, max_pixels=1000, progress=False)
    sheet = picture(200, 200, seed=1)
    bench: Any = gpufeed.Stats(batches=1, images=2, seconds=3.0, waited=4.0)
    return {
        "quarantine": (quarantine_of(manifest).save, OSError),
        "ledger": (ledger_of(manifest).save, OSError),
        "findings": (report.save, OSError),
        "page": (lambda path: save_page(report, "birds", path), OSError),
        "sheet": (lambda path: save_sheet(sheet, path), ConfigError),
        "bench": (lambda path: save_json(bench, {}, path), ConfigError),
    }


def test_on_a_full_disk_files_are_written_whole_or_not_at_all(
    birds: Manifest, disk: Fullness
) -> None:
    folder, full = disk
    for name, (save, error) in writers(birds).items():
        target = folder / name
        for old in (None, b"old"):
            if old is not None:
                target.write_bytes(old)
            before = sorted(folder.iterdir())
            with full(folder) as word:
                with pytest.raises(error, match=word) as caught:
                    save(target)
                assert str(target) in str(caught.value)
                left = sorted(each for each in folder.iterdir() if each.name != "filler")
            assert left == before
            assert not target.exists() if old is None else target.read_bytes() == old
        save(target)
        assert len(target.read_bytes()) > 64
        target.unlink()


def test_on_a_full_disk_sizes_are_just_not_kept(
    birds: Manifest, disk: Fullness, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, full = disk
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    (folder / "gpufeed").mkdir()
    read: list[object] = []
    from gpufeed.records import sizes

    look = sizes.picture_size
    monkeypatch.setattr(sizes, "picture_size", lambda path: read.append(path) or look(path))
    table = birds.frame.select("path", "label")

    def sizes_of() -> list[tuple[int, int]]:
        return read_table(table, root=birds.root).frame.select("width", "height").rows()

    with full(folder):
        assert sizes_of() == [(50, 40)] * COUNT
        assert not list((folder / "gpufeed").iterdir())
    for kept in (False, True):
        read.clear()
        assert sizes_of() == [(50, 40)] * COUNT
        assert len(read) == (0 if kept else COUNT)


def test_a_file_is_replaced_at_once_and_keeps_its_mode(tmp_path: Path) -> None:
    target, link = tmp_path / ("n" * 255), tmp_path / "link"
    link.symlink_to(target)
    write_whole(link, b"one")
    assert link.is_symlink()
    target.chmod(0o640)
    with target.open("rb") as reader:
        write_whole(link, b"another")
        assert reader.read() == b"one", "who reads has the old one, whole"
    assert target.read_bytes() == b"another"
    assert target.stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.iterdir()) == sorted([target, link])
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        write_whole(tmp_path, b"")
    with pytest.raises(FileNotFoundError) as caught:
        write_whole(tmp_path / "none" / "x", b"")
    assert caught.value.filename == str(tmp_path / "none" / "x")


def test_a_device_or_a_pipe_is_written_to_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_whole("/dev/full", b"x")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    script = f"from gpufeed.whole import write_whole; write_whole({str(pipe)!r}, b'through')"
    with subprocess.Popen([sys.executable, "-c", script]):
        assert pipe.read_bytes() == b"through"


# -------------------------------------------------------------------------------- signals


def test_a_last_state_may_be_saved_on_sigterm(pictures: Manifest, tmp_path: Path) -> None:
    """By a handler that asks the loop to end; one process goes on after the other."""
    state = tmp_path / "state.json"
    script = f"""
import os, signal, threading
state = Path({str(state)!r})
ended = []
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))

def end():
    os.kill(os.getpid(), signal.SIGTERM)

with make(manifest) as loader:
    if state.exists():
        loader.set_state(state.read_bytes())
    while not ended:
        for batch in loader:
            print(digest(batch), flush=True)
            if loader.step % 7 == 4:
                threading.Thread(target=end).start()  # it comes whenever it comes
            if ended:
                break
    state.write_bytes(loader.get_state())
"""
    said: list[str] = []
    for _ in range(2):
        (ran,) = run_scripts(pictures, [script])
        assert ran.returncode == 0, ran.stderr
        said += ran.stdout.splitlines()
    with make(pictures) as loader:
        loader.set_state(state.read_bytes())
        while loader.epoch < 5:
            said += [digest(batch) for batch in loader]
        loader.seek(0)
        assert said == [digest(batch) for _ in range(5) for batch in loader]


def test_what_a_handler_raises_leaves_the_loader_before_the_batch(pictures: Manifest) -> None:
    """Wherever it is called within next(); and a state that it saves is of that batch too."""

    class Ended(BaseException):
        pass

    with make(pictures, ledger=True) as loader:
        wanted = [digest(batch) for batch in loader]
    drawn, count = np.random.default_rng(3), 0
    with make(pictures, ledger=True) as loader:
        loader.batch(0)  # imports, which are no place to be broken off
        for step, expected in enumerate(wanted):
            # Python calls a handler where something is called or has returned.
            left = int(drawn.integers(1, 40))
            over = False

            def profile(frame: Any, event: str, _: Any, step: int = step) -> None:
                nonlocal left, over
                own = frame.f_code.co_filename.endswith(("/loader.py", "/stream.py"))
                over = over or (own and frame.f_code.co_name == "_next" and event == "return")
                if not own or over or event == "return":
                    return
                assert loader.state_dict()["records"] == step * 8
                left -= 1
                if not left:
                    sys.setprofile(None)
                    raise Ended

            iterator = iter(loader)
            sys.setprofile(profile)
            try:
                batch = next(iterator)
            except Ended:
                count += 1
                sys.setprofile(None)
                assert loader.step == step
                batch = next(iterator)
            finally:
                sys.setprofile(None)
            assert digest(batch) == expected
    assert count > 2


# ---------------------------------------------------------------------- forks and threads


def test_a_fork_disturbs_nobody(pictures: Manifest) -> None:
    """The child may end as it likes, and make a loader of its own; the parent goes on."""
    body = """
import gc, os, signal
loader = make(manifest)
iterator = iter(loader)
print(digest(next(iterator)), flush=True)
for ending in ("return", "close", "drop", "new", "turn"):
    if ending == "turn":  # which another thread has, that is in next()
        loader._turn.acquire()
    child = os.fork()
    if child:
        print(ending, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        if ending == "turn":
            loader._turn.release()
        continue
    signal.alarm(20)
    if ending == "close":
        try:
            next(iterator)
        except gpufeed.ConfigError:
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


def test_loaders_side_by_side_are_as_if_alone(pictures: Manifest, birds: Manifest) -> None:
    for number in (2, 9):
        (birds.root / f"{number:05}.jpg").write_bytes(b"")
    kinds: list[Callable[[], Loader]] = [
        lambda: make(pictures),
        lambda: make(pictures, batch_size=5, sampler=IndexSampler(50, shuffle=True, seed=8)),
        lambda: feed(birds, on_error="substitute", max_failures=1.0, read_timeout=60),
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
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
    # A thread may take one more, which it was at when the last was taken.
    assert len(wanted) <= len(seen) < len(wanted) + 4
    assert len(set(seen)) == len(seen)
    assert set(wanted) <= set(seen)


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
    drawn = np.random.default_rng(5)
    while not done.wait(float(drawn.exponential(0.03))):
        loader.close()
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
        message = "there is no thread to decode in: can't start new thread"
        with pytest.raises(gpufeed.PipelineError, match=message):
            next(iter(loader))
        with pytest.raises(gpufeed.PipelineError, match=message):
            loader.batch(0)


@pytest.mark.parametrize("prefetch", [1, 3])
@pytest.mark.parametrize("timeout", [None, 60.0])
def test_a_slow_consumer_is_not_read_ahead_of_without_end(
    pictures: Manifest, prefetch: int, timeout: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    read_file = files.read_file
    monkeypatch.setattr(
        files, "read_file", lambda *file: opened.append(file[0]) or read_file(*file)
    )
    with make(pictures, prefetch=prefetch, batch_size=2, read_timeout=timeout) as loader:
        for _ in range(2):
            for _ in loader:
                # As long as the consumer takes: until nothing is left to be read.
                loader._maker._thread.submit(int).result(60)
                ahead = len(opened) - 2 * loader.step
                assert 0 < ahead <= 2 * (2 * prefetch + 1)


# ------------------------------------------------------------------- a user's own transforms

MET = 13
"""The record, or the batch, at which they fail."""


class SpoiltError(ValueError):
    pass


class FaultyDraw(tf.GeometricTransform):
    def draw(self, rng: Any, records: tf.Records) -> Any:  # noqa: ARG002
        if MET in records.record_key and len(records) == BATCH:
            raise SpoiltError("no number for it")
        return {}

    def place(self, frame: Any, params: Any) -> Any:  # noqa: ARG002
        return frame


class FaultyPlace(FaultyDraw):
    def draw(self, rng: Any, records: tf.Records) -> Any:  # noqa: ARG002
        return {"key": records.record_key}

    def place(self, frame: Any, params: Any) -> Any:
        if MET in params["key"] and len(params["key"]) == BATCH:
            raise SpoiltError("no place for it")
        return frame


class FaultyPixels(tf.PixelTransform):
    def draw(self, rng: Any, records: tf.Records) -> Any:  # noqa: ARG002
        if MET in records.record_key and len(records) == BATCH:
            raise SpoiltError("no level for it")
        return {}

    def build(self, image: Any, params: Any) -> Any:  # noqa: ARG002
        return image


class FaultyLate(tf.LateTransform):
    def draw(self, rng: Any, records: tf.Records) -> Any:  # noqa: ARG002
        if MET in records.record_key and len(records) == BATCH:
            raise SpoiltError("too late for it")
        return {}

    def build(self, image: Any, params: Any, made: Any) -> Any:  # noqa: ARG002
        return image


class FaultyBuild(tf.PixelTransform):
    _works = False

    def build(self, image: Any, params: Any) -> Any:  # noqa: ARG002
        if not self._works:
            raise SpoiltError("no operator for it")
        return image


OUT = [tf.Resize((16, 16)), tf.ToDtype("uint8")]
FAULTY = {
    "draw": ([FaultyDraw(), *OUT], "FaultyDraw", "no number for it"),
    "place": ([FaultyPlace(), *OUT], "FaultyPlace", "no place for it"),
    "pixels": ([OUT[0], FaultyPixels(), OUT[1]], "FaultyPixels", "no level for it"),
    "nested": ([OUT[0], tf.RandomApply([FaultyPixels()]), OUT[1]], "FaultyPixels", "no level"),
    "late": ([*OUT, FaultyLate()], "FaultyLate", "too late for it"),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_a_transforms_error_is_told_with_its_name(birds: Manifest, fault: str) -> None:
    transforms, name, said = FAULTY[fault]
    sampler = SequentialSampler(COUNT)
    with feed(birds, sampler=sampler, transforms=OUT) as loader:
        healthy = [digest(batch) for batch in loader]
    with feed(birds, sampler=sampler, transforms=transforms) as loader:
        found = []
        iterator = iter(loader)
        for step in range(STEPS):
            if step != MET // BATCH:
                found.append(digest(next(iterator)))
                continue
            for work in (lambda: next(iterator), lambda step=step: loader.batch(step)):
                with pytest.raises(TransformError, match=said) as caught:
                    work()
                assert f"the transform {name} failed in batch {step}: SpoiltError: " in str(
                    caught.value
                )
                assert isinstance(caught.value.__cause__, SpoiltError)
                assert (caught.value.transform, caught.value.step) == (name, step)
            loader.skip()
        assert found == [each for step, each in enumerate(healthy) if step != MET // BATCH]


def test_an_error_while_the_graph_is_built_is_told(birds: Manifest) -> None:
    faulty = FaultyBuild()
    message = "^the transform FaultyBuild failed: SpoiltError: no operator for it"
    with feed(birds, transforms=[OUT[0], faulty, OUT[1]]) as loader:
        for _ in range(2):
            with pytest.raises(TransformError, match=message):
                next(iter(loader))
            with pytest.raises(TransformError, match=message):
                loader.batch(2)
        with feed(birds, transforms=OUT) as other:
            healthy = [digest(batch) for batch in other]
        faulty._works = True
        assert [digest(batch) for batch in loader] == healthy


def test_an_error_of_a_function_is_told_with_its_record(birds: Manifest) -> None:
    with feed(birds, transforms=OUT, sampler=SequentialSampler(COUNT)) as loader:
        healthy = [digest(batch) for batch in loader]
    bad = np.asarray(picture(40, 50, seed=MET)).mean()

    def faulty(pixels: np.ndarray) -> np.ndarray:
        if abs(pixels.mean() - bad) < 0.5:
            raise SpoiltError("no such bird")
        return pixels

    chain = [tf.Lambda(faulty, name="mine"), *OUT]
    with feed(birds, transforms=chain, sampler=SequentialSampler(COUNT)) as loader:
        iterator = iter(loader)
        found = [digest(next(iterator)) for _ in range(MET // BATCH)]
        with pytest.raises(TransformError) as caught:
            next(iterator)
        path = birds.root / f"{MET:05}.jpg"
        assert str(caught.value) == (
            f"the transform Lambda(mine) failed for record {MET} ({path}) in batch {MET // BATCH}: "
            "SpoiltError: no such bird"
        )
        assert caught.value.record_key == MET
        assert isinstance(caught.value.__cause__, SpoiltError)
        loader.skip()
        found += [digest(batch) for batch in iterator]
    assert found == [each for step, each in enumerate(healthy) if step != MET // BATCH]
