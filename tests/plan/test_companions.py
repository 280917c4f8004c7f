"""What goes with boxes and points: points and values of each box, and pairs that a flip swaps."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

import gpufeed
from gpufeed import ConfigError, Loader, Manifest, ManifestError, SequentialSampler
from gpufeed import transforms as tf

WIDTH, HEIGHT, COUNT = 60, 40, 12
UINT8 = tf.ToDtype("uint8", layout="NHWC")


def images() -> gpufeed.MemorySource:
    buffer = io.BytesIO()
    Image.new("RGB", (WIDTH, HEIGHT)).save(buffer, "PNG")
    return gpufeed.MemorySource([buffer.getvalue()] * COUNT)


def feed(manifest: Manifest, steps: Any, seed: int = 0, **options: Any) -> Any:
    with Loader(
        manifest,
        sampler=SequentialSampler(len(manifest), seed=seed),
        transforms=steps,
        batch_size=len(manifest),
        device="cpu",
        **options,
    ) as loader:
        return loader.batch(0)


@pytest.fixture(scope="module")
def crowd() -> Manifest:
    """Images with 0 to 4 boxes, the corners of each, and numbers that tell them apart."""
    drawn = np.random.default_rng(1)
    rows = []
    for record in range(COUNT):
        start = drawn.uniform(0, 1, (record % 5, 2)) * (WIDTH - 12, HEIGHT - 12)
        boxes = np.concatenate([start, start + drawn.uniform(4, 12, start.shape)], axis=1)
        corners = boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2)
        number = 10 * record + np.arange(len(boxes))
        rows.append((boxes.tolist(), corners.tolist(), number.tolist(), (number / 2).tolist()))
    table = pl.DataFrame(rows, schema=["where", "corners", "number", "score"], orient="row")
    return gpufeed.read_table(
        table.with_columns(crowded=pl.col("number").list.eval(pl.element() % 2 == 0)),
        source=images(),
        label=None,
        boxes="where",
        box_points="corners",
        box_columns=["number", "score", "crowded"],
    )


ASKED = {"targets": ("boxes", "box_points"), "box_columns": ["number", "score", "crowded"]}
CROPS = [
    [tf.RandomResizedCrop(30, scale=(0.2, 0.9)), tf.RandomHorizontalFlip()],
    [tf.RandomIoUCrop(), tf.Resize((30, 50)), tf.RandomVerticalFlip()],
    [tf.RandomZoomOut(), tf.RandomCrop(32, pad_if_needed=True)],
]


@pytest.mark.parametrize("steps", CROPS)
def test_all_of_a_box_stays_together(crowd: Manifest, steps: list[Any]) -> None:
    """The box around a box's corners, cut to the image, is that box."""
    batch = feed(crowd, [*steps, UINT8], **ASKED)
    side = np.array(batch["image"].shape[2:0:-1])
    left = 0
    for record in range(COUNT):
        boxes, corners = batch["boxes"][record], batch["box_points"][record]
        number = batch["number"][record]
        around = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
        np.testing.assert_allclose(np.clip(around, 0, np.tile(side, 2)), boxes, atol=1e-4)
        inside = ((corners >= 0) & (corners < side)).all(axis=-1)
        np.testing.assert_array_equal(batch["box_point_visible"][record], inside)
        assert set(number.tolist()) <= set(range(10 * record, 10 * record + record % 5))
        np.testing.assert_array_equal(batch["score"][record], number / 2)
        np.testing.assert_array_equal(batch["crowded"][record], number % 2 == 0)
        left += len(boxes)
    assert 0 < left < len(crowd.objects()[0])


@pytest.mark.parametrize("steps", [*CROPS, [tf.RandomRotation(40), tf.RandomPerspective(0.3)]])
def test_points_of_boxes_follow_as_points_of_images(steps: list[Any]) -> None:
    places = np.random.default_rng(2).uniform(0, 40, (COUNT, 5, 2)).round(1)
    seen = np.arange(COUNT * 5).reshape(COUNT, 5, 1) % 3 > 0
    table = pl.DataFrame({"points": np.concatenate([places, seen], axis=2).tolist()})
    table = table.with_columns(mine=pl.concat_list(pl.col("points").implode().over(pl.row_index())))
    manifest = gpufeed.read_table(
        table, source=images(), label=None, points="points", box_points="mine"
    )
    steps = [*steps, UINT8]
    batch = feed(manifest, steps, targets=("boxes", "box_points", "points"), flip_pairs=[(4, 1)])
    compared = 0
    for record in range(COUNT):
        for name, own in (("box_points", "points"), ("box_point_visible", "point_visible")):
            for found in batch[name][record]:
                np.testing.assert_array_equal(found, batch[own][record])
                compared += 1
    assert compared > COUNT


def test_they_come_padded_in_every_framework_and_view(crowd: Manifest) -> None:
    views = tf.Views([[UINT8], [tf.CenterCrop(30), UINT8]])
    plain = feed(crowd, views, **ASKED)
    names = ["box_points", "box_point_visible", *ASKED["box_columns"], "boxes"]
    for framework in ("numpy", "torch", "jax"):
        padded = feed(crowd, views, framework=framework, collate_fn="pad", max_boxes=3, **ASKED)
        for view in range(2):
            valid = np.asarray(padded["box_valid"][view])
            assert valid.shape == (COUNT, 3)
            for name in names:
                array = np.asarray(padded[name][view])
                wanted = [each[:3] for each in plain[name][view]]
                np.testing.assert_array_equal(array[valid], np.concatenate(wanted))
                assert not array[~valid].any()
    assert sum(map(len, plain["boxes"][1])) < sum(map(len, plain["boxes"][0]))
    for record in feed(crowd, views, collate_fn=list, **ASKED):
        for name in names:
            found = [len(view) for view in record[name]]
            assert found == [len(view) for view in record["boxes"]]


def test_numbers_of_boxes_may_need_int64(crowd: Manifest) -> None:
    """COCO's annotations have such identifiers."""
    frame = crowd.frame.with_columns(number=pl.col("number").list.eval(pl.element() + 2**40))
    options = {"targets": ["boxes"], "box_columns": ["number"]}
    large = Manifest(frame, crowd.source, box_columns=["number"])
    for collate_fn in (None, "pad"):
        batch = feed(large, [UINT8], framework="torch", collate_fn=collate_fn, **options)
        assert int(batch["number"][9][1]) == 2**40 + 91
    with pytest.raises(ConfigError, match=r"column 'number' has 1099511627.*not fit in int32"):
        feed(large, [UINT8], framework="jax", **options)


def test_boxes_that_are_dropped_take_all_with_them() -> None:
    table = {
        "where": [[[1, 1, 9, 9], [70, 1, 80, 9], [2, 2, 8, 8]]] + [[]] * 11,
        "parts": [[[[1, 1]], [[70, 1]], [[2, 2]]]] + [None] * 11,
        "score": [[0.1, 0.2, 0.3]] + [[]] * 11,
    }
    options = {"boxes": "where", "box_points": "parts", "box_columns": ["score"]}
    manifest = gpufeed.read_table(
        pl.DataFrame(table, strict=False), source=images(), label=None, **options
    )
    assert manifest.repairs == {"boxes_clamped": 0, "boxes_dropped": 1}
    assert manifest.frame["score"][0].to_list() == [0.1, 0.3]
    assert manifest.box_points().tolist() == [[[1, 1, 1]], [[2, 2, 1]]]
    again = gpufeed.concat([manifest[:1], manifest[1:]])
    assert again.box_points().shape == (2, 1, 3)


def test_rotated_boxes_need_no_others() -> None:
    diamond = [[[30, 10], [45, 20], [30, 30], [15, 20]]]
    table = pl.DataFrame({"corners": [diamond] * COUNT, "kind": [["car"]] * COUNT})
    manifest = gpufeed.read_table(
        table, source=images(), label=None, box_points="corners", box_labels="kind"
    )
    assert manifest.objects()[0][0].tolist() == [15, 10, 45, 30]
    assert manifest.box_classes == ("car",)
    batch = feed(manifest, [tf.RandomHorizontalFlip(1.0), UINT8], targets=("boxes", "box_points"))
    assert batch["box_points"][0].tolist() == [[[30, 10], [15, 20], [30, 30], [45, 20]]]


# ------------------------------------------------------------------------------- flip pairs

NAMES = ["nose", "left eye", "right eye", "left ear", "right ear"]
PAIRS = [("left eye", "right eye"), ("left ear", 4)]


@pytest.fixture(scope="module")
def faces() -> Manifest:
    drawn = np.random.default_rng(4)
    places = drawn.integers(0, 40, (COUNT, 5, 2)) + 0.5
    points = np.concatenate([places, drawn.integers(0, 2, (COUNT, 5, 1))], axis=2)
    return gpufeed.read_table(
        pl.DataFrame({"face": points.tolist()}),
        source=images(),
        label=None,
        points="face",
        point_names=NAMES,
    )


@pytest.mark.parametrize(
    ("steps", "x", "y"),
    [
        ([tf.RandomHorizontalFlip(1.0)], True, False),
        ([tf.RandomVerticalFlip(1.0)], False, True),
        ([tf.RandomHorizontalFlip(1.0), tf.RandomVerticalFlip(1.0)], True, True),
        ([tf.RandomRotation((180, 180))], True, True),
        ([tf.RandomRotation((180, 180)), tf.RandomHorizontalFlip(1.0)], False, True),
    ],
)
def test_pairs_change_places_in_a_mirrored_image(
    faces: Manifest, steps: list[Any], x: bool, y: bool
) -> None:
    """An image that is turned by 180 degrees is flipped both ways, and not mirrored."""
    points = faces.points()
    wanted = points.copy()
    if x:
        wanted[..., 0] = WIDTH - wanted[..., 0]
    if y:
        wanted[..., 1] = HEIGHT - wanted[..., 1]
    plain = feed(faces, [*steps, UINT8], targets=("points",))
    np.testing.assert_allclose(plain["points"], wanted[..., :2], atol=1e-4)
    if x != y:
        wanted = wanted[:, [0, 2, 1, 4, 3]]
    paired = feed(faces, [*steps, UINT8], targets=("points",), flip_pairs=PAIRS)
    np.testing.assert_allclose(paired["points"], wanted[..., :2], atol=1e-4)
    np.testing.assert_array_equal(paired["point_visible"], wanted[..., 2] > 0)


def test_each_record_swaps_by_its_own_flip(faces: Manifest) -> None:
    steps = [tf.RandomHorizontalFlip(), UINT8]
    plain = feed(faces, steps, targets=("points",))["points"]
    paired = feed(faces, steps, targets=("points",), flip_pairs=PAIRS)["points"]
    flipped = (plain != faces.points()[..., :2]).any(axis=(1, 2))
    assert 0 < flipped.sum() < COUNT
    swapped = np.where(flipped[:, None, None], plain[:, [0, 2, 1, 4, 3]], plain)
    np.testing.assert_array_equal(paired, swapped)


def test_names_of_points_are_kept(faces: Manifest) -> None:
    assert faces.point_names == faces[2:].point_names == tuple(NAMES)
    assert gpufeed.concat([faces, faces]).point_names == tuple(NAMES)
    other = Manifest(faces.frame, faces.source, point_names=NAMES[::-1])
    with pytest.raises(ManifestError, match="the manifests differ in point_names"):
        gpufeed.concat([faces, other])
    with pytest.raises(ManifestError, match="there are 1 point_names for 5 points"):
        Manifest(faces.frame, faces.source, point_names=["nose"])
    without = Manifest(faces.frame.drop("points"), faces.source)
    assert gpufeed.concat([faces, without]).point_names == ()


# ------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"targets": ("points",), "flip_pairs": [("left eye", "left foot")]}, "names of "),
        ({"targets": ("points",), "flip_pairs": [(0, 5)]}, "flip_pairs is .*numbers below 5"),
        ({"targets": ("points",), "flip_pairs": [(1, 2), (2, 3)]}, "each in one pair"),
        ({"targets": ("points",), "flip_pairs": [(1, -1)]}, "each in one pair"),
        ({"targets": ("points",), "flip_pairs": [(1, 2, 3)]}, "each in one pair"),
        ({"flip_pairs": [(1, 2)]}, "flip_pairs needs points in targets"),
        ({"targets": ("box_points",)}, "box_points goes with boxes; ask for"),
        ({"box_columns": ["score"]}, "box_columns goes with boxes; ask for"),
    ],
)
def test_what_a_loader_refuses(faces: Manifest, options: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Loader(faces, batch_size=4, device="cpu", **options)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("score", "box_columns is 'score'; it must be a list of names"),
        (["none"], r"has 'none', but those of the manifest are \['holes', 'score', 'text'\]; pass"),
        (["boxes"], "box_columns has 'boxes', which a batch has already"),
        (["number"], r"pass box_columns=\['number'\] to read_table, or to Manifest, so that it lo"),
        (["text"], "a column of List.String.; it must hold numbers or booleans"),
        (["holes"], "it must hold numbers or booleans, without nulls|nulls"),
    ],
)
def test_columns_that_a_loader_does_not_take_with_boxes(
    crowd: Manifest, names: Any, said: str
) -> None:
    frame = crowd.frame.with_columns(
        text=pl.col("number").cast(pl.List(pl.String)),
        holes=pl.col("number").list.eval(pl.when(pl.element() > 13).then(pl.element())),
    )
    manifest = Manifest(frame, crowd.source, box_columns=["text", "score", "holes"])
    with pytest.raises(ConfigError, match=said):
        feed(manifest, [UINT8], targets=["boxes"], box_columns=names)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none", "box_columns has 'none', which is no column of lists: the columns are"),
        ("width", "box_columns has 'width', which is no column of lists: its dtype is Int32"),
        ("long", r"row 0 \(0\): long does not have one value for each box"),
    ],
)
def test_columns_that_do_not_go_with_boxes(crowd: Manifest, name: str, said: str) -> None:
    frame = crowd.frame.with_columns(long=pl.col("number").list.concat([1]))
    with pytest.raises(ManifestError, match=said):
        Manifest(frame, crowd.source, box_columns=[name])
    bare = frame.drop("boxes", "box_points")
    with pytest.raises(ManifestError, match="box_columns has 'long', but there are no boxes"):
        Manifest(bare, crowd.source, box_columns=["long"])
    with pytest.raises(ConfigError, match="box_columns is 'long'; it must be a list of names"):
        Manifest(frame, crowd.source, box_columns="long")
    # An image may have a single box, and then each list has one value.
    corner = {name: pl.lit(2, pl.Int32) for name in ("box_x", "box_y", "box_width", "box_height")}
    single = bare.with_columns(**corner, one=pl.concat_list("width"))
    assert Manifest(single, crowd.source, box_columns=["one"]).box_columns == ("one",)


def test_manifests_keep_the_columns_of_boxes(crowd: Manifest) -> None:
    columns = ("crowded", "number", "score")
    assert crowd.box_columns == crowd[2:].box_columns == columns
    assert gpufeed.concat([crowd, crowd]).box_columns == columns
    other = Manifest(crowd.frame, crowd.source)
    with pytest.raises(ManifestError, match="the manifests differ in box_columns"):
        gpufeed.concat([crowd, other])
    without = Manifest(crowd.frame.drop("boxes", "box_points"), crowd.source)
    assert gpufeed.concat([crowd, without]).box_columns == ()


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (
            {"p": [[[[1, 2]], [[3, 4], [5, 6]]]]},
            {},
            "row 0: p has a box with 2 points; list the sa",
        ),
        ({"p": [[[]]]}, {}, "row 0: p has a box with 0 points"),
        ({"p": [[[1, 2, 3, 4]]]}, {}, "column 'p' must contain a list of points for each box"),
        ({"p": [[[[1, 2, 3, 4]]]]}, {}, "must contain lists of 2 or 3 numbers each"),
        ({"p": [[[[1, 2]]]], "b": [[]]}, {"boxes": "b"}, "row 0: p has 1 values for 0 boxes"),
        (
            {"p": [[[[1, 2], [9, 9]]]], "s": [[1, 2]]},
            {"box_columns": ["s"]},
            "s has 2 values for 1",
        ),
        ({"p": [[[[1, 2], [9, 9]]]], "s": [[None]]}, {"box_columns": ["s"]}, "there is a null"),
        ({"p": [[[[1, 2], [9, 9]]]], "s": [3]}, {"box_columns": ["s"]}, "must contain lists, not"),
    ],
)
def test_what_read_table_refuses(columns: Any, options: Any, said: str) -> None:
    with pytest.raises(ManifestError, match=said):
        gpufeed.read_table(
            pl.DataFrame(columns, strict=False),
            source=gpufeed.MemorySource([b"P4 40 30 "]),
            label=None,
            box_points="p",
            **options,
        )


def test_a_field_has_a_name_of_its_own(crowd: Manifest) -> None:
    class Score(gpufeed.Field):
        name = "score"

        def bind(self, _: Manifest) -> Any:
            return lambda keys, _: keys

    with pytest.raises(ConfigError, match="box_columns has 'score', the name of a field"):
        feed(crowd, [UINT8], targets=["boxes", Score()], box_columns=["score"])


def test_points_of_boxes_in_a_manifest_are_checked(crowd: Manifest) -> None:
    for changed, said in (
        (pl.col("box_points").list.head(1), "box_points does not have points for each box"),
        (pl.col("boxes").alias("box_points"), "needs a column 'boxes' and dtype List"),
    ):
        with pytest.raises(ManifestError, match=said):
            Manifest(crowd.frame.with_columns(changed), crowd.source)
