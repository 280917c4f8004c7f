"""What befalls a run from outside, made for real: files that change, rights, signals."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from gpufeed import DecodeError, Loader, Manifest, SequentialSampler
from tests.support.loaders import digest, make
from tests.support.media import jpeg, make_manifest, picture
from tests.support.scripts import run_held, run_scripts

COUNT, BATCH = 24, 4
STEPS = COUNT // BATCH


def feed(manifest: Manifest, **options: Any) -> Loader:
    return make(manifest, **{"batch_size": BATCH, **options})


# ------------------------------------------------------------------- files, while a run goes on


def swap(path: Path, content: bytes) -> None:
    """Put another file in the place of one, as `mv` does."""
    other = path.with_suffix(".new")
    other.write_bytes(content)
    other.replace(path)


FILES: dict[str, tuple[Callable[[Path], object], str | None]] = {
    "deleted": (Path.unlink, "cannot be read: No such file"),
    "emptied": (lambda path: os.truncate(path, 0), "cannot be read: the file is empty"),
    "cut off": (lambda path: os.truncate(path, 900), "the image is damaged: "),
    "overgrown": (lambda path: os.truncate(path, 1 << 40), "bytes; the limit is"),
    "replaced by text": (lambda path: swap(path, b"<html>"), "not a readable image"),
    "replaced by a larger one": (
        lambda path: swap(path, jpeg(picture(60, 70, seed=1))),
        r"the image is 70 x 60 \(width x height\), but the manifest gives 50 x 40",
    ),
    "replaced by one of its size": (lambda path: swap(path, jpeg(picture(40, 50, seed=99))), None),
}


@pytest.mark.parametrize("fault", FILES)
def test_a_file_that_changes_counts_from_then_on(own_pictures: Manifest, fault: str) -> None:
    """Its own batch is what it is to a loader that never knew it otherwise; others are the same."""
    happens, reason = FILES[fault]
    with feed(own_pictures) as loader:
        healthy = [digest(batch) for _ in range(3) for batch in loader]
        # One that comes in the second epoch's last batch, so that it was not read ahead before.
        key = int(loader.batch(2 * STEPS - 1)["record_key"][1])
    path = own_pictures.root / own_pictures.frame["path"][key]
    with feed(own_pictures, max_failures=1.0) as loader, feed(own_pictures) as other:
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
    assert found[1].startswith("6 the image is damaged: ")


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
        "3 cannot be read: Permission denied",
        "5 cannot be read: Permission denied",
        "True b'old'",
        "True b'old'",
        "['bad', 'ledger']",
    ], ran.stderr


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
        assert loader.step == len(said)
        loader.seek(0)
        made = (digest(batch) for _ in itertools.count() for batch in loader)
        assert said == list(itertools.islice(made, len(said)))


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
                own = frame.f_code.co_filename.endswith(("/feed/cursor.py", "/feed/prefetch.py"))
                over = over or (own and frame.f_code.co_name == "next" and event == "return")
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
