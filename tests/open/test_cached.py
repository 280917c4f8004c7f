"""The cache: the same batches as without it, from images that are read and decoded once."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpufeed import (
    ConfigError,
    DecodeError,
    FileSource,
    Manifest,
    MemorySource,
    PipelineError,
    SequentialSampler,
    ShardOptions,
    presets,
)
from gpufeed import transforms as tf
from gpufeed.engine import device_cache
from gpufeed.open import cached
from gpufeed.open.resize import Resizer
from gpufeed.source.selection import take
from tests.support.loaders import digest, make
from tests.support.media import make_manifest, write_table

UINT8 = tf.ToDtype("uint8", layout="NHWC")
FLIPS = [tf.RandomVerticalFlip(), tf.RandomHorizontalFlip()]
SQUARED = tf.Lambda(lambda image: (image.astype(int) ** 2 % 256).astype(np.uint8), name="squared")


class OwnMargin(tf.GeometricTransform):
    """Draws only where the image is high, so that a few records do not show that it draws."""

    def draw(self, rng: Any, records: tf.Records) -> tf.Params:
        top = np.zeros(len(records), dtype=np.int64)
        (high,) = np.nonzero(records.height > 150)
        if len(high):
            top[high] = rng.rows(high).integers(0, 9)
        return {"top": top}

    def place(self, frame: Any, params: tf.Params) -> Any:
        return frame.crop(params["top"], 0, frame.height - 9, frame.width)


class Own:
    """A source of a user's own that says what it has."""

    def __init__(self, manifest: Manifest) -> None:
        self.name = manifest.source.name

    def read(self, keys: Any) -> Any:
        raise NotImplementedError

    def fingerprint(self) -> str:
        return "these"


WHOLE, BOX, RESIZED = "the whole image", "the box", "the first resize"
CHAINS: dict[str, tuple[str | tuple[int, int], Any]] = {
    "nothing in common": (WHOLE, [tf.RandomResizedCrop(24), *FLIPS, UINT8]),
    "a crop of a resize": (WHOLE, [tf.Resize(40), tf.RandomCrop(32), UINT8]),
    "a crop of the padded": (WHOLE, [tf.CenterCrop(90), tf.RandomCrop(80, padding=4), UINT8]),
    "a margin drawn for some": (WHOLE, [OwnMargin(), tf.Resize((20, 30)), UINT8]),
    "a function first": (WHOLE, [SQUARED, tf.Resize((20, 20)), UINT8]),
    "the box": (BOX, [tf.BoxCrop(), tf.RandomResizedCrop(20), UINT8]),
    "course": (BOX, presets.course_train()),
    "all of it": ((24, 24), presets.evaluate(24)),
    "all of the box": (RESIZED, presets.course_evaluate()),
    "a flip of a resize": ((30, 20), [tf.Resize((30, 20)), *FLIPS, tf.RandomInvert(), UINT8]),
    "flips, then a margin": ((30, 20), [tf.Resize((30, 20)), *FLIPS, tf.Pad(3, 127.6), UINT8]),
    "pixels between": ((30, 30), [tf.Resize((30, 30)), tf.RandomInvert(), *FLIPS, UINT8]),
    "a function between": ((30, 30), [tf.Resize((30, 30)), SQUARED, tf.RandomCrop(20), UINT8]),
    "two resizes": (RESIZED, [tf.Resize(40), tf.Resize((20, 28)), tf.RandomCrop(9), UINT8]),
    "a turn": ((40, 40), [tf.Resize((40, 40)), tf.RandomRotation(30), UINT8]),
    "two views": (
        WHOLE,
        tf.Views(
            [
                [tf.RandomResizedCrop(12), *FLIPS, UINT8],
                [tf.BoxCrop(0.1), tf.ResizeLongest(20), tf.PadToSquare(20), UINT8],
            ]
        ),
    ),
    "five crops": (WHOLE, [tf.Resize(40), tf.FiveCrop(24), *FLIPS, UINT8]),
}


FUNCTIONS = {"a function first", "a function between"}
FINISHED = {
    "a crop of the padded",
    "all of it",
    "all of the box",
    "a flip of a resize",
    "flips, then a margin",
    "pixels between",
    "a turn",
}
"""The chains of which no resize is left after what is kept."""

HOST: dict[str, Any] = {"cache": "host", "opener": "threads"}
GRAPH: dict[str, Any] = {"cache": "device", "opener": "graph"}
THREADS: dict[str, Any] = {"cache": "device", "opener": "threads"}
BOTH: dict[str, Any] = {"cache": "device", "opener": {"threads": 0.5, "graph": 0.5}}
WAYS = {"host": HOST, "device": GRAPH, "device, threads": THREADS, "device, both": BOTH}
CASES = [
    pytest.param(chain, options, id=f"{way}: {chain}")
    for way, options in WAYS.items()
    for chain in CHAINS
    if options is HOST
    or (options is GRAPH and chain not in FUNCTIONS)
    or (chain in FINISHED and not (options is BOTH and chain == "a flip of a resize"))
]
FITTING = pytest.mark.parametrize(
    "options",
    [HOST, GRAPH, {**THREADS, "transforms": presets.evaluate(24)}],
    ids=["host", "device", "device, threads"],
)

ONE_AHEAD: dict[str, Any] = {"prefetch": 1}
"""In the first epoch, three batches of `own_pictures`, a loader begins to read no more than the
second. So after two epochs, no read is under way that began before all images were kept."""


def flat(batch: dict[str, Any]) -> str:
    """The digest of a batch, with lists of arrays taken apart."""
    parts, left = {}, dict(batch)
    while left:
        name, values = left.popitem()
        if isinstance(values, list):
            left |= {f"{name} {index}": value for index, value in enumerate(values)}
        else:
            parts[name] = values
    return digest(parts)


def epochs(manifest: Manifest, count: int = 2, **options: Any) -> list[str]:
    with make(manifest, num_threads=3, last_batch="partial", **options) as loader:
        return [flat(batch) for _ in range(count) for batch in loader]


def kept_sizes(loader: Any) -> np.ndarray[Any, Any]:
    return np.asarray(loader._planner.prefix().sizes)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_batches_are_those_without_a_cache(
    pictures: Manifest, name: str, options: dict[str, Any]
) -> None:
    given = {"transforms": CHAINS[name][1], "opener": options["opener"]}
    given["targets"] = () if name in ("course", "a turn") else ("boxes",)
    few = pictures.take(range(20))
    plain = epochs(few, **given)
    assert epochs(few, **given, cache=options["cache"]) == plain


@pytest.mark.parametrize("name", CHAINS)
def test_what_all_epochs_have_in_common_is_kept(pictures: Manifest, name: str) -> None:
    kept, chain = CHAINS[name]
    with make(pictures, transforms=chain, cache="host") as loader:
        sizes = kept_sizes(loader)
    images = pictures.sizes()
    if kept == WHOLE:
        assert (sizes == images).all()
    elif kept == BOX:
        assert (sizes < images).all()
    elif isinstance(kept, tuple):
        assert (sizes == kept).all()
    else:
        longest = {"two resizes": None, "all of the box": 224}[name]
        assert (sizes.max(axis=1) >= (longest or 40) - 1).all()
        assert (sizes.min(axis=1) == 40).all() or longest


@FITTING
def test_what_is_kept_is_not_read_again(
    own_pictures: Manifest, opened: list[str], decoded: list[bytes], options: dict[str, Any]
) -> None:
    with make(own_pictures, **options, **ONE_AHEAD) as loader:
        up_to = (
            f"a {options['cache']} cache of up to 0.{'04' if 'transforms' in options else 14} MB"
        )
        assert f" 0 images in {up_to}, " in repr(loader)
        for _ in range(2):
            list(loader)
        assert f" 24 images in {up_to}, " in repr(loader)
        opened.clear()
        decoded.clear()
        for _ in range(3):
            list(loader)
        loader.batch(1)
        loader.record(5)
        assert not opened
        assert not decoded
        loader.close()
        list(loader)  # the memory is free, so it is filled again
        paths = [*own_pictures.root.glob("*.jpg")]
        assert {*opened} == {str(path) for path in paths}
        if options["opener"] == "threads":
            assert {*decoded} == {path.read_bytes() for path in paths}


@FITTING
def test_a_source_is_told_of_what_is_not_kept(
    own_pictures: Manifest, options: dict[str, Any]
) -> None:
    class Listed(MemorySource):
        told: list[int]

        def fetch(self, keys: Any) -> None:
            self.told += keys.tolist()

    paths = own_pictures.frame["path"]
    source = Listed([(own_pictures.root / path).read_bytes() for path in paths])
    source.told = []
    manifest = Manifest(own_pictures.frame, source, own_pictures.classes)
    with make(manifest, **options, **ONE_AHEAD) as loader:
        list(loader)
        assert source.told
        list(loader)
        source.told.clear()
        list(loader)
        assert not source.told


@pytest.mark.parametrize(
    ("way", "chain", "on_error"),
    [
        (HOST, "nothing in common", "substitute"),
        (HOST, "two views", "blank"),
        (GRAPH, "nothing in common", "blank"),
        (GRAPH, "two views", "substitute"),
        *[(way, "all of it", each) for way in WAYS.values() for each in ("substitute", "blank")],
        (THREADS, "a crop of the padded", "blank"),
        (BOTH, "a crop of the padded", "substitute"),
    ],
)
def test_bad_images_are_as_without_a_cache(
    tmp_path: Path, way: dict[str, Any], chain: str, on_error: str
) -> None:
    manifest = make_manifest(tmp_path, [(130, 90)] * 16, boxes=True)
    drawn = np.random.default_rng(2)
    for key, kind in enumerate(drawn.integers(0, 6, 16)):
        path = manifest.root / manifest.frame["path"][key]
        if kind == 0:
            path.unlink()
        elif kind == 1:  # good under some windows only
            path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2])
    options = {"transforms": CHAINS[chain][1], "on_error": on_error, "max_failures": 16}
    options["opener"] = way["opener"]
    with make(manifest, **options) as loader:
        plain = [[flat(batch) for batch in loader] for _ in range(3)]
        bad = loader.quarantine.record_keys.tolist()
    assert bad
    with make(manifest, cache=way["cache"], **options) as loader:
        assert [[flat(batch) for batch in loader] for _ in range(3)] == plain
        assert loader.quarantine.record_keys.tolist() == bad


@FITTING
def test_a_bad_image_is_tried_again(tmp_path: Path, options: dict[str, Any]) -> None:
    manifest = make_manifest(tmp_path, [(30, 40)] * 8)
    hidden = (tmp_path / "00002.jpg").rename(tmp_path / "hidden")
    with make(manifest, on_error="blank", max_failures=1, **options) as loader:
        assert loader.batch(0)["valid"].sum() == 7
        hidden.rename(tmp_path / "00002.jpg")
        assert loader.batch(0)["valid"].all()


def test_a_blank_image_stays_blank_when_its_record_is_kept(own_pictures: Manifest) -> None:
    """As when another process, which can read the image, keeps it at that moment."""
    frame, classes = own_pictures.frame, own_pictures.classes

    class Readable(Own):
        def read(self, keys: Any) -> Any:
            return own_pictures.source.read(keys)

    class Fails(Own):
        def read(self, keys: Any) -> Any:
            return [OSError("no")] * len(keys)

    def fill(_: DecodeError) -> None:
        with make(Manifest(frame, Readable(own_pictures), classes), cache="host") as other:
            list(other)

    bad = Manifest(frame, Fails(own_pictures), classes)
    with make(bad, cache="host", on_error=fill, max_failures=24) as loader:
        first, second = loader.batch(0), loader.batch(0)
    assert not first["valid"].any()
    assert (first["image"].max(axis=(0, 2, 3)) < 0).all()  # black, normalised
    assert second["valid"].all()
    assert flat(second) != flat(first)


@FITTING
def test_shards_and_a_state_are_as_without_a_cache(
    pictures: Manifest, options: dict[str, Any]
) -> None:
    for index in range(2):
        shared = {**options, "shard": ShardOptions(index, 2)}
        with make(pictures, **{**shared, "cache": None}) as plain:
            next(iter(plain))
            state = plain.state_dict()
            alone = flat(plain.batch(5))
            wanted = [flat(batch) for _ in range(2) for batch in plain]
        with make(pictures, **shared) as kept:
            kept.load_state_dict(state)
            begun = iter(kept)
            found = [flat(next(begun))]
            assert flat(kept.batch(5)) == alone
            found += [flat(batch) for batch in begun]
            assert [*found, *[flat(batch) for batch in kept]] == wanted
            assert flat(kept.batch(5)) == alone


def test_what_was_not_written_whole_is_made_again(
    own_pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"transforms": presets.evaluate(24)}
    wanted = epochs(own_pictures, 1, **options)
    resize, failed = Resizer.resize, []

    def stopped(self: Resizer, *given: Any) -> None:
        if len(failed) < 5:
            given[-1][:3] = 7
            failed.append(given)
            raise MemoryError
        resize(self, *given)

    monkeypatch.setattr(Resizer, "resize", stopped)
    with make(own_pictures, cache="host", num_threads=1, **options) as loader:
        with pytest.raises(PipelineError, match="out of memory"):
            loader.batch(0)
        assert " 3 images in a host cache" in repr(loader)
        assert [flat(batch) for batch in loader] == wanted


def test_files_that_changed_are_not_taken_for_those_before(
    own_pictures: Manifest, decoded: list[bytes]
) -> None:
    options: dict[str, Any] = {"sampler": SequentialSampler(24, num_epochs=1), "cache": "host"}
    with make(own_pictures, **options) as first, make(own_pictures, **options) as second:
        list(first)
        decoded.clear()
        list(second)
        assert not decoded
        os.utime(own_pictures.root / own_pictures.frame["path"][3], ns=(0, 0))
        with make(own_pictures, **options) as third:
            list(third)
        assert len(decoded) >= 24


def test_what_decides_the_images_decides_the_name(own_pictures: Manifest) -> None:
    def name(**changed: Any) -> str | None:
        settings = {
            "place": "host",
            "gpu": None,
            "prefix": make(own_pictures)._planner.prefix(),
            "source": own_pictures.source,
            "sizes": own_pictures.sizes(),
            "max_pixels": 1 << 27,
            "own_decoder": False,
            "reduce_depth": False,
        }
        return cached.CacheSettings(**{**settings, **changed}).name()

    other = make(own_pictures, transforms=presets.evaluate(24))._planner.prefix()
    cubic = presets.evaluate(24, interpolation="bicubic")
    keys = np.arange(24)[::-1]
    names = [
        name(),
        name(prefix=other),
        name(prefix=make(own_pictures, transforms=cubic)._planner.prefix()),
        name(source=take(own_pictures.source, keys)),
        name(source=FileSource("/missing", own_pictures.frame["path"])),
        name(source=FileSource("/missing too", own_pictures.frame["path"])),
        name(source=take(take(Own(own_pictures), keys), keys)),
        name(source=FileSource(own_pictures.root, own_pictures.frame["path"], max_bytes=99)),
        name(sizes=own_pictures.sizes() + 1),
        name(max_pixels=99),
        name(reduce_depth=True),
    ]
    assert None not in names
    assert len(set(names)) == len(names)
    assert name() == names[0]
    assert name(source=MemorySource([b""] * 24)) is None
    assert name(own_decoder=True) is None
    assert name(place="device") is None


def test_loaders_that_refuse_other_images_share_none(own_pictures: Manifest) -> None:
    pixels = int(own_pictures.sizes().prod(axis=1).max()) - 1
    refusing: dict[str, Any] = {"max_pixels": pixels, "on_error": "blank", "max_failures": 24}
    plain = epochs(own_pictures, 1, **refusing)
    with make(own_pictures, cache="host") as other:
        list(other)
        assert epochs(own_pictures, 1, **refusing, cache="host") == plain


CHILD = """
import sys
from gpufeed import read_table
from tests.support.loaders import make
manifest = read_table(sys.argv[1], root=sys.argv[2])
with make(manifest, cache="host") as loader:
    list(loader)
    print("full", flush=True)
    sys.stdin.read()
"""


def test_processes_share_the_memory(own_pictures: Manifest, decoded: list[bytes]) -> None:
    """Also the memory of a process that is then killed; with the last one it is gone."""
    command = [sys.executable, "-c", CHILD, write_table(own_pictures), own_pictures.root]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"full\n"
            plain = epochs(own_pictures, 1)
            decoded.clear()
            with make(own_pictures, cache="host") as loader:
                first = flat(loader.batch(0))
                child.kill()
                child.wait()
                assert [first, *[flat(batch) for batch in loader][1:]] == plain
        finally:
            child.kill()
    assert not decoded
    epochs(own_pictures, 1, cache="host")
    assert len(decoded) >= 24


def test_what_does_not_fit_is_refused(
    own_pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached, "available_memory", lambda: 100_000)
    message = r'cache="host" needs 0.14 MB more memory for 24 images \(0.14 MB\), but 0.09 MB '
    with pytest.raises(ConfigError, match=message):
        make(own_pictures, cache="host")
    make(own_pictures, cache="host", transforms=presets.evaluate(24))
    monkeypatch.setattr(cached, "available_memory", lambda: 500_000)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    with make(own_pictures, cache="host") as first:
        list(first)
        monkeypatch.setattr(cached, "available_memory", lambda: 20_000)
        make(own_pictures, cache="host")  # it is there already
    source = MemorySource([b""] * 24)
    monkeypatch.setattr(cached, "available_memory", lambda: 500_000)
    with pytest.raises(ConfigError, match=r"0.58 MB .* \(0.14 MB in each of 4 processes\)"):
        make(Manifest(own_pictures.frame, source, own_pictures.classes), cache="host")
    with pytest.raises(ConfigError, match=r'cache="device" .* 0.58 MB .* in each of 4 processes'):
        make(own_pictures, **GRAPH)


@pytest.mark.parametrize("chain", ["nothing in common", "all of it"])
def test_images_that_are_too_large_take_no_room(pictures: Manifest, chain: str) -> None:
    options: dict[str, Any] = {"transforms": CHAINS[chain][1], "cache": "host"}
    with make(pictures, **options) as loader:
        sizes = kept_sizes(loader)
    small = pictures.sizes().prod(axis=1) <= 9000
    assert 0 < small.sum() < len(small)
    with make(pictures, max_pixels=9000, **options) as loader:
        assert (kept_sizes(loader) == sizes * small[:, None]).all()


def test_what_is_no_cache_is_refused(own_pictures: Manifest) -> None:
    text = 'cache is \'gpu\'; it must be "host", "device", None, or a list of MemoryCache and Disk'
    with pytest.raises(ConfigError, match=text):
        make(own_pictures, cache="gpu")
    with pytest.raises(ConfigError, match='pass opener="threads", or cache="device"'):
        make(own_pictures, cache="host", opener="graph")
    assert "cache" not in repr(make(own_pictures))


@pytest.mark.parametrize("opener", [THREADS["opener"], BOTH["opener"]])
@pytest.mark.parametrize("name", sorted(CHAINS.keys() - FINISHED - FUNCTIONS))
def test_threads_resize_nothing_that_is_on_the_device(
    pictures: Manifest, name: str, opener: Any
) -> None:
    with pytest.raises(ConfigError, match="threads of the host resize another part of an image"):
        make(pictures, transforms=CHAINS[name][1], cache="device", opener=opener)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_are_called_with_nothing_that_is_on_the_device(
    pictures: Manifest, name: str
) -> None:
    with pytest.raises(ConfigError, match=r'cache is "device", .* Lambda; pass cache="host", or'):
        make(pictures, transforms=CHAINS[name][1], cache="device")


def test_the_free_memory_of_a_gpu_is_asked_for(
    own_pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")  # which have a GPU each
    with make(own_pictures, **GRAPH) as loader:
        assert loader._cache is not None
        settings = dataclasses.replace(loader._cache, gpu=3)
    # Half of it, since the model may not be there yet.
    monkeypatch.setattr(cached, "free_gpu_memory", {3: 2 * settings.size}.__getitem__)
    settings.check()
    monkeypatch.setattr(cached, "free_gpu_memory", {3: 200_000}.__getitem__)
    message = r'cache="device" needs 0.14 MB more memory for 24 images \(0.14 MB\), but 0.10 MB may'
    with pytest.raises(ConfigError, match=message):
        settings.check()

    def fail(_: int) -> int:
        raise MemoryError("no driver")

    monkeypatch.setattr(cached, "free_gpu_memory", fail)
    with pytest.raises(ConfigError, match='cache="device" finds no memory of cuda:3: no driver'):
        settings.check()


def test_a_device_that_gives_no_memory_is_named(
    own_pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise MemoryError("out of memory")

    monkeypatch.setattr(device_cache, "DeviceStore", fail)
    message = 'cache="device" gets no memory of cpu: out of memory; leave out cache'
    with make(own_pictures, **GRAPH) as loader, pytest.raises(ConfigError, match=message):
        loader.batch(0)
