"""What goes wrong in one batch costs that batch alone, and what is interrupted goes on."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from gpufeed import Loader, Manifest, MemorySource, PipelineError, SequentialSampler
from gpufeed import transforms as tf
from tests.support.loaders import digest, make
from tests.support.scripts import run_scripts

SIZE = 4


class Uneven(tf.PixelTransform):
    """Adds nothing; for the batch of the records `at`, it draws what DALI does not take."""

    def __init__(self, fault: str, at: list[int]) -> None:
        self.fault, self.at = fault, at

    @property
    def identity(self) -> dict[str, Any]:
        return {"kind": "Uneven"}

    def draw(self, rng: Any, records: Any) -> dict[str, Any]:  # noqa: ARG002
        zeros = np.zeros(len(records.record_key), np.float32)
        if records.record_key.tolist() == self.at:
            zeros = zeros.astype(np.int32) if self.fault == "dtype" else np.append(zeros, zeros)
        return {"added": zeros}

    def build(self, image: Any, params: Any) -> Any:
        from nvidia.dali import fn, types

        return fn.cast(image + params["added"], dtype=types.UINT8)


def in_order(manifest: Manifest, **options: Any) -> Loader:
    chain = [tf.CenterCrop(24), tf.ToDtype("uint8", layout="NHWC")]
    settled = {
        "sampler": SequentialSampler(len(manifest)),
        "transforms": chain,
        "batch_size": SIZE,
    }
    return make(manifest, **{**settled, **options})


@pytest.fixture(scope="module")
def wanted(pictures: Manifest) -> list[str]:
    with in_order(pictures) as loader:
        return [digest(batch) for batch in loader]


@pytest.mark.parametrize("fault", ["length", "dtype"])
def test_a_batch_that_dali_refuses_fails_alone(
    pictures: Manifest, wanted: list[str], fault: str
) -> None:
    chain = [
        tf.CenterCrop(24),
        Uneven(fault, list(range(2 * SIZE, 3 * SIZE))),
        tf.ToDtype("uint8", layout="NHWC"),
    ]
    with in_order(pictures, transforms=chain) as loader:
        for _ in range(2):
            assert digest(loader.batch(0)) == wanted[0]
            with pytest.raises(PipelineError):
                loader.batch(2)
            assert digest(loader.batch(3)) == wanted[3]
        found: list[str] = []
        iterator = iter(loader)
        while len(found) < len(wanted):
            try:
                found.append(digest(next(iterator)))
            except PipelineError:
                found.append("refused")
                loader.skip()
                iterator = iter(loader)
    assert found == [*wanted[:2], "refused", *wanted[3:]]


def test_a_seek_by_another_thread_is_not_lost(pictures: Manifest, wanted: list[str]) -> None:
    """One thread is in `next`; the other moves the loader before it is back."""
    inside, moved = threading.Event(), threading.Event()

    def collate(records: list[dict[str, Any]]) -> list[int]:
        inside.set()
        assert moved.wait(60)
        return [int(record["record_key"]) for record in records]

    with in_order(pictures, collate_fn=collate) as loader:
        loader.seek(3)
        iterator = iter(loader)
        consumer = threading.Thread(target=lambda: next(iterator, None))
        consumer.start()
        assert inside.wait(60)
        loader.seek(1)
        moved.set()
        consumer.join()
        assert loader.step == 1
        keys: Any = next(iter(loader))
        assert keys == list(range(SIZE, 2 * SIZE))


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_batch_disturbs_no_iteration(
    pictures: Manifest, stop: type[BaseException]
) -> None:
    images = pictures.source.read(np.arange(len(pictures)))
    contents = [b"".join([each]) for each in images if not isinstance(each, OSError)]
    with in_order(pictures, on_error=print) as loader:  # with "valid", as below
        wanted = [digest(batch) for batch in loader]
    last = len(wanted) - 1
    contents[last * SIZE] = b"junk"
    manifest = Manifest(pictures.frame, MemorySource(contents), pictures.classes)

    def interrupted(_: Exception) -> None:
        raise stop

    with in_order(manifest, on_error=interrupted) as loader:
        iterator = iter(loader)
        assert digest(next(iterator)) == wanted[0]
        with pytest.raises(stop):
            loader.batch(last)
        assert digest(next(iterator)) == wanted[1]
        assert digest(loader.batch(0)) == wanted[0]
        assert [digest(next(iterator)) for _ in wanted[2:last]] == wanted[2:last]


def test_an_interpreter_that_exits_meanwhile_says_nothing(pictures: Manifest) -> None:
    """An iterator that outlives the modules, and a `with` block that ends after them."""
    body = """
import sys
def feed():
    with make(manifest) as loader:
        yield from loader
feeding = feed()
next(feeding)
sys.modules["held"] = iter(make(manifest))
next(sys.modules["held"])
print("exiting")
"""
    (ran,) = run_scripts(pictures, [body])
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "exiting\n", "")


def test_a_loader_that_is_not_closed_outlives_modules_silently(pictures: Manifest) -> None:
    """The interpreter may clear modules before it frees objects, as it does with some imports."""
    body = """
import sys, weakref
class ClearsModules:
    def __del__(self):
        weakref.ref = None
sys.modules["cleared"] = ClearsModules()
left = make(manifest)
for _ in left:
    pass
sys.modules["held"] = left
"""
    (ran,) = run_scripts(pictures, [body])
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
