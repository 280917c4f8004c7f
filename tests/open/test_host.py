"""Opening images on the host's threads: order, letting go, and what goes wrong there."""

from __future__ import annotations

import gc
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpufeed import DecodeError, Loader, Manifest, PipelineError, SequentialSampler
from gpufeed import transforms as tf
from gpufeed.decode import decoders
from gpufeed.decode.decoders import NvImageCodec
from gpufeed.open import host, opened_view
from gpufeed.open.resize import Resizer
from tests.support.heap import used_bytes
from tests.support.media import jpeg, make_manifest, picture


@pytest.fixture
def twelve(tmp_path: Path) -> Manifest:
    return make_manifest(tmp_path / "twelve", [(50, 60)] * 12)


def make(manifest: Manifest, **options: Any) -> Loader:
    return Loader(
        manifest,
        **{
            "sampler": SequentialSampler(len(manifest)),
            "transforms": [tf.RandomResizedCrop(16), tf.ToDtype("uint8")],
            "batch_size": 4,
            "device": "cpu",
            **options,
        },
    )


def test_batches_that_nobody_wants_are_not_made(
    twelve: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop that is left may not leave seconds of decoding behind."""
    decoded, begun, go_on = [], threading.Event(), threading.Event()
    decode = NvImageCodec.decode

    def slow(self: NvImageCodec, content: bytes, *rest: Any) -> Any:
        decoded.append(content)
        begun.set()
        assert go_on.wait(30)
        return decode(self, content, *rest)

    monkeypatch.setattr(NvImageCodec, "decode", slow)
    with make(twelve, num_threads=1) as loader:
        opener = loader._maker.opener
        contents = [(twelve.root / name).read_bytes() for name in twelve.frame["path"]]
        plans = [loader._planner.plan(step) for step in range(3)]
        futures = [
            opener.open(plan, contents[4 * step : 4 * step + 4]) for step, plan in enumerate(plans)
        ]
        assert begun.wait(30)
        last = futures[2]
        del futures
        gc.collect()
        go_on.set()
        assert last.result(30).plan is plans[2]
        assert decoded == [contents[0], *contents[8:]]


@pytest.mark.parametrize(
    ("owner", "name"),
    [(Resizer, "resize"), (decoders, "NvImageCodec"), (host, "share")],
)
@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_whatever_goes_wrong_on_a_thread_is_told(
    twelve: Manifest,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    error: type[BaseException],
) -> None:
    """And does not leave the loader waiting for ever."""

    def broken(*_: Any) -> None:
        raise error("no such thing")

    monkeypatch.setattr(owner, name, broken)
    message = r"record 0 \(.*00000.jpg\) in batch 0 failed: .*no such thing"
    with make(twelve) as loader, pytest.raises(PipelineError, match=message) as caught:
        next(iter(loader))
    assert isinstance(caught.value.__cause__, error)


def test_batches_can_be_made_from_several_threads(twelve: Manifest) -> None:
    with make(twelve) as loader:
        wanted = [loader.batch(step)["image"].tobytes() for step in range(3)]
        with ThreadPoolExecutor(4) as pool:
            steps = [0, 1, 2] * 6
            found = pool.map(lambda step: loader.batch(step)["image"].tobytes(), steps)
            assert list(found) == wanted * 6


@pytest.mark.parametrize(("owner", "name"), [(opened_view, "_allocate"), (Resizer, "resize")])
def test_memory_that_is_refused_is_told(
    twelve: Manifest, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    def refuse(*_: Any) -> None:
        raise MemoryError("could not allocate")

    monkeypatch.setattr(owner, name, refuse)
    message = r"out of memory; use a smaller batch_size, .* \(could not allocate\)"
    with make(twelve) as loader, pytest.raises(PipelineError, match=message):
        next(iter(loader))


def test_a_decoder_is_not_spoilt_by_what_it_refused(twelve: Manifest) -> None:
    good, decoder = jpeg(picture(50, 60, seed=1)), NvImageCodec()
    wanted = decoder.decode(good, (3, 5), (40, 30)).copy()
    for bad in (good[:300], b"", b"<html>", good[: len(good) // 2]):
        assert decoder.decode(bad, (0, 0), (50, 60)) is None
        np.testing.assert_array_equal(decoder.decode(good, (3, 5), (40, 30)), wanted)


def test_of_many_bad_pictures_the_first_is_named(twelve: Manifest) -> None:
    """Whichever thread met its own first."""
    for name in ("00001.jpg", "00002.jpg", "00003.jpg"):
        path = twelve.root / name
        path.write_bytes(path.read_bytes()[:400])
    with make(twelve, num_threads=4) as loader:
        for _ in range(5):
            with pytest.raises(DecodeError) as caught:
                loader.batch(0)
            assert caught.value.record_key == 1
            assert caught.value.__notes__[0] == "at least 3 images of this batch are bad"


def test_nothing_is_decoded_twice_where_an_epoch_ends(
    twelve: Manifest, decoded: list[bytes]
) -> None:
    with make(twelve, prefetch=2) as loader:
        for _ in range(5):
            for _batch in loader:
                pass
        iterator = iter(loader)
        next(iterator)
        iterator.close()
        for _batch in loader:
            pass
        # Those ahead of the last one handed out: `prefetch` in DALI, one more and one on the way.
        ahead = 5
        assert 6 * 12 <= len(decoded) <= (6 * 3 + ahead) * 4


def test_decoding_keeps_nothing() -> None:
    """A few bytes an image would be gigabytes in a long run."""
    content, decoder = jpeg(picture(8, 8, seed=1)), NvImageCodec()

    def decode(times: int) -> int:
        for _ in range(times):
            decoder.decode(content, (0, 0), (8, 8))
        return used_bytes()

    decode(2000)
    # What other threads of this process allocate meanwhile is not in all of these.
    used = [decode(4000) for _ in range(4)]
    assert min(after - before for before, after in itertools.pairwise(used)) < 4000 * 8
