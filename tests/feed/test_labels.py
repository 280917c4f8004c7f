"""Labels of every kind come with the images, and are mixed, replaced and divided with them."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

import gpufeed
from gpufeed import ConfigError, CutMix, Loader, Manifest, MixUp, SequentialSampler, SoftLabels
from gpufeed.sheets.sheet import captions_of

COUNT, SIDE = 6, 16
CLASSES = ["red", "green", "blue"]
TAGS = [["red"], ["green", "blue"], [], ["blue"], ["red", "green", "blue"], ["green"]]
HOT = np.array([[name in tags for name in CLASSES] for tags in TAGS], np.float32)
SHARES = np.array([[0.5, 0.5, 0], [0.25, 0, 0.75], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0, 0.5]])
AGES = [0.5, 3, -1, 1e4, 0, 7.25]
LEVEL = 240

KINDS: dict[str, tuple[Any, dict[str, Any], Any, type]] = {
    "class": (["x", "y"] * 3, {}, np.array([0, 1] * 3), np.int32),
    "several": (TAGS, {"classes": CLASSES}, HOT, np.float32),
    "number": (AGES, {}, np.array(AGES), np.float32),
    "vector": (SHARES.tolist(), {"classes": CLASSES}, SHARES, np.float32),
    "hot": (HOT.astype(bool), {}, HOT, np.float32),
}
"""By kind: a column, how to read it, and the labels that batches have."""


def encoded(color: Any = (9, 9, 9)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (SIDE, SIDE), tuple(color)).save(buffer, "PNG")
    return buffer.getvalue()


def read(column: Any, images: list[bytes] | None = None, **options: Any) -> Manifest:
    source = gpufeed.MemorySource(images or [encoded()] * len(column))
    table = pl.DataFrame({"target": column, "width": SIDE, "height": SIDE})
    return gpufeed.read_table(table, label="target", source=source, **options)


def feed(manifest: Manifest, *steps: Any, **options: Any) -> dict[str, Any]:
    settled = {"sampler": SequentialSampler(len(manifest)), "batch_size": len(manifest)}
    transforms = [gpufeed.ToDtype("float32"), *steps]
    with Loader(manifest, transforms=transforms, device="cpu", **(settled | options)) as loader:
        return loader.batch(0)


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_comes_as_losses_take_it(kind: str, framework: str) -> None:
    column, options, wanted, dtype = KINDS[kind]
    batch = feed(read(column, **options), MixUp(), framework=framework)
    wanted = wanted.astype(dtype)
    found = np.asarray(batch["label"])
    assert type(batch["label"]) is type(batch["lam"])
    assert found.dtype == (np.int64 if (kind, framework) == ("class", "torch") else dtype)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.asarray(batch["label_b"]), wanted[[1, 0, 3, 2, 5, 4]])


def test_without_labels_there_are_none() -> None:
    table = {"width": [SIDE] * COUNT, "height": [SIDE] * COUNT}
    source = gpufeed.MemorySource([encoded()] * COUNT)
    manifest = gpufeed.read_table(table, label=None, source=source)
    assert manifest.classes == ()
    assert "label" not in manifest.frame.columns
    assert list(feed(manifest, MixUp())) == ["image", "record_key", "epoch", "lam"]
    assert len(manifest.random_split([0.5, 0.5])) == 2
    with pytest.raises(ConfigError, match="SoftLabels is in transforms, but the manifest has no l"):
        feed(manifest, SoftLabels(3))


# ---------------------------------------------------------------------------- mixed and smoothed


@pytest.mark.parametrize("mix", [MixUp(group=3), MixUp(0.3, p=0.5), CutMix(), CutMix(group=6)])
@pytest.mark.parametrize("kind", ["several", "vector"])
def test_labels_are_mixed_as_images_are(kind: str, mix: Any) -> None:
    """Each image has the colour that its label says, so the mixed colour says the mixed label."""
    column, options, wanted, _ = KINDS[kind]
    images = [encoded(np.rint(LEVEL * each).astype(int)) for each in wanted]
    batch = feed(read(column, images, **options), mix, SoftLabels(3))
    colour = batch["image"].mean(axis=(2, 3)) / LEVEL
    np.testing.assert_allclose(colour, batch["soft_label"], atol=1e-5)
    assert (batch["lam"] < 1).any()
    if isinstance(mix, MixUp):
        assert not np.isin(batch["soft_label"], wanted).all()


def timm(first: Any, second: Any, lam: Any, smoothing: float) -> Any:
    """timm.data.mixup: `one_hot` with an off value, and `mixup_target`; lam for each record."""
    off = smoothing / first.shape[1]
    on = 1.0 - smoothing + off
    first, second = (np.where(each > 0, on, off) for each in (first, second))
    return first * lam[:, None] + second * (1.0 - lam[:, None])


def torchvision(first: Any, second: Any, lam: Any) -> Any:
    """torchvision.transforms.v2.MixUp: label.roll(1, 0).mul(1 - lam).add(label.mul(lam))."""
    return second * (1.0 - lam[:, None]) + first * lam[:, None]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["class", "several"])
def test_soft_labels_are_those_of_timm_and_torchvision(kind: str, smoothing: float) -> None:
    column, options, wanted, _ = KINDS[kind]
    hot = np.eye(3)[wanted] if kind == "class" else wanted
    batch = feed(read(column, **options), MixUp(), SoftLabels(3, smoothing))
    other, lam = hot[[1, 0, 3, 2, 5, 4]], batch["lam"]
    np.testing.assert_allclose(batch["soft_label"], timm(hot, other, lam, smoothing), atol=1e-6)
    if not smoothing:
        np.testing.assert_allclose(batch["soft_label"], torchvision(hot, other, lam), atol=1e-6)


def test_soft_labels_of_what_has_no_classes() -> None:
    with pytest.raises(ConfigError, match="labels are single numbers, but SoftLabels has num_clas"):
        feed(read(AGES), SoftLabels(3))
    with pytest.raises(ConfigError, match="labels are vectors of 3, but SoftLabels has num_classe"):
        feed(read(SHARES.tolist()), SoftLabels(4))


# ------------------------------------------------------------- bad images, padding and samplers


@pytest.mark.parametrize("kind", KINDS)
def test_a_substitute_and_a_blank_have_labels_of_their_own(kind: str) -> None:
    column, options, wanted, _ = KINDS[kind]
    images = [encoded() if row else b"no image" for row in range(COUNT)]
    manifest = read(column, images, on_bad_image="drop", **options)
    common = {"max_failures": 6, "last_batch": "pad", "batch_size": 8}
    batch = feed(manifest, on_error="substitute", **common)
    key = batch["record_key"][0]
    assert key > 0
    np.testing.assert_array_equal(batch["label"][:COUNT], wanted[batch["record_key"][:COUNT]])
    if kind == "class":
        assert wanted[key] == wanted[0]
    batch = feed(manifest, on_error="blank", **common)
    np.testing.assert_array_equal(batch["label"][:COUNT], wanted)
    assert batch["valid"].tolist() == [False, *[True] * 5, False, False]


@pytest.mark.parametrize("kind", KINDS)
def test_only_one_class_each_is_balanced_and_stratified(kind: str) -> None:
    column, options, _, _ = KINDS[kind]
    manifest = read(column, **options)
    labels = manifest.frame["label"]
    assert sum(map(len, manifest.random_split([0.5, 0.5]))) == COUNT
    assert len(manifest.k_fold(3, fold=0)[1]) == 2
    if kind == "class":
        halves = manifest.random_split([2, 4], stratify=True)
        assert [half.frame["label"].sort().to_list() for half in halves] == [[0, 1], [0, 0, 1, 1]]
        return
    with pytest.raises(ConfigError, match="stratify is True, but images do not have one class"):
        manifest.random_split([0.5, 0.5], stratify=True)
    for balance in (
        lambda: gpufeed.balanced_weights(labels),
        lambda: gpufeed.ClassBalancedBatchSampler(labels, classes_per_batch=2, records_per_class=1),
    ):
        with pytest.raises(ConfigError, match="they must be integers"):
            balance()


# -------------------------------------------------------------------------- in the manifest


@pytest.mark.parametrize("kind", KINDS)
def test_manifests_keep_them(kind: str) -> None:
    column, options, wanted, _ = KINDS[kind]
    manifest = read(column, **options)
    for same in (pickle.loads(pickle.dumps(manifest)), manifest[:]):  # noqa: S301
        assert same.fingerprint() == manifest.fingerprint()
    part = manifest.filter(pl.int_range(COUNT) % 2 == 1)
    np.testing.assert_array_equal(feed(part)["label"], wanted[1::2].astype(np.float32))
    both = gpufeed.concat([part, manifest])
    assert both.classes == manifest.classes
    together = np.concatenate([wanted[1::2], wanted]).astype(np.float32)
    np.testing.assert_array_equal(feed(both)["label"], together)


def test_classes_of_several_manifests_are_renumbered() -> None:
    """Where images have several classes too."""
    both = gpufeed.concat([read([["b"], []]), read([["a"], ["a", "b"]])])
    assert both.classes == ("b", "a")
    assert feed(both)["label"].tolist() == [[1, 0], [0, 0], [0, 1], [1, 1]]
    single = read(pl.Series([[0.5, 2]], dtype=pl.Array(pl.Float32, 2)))
    both = gpufeed.concat([single, read([[0.1, 1.0]])])
    assert both.frame.schema["label"] == pl.Array(pl.Float64, 2)
    assert feed(both)["label"].tolist() == [[0.5, 2], [np.float32(0.1), 1]]
    for others, said in (
        ([read([[0.5]]), read([0.5])], r"different kinds, Array\(Float64, .*, Float64; read all"),
        ([single, read([[0.5]])], "labels of different kinds, Array"),
        ([read(["a"]), read([1.5])], "labels of different kinds, Float64, Int32; read all of them"),
        (
            [read([[0.5]], classes=["a"]), read([[0.5]])],
            r"differ in classes: \('a',\) and \('0',\)",
        ),
    ):
        with pytest.raises(gpufeed.ManifestError, match=said):
            gpufeed.concat(others)


@pytest.mark.parametrize(
    ("kind", "titles"),
    [
        ("class", ["x", "y"]),
        ("several", ["red", "green, blue", "none"]),
        ("number", ["0.5", "3", "-1"]),
        ("vector", ["red: 0.5, green: 0.5, blue: 0", "red: 0.25, green: 0, blue: 0.75"]),
    ],
)
def test_people_read_their_names(kind: str, titles: list[str]) -> None:
    column, options, _, _ = KINDS[kind]
    manifest = read(column, **options)
    shown = [each.title for each in captions_of(manifest, manifest.frame)]
    assert shown[: len(titles)] == titles
    said = "0 ('x')" if kind == "class" else titles[0]
    assert repr(manifest[0]) == f"<Record 0: '0', 16 x 16, label {said}>"


# --------------------------------------------------------------------------- how they are read


@pytest.mark.parametrize(
    ("column", "options", "classes"),
    [
        (["1.5", "2", "1e3"], {}, ()),
        (["1.5", "2", "1e3"], {"classes": "renumber"}, ("1.5", "1e3", "2")),
        (["1", "2", "1"], {}, ("0", "1", "2")),
    ],
)
def test_numbers_in_text_files(
    tmp_path: Any, column: list[str], options: Any, classes: tuple[str, ...]
) -> None:
    file = tmp_path / "table.csv"
    table = {"label": column, "width": [SIDE] * 3, "height": [SIDE] * 3}
    pl.DataFrame(table).write_csv(file)
    source = gpufeed.MemorySource([encoded()] * 3)
    manifest = gpufeed.read_table(file, source=source, **options)
    assert manifest.classes == classes
    if not classes:
        assert feed(manifest)["label"].tolist() == [1.5, 2, 1000]


def test_classes_of_lists() -> None:
    assert read([["b", "a"], ["c"]]).classes == ("a", "b", "c")
    assert read([[2, 0], []]).classes == ("0", "1", "2")
    assert feed(read([[7], [9, 7]], classes="renumber"))["label"].tolist() == [[1, 0], [1, 1]]
    enum = pl.Series([["b"], []], dtype=pl.List(pl.Enum(["b", "a"])))
    assert read(enum).classes == ("b", "a")
    assert feed(read([[], []], classes=CLASSES))["label"].tolist() == [[0] * 3] * 2
    train = read(TAGS)
    assert read([["red"]], classes=train).frame["label"].to_list() == [[2]]


@pytest.mark.parametrize(
    ("column", "options", "wanted"),
    [
        ([[1, 0], [0, 1], [0, 0]], {}, [[1, 0], [0, 1], [0, 0]]),
        ([[1, 0, 0], [0, 1, 0]], {"classes": CLASSES}, [[1, 0, 0], [0, 1, 0]]),
        # Class numbers, since vectors have another length, or as is said.
        ([[1, 0], [0, 1]], {"classes": CLASSES}, [[1, 1, 0], [1, 1, 0]]),
        ([[1, 0], [0, 1]], {"classes": "renumber"}, [[1, 1], [1, 1]]),
        ([[1], [0]], {}, [[0, 1], [1, 0]]),
        ([[1, 0], [0]], {}, [[1, 1], [1, 0]]),
        (pl.Series([[1, 0], [0, 1]]).cast(pl.List(pl.Boolean)), {}, [[1, 0], [0, 1]]),
    ],
)
def test_lists_of_0_and_1(column: Any, options: Any, wanted: Any) -> None:
    assert feed(read(column, **options))["label"].tolist() == wanted


@pytest.mark.parametrize(
    ("column", "options", "said"),
    [
        ([["a"], None], {}, "row 1: target is missing"),
        ([["a"], [None]], {}, "row 1: target is missing"),
        ([["a"], ["b", "b"]], {}, "row 1: target lists 'b' more than once; list each class of"),
        ([[2, 0, 0], [0, 1, 0]], {}, "row 0: target lists 0 more than once"),
        ([[0, 1], [1]] * 2 + [[0, 0]], {}, "row 4: target lists 0 more than once"),
        ([[0, 0], [1, None]], {}, "row 0: target lists 0 more than once|row 1: target is missing"),
        ([[1, 0], [0, 1]], {}, r"target' are \[0, 1\] or \[1, 0\], .* cast .* pass classes="),
        ([[1, 0], [0, 1]], {"classes": ["a", "b"]}, "may be the numbers of two classes or a 0"),
        ([[1, 0], [0, 0]], {"classes": CLASSES}, "vectors of 2 numbers, but there are 3 classes"),
        ([["a"], ["x"]], {"classes": ["a"]}, "1 label is not among the 1 classes given: 'x'"),
        ([[], []], {}, "all lists of column 'target' are empty, so that the classes are unknown"),
        ([[0.5, 1], [1.5]], {}, "row 1: target has 1 numbers, but 2 in the first row"),
        ([[0.5], [None]], {}, "label is .*; numbers must be finite as float32"),
        ([0.5, float("nan")], {}, "row 1: target is NaN; give each image a label"),
        ([0.5, float("inf")], {}, "label is inf; numbers must be finite as float32"),
        ([0.5, 1e39], {}, "numbers must be finite as float32"),
        ([0.5, 1], {"classes": ["a"]}, "contains Float64 numbers, which have no classes"),
        ([[0.5, 1]], {"classes": ["a"]}, "vectors of 2 numbers, but there are 1 classes"),
        ([{"a": 1}], {}, "must contain integers, text, booleans, floats, or lists of them, not St"),
    ],
)
def test_what_is_refused(column: Any, options: Any, said: str) -> None:
    with pytest.raises(gpufeed.ManifestError, match=said):
        read(column, **options)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([[0, 3]], r"label 3 is not in \[0, 3\), the range of the classes"),
        ([[0, None]], r"label None is not in \[0, 3\)"),
        (
            pl.Series([[1, 2]], dtype=pl.Array(pl.Float64, 2)),
            "vectors of 2 numbers, but there are 3",
        ),
        ([[0.5, 1, 2]], "column 'label' must have dtype Int32, List"),
    ],
)
def test_what_a_manifest_refuses(labels: Any, said: str) -> None:
    frame = pl.DataFrame({"path": ["0"], "width": [SIDE], "height": [SIDE], "label": labels})
    with pytest.raises(gpufeed.ManifestError, match=said):
        Manifest(frame, gpufeed.MemorySource([encoded()]), CLASSES)
