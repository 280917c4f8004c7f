"""Pairs: a record's other images, which go where its image goes."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

import gpufeed
from gpufeed import ConfigError, DecodeError, Loader, Manifest, Pair, SizeMismatchError
from gpufeed import transforms as tf
from tests.support.loaders import CHAIN, digest, make
from tests.support.media import make_manifest

BEFORE = [(40, 30), (30, 44), (36, 36), (64, 48), (48, 50), (33, 37), (41, 29), (30, 60)]
AFTER = [(20, 15), (60, 88), *BEFORE[2:]]
UINT8 = tf.ToDtype("uint8", layout="NHWC")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Manifest, Manifest]:
    folder = tmp_path_factory.mktemp("pairs")
    before = make_manifest(folder / "before", BEFORE, boxes=True)
    return before, make_manifest(folder / "after", AFTER[::-1]).take(np.arange(8)[::-1])


CHAINS: dict[str, Any] = {
    "plain": CHAIN,
    "warped": [tf.RandomRotation(20), tf.Resize((20, 24)), tf.ColorJitter(0.4), tf.Normalize()],
    "cropped": [tf.Resize(30), tf.RandomCrop(24), tf.RandAugment(), tf.Normalize()],
    "mixed": [*CHAIN[:-1], tf.Normalize(), tf.RandomErasing(), tf.CutMix()],
    "views": tf.Views([CHAIN, [tf.Resize((16, 16)), UINT8]]),
    "five": [tf.Resize((30, 30)), tf.FiveCrop(20), tf.RandomHorizontalFlip(), tf.Normalize()],
}


def same(ours: Any, theirs: Any) -> None:
    for one, other in itertools.zip_longest(*map(listed, (ours, theirs))):
        assert type(one) is type(other)
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def listed(arrays: Any) -> list[Any]:
    return arrays if isinstance(arrays, list) else [arrays]


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("opener", ["threads", "graph"])
def test_both_images_are_those_of_loaders_of_their_own(
    both: tuple[Manifest, Manifest], name: str, opener: Any
) -> None:
    """The same seed draws the same numbers for a record, whatever its image."""
    before, after = both
    framework = {"warped": "torch", "cropped": "jax"}.get(name, "numpy")
    options = {"transforms": CHAINS[name], "opener": opener, "framework": framework}
    with (
        make(before, **options, targets=[Pair("after", after)]) as paired,
        make(before, **options) as first,
        make(after, **options) as second,
    ):
        assert paired.state_dict()["fingerprints"] == first.state_dict()["fingerprints"]
        for step in (0, 3):
            batch, one, other = (each.batch(step) for each in (paired, first, second))
            same(batch.pop("after"), other["image"])
            assert batch.keys() == one.keys()
            for key, values in one.items():
                same(batch[key], values)


@pytest.mark.parametrize("cache", ["host", "device"])
def test_caches_keep_pairs_too(both: tuple[Manifest, Manifest], cache: Any) -> None:
    before, after = both
    options = {"targets": [Pair("after", after)], "transforms": [tf.Resize((20, 20)), UINT8]}
    with make(before, **options) as plain, make(before, **options, cache=cache) as cached:
        for step in range(3):
            assert digest(cached.batch(step)) == digest(plain.batch(step))
        assert cached._maker.cache is not None
        assert cached._maker.cache.ready.sum() == 16


def test_tiers_keep_the_first_images(both: tuple[Manifest, Manifest], tmp_path: Path) -> None:
    before, after = both
    options = {"targets": [Pair("after", after)]}
    tiers = [gpufeed.DiskCache(tmp_path, "10 MB")]
    with make(before, **options) as plain, make(before, **options, cache=tiers) as tiered:
        for batches in (plain.forever(), tiered.forever()):
            assert [digest(batch) for batch in itertools.islice(batches, 3)] == [
                digest(plain.batch(step)) for step in range(3)
            ]
        assert tiered.stats.fetched_images <= 8


def test_independent_images_draw_their_own_numbers(both: tuple[Manifest, Manifest]) -> None:
    """A pair of the image itself is flipped as often, but not together with it."""
    before, _ = both
    flip = [tf.Resize((12, 12)), tf.RandomHorizontalFlip(), UINT8]
    pairs = [Pair("one", before, independent=True), Pair("two", before, independent=True)]
    with make(before, transforms=flip[::2]) as loader:
        plain = {int(key): image for key, image in by_key(loader, "image", 1)}
    flips = []
    for name in ("image", "one", "two"):
        with make(before, transforms=flip, targets=pairs) as loader:
            flips.append([(image != plain[key]).any() for key, image in by_key(loader, name, 60)])
    assert 150 < np.sum(flips, axis=1).min() <= np.sum(flips, axis=1).max() < 330
    agree = [np.mean(np.equal(*each)) for each in itertools.combinations(flips, 2)]
    assert 0.4 < min(agree) <= max(agree) < 0.6


def by_key(loader: Loader, name: str, epochs: int) -> list[tuple[int, Any]]:
    found = []
    for batch in itertools.islice(loader.forever(), epochs):
        found += zip(batch["record_key"].tolist(), batch[name], strict=True)
    return found


def test_images_are_paired_by_a_column(both: tuple[Manifest, Manifest]) -> None:
    before, after = (
        Manifest(each.frame.with_columns(site=pl.Series(range(8)) % 8), each.root, each.classes)
        for each in both
    )
    some = before.filter(pl.col("site").is_in([1, 4, 6, 7]))
    shuffled = after.take(np.random.default_rng(0).permutation(8))
    with (
        make(some, batch_size=4, targets=[Pair("after", shuffled, on="site")]) as ours,
        make(some, batch_size=4, targets=[Pair("after", after.take([1, 4, 6, 7]))]) as theirs,
    ):
        assert digest(ours.batch(1)) == digest(theirs.batch(1))


def test_a_box_is_scaled_to_the_pairs_size(both: tuple[Manifest, Manifest]) -> None:
    """Every image's pair is itself at twice its size, so that both crops show the same."""
    before, _ = both
    boxless = before.frame.select("path", "label", "width", "height")
    wide = boxless.with_columns(pl.col("width", "height") * 2)
    arrays = []
    for key, (height, width) in enumerate(BEFORE):
        arrays.append(np.asarray(before[key].image().resize((width * 2, height * 2))))
    double = Manifest(wide, gpufeed.MemorySource(arrays), before.classes)
    crop = [tf.BoxCrop(0.0), tf.Resize((16, 16)), tf.ToDtype("float32", layout="NHWC")]
    with make(before, transforms=crop, targets=[Pair("double", double)]) as loader:
        batch = loader.batch(0)
    assert np.abs(batch["image"] - batch["double"]).mean() < 4
    assert np.abs(batch["image"] - batch["double"][::-1]).mean() > 30


# ----------------------------------------------------------------------------- bad images


def greys(first: int, bad: tuple[int, ...] = ()) -> Manifest:
    """Records of one level each, `first` + 20 times the record."""
    images: list[Any] = [np.full((20, 20, 3), first + 20 * key, np.uint8) for key in range(8)]
    for key in bad:
        images[key] = png(images[key])[:-20] if key % 2 else b""
    columns = {"path": [f"{first}/{key}" for key in range(8)], "label": [0] * 8}
    frame = pl.DataFrame(columns).with_columns(width=20, height=20)
    return Manifest(frame, gpufeed.MemorySource(images), ["x"])


def png(values: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("opener", ["threads", "graph"])
def test_a_bad_pair_makes_its_record_bad(opener: Any) -> None:
    """Substitutes are of one record, and errors of both images count once."""
    options = {"opener": opener, "max_failures": 3, "on_error": "substitute"}
    pair = Pair("after", greys(10, bad=(2, 5)))
    with make(greys(0, bad=(5, 6)), **options, transforms=[UINT8], targets=[pair]) as loader:
        batch = loader.batch(0)
        failures = {failure.record_key: failure for failure in loader.quarantine}
    keys = batch["record_key"]
    for name, first in (("image", 0), ("after", 10)):
        assert (batch[name] == (first + 20 * keys)[:, None, None, None]).all()
    assert not {2, 5, 6} & {*keys.tolist()}
    assert {*failures} == {2, 5, 6}
    assert failures[2].reason.startswith("after: ")
    assert "after" not in failures[6].reason
    assert [failures[key].path for key in (2, 5, 6)] == ["0/2", "0/5", "0/6"]


@pytest.mark.parametrize("cache", [None, "host"])
def test_blank_records_are_blank_in_all_images(cache: Any) -> None:
    options = {"on_error": "blank", "max_failures": 1.0, "transforms": [UINT8], "cache": cache}
    with make(greys(40), **options, targets=[Pair("after", greys(50, bad=(2, 5)))]) as loader:
        for batch in itertools.islice(loader.forever(), 2):
            keys = batch["record_key"]
            blank = np.isin(keys, [2, 5])
            assert (~batch["valid"] == blank).all()
            for name, first in (("image", 40), ("after", 50)):
                expected = np.where(blank, 0, first + 20 * keys)
                assert (batch[name] == expected[:, None, None, None]).all()


def test_an_error_names_the_pair() -> None:
    pair = Pair("after", greys(10, bad=(2,)))
    with (
        make(greys(0), targets=[pair]) as loader,
        pytest.raises(DecodeError, match=r"record 2 \(.*: after: ") as error,
    ):
        loader.batch(0)
    assert error.value.record_key == 2
    assert error.value.path == pair.manifest.source.name(2)
    wrong = Manifest(greys(0).frame.with_columns(width=21), greys(0).source, ["x"])
    with (
        make(greys(0), targets=[Pair("after", wrong)]) as loader,
        pytest.raises(SizeMismatchError, match=r"after: "),
    ):
        loader.batch(0)
    large = greys(0).frame.with_columns(width=9000, height=9000)
    pair = Pair("after", Manifest(large, greys(0).source, ["x"]))
    with (
        make(greys(0), targets=[pair], max_pixels=10**6) as loader,
        pytest.raises(DecodeError, match=r"after: .*max_pixels"),
    ):
        loader.batch(0)


# --------------------------------------------------------------- with other targets and tools


def test_masks_belong_to_the_first_image(both: tuple[Manifest, Manifest]) -> None:
    before, after = both
    masks = [np.full(size, number, np.uint8) for number, size in enumerate(BEFORE)]
    encoded = gpufeed.MemorySource([png(each) for each in masks])
    mask = gpufeed.Mask("mask", source=encoded)
    with (
        make(before, targets=[Pair("after", after), mask, "boxes"]) as ours,
        make(before, targets=[mask, "boxes"]) as plain,
        make(before, targets=[Pair("after", after)]) as paired,
    ):
        batch, one, other = (each.batch(2) for each in (ours, plain, paired))
        same(batch["mask"], one["mask"])
        same(batch["boxes"], one["boxes"])
        same(batch["after"], other["after"])
        assert (batch["mask"].max(axis=(1, 2)) == batch["record_key"]).all()


def test_records_and_sheets_have_them(both: tuple[Manifest, Manifest]) -> None:
    before, after = both
    with make(before, targets=[Pair("after", after)], framework="torch") as loader:
        batch = loader.batch(0)
        whole = batch["image"].untyped_storage()
        assert batch["after"].untyped_storage().data_ptr() == whole.data_ptr()  # no copy
        record = loader.record(int(batch["record_key"][3]))
        assert torch.equal(record["after"], batch["after"][3])
        shown = {name: batch[name] for name in ("image", "record_key", "after")}
        sheet = loader.show(batch)
        assert sheet == loader.show(shown)
    with make(before, framework="torch") as loader:
        assert sheet != loader.show()


def sited(manifest: Manifest, values: Any) -> Manifest:
    return Manifest(manifest.frame.with_columns(site=pl.Series(values)), manifest.source, ["x"])


NUMBERS, OTHERS = [*range(8)], [0, 1, 3, 4, 5, 6, 7, 8]
REFUSED: dict[str, Any] = {
    "fewer": (lambda m: Pair("after", m.take([0, 1])), r"Pair\('after', 2 images\) for 8 records"),
    "no column": (lambda m: Pair("after", m, on="site"), "on='site', a column that only one"),
    "dtype": (lambda m: Pair("after", sited(m, [*"abcdefgh"]), on="site"), "is String there and"),
    "twice": (lambda m: Pair("after", sited(m, [3] * 8), on="site"), "several .* have 3 there"),
    "missing": (
        lambda m: Pair("after", sited(m, OTHERS), on="site"),
        "none of its images has 2 there, which record 2 has",
    ),
    "name": (lambda m: Pair("image", m), "a field with the name 'image'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_paired_is_told(name: str) -> None:
    pair, said = REFUSED[name]
    with pytest.raises(ConfigError, match=said):
        make(sited(greys(0), NUMBERS), targets=[pair(greys(10))])


def test_what_pairs_cannot_follow_is_told(both: tuple[Manifest, Manifest]) -> None:
    before, after = both
    boxes = before.frame.with_columns(boxes=pl.Series([[[0.0, 0, 9, 9]]] * 8)).cast(
        {"boxes": pl.List(pl.Array(pl.Float64, 4))}
    )
    detection = Manifest(boxes, before.root, before.classes)
    crop = [tf.RandomIoUCrop(), tf.Resize((16, 16)), UINT8]
    with pytest.raises(ConfigError, match="RandomIoUCrop crops by boxes, which only"):
        make(detection, transforms=crop, targets=[Pair("after", after)])
    mix = [*CHAIN, tf.MixUp()]
    with pytest.raises(ConfigError, match="MixUp mixes images by shares"):
        make(before, transforms=mix, targets=[Pair("after", after, independent=True)])
    deep = Manifest(after.frame, after.root, after.classes, reduce_depth=True)
    with pytest.raises(ConfigError, match="reduce_depth=True, and the loader's has"):
        make(before, targets=[Pair("after", deep)])
