"""A record that is made again on the CPU is as it was handed out, and wrong pixels are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gpufeed
from gpufeed import CanaryError, ConfigError, Loader, Manifest, MemoryCache, Pair
from gpufeed import transforms as tf
from gpufeed.decode.decoders import NvImageCodec
from gpufeed.feed.batch import HandOver
from gpufeed.feed.canary import ALLOWED
from tests.support.loaders import make
from tests.support.media import odd_manifest

CROP = [tf.RandomResizedCrop(64), tf.Normalize()]
LATE = [tf.RandomErasing(1.0, value="random"), tf.CutMix(group=4)]
VIEWS = tf.Views([[tf.RandomResizedCrop(16)], [tf.RandomAffine(20), tf.Resize((8, 8))]])
LISTS: dict[str, Any] = {
    "train": gpufeed.presets.train(32),
    "timm": gpufeed.presets.timm_train(32),
    "torchvision": gpufeed.presets.torchvision_train(32),
    "simclr": gpufeed.presets.simclr(32),
    "dino": gpufeed.presets.dino(64, local_size=32),
    "course": gpufeed.presets.course_train(),
    "evaluate": gpufeed.presets.evaluate(32),
    "mixed": [*CROP, *LATE],
    "views": VIEWS,
}


def compare_all(manifest: Manifest, **options: Any) -> float:
    """The largest distance in an epoch in which a record of each batch is compared."""
    with make(manifest, canary=1, last_batch="pad", **options) as loader:
        batches = len(list(loader))
        assert loader.canary is not None
        assert loader.canary.compared == batches > 1
        return loader.canary.furthest


@pytest.mark.parametrize("name", LISTS)
def test_presets_are_made_again_to_the_bit(pictures: Manifest, name: str) -> None:
    assert compare_all(pictures.take(range(12)), transforms=LISTS[name]) == 0


@pytest.mark.parametrize(
    "options",
    [
        {"framework": "torch", "cache": "host"},
        {"framework": "jax", "cache": [MemoryCache("1 MB")]},
        {"targets": ["boxes"], "collate_fn": "pad", "transforms": VIEWS},
        {"transforms": [*CROP, *LATE], "shard": gpufeed.ShardOptions(0, 2), "batch_size": 4},
        {"transforms": [*CROP[:-1], tf.ToDtype("bfloat16", scale=True)], "framework": "torch"},
    ],
)
def test_whatever_comes_with_images(pictures: Manifest, options: dict[str, Any]) -> None:
    assert compare_all(pictures, **options) <= 1


def test_pairs_are_compared_too(pictures: Manifest) -> None:
    reversed_ = pictures.take(range(len(pictures))[::-1])
    for transforms in (VIEWS, [*CROP, *LATE]):
        assert compare_all(pictures, targets=[Pair("other", reversed_)], transforms=transforms) == 0


@pytest.mark.parametrize("on_error", ["substitute", "blank"])
def test_substitutes_are_made_again(own_pictures: Manifest, on_error: Any) -> None:
    for path in own_pictures.frame["path"][::4]:
        (Path(own_pictures.root) / path).write_bytes(b"no image")
    options: Any = {"transforms": [*CROP, *LATE], "on_error": on_error, "max_failures": 1.0}
    assert compare_all(own_pictures, batch_size=4, **options) == 0


def test_decoders_in_the_graph_are_near(testdata: Path, tmp_path: Path) -> None:
    """Also of unusual JPEGs, and where transforms make much of a grey level."""
    odd = odd_manifest(testdata, tmp_path)
    some = odd.take(range(0, len(odd), 5))
    strong = [*CROP[:-1], tf.RandomEqualize(1.0), CROP[-1]]
    options: Any = {"opener": "graph", "on_error": "blank", "max_failures": 1.0, "canary": 1}
    with make(some, batch_size=1, transforms=strong, **options) as loader:
        valid = sum(int(batch["valid"].sum()) for batch in loader)
        assert loader.canary is not None
        assert loader.canary.compared == valid > 50
        assert loader.canary.furthest <= ALLOWED


class OneDarker(NvImageCodec):
    """Is a grey level off."""

    def decode(self, content: Any, *window: Any) -> Any:
        return super().decode(content, *window) - 1


def test_a_level_that_transforms_make_much_of_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "grey").mkdir()
    for number in range(8):
        Image.new("RGB", (64, 64), (200, 200, 200)).save(tmp_path / "grey" / f"{number}.png")
    manifest = gpufeed.read_folder(tmp_path, progress=False)
    options: Any = {"transforms": [tf.CenterCrop(64), tf.RandomSolarize(200, 1.0)], "canary": 1}
    with (
        make(manifest, **options) as true,
        make(manifest, decoder=OneDarker, **options) as loader,
    ):
        (batch,) = loader
        assert (batch["image"] == 199).all()
        assert (true.batch(0)["image"] == 55).all()
        assert loader.canary is not None
        assert loader.canary.compared == 1


def black(images: Any) -> None:
    images[:] = -2.0


def swapped(images: Any) -> None:
    images[:] = np.roll(images, 1, axis=0)


def striped(images: Any) -> None:
    images[:, :, 16:24] = -2.0


def partly_another(images: Any) -> None:
    images[:, :, 30:50, 30:50] = np.roll(images, 1, axis=0)[:, :, 30:50, 30:50]


def not_numbers(images: Any) -> None:
    images[:, :, 40:] = np.nan


def plant(patch: pytest.MonkeyPatch, damage: Any, step: int) -> None:
    """Damage the images of one batch before they are handed out."""
    plain = HandOver.batch

    def damaged(self: HandOver, plan: Any, views: Any) -> Any:
        batch = plain(self, plan, views)
        if plan.step == step:
            batch["image"] = batch["image"].copy()
            damage(batch["image"])
        return batch

    patch.setattr(HandOver, "batch", damaged)


def iterate(loader: Loader) -> tuple[CanaryError, list[int]]:
    """The error of an epoch, and the numbers of the batches, on both sides of it."""
    steps, batches = [], iter(loader)

    def take() -> None:
        for batch in batches:
            steps.append(loader.step - 1)
            batch["image"] = None

    with pytest.raises(CanaryError) as found:
        take()
    take()
    return found.value, steps


@pytest.mark.parametrize("damage", [black, swapped, striped, partly_another, not_numbers])
@pytest.mark.parametrize("step", [3, 5])
def test_wrong_pixels_are_found_and_no_batch_is_lost(
    pictures: Manifest, damage: Any, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with make(pictures, transforms=CROP, canary=1) as loader:
        true = loader.batch(step)
        plant(monkeypatch, damage, step)
        error, steps = iterate(loader)
    assert steps == [*range(6)]
    assert error.step == step
    assert error.record_key == true["record_key"][step % 8]
    assert error.path == pictures.source.name(error.record_key)
    assert error.distance > ALLOWED
    assert str(error).startswith(
        f"record {error.record_key} ({error.path}) in batch {step} has other pixels than when it "
        "is made again on the CPU: "
    )
    sheet = tmp_path / f"canary-step{step}-record{error.record_key}.png"
    assert error.sheet == str(sheet)
    drawn = np.asarray(Image.open(sheet))
    image = true["image"][step % 8].transpose(1, 2, 0)
    levels = np.rint(image * CROP[-1].std + CROP[-1].mean).astype(np.uint8)
    rows = np.lib.stride_tricks.sliding_window_view(drawn[24:88], 64, axis=1)
    assert (rows == np.moveaxis(levels, 1, 2)[:, None]).all(axis=(0, 2, 3)).sum() == 1


class WrongNowAndThen(NvImageCodec):
    """Gives a third of the images the colours of a negative."""

    def decode(self, content: Any, *window: Any) -> Any:
        pixels = super().decode(content, *window)
        return 255 - pixels if pixels is not None and len(content) % 3 == 0 else pixels


def test_a_wrong_decoder_is_found(
    pictures: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    said = "no file of both could be written"
    with (
        make(pictures, decoder=WrongNowAndThen, canary=1) as loader,
        pytest.raises(CanaryError, match=said) as found,
    ):
        list(loader)
    assert Path(found.value.path).stat().st_size % 3 == 0


def test_every_kth_batch(pictures: Manifest) -> None:
    with make(pictures, canary=4) as loader:
        list(loader)
        assert loader.canary is not None
        assert loader.canary.compared == 2
        list(loader)
        assert loader.canary.compared == 3  # of 12 batches: 0, 4 and 8


def gone(manifest: Manifest, patch: pytest.MonkeyPatch) -> None:
    for path in manifest.frame["path"]:
        (Path(manifest.root) / path).unlink()


def refused(manifest: Manifest, patch: pytest.MonkeyPatch) -> None:
    def read(self: Any, keys: Any) -> Any:
        raise RuntimeError("the token has expired")

    patch.setattr(type(manifest.source), "read", read)


@pytest.mark.parametrize(
    ("happens", "why"),
    [(gone, r"record \d+ .*: cannot be read"), (refused, "token has expired")],
)
def test_what_cannot_be_made_again_is_told(
    own_pictures: Manifest, monkeypatch: pytest.MonkeyPatch, happens: Any, why: str
) -> None:
    with make(own_pictures, canary=1, cache="host", batch_size=24) as loader:
        list(loader)
        happens(own_pictures, monkeypatch)
        said = "canary: a record of batch 1 was not compared, since it cannot be made again: "
        with pytest.warns(UserWarning, match=f"{said}.*{why}"):
            list(loader)
        assert loader.canary is not None
        assert loader.canary.compared == 1


@pytest.mark.parametrize("every", [0, 2.5, True])
def test_k_is_a_positive_integer(pictures: Manifest, every: Any) -> None:
    said = rf"^canary is {every}; it must be an integer of 1 or more$"
    with pytest.raises(ConfigError, match=said):
        make(pictures, canary=every)
