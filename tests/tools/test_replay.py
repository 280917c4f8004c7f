"""Replaying a batch from a saved state: that batch and no other, or an error that says why not."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl
import pytest
import torch.utils.data
from PIL import Image

import gpufeed
from gpufeed import Loader, Manifest, Sampler, StateError, cli
from gpufeed import transforms as tf
from gpufeed._util.identity import encode
from gpufeed.sheets.sheet import captions_of, draw_sheet
from gpufeed.tools.gallery import examples
from gpufeed.tools.rebuild import rebuild_transforms
from gpufeed.tools.replay import replay_batch
from gpufeed.tools.resolve import Preset, make_transforms
from gpufeed.transforms import ToDtype
from tests.support.formats import write

MARGIN, GAP = 24, 16


def sheet_pictures(sheet: Image.Image, batch: Any, manifest: Manifest) -> bool:
    """Whether the images of a sheet are those of a batch, in order."""
    images = np.asarray(batch["image"])
    rows = manifest.rows(batch["record_key"])
    expected = np.asarray(draw_sheet(images, captions_of(manifest, rows)))
    # But for the last line, which says more.
    height = len(expected) - MARGIN
    return np.array_equal(np.asarray(sheet)[:height], expected[:height])


SAMPLERS: dict[str, Callable[[Manifest], Sampler]] = {
    "index": lambda m: gpufeed.IndexSampler(len(m), shuffle=True, seed=5),
    "virtual": lambda m: gpufeed.IndexSampler(len(m), shuffle=True, seed=5, epoch_size=100),
    "sequential": lambda m: gpufeed.SequentialSampler(len(m), seed=5),
    "listed": lambda m: gpufeed.SubsetSampler(len(m), np.arange(len(m))[::-1], seed=5),
    "repeated": lambda m: gpufeed.RepeatedAugmentationSampler(len(m), repeats=2, seed=5),
    "weighted": lambda m: gpufeed.WeightedSampler(1.0 / np.arange(1, len(m) + 1), seed=5),
    "balanced": lambda m: gpufeed.ClassBalancedBatchSampler(
        np.arange(len(m)) % 7 - 3, classes_per_batch=2, records_per_class=2, seed=5
    ),
}


def test_views_and_transforms_in_transforms_are_replayed(birds: Path) -> None:
    manifest = gpufeed.read_nabirds(birds, labels="species").split("train")
    chain = [
        tf.RandomResizedCrop(40),
        tf.RandomChoice([tf.RandomApply([Inside()]), [Inside(), Inside()]], p=[1, 3]),
        tf.Normalize(),
        tf.RandomErasing(value="random"),
    ]
    small = [tf.RandomResizedCrop(16), tf.RandomRotation(20), tf.Normalize()]
    options: dict[str, Any] = {"batch_size": 8, "device": "cpu"}
    with Loader(manifest, transforms=tf.Views([chain, small, small]), **options) as loader:
        state = loader.get_state()
    tf.Inside = Inside  # as if it were gpufeed's own
    Inside.__module__ = "gpufeed.transforms.inside"
    try:
        with Loader(manifest, transforms=tf.Views([chain, small, small]), **options) as loader:
            state = loader.get_state()
        replayed = replay_batch(state, birds, 0, batch_size=8, device="cpu")
    finally:
        del tf.Inside
    assert len(replayed.shown.sheet.getbands()) == 3
    mixed = [tf.Resize((20, 20)), tf.Normalize(), tf.RandomChoice([tf.MixUp(), tf.CutMix()])]
    with Loader(manifest, transforms=mixed, **options) as loader:
        assert replay_batch(loader.get_state(), birds, 0, batch_size=8, device="cpu")


class Inside(tf.PixelTransform):
    def build(self, image: Any, params: dict[str, Any]) -> Any:  # noqa: ARG002
        return image


@pytest.mark.parametrize(
    ("preset", "kind"), [*(("train", kind) for kind in SAMPLERS), ("course_train", "index")]
)
def test_a_batch_is_replayed_from_its_number(birds: Path, kind: str, preset: str) -> None:
    whole = gpufeed.read_nabirds(birds, labels="class" if kind == "index" else "species")
    manifest = whole if kind == "sequential" else whole.split("train")
    sampler = SAMPLERS[kind](manifest)
    listed = gpufeed.presets.train(48) if preset == "train" else gpufeed.presets.course_train()
    options: dict[str, Any] = {"batch_size": 8, "device": "cpu", "sampler": sampler}
    with Loader(manifest, transforms=listed, **options) as loader:
        loader.seek(5)
        state = loader.get_state()
    plain = [*listed[:-1], ToDtype("uint8", layout="NHWC")]
    with Loader(manifest, transforms=plain, **options) as loader:
        for step in (None, 0) if kind == "index" else (None,):
            replayed = replay_batch(state, birds, step, batch_size=8, device="cpu")
            assert (replayed.step, replayed.state_step) == (5 if step is None else step, 5)
            assert replayed.split == ("all" if kind == "sequential" else "train")
            batch = loader.batch(replayed.step)
            assert sheet_pictures(replayed.shown.sheet, batch, manifest)
        assert not sheet_pictures(replayed.shown.sheet, loader.batch(7), manifest)


def test_changes_of_levels_are_replayed(birds: Path) -> None:
    """Transforms within a transform too."""
    manifest = gpufeed.read_nabirds(birds, labels="species").split("train")
    sampler = SAMPLERS["index"](manifest)
    chain = [
        tf.RandomResizedCrop(48),
        tf.RandomApply([tf.ColorJitter(0.4, 0.4, 0.4, 0.1), tf.GaussianBlur(5)], 0.8),
        tf.RandomApply([tf.RandomApply([tf.RandomInvert()])]),
        tf.RandomPosterize(4),
        tf.JPEG((30, 90)),
        ToDtype("uint8", layout="NHWC"),
    ]
    with Loader(manifest, transforms=chain, batch_size=8, device="cpu", sampler=sampler) as loader:
        replayed = replay_batch(loader.get_state(), birds, 3, batch_size=8, device="cpu")
        assert sheet_pictures(replayed.shown.sheet, loader.batch(3), manifest)


def test_a_run_on_shards_is_replayed_from_its_saved_manifest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With fields that no option names, and a choice of records."""
    pytest.importorskip("webdataset")
    write("webdataset", tmp_path)
    whole = gpufeed.read_webdataset(f"{tmp_path}/*.tar", fields={"name": "txt"}, progress=False)
    manifest = whole.filter(pl.col("name") != "b")
    manifest.save(tmp_path / "run.manifest")
    with Loader(manifest, transforms=gpufeed.presets.evaluate(16), batch_size=2) as loader:
        (tmp_path / "state").write_bytes(loader.get_state())
    command = ["replay", "--state", f"{tmp_path}/state", "--batch-size", "2", "--step", "1"]
    command += ["--out", f"{tmp_path}/sheet.png", "--device", "cpu"]
    assert cli.main([*command, f"{tmp_path}/run.manifest"]) == 0
    assert "Step 1, batch 2 of 2 in epoch 0 (split: all)" in capsys.readouterr().out
    shown = [*gpufeed.presets.evaluate(16)[:-1], ToDtype("uint8", layout="NHWC")]
    with (
        Image.open(tmp_path / "sheet.png") as drawn,
        Loader(manifest, transforms=shown, batch_size=2, device="cpu") as loader,
    ):
        assert sheet_pictures(drawn, loader.batch(1), manifest)
    (tmp_path / "moved").mkdir()
    for shard in tmp_path.glob("*.tar"):
        shard.rename(tmp_path / "moved" / shard.name)
    assert cli.main([*command, f"{tmp_path}/run.manifest", "--root", f"{tmp_path}/moved"]) == 0
    assert "Step 1, batch 2 of 2 in epoch 0 (split: all)" in capsys.readouterr().out
    assert cli.main([*command, f"{tmp_path}/moved/{{000..002}}.tar", "--path", "x"]) == 2
    assert "--path does not apply" in capsys.readouterr().err
    assert cli.main([*command, f"{tmp_path}/moved/{{000..002}}.tar"]) == 2
    said = capsys.readouterr().err
    assert "if its manifest was made of them in Python, the file of manifest.save()" in said


def test_the_ending_of_epochs_is_the_runs(birds: Path) -> None:
    """A batch more an epoch shifts the numbers of all that follow."""
    train = gpufeed.read_nabirds(birds, labels="species").split("train")
    assert len(train) % 8
    chain = [*gpufeed.presets.train(32)[:-1], ToDtype("uint8", layout="NHWC")]
    with Loader(
        train, transforms=chain, batch_size=8, last_batch="partial", device="cpu"
    ) as loader:
        step = len(loader) + 1
        loader.seek(step)
        replayed = replay_batch(
            loader.get_state(), birds, batch_size=8, last_batch="partial", device="cpu"
        )
        assert (replayed.step, replayed.state_step) == (step, step)
        assert sheet_pictures(replayed.shown.sheet, loader.batch(step), train)


def state_of(birds: Path, **options: Any) -> dict[str, Any]:
    train = gpufeed.read_nabirds(birds, labels="species").split("train")
    loader = Loader(train, batch_size=8, device="cpu", **options)
    return loader.state_dict()


def test_the_command(birds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state.json"
    state.write_text(json.dumps(state_of(birds, transforms=gpufeed.presets.train(32))))
    out = tmp_path / "sheet.png"
    command = ["replay", str(birds), "--state", str(state), "--out", str(out)]
    assert cli.main([*command, "--batch-size", "8", "--step", "6", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert "Step 6, batch 3 of 4 in epoch 1 (split: train); the state is before step 0" in printed
    with Image.open(out) as sheet:
        assert sheet.format == "PNG"
    assert cli.main([*command, "--batch-size", "800"]) == 2
    assert "no full batch of 800" in capsys.readouterr().err
    command[3] = str(tmp_path / "none.json")
    assert cli.main(command) == 2
    assert "none.json: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"manifest": "0" * 64}, "the state was saved with a manifest whose fingerprint is 0000"),
        ({"sampler": '{"kind":"Own"}'}, "the sampler Own is not one of gpufeed's; use loader"),
        ({"transforms": '[{"kind":"Own"}]'}, "the transform Own is not one of gpufeed's; use load"),
        ({"transforms": '[{"kind":"Resize","side":3}]'}, "Resize cannot be rebuilt .*'side'"),
        ({"transforms": '[{"kind":"Resize","size":0}]'}, "Resize cannot be rebuilt .*: size is 0"),
        (
            {"transforms": '[{"kind":"Resize","size":3}]'},
            r'transforms\[0\] \(Resize\) cannot be rebuilt .*"size":3} became .*null',
        ),
        ({"transforms": "[3]"}, r"the state's transforms\[0\] has no 'kind'"),
        ({"transforms": "{}"}, "the state's transforms are '{}'; they must be a list"),
        ({"transforms": "("}, "the state's transforms is not valid JSON: Expecting value"),
        ({"transforms": 3}, "'fingerprints' is .*; it must map manifest, sampler, "),
    ],
)
def test_what_can_not_be_replayed_says_why(birds: Path, edit: dict[str, Any], message: str) -> None:
    state = state_of(birds)
    state["fingerprints"] |= edit
    with pytest.raises((StateError, gpufeed.ManifestError), match=message):
        replay_batch(json.dumps(state).encode(), birds, batch_size=8, device="cpu")


def test_what_is_the_runs_own_is_named(birds: Path) -> None:
    """A sampler of another library, a transform of the user's, and a function."""

    class Own(tf.PixelTransform):
        def build(self, image: Any, params: dict[str, Any]) -> Any:  # noqa: ARG002
            return image

    chain = [tf.RandomResizedCrop(8), tf.RandomApply([Own()]), tf.ToDtype("uint8")]
    calls = [tf.RandomResizedCrop(8), tf.Lambda(np.fliplr, name="flip"), tf.ToDtype("uint8")]
    train = gpufeed.read_nabirds(birds, labels="species").split("train")
    theirs = torch.utils.data.RandomSampler(range(len(train)))
    for options, name in (
        ({"sampler": theirs}, "the sampler RecordedSampler is not one of gpufeed"),
        (
            {"transforms": chain},
            r"the transform \S+\.Own is not one of gpufeed's",
        ),
        ({"transforms": calls}, r"states do not contain the function of Lambda\(flip\)"),
    ):
        with warnings.catch_warnings(action="ignore"):  # no other process can resume one of them
            state = json.dumps(state_of(birds, **options)).encode()
        with pytest.raises(StateError, match=f"{name}.*; use loader.batch"):
            replay_batch(state, birds, batch_size=8, device="cpu")


def test_a_manifest_of_the_programs_own_is_replayed(birds: Path) -> None:
    """Put together of others, with what mixes them."""
    whole = gpufeed.read_nabirds(birds)
    both = gpufeed.concat([whole.split("train"), whole.split("test")])
    sampler = gpufeed.MixtureSampler([whole.split("train"), whole.split("test")], (3, 1), seed=5)
    chain = [tf.RandomResizedCrop(24), ToDtype("uint8", layout="NHWC")]
    with Loader(both, sampler=sampler, transforms=chain, batch_size=8, device="cpu") as loader:
        state = loader.get_state()
        replayed = replay_batch(state, both, 2, batch_size=8, device="cpu")
        assert sheet_pictures(replayed.shown.sheet, loader.batch(2), both)
    with pytest.raises(
        gpufeed.ManifestError,
        match=r"made of them .*, the file of manifest\.save",
    ):
        replay_batch(state, birds, 2, batch_size=8, device="cpu")
    with pytest.raises(gpufeed.ManifestError, match="and the state was saved with "):
        replay_batch(state, whole, 2, batch_size=8, device="cpu")


@pytest.mark.parametrize("preset", get_args(Preset))
def test_every_preset_is_rebuilt(pictures: Manifest, preset: Preset) -> None:
    """From the text that a state holds: the same identity, and the same batch."""
    few = gpufeed.presets.dino(32, local_crops=2)
    size = 224 if preset.startswith("course") else 32
    given = few if preset == "dino" else make_transforms(preset, size)
    options: dict[str, Any] = {"batch_size": 4, "device": "cpu"}
    with Loader(pictures, transforms=given, **options) as loader:
        text = loader.state_dict()["fingerprints"]["transforms"]
        wanted = loader.batch(1)["image"]
    with Loader(pictures, transforms=rebuild_transforms(text), **options) as loader:
        assert loader.state_dict()["fingerprints"]["transforms"] == text
        found = loader.batch(1)["image"]
    views = isinstance(given, tf.Views)
    for ours, theirs in zip(found, wanted, strict=True) if views else [(found, wanted)]:
        np.testing.assert_array_equal(ours, theirs)


def test_every_transform_is_rebuilt() -> None:
    """As the gallery has them, of each kind at least one."""
    shown = [each.shown.made for each in examples(64) if each.kind is not tf.Lambda]
    shown += [tf.Normalize(), ToDtype("float16"), tf.SoftLabels(9, 0.1)]
    kinds = {
        each
        for name in tf.__all__
        if isinstance(each := getattr(tf, name), type)
        and issubclass(each, tf.Transform)
        and not inspect.isabstract(each)
    }
    assert kinds - {tf.Transform, tf.Lambda} <= {type(each) for each in shown}
    for each in shown:
        (again,) = rebuild_transforms(encode([each.identity]))
        assert again.identity == each.identity
        assert type(again) is type(each)


def test_another_global_batch_is_named(birds: Path) -> None:
    state = state_of(birds)
    state["records"] = 16
    with pytest.raises(StateError, match="no batch starts after 16 records"):
        replay_batch(json.dumps(state).encode(), birds, batch_size=5, device="cpu")


def test_class_folders_are_found_too(tmp_path: Path) -> None:
    from tests.support.media import jpeg, picture

    for number in range(6):
        folder = tmp_path / f"class {number % 2}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(jpeg(picture(40, 50, number)))
    manifest = gpufeed.read_folder(tmp_path)
    with Loader(manifest, transforms=gpufeed.presets.evaluate(16), batch_size=3) as loader:
        state = loader.get_state()
    replayed = replay_batch(state, tmp_path, 1, batch_size=3, device="cpu")
    assert (replayed.split, replayed.shown.images) == ("all", 3)
