"""Boxes and points: how they are read, where they lie on the images, how they are handed out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from PIL import Image

import gpufeed
from gpufeed import ConfigError, Loader, Manifest, ManifestError, SequentialSampler
from gpufeed import transforms as tf
from gpufeed.transforms.frame import Frame, Warp
from gpufeed.transforms.warp_matrices import affine_matrices
from tests.support.media import picture

UINT8 = tf.ToDtype("uint8", layout="NHWC")


def feed(manifest: Manifest, steps: list[tf.Transform], seed: int = 0, **options: Any) -> Any:
    """One batch of all."""
    with Loader(
        manifest,
        sampler=SequentialSampler(len(manifest), seed=seed),
        transforms=steps,
        batch_size=len(manifest),
        device="cpu",
        num_threads=2,
        **{"targets": ("boxes",), **options},
    ) as loader:
        return loader.batch(0)


# ------------------------------------------------------ targets are where their pixels are

SIZES = [(120, 90), (90, 130), (110, 110), (64, 150)]
POINT = 15
"""Pixels; the side of a point's mark."""


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Black images with a box in red, one in green, and a point in blue."""
    folder = tmp_path_factory.mktemp("marked")
    drawn = np.random.default_rng(3)
    rows = []
    for number, (height, width) in enumerate(SIZES):
        levels = np.zeros((height, width, 3), np.uint8)
        boxes = []
        for channel in range(2):
            w, h = drawn.integers(20, 50, 2)
            x, y = drawn.integers(0, width - w + 1), drawn.integers(0, height - h + 1)
            levels[y : y + h, x : x + w, channel] = 255
            boxes.append([x, y, x + w, y + h])
        x, y = (drawn.integers(POINT, side - POINT) for side in (width, height))
        around = POINT // 2
        levels[y - around : y + around + 1, x - around : x + around + 1, 2] = 255
        name = f"{number}.png"
        Image.fromarray(levels).save(folder / name)
        rows.append((name, boxes, [0, 1], [[x + 0.5, y + 0.5, 1]]))
    table = pl.DataFrame(rows, schema=["path", "where", "what", "points"], orient="row")
    return gpufeed.read_table(
        table, root=folder, label=None, boxes="where", box_labels="what", points="points"
    )


STEPS = st.one_of(
    st.builds(tf.RandomResizedCrop, st.integers(50, 90), scale=st.just((0.4, 1.0))),
    st.builds(tf.Resize, st.integers(50, 90)),
    st.builds(tf.Resize, st.tuples(st.integers(50, 90), st.integers(50, 90))),
    st.builds(tf.ResizeLongest, st.integers(60, 90)),
    st.builds(tf.CenterCrop, st.integers(40, 130)),
    st.builds(tf.RandomCrop, st.integers(40, 90), st.integers(0, 9), st.just(True)),
    st.builds(tf.Pad, st.tuples(*[st.integers(0, 9)] * 4)),
    st.builds(tf.RandomHorizontalFlip),
    st.builds(tf.RandomVerticalFlip),
    st.builds(tf.RandomResize, st.integers(40, 60), st.integers(61, 90)),
    st.builds(tf.RandomShortestSize, st.lists(st.integers(50, 90), min_size=1, max_size=3)),
    st.builds(tf.ScaleJitter, st.tuples(*[st.integers(60, 90)] * 2), st.just((0.8, 1.6))),
    st.builds(tf.RandomZoomOut, side_range=st.just((1.0, 1.4))),
    st.builds(tf.RandomIoUCrop, st.just(0.5)),
)
WARPS = st.one_of(
    st.builds(tf.RandomRotation, st.integers(0, 180), st.sampled_from(["nearest", "bilinear"])),
    st.builds(tf.RandomRotation, st.just(45), st.just("bilinear"), expand=st.just(True)),
    st.builds(
        tf.RandomAffine,
        st.integers(0, 45),
        translate=st.just((0.2, 0.2)),
        scale=st.just((0.8, 1.3)),
        shear=st.just((-10, 10, -10, 10)),
    ),
    st.builds(tf.RandomPerspective, st.sampled_from([0.2, 0.5])),
)
TURNS = (tf.RandomRotation, tf.RandomAffine, tf.RandomPerspective)


@settings(max_examples=60)
@given(st.lists(STEPS | WARPS, min_size=1, max_size=5), st.integers(0, 2**32))
def test_targets_follow_the_pictures(marked: Manifest, steps: list[Any], seed: int) -> None:
    """Boxes and points are found again as the marks that were drawn for them.

    Where an image is turned, a box is the upright one around what it was, and may be larger.
    """
    chain = [*steps, tf.RandomCrop(70, pad_if_needed=True), UINT8]
    batch = feed(marked, chain, seed, targets=("boxes", "points"))
    drops = any(isinstance(step, tf.RandomIoUCrop) for step in steps)
    turned = any(isinstance(step, TURNS) for step in steps)
    for place, image in enumerate(batch["image"]):
        boxes = dict(zip(batch["box_labels"][place].tolist(), batch["boxes"][place], strict=True))
        for channel in range(2):
            found = np.argwhere(image[..., channel] > 127)
            box = boxes.get(channel)
            if box is None:
                assert drops or not len(found) or (np.ptp(found, axis=0) + 1).min() <= 2
                continue
            if (box[2:] - box[:2]).min() < 4 or (turned and not len(found)):
                continue  # too small to reach half of its colour
            ends = np.concatenate([found.min(axis=0)[::-1], found.max(axis=0)[::-1] + 1])
            if turned:
                event("a box is around its mark")
                assert (ends[:2] >= box[:2] - 2).all()
                assert (ends[2:] <= box[2:] + 2).all()
            else:
                event("a box is compared")
                assert np.abs(ends - box).max() <= 2
        (x, y), seen = batch["points"][place, 0], batch["point_visible"][place, 0]
        if not (0 <= x < 70 and 0 <= y < 70):
            assert not seen
            continue
        # Where a mark is cut off beside its point, each resize mixes black in.
        row, column = int(y), int(x)
        around = image[max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2, 2]
        if seen:
            event("a point is compared")
            assert around.max() > 64
        else:
            # It was cut off before, and what came to its place is not its mark.
            event("a hidden point is compared")
            assert around.min() < 192


@pytest.mark.parametrize("expand", [False, True])
def test_a_turned_box_is_the_one_around_it(marked: Manifest, expand: bool) -> None:
    """To the pixels of its corners, which are cut off where half of each is not in it."""
    chain = [tf.CenterCrop((160, 160)), tf.RandomRotation((30, 30), "bilinear", expand=expand)]
    batch = feed(marked, [*chain, UINT8])
    for place, image in enumerate(batch["image"]):
        for box, label in zip(batch["boxes"][place], batch["box_labels"][place], strict=True):
            found = np.argwhere(image[..., label] > 127)
            ends = np.concatenate([found.min(axis=0)[::-1], found.max(axis=0)[::-1] + 1])
            assert np.abs(ends - box).max() <= 1.5


def test_a_box_that_is_gone_does_not_come_back_by_turning() -> None:
    """What is left of it is a line along the edge, which when turned would have an area."""
    frame = Frame.whole(np.array([[100, 100]])).crop(0, 50, 100, 50)
    angle = affine_matrices((25.0, 50.0), angle=30.0).astype(np.float64)
    frame = frame.warp(Warp(angle, np.array([True]), "nearest", (0.0, 0.0, 0.0)))
    for followed in (
        frame,
        frame.pad(9, 9, 9, 9, (1.0, 1.0, 1.0)),
        frame.then().warp(frame.warped),
    ):
        x0, y0, x1, y1 = followed.map_boxes(np.array([[10.0, 20.0, 40.0, 80.0]]))[0]
        assert (x1 - x0) * (y1 - y0) == 0


def test_a_box_is_followed_exactly(marked: Manifest) -> None:
    """Without a resize there is nothing to round."""
    chain = [tf.Pad(7), tf.RandomVerticalFlip(1.0), tf.RandomHorizontalFlip(1.0)]
    chain += [tf.RandomCrop(170, pad_if_needed=True), UINT8]
    batch = feed(marked, chain)
    for place, image in enumerate(batch["image"]):
        for box, label in zip(batch["boxes"][place], batch["box_labels"][place], strict=True):
            found = np.argwhere(image[..., label] > 127)
            ends = [*found.min(axis=0)[::-1], *(found.max(axis=0)[::-1] + 1)]
            assert box.tolist() == ends


def test_what_is_left_of_a_box_has_at_least_a_pixel(tmp_path: Path) -> None:
    """As torchvision's SanitizeBoundingBoxes has it by default."""
    picture(40, 40, 0).save(tmp_path / "a.png")
    boxes = [[0, 0, 11, 40], [0, 0, 10.5, 40], [0, 0, 10, 40], [12, 12, 12.9, 30], [12, 12, 13, 13]]
    table = pl.DataFrame({"path": ["a.png"], "boxes": [boxes]}, strict=False)
    manifest = gpufeed.read_table(table, root=tmp_path, label=None, boxes="boxes")
    batch = feed(manifest, [tf.CenterCrop(20), UINT8])
    assert batch["boxes"][0].tolist() == [[0, 0, 1, 20], [2, 2, 3, 3]]


# ------------------------------------------------------------------------ how they come

ROWS = [
    ("0.png", [[1, 2, 11, 22], [5, 5, 30, 9]], ["dog", "cat"], [[3, 4, 2], [0, 0, 0]]),
    ("1.png", [], [], [[1, 1, 1], [39, 29, 1]]),
    ("2.png", [[0, 0, 40, 30], [2, 3, 4, 5], [10, 10, 20, 20]], ["cat"] * 3, [[9, 9, 1]] * 2),
]
PLAIN = [tf.Resize((30, 40)), UINT8]


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    folder = tmp_path_factory.mktemp("pets")
    for number in range(3):
        picture(30, 40, number).save(folder / f"{number}.png")
    return gpufeed.read_table(
        pl.DataFrame(ROWS, schema=["path", "boxes", "kinds", "points"], orient="row"),
        root=folder,
        label=None,
        boxes="boxes",
        box_labels="kinds",
        points="points",
    )


def test_boxes_come_as_lists(pets: Manifest) -> None:
    assert pets.box_classes == ("cat", "dog")
    batch = feed(pets, PLAIN)
    assert [boxes.tolist() for boxes in batch["boxes"]] == [row[1] for row in ROWS]
    assert [labels.tolist() for labels in batch["box_labels"]] == [[1, 0], [], [0, 0, 0]]
    assert {boxes.shape[1:] for boxes in batch["boxes"]} == {(4,)}
    assert batch["boxes"][0].dtype == np.float32
    assert "points" not in batch


def test_boxes_come_in_two_formats(pets: Manifest) -> None:
    batch = feed(pets, PLAIN, box_format="xywh")
    assert batch["boxes"][0].tolist() == [[1, 2, 10, 20], [5, 5, 25, 4]]


def test_points_come_as_arrays(pets: Manifest) -> None:
    batch = feed(pets, [tf.CenterCrop((30, 30)), UINT8], targets=["points"])
    assert batch["points"].shape == (3, 2, 2)
    assert batch["points"][0, 0].tolist() == [-2, 4]
    assert batch["point_visible"].tolist() == [[False, False], [False, False], [True, True]]
    assert "boxes" not in batch


def test_padded_boxes_have_a_mask(pets: Manifest) -> None:
    batch = feed(pets, PLAIN, collate_fn="pad")
    assert batch["boxes"].shape == (3, 3, 4)
    assert batch["box_valid"].tolist() == [[True, True, False], [False] * 3, [True] * 3]
    assert batch["boxes"][0, :2].tolist() == ROWS[0][1]
    assert not batch["boxes"][~batch["box_valid"]].any()
    assert batch["box_labels"].tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]
    few = feed(pets, PLAIN, collate_fn="pad", max_boxes=1)
    assert few["boxes"][:, 0].tolist() == [ROWS[0][1][0], [0] * 4, ROWS[2][1][0]]
    assert few["box_valid"].tolist() == [[True], [False], [True]]
    assert feed(pets, PLAIN, collate_fn="pad", max_boxes=9)["boxes"].shape == (3, 9, 4)


@pytest.mark.parametrize("collate_fn", [None, "pad"])
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_frameworks_get_their_own_arrays(
    pets: Manifest, framework: str, collate_fn: str | None
) -> None:
    options = {"targets": ("boxes", "points"), "collate_fn": collate_fn}
    plain = feed(pets, PLAIN, **options)
    other = feed(pets, PLAIN, framework=framework, **options)
    assert list(plain) == list(other)
    for name, wanted in plain.items():
        listed = isinstance(wanted, list)
        assert isinstance(other[name], list) == listed
        for one, same in zip(
            wanted if listed else [wanted], other[name] if listed else [other[name]], strict=True
        ):
            assert type(same).__module__.split(".")[0] in (framework, "jaxlib")
            np.testing.assert_array_equal(np.asarray(same), one)
        kind = str(other[name][0].dtype if listed else other[name].dtype)
        if name == "box_labels":
            assert kind == ("torch.int64" if framework == "torch" else "int32")
        if name in ("boxes", "points"):
            assert kind.endswith("float32")


def test_a_function_collates_records(pets: Manifest) -> None:
    seen = []

    def collate(samples: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
        seen.append(samples)
        return [each["image"] for each in samples], [each["boxes"] for each in samples]

    wanted = feed(pets, PLAIN)
    images, boxes = feed(pets, PLAIN, collate_fn=collate)
    np.testing.assert_array_equal(np.stack(images), wanted["image"])
    assert [each.tolist() for each in boxes] == [row[1] for row in ROWS]
    assert set(seen[0][0]) == set(wanted)
    assert [int(each["record_key"]) for each in seen[0]] == [0, 1, 2]


def test_views_have_their_own_targets(pets: Manifest) -> None:
    views = tf.Views([PLAIN, [tf.RandomHorizontalFlip(1.0), *PLAIN]])
    batch = feed(pets, views, targets=("boxes", "points"), last_batch="pad")
    straight, mirrored = batch["boxes"]
    assert straight[0].tolist() == ROWS[0][1]
    assert mirrored[0].tolist() == [[29, 2, 39, 22], [10, 5, 35, 9]]
    assert batch["points"][1][2, 0].tolist() == [31, 9]
    samples = feed(pets, views, collate_fn=list)
    assert [len(each["image"]) for each in samples] == [2, 2, 2]
    assert samples[0]["boxes"][1].tolist() == mirrored[0].tolist()


def test_a_single_box_is_a_list_of_one(pictures: Manifest) -> None:
    """With the label of its image."""
    batch = feed(pictures, [tf.Resize((50, 50)), UINT8])
    x, y, width, height = pictures.boxes().astype(float).T
    by_y, by_x = (50 / pictures.sizes()).T
    wanted = np.stack([x * by_x, y * by_y, (x + width) * by_x, (y + height) * by_y], axis=1)
    np.testing.assert_allclose(np.concatenate(batch["boxes"]), wanted, rtol=1e-6)
    assert np.concatenate(batch["box_labels"]).tolist() == batch["label"].tolist()
    assert pictures.box_classes == pictures.classes


def test_targets_change_neither_pixels_nor_state(pets: Manifest) -> None:
    steps = [tf.RandomIoUCrop(), tf.RandomResizedCrop(16), UINT8]
    options: dict[str, Any] = {"transforms": steps, "batch_size": 2, "device": "cpu"}
    with (
        Loader(pets, ledger="pixels", **options) as plain,
        Loader(
            pets, ledger="pixels", targets=("boxes", "points"), collate_fn="pad", **options
        ) as other,
        Loader(pets, ledger="pixels", targets=("boxes",), collate_fn=list, **options) as third,
    ):
        for one, same, samples in zip(plain, other, third, strict=True):
            assert one["image"].tobytes() == same["image"].tobytes()
            np.testing.assert_array_equal([each["image"] for each in samples], one["image"])
        assert plain.get_state() == other.get_state() == third.get_state()
        other.set_state(plain.get_state())


def test_a_function_that_fails_leaves_the_loader_before_its_batch(pets: Manifest) -> None:
    def broken(samples: list[dict[str, Any]]) -> None:
        raise RuntimeError("no")

    with Loader(pets, transforms=PLAIN, batch_size=2, device="cpu", collate_fn=broken) as loader:
        with pytest.raises(RuntimeError, match="no"):
            next(iter(loader))
        assert loader.step == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"targets": "boxes"},
            'targets is \'boxes\'; it may hold "boxes", "box_points", "points" and inst',
        ),
        ({"targets": ["masks"]}, r"targets is \['masks'\]; it may hold"),
        ({"targets": ["boxes"], "box_format": "cxcywh"}, "box_format is 'cxcywh'; it must be"),
        ({"targets": ["points"], "collate_fn": "pad"}, "which pads boxes; ask for targets="),
        ({"targets": ["boxes"], "collate_fn": "stack"}, "collate_fn is 'stack'; it must be None"),
        ({"targets": ["boxes"], "max_boxes": 3}, 'max_boxes is 3; it goes with collate_fn="pad"'),
        (
            {"targets": ["boxes"], "collate_fn": "pad", "max_boxes": 0},
            "max_boxes is 0; it must be an integer of 1 or more",
        ),
    ],
)
def test_arguments_that_do_not_go_together(
    pets: Manifest, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Loader(pets, transforms=PLAIN, batch_size=2, device="cpu", **options)


@pytest.mark.parametrize("kind", ["boxes", "points"])
def test_targets_that_a_manifest_does_not_have(pictures: Manifest, kind: str) -> None:
    bare = Manifest(
        pictures.frame.select("path", "label", "width", "height"), pictures.root, pictures.classes
    )
    with pytest.raises(ConfigError, match=f'targets has "{kind}", but the manifest has none; '):
        Loader(bare, batch_size=2, device="cpu", targets=[kind])


# ------------------------------------------------------------------------ how they are read


def table(**columns: Any) -> pl.DataFrame:
    sizes = {"path": ["a.jpg", "b.jpg"], "width": [40, 50], "height": [30, 20]}
    return pl.DataFrame({**sizes, **columns}, strict=False)


def read(frame: pl.DataFrame, **options: Any) -> Manifest:
    if "root" not in options:  # headers of two images are all that is read
        options["source"] = gpufeed.MemorySource([b"P4 40 30 ", b"P4 50 20 "])
    return gpufeed.read_table(frame, label=None, **options)


@pytest.mark.parametrize(
    "dtype",
    [
        pl.List(pl.List(pl.Int16)),
        pl.List(pl.List(pl.Float32)),
        pl.List(pl.Array(pl.Float64, 4)),
        pl.List(pl.Array(pl.Int64, 4)),
    ],
)
def test_boxes_of_any_numbers_are_the_same(dtype: pl.DataType) -> None:
    where = [[[1, 2, 3, 4], [5, 6, 7, 8]], []]
    plain = read(table(where=where), boxes="where")
    frame = table(where=pl.Series(where, dtype=dtype))
    assert read(frame, boxes="where").fingerprint() == plain.fingerprint()
    boxes, labels, offsets = plain.objects()
    assert boxes.tolist() == where[0]
    assert (labels.tolist(), offsets.tolist()) == ([0, 0], [0, 2, 2])
    wider = [[[x0, y0, x1 - x0, y1 - y0] for x0, y0, x1, y1 in boxes] for boxes in where]
    same = read(table(where=wider), boxes="where", box_format="xywh")
    assert same.fingerprint() == plain.fingerprint()


def test_boxes_are_cut_and_those_without_area_dropped() -> None:
    where = [[[-3, 2, 9, 40], [5, 5, 5, 9], [1, 1, 2, 2]], [[60, 1, 70, 5]]]
    manifest = read(table(where=where, what=[[7, 8, 9], [5]]), boxes="where", box_labels="what")
    assert manifest.repairs == {"boxes_clamped": 1, "boxes_dropped": 2}
    boxes, labels, offsets = manifest.objects()
    assert boxes.tolist() == [[0, 2, 9, 30], [1, 1, 2, 2]]
    assert (labels.tolist(), offsets.tolist()) == ([7, 9], [0, 2, 2])
    assert manifest.box_classes == ()


def test_no_picture_may_have_a_box() -> None:
    for where in ([None, None], [[], []]):
        manifest = read(table(where=where), boxes="where")
        assert manifest.objects()[0].shape == (0, 4)
        assert manifest.has_objects


def test_a_manifest_of_targets_is_kept_in_a_file(tmp_path: Path, pets: Manifest) -> None:
    pets.frame.write_parquet(tmp_path / "pets.parquet")
    again = read(pl.read_parquet(tmp_path / "pets.parquet"), root=pets.root)
    assert again.fingerprint() == pets.fingerprint()
    assert again.box_classes == pets.box_classes


def test_parts_of_a_manifest_keep_their_targets(pets: Manifest) -> None:
    part = pets.filter(np.array([False, True, True]))
    boxes, labels, offsets = part.objects()
    assert boxes.tolist() == ROWS[2][1]
    assert (labels.tolist(), offsets.tolist()) == ([0, 0, 0], [0, 0, 3])
    assert part.box_classes == pets.box_classes
    assert part.points().shape == (2, 2, 3)
    both = gpufeed.concat([pets, part])
    assert len(both.objects()[0]) == 8
    assert both.points().shape == (5, 2, 3)


def test_targets_that_only_one_manifest_has_are_left_out(pets: Manifest) -> None:
    bare = Manifest(pets.frame.select("path", "width", "height"), pets.root)
    both = gpufeed.concat([pets, bare])
    assert not both.has_objects
    assert not both.has_points


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            {"where": [1, 2]},
            {"boxes": "where"},
            "'where' must contain lists of 4 numbers each, not",
        ),
        ({"where": [[1], [2]]}, {"boxes": "where"}, "'where' must contain lists of 4 numbers each"),
        (
            {"where": [[[1, 2, 3]], []]},
            {"boxes": "where"},
            r"row 0: where contains .* 4 numbers each",
        ),
        (
            {"where": [[], [[3, 1, 2, 2]]]},
            {"boxes": "where"},
            "row 1: where has a box .* which ends",
        ),
        (
            {"where": [[], [[0, 1, float("nan"), 2]]]},
            {"boxes": "where"},
            r"row 1: where contains \[0.0, 1.0, nan, 2.0\]",
        ),
        ({"where": [[], []]}, {"boxes": "there"}, "there is no column 'there'"),
        ({"what": [[], []]}, {"box_labels": "what"}, "box_labels is 'what', but boxes is not"),
        (
            {"where": [[[0, 0, 1, 1]], []], "what": [[1, 2], []]},
            {"boxes": "where", "box_labels": "what"},
            "row 0: what has 2 values for 1 boxes",
        ),
        (
            {"where": [[[0, 0, 1, 1]], []], "what": [[1.5], []]},
            {"boxes": "where", "box_labels": "what"},
            "'what' must contain lists of integers or text, not of Float64",
        ),
        (
            {"where": [[[0, 0, 1, 1]], []], "what": [[-1], []]},
            {"boxes": "where", "box_labels": "what"},
            r"'what' has a label outside \[0, 2",
        ),
        ({"where": [[], []]}, {"boxes": "where", "box_format": "yolo"}, "box_format is 'yolo'"),
        (
            {"dots": [[[1, 2]], [[1, 2], [3, 4]]]},
            {"points": "dots"},
            "there are 2 points, but 1 in the first row",
        ),
        ({"dots": [[[1]], [[1]]]}, {"points": "dots"}, "lists of 2 or 3 numbers each"),
        ({"boxes": ["a", "b"]}, {}, "column 'boxes' must have dtype List.Array.* or rename it"),
        ({"box_labels": [[1], [2]]}, {}, "column 'box_labels' needs a column 'boxes'"),
        ({"label": [1, 2]}, {}, "label is None, but there is a column 'label'"),
    ],
)
def test_wrong_columns_are_named(
    columns: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises((ManifestError, ConfigError), match=message):
        read(table(**columns), **options)


@pytest.mark.parametrize(
    "chain",
    [
        [tf.RandAugment()],
        [tf.RandomApply([tf.RandomInvert(), tf.AugMix()])],
        [tf.RandomChoice([tf.RandomInvert(), tf.TimmRandAugment()])],
        [tf.Normalize(), tf.MixUp()],
    ],
)
def test_what_boxes_can_not_follow_is_refused(
    pictures: Manifest, chain: list[tf.Transform]
) -> None:
    listed = [tf.Resize((20, 20)), *chain]
    options = {"transforms": listed, "batch_size": 4, "device": "cpu"}
    with Loader(pictures, **options) as loader:
        loader.batch(0)
    with pytest.raises(ConfigError, match=f"but {type(chain[-1]).__name__} moves or mixes pixels"):
        Loader(pictures, targets=("boxes",), **options)
    jittered = [tf.Resize((20, 20)), tf.RandomApply([tf.RandomInvert()])]
    Loader(pictures, targets=("boxes",), transforms=jittered, batch_size=4, device="cpu").close()
