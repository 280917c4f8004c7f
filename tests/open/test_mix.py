"""Several decoders in one batch: a record's pixels are those of its own decoder alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nvidia.dali import Pipeline, fn

from gpufeed import Manifest, PipelineError, SequentialSampler, ShardOptions, StateMismatchError
from gpufeed import transforms as tf
from gpufeed._util import dali_build
from gpufeed.engine import engine
from gpufeed.open import choice, graph, host
from gpufeed.open.choice import Choice
from gpufeed.open.graph import GraphDecoders
from gpufeed.open.inputs import declare_images
from gpufeed.tools.check.dataset import check
from tests.support.loaders import make
from tests.support.media import make_manifest

UINT8 = tf.ToDtype("uint8", layout="NHWC")
ONE = [tf.RandomResizedCrop(24), tf.RandomHorizontalFlip(), tf.RandomInvert(0.5), UINT8]
CHAINS: dict[str, Any] = {
    "one": ONE,
    "views": tf.Views([ONE, [tf.Resize(20), tf.CenterCrop(18), tf.Pad(2), UINT8]]),
}
MIX = {"threads": 0.4, "graph": 0.6}


def rows(manifest: Manifest, **options: Any) -> dict[int, bytes]:
    """The pixels of each record, in one epoch of all shards."""
    found = {}
    settings = {"last_batch": "partial", "transforms": ONE, **options}
    for index in range(shards := settings.pop("shards", 1)):
        with make(manifest, shard=ShardOptions(index, shards), **settings) as loader:
            loader.skip(settings.get("batch_size", 8) % 2)  # as if it were resumed
            for batch in loader:
                images = batch["image"] if isinstance(batch["image"], list) else [batch["image"]]
                for place, key in enumerate(batch["record_key"].tolist()):
                    found[key] = b"".join(image[place].tobytes() for image in images)
    return found


def kinds_of(manifest: Manifest, shares: Any) -> list[str]:
    sizes = manifest.sizes().astype(np.int64)
    return [*Choice(shares, manifest).of(np.arange(len(sizes)), sizes)]


@pytest.mark.parametrize("chain", CHAINS)
def test_each_record_is_that_of_its_own_decoder(pictures: Manifest, chain: str) -> None:
    kinds = kinds_of(pictures, MIX)
    assert {*kinds} == {*MIX}
    how: dict[str, Any] = {"transforms": CHAINS[chain]}
    alone = {kind: rows(pictures, opener=kind, **how) for kind in MIX}
    assert alone["threads"] != alone["graph"]
    wanted = {key: alone[kind][key] for key, kind in enumerate(kinds)}
    assert rows(pictures, opener=MIX, **how) == wanted
    # Batches of one decoder alone, of other companions, and the rest of a resumed epoch.
    assert rows(pictures, opener=MIX, batch_size=2, shards=2, **how) == wanted
    resumed = rows(pictures, opener=MIX, batch_size=3, **how)
    assert len(resumed) == 47
    assert resumed.items() <= wanted.items()


@pytest.mark.gpu
def test_each_record_is_that_of_its_own_decoder_on_a_gpu(pictures: Manifest) -> None:
    mix = dict.fromkeys(["threads", "cuda", "cuda_windows", "hardware"], 0.25)
    kinds = kinds_of(pictures, mix)
    alone = {kind: rows(pictures, opener=kind, device="cuda") for kind in mix}
    wanted = {key: alone[kind][key] for key, kind in enumerate(kinds)}
    assert rows(pictures, opener=mix, device="cuda") == wanted
    assert rows(pictures, opener=mix, device="cuda", batch_size=2, shards=2) == wanted


def test_the_same_mix_resumes_and_another_does_not(pictures: Manifest) -> None:
    with make(pictures, opener=MIX) as loader:
        state = loader.state_dict()
        assert state["fingerprints"]["opener"] == '{"graph":0.6,"threads":0.4}'
    with make(pictures, opener=dict(reversed(MIX.items()))) as loader:
        loader.load_state_dict(state)
    with (
        make(pictures, opener={"threads": 0.5, "graph": 0.5}) as loader,
        pytest.raises(
            StateMismatchError, match=r'opener was .*"graph":0.6.*, is .*ignore=\(\'opener\',\)'
        ),
    ):
        loader.load_state_dict(state)


def test_large_images_are_opened_by_threads(
    pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = {kind: rows(pictures, opener=kind) for kind in MIX}
    monkeypatch.setattr(choice, "LARGE", 9000)
    nearly_all = {"threads": 1e-9, "graph": 1 - 1e-9}
    large = pictures.sizes().prod(axis=1) > 9000
    kinds = kinds_of(pictures, nearly_all)
    assert kinds == ["threads" if each else "graph" for each in large]
    assert 5 < large.sum() < 45
    wanted = {key: alone[kind][key] for key, kind in enumerate(kinds)}
    assert rows(pictures, opener=nearly_all) == wanted


def test_a_whole_image_that_is_cut_is_its_window(
    pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = rows(pictures, opener="graph")
    monkeypatch.setattr(graph, "WHOLE", {"graph"})
    assert rows(pictures, opener="graph") == wanted


@pytest.fixture
def cut(tmp_path: Path) -> Manifest:
    """Twelve images, of which 5 and 9 lack their last tenth."""
    manifest = make_manifest(tmp_path, [(90, 100)] * 12)
    damage(tmp_path)
    return manifest


def damage(folder: Path) -> None:
    for key in (5, 9):
        path = folder / f"{key:05}.jpg"
        content = path.read_bytes()
        path.write_bytes(content[: len(content) * 9 // 10])


def bad(manifest: Manifest, **options: Any) -> set[int]:
    sampler = SequentialSampler(len(manifest))
    whole = [tf.Resize((20, 20)), UINT8]
    settings = {"on_error": "blank", "max_failures": 1.0, "transforms": whole, **options}
    with make(manifest, sampler=sampler, batch_size=12, prefetch=1, **settings) as loader:
        assert loader.batch(0)["valid"].sum() == 12 - len(loader.quarantine)
        return {failure.record_key for failure in loader.quarantine}


@pytest.mark.parametrize("opener", ["graph", MIX, {"threads": 0.9, "graph": 0.1}], ids=str)
def test_bad_images_are_found_wherever_they_are_decoded(cut: Manifest, opener: Any) -> None:
    assert bad(cut, opener=opener) == {5, 9}


@pytest.mark.parametrize("batch_size", [4, 12])
def test_the_companions_of_bad_images_do_not_change(tmp_path: Path, batch_size: int) -> None:
    manifest = make_manifest(tmp_path, [(90, 100)] * 12)
    how: dict[str, Any] = {"transforms": [tf.Resize(20), tf.RandomCrop(16), UINT8], "opener": MIX}
    wanted = rows(manifest, **how)
    damage(tmp_path)
    found = rows(manifest, batch_size=batch_size, on_error="blank", max_failures=2, **how)
    assert {key for key in found if found[key] != wanted[key]} == {5, 9}


def test_what_is_decoded_whole_is_bad_whole(cut: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its window lies above the cut."""
    middle: dict[str, Any] = {"opener": "graph", "transforms": [tf.CenterCrop(8), UINT8]}
    assert bad(cut, **middle) == set()
    for module in (graph, host):
        monkeypatch.setattr(module, "WHOLE", {"graph"})
    assert bad(cut, **middle) == {5, 9}


@pytest.mark.parametrize("opener", ["threads", "graph"])
def test_only_a_check_finds_a_cut_below_the_crop(cut: Manifest, opener: str) -> None:
    assert bad(cut, opener=opener, transforms=[tf.CenterCrop(8), UINT8]) == set()
    assert bad(cut, opener=opener, transforms=[tf.CenterCrop((90, 8)), UINT8]) == {5, 9}
    found = check(cut.frame, cut.root, max_pixels=1 << 27, progress=False).findings
    assert set(found["path"]) == {"00005.jpg", "00009.jpg"}


@pytest.mark.parametrize(
    ("message", "count"),
    [
        (None, 1 + 7),
        ("Failed to decode sample #0", 1 + 12),
        ("Failed to decode sample #99", 12),
        ("nvImageCodec failure", 12),
    ],
)
def test_the_search_for_bad_images_begins_where_dali_says(
    cut: Manifest,
    decoded: list[bytes],
    monkeypatch: pytest.MonkeyPatch,
    message: str | None,
    count: int,
) -> None:
    """It looks at all images if DALI names none, or one that is sound."""
    if message is not None:
        monkeypatch.setattr(engine, "brief", lambda _: message)
    assert bad(cut, opener="graph") == {5, 9}
    assert len(decoded) == count


# What is written down for a GPU, on a machine without one.


@pytest.mark.parametrize(
    ("kind", "operator", "load", "smooth"),
    [
        ("cuda", "image", 0.0, True),
        ("cuda_windows", "image_slice", 0.0, False),
        ("hardware", "image", 1.0, True),
    ],
)
def test_each_kind_has_its_operator(
    pictures: Manifest,
    monkeypatch: pytest.MonkeyPatch,
    kind: Any,
    operator: str,
    load: float,
    smooth: bool,
) -> None:
    """Whatever build of DALI is installed: windows crash with some."""
    versions = {"nvidia-dali-cuda130": "2.4.0", "nvidia-nvjpeg": "13.3.2.43"}
    monkeypatch.setattr(dali_build, "version_of", versions.get)
    written = write(pictures, monkeypatch, GraphDecoders([kind], with_threads=False, largest=1000))
    how = {"hw_decoder_load": load, "jpeg_fancy_upsampling": smooth, "device": "mixed"}
    how["affine"] = False
    ((found, given),) = written
    assert found == operator
    assert how.items() <= given.items()
    assert given["device_memory_padding"] == 6000
    assert given["host_memory_padding"] == 4000


def test_all_kinds_fit_in_one_graph(pictures: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: Any = ["cuda", "cuda_windows", "hardware"]
    decoders = GraphDecoders(kinds, with_threads=True, largest=1 << 24)
    written = write(pictures, monkeypatch, decoders)
    assert sorted(name for name, _ in written) == ["image", "image", "image_slice"]
    assert {given["device_memory_padding"] for _, given in written} == {1 << 24}


def write(manifest: Manifest, patch: pytest.MonkeyPatch, decoders: GraphDecoders) -> list[Any]:
    """Return the decoders in a graph for a GPU, and check that its images end there."""
    written: list[Any] = []

    def record(name: str) -> None:
        add = getattr(fn.decoders, name)
        patch.setattr(
            fn.decoders,
            name,
            lambda *given, **how: written.append((name, how)) or add(*given, **how),
        )

    record("image")
    record("image_slice")
    with make(manifest) as loader:
        stages = loader._planner.stages
    with Pipeline(batch_size=8, num_threads=1, device_id=0):
        (image,) = decoders.build(stages, [declare_images("images 0", "HWC")])
        assert image.device == "gpu"
    return written


def test_two_builds_of_dali_are_refused(
    pictures: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dali_build, "version_of", lambda _: "2.4.0")
    message = (
        "nvidia-dali-cuda120 and nvidia-dali-cuda130 are both installed, and each overwrites the "
        "other's files; run `pip uninstall -y nvidia-dali-cuda{120,130} "
    )
    with pytest.raises(PipelineError, match=re.escape(message)):
        make(pictures)
