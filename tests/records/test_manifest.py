"""A manifest: what it accepts, what it gives, and its fingerprint."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records import Manifest

CLASSES = ("ant", "bee")


def frame(**columns: Any) -> pl.DataFrame:
    base = {
        "path": ["a/1.jpg", "b/2.jpg", "a/3.jpg"],
        "label": [0, 1, 0],
        "width": [40, 30, 20],
        "height": [10, 30, 60],
    }
    return pl.DataFrame({name: values for name, values in (base | columns).items() if values})


def boxes(**columns: Any) -> dict[str, Any]:
    return {
        "box_x": [0, 1, 2],
        "box_y": [0, 1, 2],
        "box_width": [40, 10, 10],
        "box_height": [10, 29, 10],
    } | columns


def manifest(**columns: Any) -> Manifest:
    return Manifest(frame(**columns), "/data", CLASSES)


def test_what_it_gives() -> None:
    made = Manifest(frame(**boxes()), "/data", CLASSES, repairs={"boxes_clamped": 2})
    assert len(made) == 3
    assert made.root == Path("/data")
    assert made.classes == CLASSES
    assert dict(made.repairs) == {"boxes_clamped": 2}
    assert [made.frame.schema[name] for name in ("label", "width", "box_x")] == [pl.Int32] * 3
    assert made.sizes().dtype == np.int32
    assert made.sizes().tolist() == [[10, 40], [30, 30], [60, 20]]
    assert made.boxes().dtype == np.int32
    assert made.boxes().tolist() == [[0, 0, 40, 10], [1, 1, 10, 29], [2, 2, 10, 10]]
    assert made.has_boxes
    assert manifest().boxes() is None
    assert not manifest().has_boxes
    for part in ("3 images", "2 classes", "with boxes", "/data", "'box_x'", "boxes_clamped"):
        assert part in repr(made)


def test_the_root_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Manifest(frame(), "data", CLASSES).root == tmp_path / "data"


def test_it_never_changes() -> None:
    made = manifest()
    before = made.fingerprint()
    made.frame.insert_column(0, pl.Series("new", [1, 2, 3]))
    made.frame[0, "path"] = "z.jpg"
    assert made.frame.equals(manifest().frame)
    assert Manifest(made.frame, made.root, made.classes).fingerprint() == before
    for name, value in (("frame", None), ("classes", ()), ("new", 1)):
        with pytest.raises(AttributeError):
            setattr(made, name, value)
    with pytest.raises(TypeError):
        made.repairs["x"] = 1


def test_it_pickles() -> None:
    made = Manifest(frame(**boxes()), "/data", CLASSES, repairs={"boxes_clamped": 2})
    again = pickle.loads(pickle.dumps(made))  # noqa: S301
    assert again.frame.equals(made.frame)
    assert (again.root, again.classes, again.repairs) == (made.root, made.classes, made.repairs)
    assert again.fingerprint() == made.fingerprint()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"label": None},
            "there is no column 'label'; the columns are ['path', 'width', 'height']",
        ),
        ({"path": [1, 2, 3]}, "column 'path' must have dtype String, not Int64"),
        (
            {"label": [0.0, 1.0, 0.0]},
            "column 'label' contains numbers, but there are 2 classes; numbers have none",
        ),
        (
            {"label": ["a", "b", "a"]},
            "column 'label' must have dtype Int32, List(Int32), Float64 or Array(Float64), not "
            "String; read_table converts text and booleans",
        ),
        ({"path": ["a", None, "c"]}, "row 1 (None): path is null"),
        ({"width": [1, 2, None]}, "row 2 (a/3.jpg): width is null"),
        (
            {"label": [0, 2, 0]},
            "row 1 (b/2.jpg): label 2 is not in [0, 2), the range of the classes",
        ),
        (
            {"label": [0, 0, -1]},
            "row 2 (a/3.jpg): label -1 is not in [0, 2), the range of the classes",
        ),
        ({"width": [0, 1, 1]}, "row 0 (a/1.jpg): width 0 is not a valid size"),
        ({"height": [1, 2**31, 1]}, "row 1 (b/2.jpg): height 2147483648 is not a valid size"),
        (
            {"box_x": [0, 0, 0]},
            "boxes need all of the columns ['box_x', 'box_y', 'box_width', 'box_height']; there "
            "are only ['box_x']",
        ),
        (boxes(box_y=[0, None, 0]), "row 1 (b/2.jpg): box_y is null"),
        (boxes(box_y=[0, -1, 0]), "row 1 (b/2.jpg): box_y -1 is out of range"),
        (
            boxes(box_width=[41, 1, 1]),
            "row 0 (a/1.jpg): the box 0 0 41 10 (x y width height) is empty or not inside the "
            "image of 40x10 pixels",
        ),
        (
            boxes(box_height=[1, 1, 2**31 - 1]),
            "row 2 (a/3.jpg): the box 2 2 10 2147483647 (x y width height) is empty or not inside "
            "the image of 20x60 pixels",
        ),
        (
            boxes(box_width=[1, 0, 1]),
            "row 1 (b/2.jpg): the box 1 1 0 29 (x y width height) is empty or not inside the "
            "image of 30x30 pixels",
        ),
        ({"path": ["a", "", "c"]}, "row 1: the path '' is empty"),
        (
            {"path": ["a", "b", "/etc/x"]},
            "row 2: the path '/etc/x' is absolute; paths must be relative to the root",
        ),
        ({"path": ["a", "../b", "c"]}, "row 1: the path '../b' leaves the root through '..'"),
        (
            {"path": ["a", "b/../../c", "c"]},
            "row 1: the path 'b/../../c' leaves the root through '..'",
        ),
        ({"path": ["a\\b", "b", "c"]}, r"row 0: the path 'a\\b' contains a backslash; use '/'"),
        ({"path": ["a\0b", "b", "c"]}, r"row 0: the path 'a\x00b' contains a NUL character"),
        ({"path": ["a", "b/", "c"]}, "row 1: the path 'b/' names a folder, not a file"),
    ],
)
def test_what_it_refuses(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        manifest(**columns)
    assert str(caught.value) == message


def test_dots_that_go_nowhere_are_names() -> None:
    paths = ["..a/x..", "a/...", "./b/.c"]
    assert manifest(path=paths).frame["path"].to_list() == paths


def test_it_refuses_what_is_no_frame_and_no_row() -> None:
    with pytest.raises(ManifestError, match=r"needs a polars DataFrame, not builtins\.dict"):
        Manifest({}, "/", CLASSES)
    with pytest.raises(ManifestError, match="needs at least one image"):
        Manifest(frame().clear(), "/", CLASSES)
    with pytest.raises(ManifestError, match="classes must be a sequence of strings"):
        Manifest(frame(), "/", "ab")


def test_filter_by_expression_and_by_mask() -> None:
    made = Manifest(frame(), "/data", CLASSES, repairs={"x": 1})
    for predicate in (
        pl.col("path").str.starts_with("a/"),
        np.array([True, False, True]),
        pl.Series([True, None, True]),
    ):
        part = made.filter(predicate)
        assert part.frame["path"].to_list() == ["a/1.jpg", "a/3.jpg"]
        assert (part.root, part.classes, part.repairs) == (made.root, made.classes, made.repairs)
        assert part.fingerprint() != made.fingerprint()
        assert part.fingerprint() == Manifest(part.frame, "/x", CLASSES).fingerprint()


@pytest.mark.parametrize(
    ("predicate", "error", "message"),
    [
        (pl.col("label") > 5, ManifestError, "the filter leaves no image of 3"),
        (pl.col("label") + 1, ConfigError, "the predicate must give booleans, not Int32"),
        (pl.col("nope") == 1, ConfigError, "the predicate cannot be evaluated: .*nope"),
        (np.array([True, False]), ConfigError, "the predicate gives 2 values for 3 images"),
        (np.ones((3, 1), bool), ConfigError, "a mask must have one dimension, not 2"),
        (
            "label > 5",
            ConfigError,
            "a predicate must be a polars expression or a mask .*builtins.str",
        ),
    ],
)
def test_filters_it_refuses(predicate: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        manifest().filter(predicate)


@pytest.mark.parametrize("values", [[True, False, True], [1, 0, 1]])
def test_split(values: list[int]) -> None:
    made = manifest(is_training_img=values)
    assert made.split("train").frame["path"].to_list() == ["a/1.jpg", "a/3.jpg"]
    assert made.split("test").frame["path"].to_list() == ["b/2.jpg"]
    assert made.split("test").classes == CLASSES
    assert made.split("Training").fingerprint() == made.split("train").fingerprint()


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical])
def test_splits_have_names_of_their_own(dtype: pl.DataType) -> None:
    text = frame(split=["train", "validation", "fold A"], is_training_img=[0, 0, 0])
    made = Manifest(text.with_columns(pl.col("split").cast(dtype)), "/data", CLASSES)
    for names, path in (
        (("train", "training", "TRAIN"), "a/1.jpg"),
        (("val", "valid", "validation", "Val"), "b/2.jpg"),
        (("fold A",), "a/3.jpg"),
    ):
        for name in names:
            assert made.split(name).frame["path"].to_list() == [path]
            assert made.split(name).classes == CLASSES
    both = manifest(split=["Val", None, "valid"])
    assert both.split("validation").frame["path"].to_list() == ["a/1.jpg", "a/3.jpg"]
    assert both.split("Val").frame["path"].to_list() == ["a/1.jpg"]
    for name in ("test", "fold a"):
        with pytest.raises(ConfigError) as caught:
            made.split(name)
        assert str(caught.value) == (
            f"there is no split {name!r}; the column 'split' has ['train', 'validation', 'fold A']"
        )


def test_splits_it_refuses() -> None:
    for name in ("val", "validation", "dev", "x"):
        with pytest.raises(ConfigError) as caught:
            manifest(is_training_img=[1, 0, 1]).split(name)
        assert str(caught.value) == (
            f"there is no split {name!r}: 'is_training_img', which NABirds has, gives \"train\" "
            'and "test" only; random_split([0.9, 0.1]) divides train at random'
        )
    made = manifest(split=["a" * 500, "b", "c"])
    with pytest.raises(ConfigError, match=r"has \['a{198}\.\.\. \(5\d\d characters\)$"):
        made.split("x")
    with pytest.raises(ConfigError, match="split must be a name such as 'train', not 1"):
        manifest(is_training_img=[1, 0, 1]).split(1)
    for columns in ({}, {"split": [0, 1, 0]}):
        with pytest.raises(ManifestError, match="neither 'is_training_img' nor 'split' with names"):
            manifest(**columns).split("train")
    for values in ([1, 2, 0], [True, None, False], ["1", "0", "1"]):
        with pytest.raises(ManifestError, match="must be boolean, or 0 and 1, in every row"):
            manifest(is_training_img=values).split("train")
    with pytest.raises(ManifestError, match="no image is in split 'test' of 3"):
        manifest(is_training_img=[1, 1, 1]).split("test")


def test_rows() -> None:
    made = manifest()
    for keys in ([2, 0, 2], (2, 0, 2), np.array([2, 0, 2], np.uint8), np.array([2, 0, 2])):
        assert made.rows(keys)["path"].to_list() == ["a/3.jpg", "a/1.jpg", "a/3.jpg"]
    assert made.rows([]).height == 0
    assert made.rows([]).columns == made.frame.columns


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([0, 3], "record key 3 is out of range for 3 images"),
        ([-1], "record key -1 is out of range for 3 images"),
        (np.array([2**63], np.uint64), "record key 9223372036854775808 is out of range"),
        ([0.0], "record keys must be integers, not float64"),
        ([True], "record keys must be integers, not bool"),
        (1, "record keys must have one dimension, not 0"),
    ],
)
def test_keys_it_refuses(keys: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        manifest().rows(keys)


# --- the fingerprint ---------------------------------------------------------------------------


def test_the_fingerprint_is_this_very_one() -> None:
    """A value that was written down: another one would orphan every state saved so far."""
    made = Manifest(
        frame(
            name=["é", None, ""],
            is_training_img=[True, False, None],
            share=[0.5, float("nan"), None],
            parents=[["x", "yz"], [], None],
        ),
        "/data",
        CLASSES,
    )
    assert made.fingerprint() == (
        "7868c360e4daef4692176fe05db674c6ea775a91c9f1649904c2e057cd87fa13"
    )


def test_what_the_fingerprint_does_not_depend_on(tmp_path: Path) -> None:
    made = manifest(name=["x", "y", "z"])
    turned = made.frame.select(reversed(made.frame.columns))
    assert Manifest(turned, tmp_path, CLASSES).fingerprint() == made.fingerprint()
    pieces = pl.concat([made.frame[:1], made.frame[1:]], rechunk=False)
    assert Manifest(pieces, "/data", CLASSES).fingerprint() == made.fingerprint()
    wide = made.frame.with_columns(pl.col("label").cast(pl.UInt64))
    assert Manifest(wide, "/data", CLASSES).fingerprint() == made.fingerprint()


def test_what_the_fingerprint_depends_on() -> None:
    made = manifest(name=["ab", "c", None])
    others = [
        Manifest(made.frame, "/data", ("ant", "wasp")),
        Manifest(made.frame, "/data", (*CLASSES, "cat")),
        Manifest(made.frame, "/data", ("antb", "ee")),
        Manifest(made.frame[[1, 0, 2]], "/data", CLASSES),
        Manifest(made.frame.rename({"name": "nom"}), "/data", CLASSES),
        manifest(name=["a", "bc", None]),
        manifest(name=["ab", "c", ""]),
        manifest(name=["ab", None, "c"]),
        manifest(name=["ab", "c", None], more=[1, 2, 3]),
        manifest(),
    ]
    prints = [other.fingerprint() for other in (made, *others)]
    assert len(set(prints)) == len(prints)


def test_dtypes_are_told_apart() -> None:
    texts = pl.Series(["1", "2", "1"])
    day = datetime.date(2020, 1, 2)
    moment = datetime.datetime(2020, 1, 2, 3, 4, 5)
    columns = [
        *(pl.Series([1, 2, 1], dtype=dtype) for dtype in (pl.Int8, pl.UInt8, pl.Int64, pl.UInt64)),
        *(pl.Series([1, 2, 1], dtype=dtype) for dtype in (pl.Float32, pl.Float64)),
        texts,
        texts.cast(pl.Categorical),
        texts.cast(pl.Binary),
        pl.Series([True, False, True]),
        pl.Series([None, None, None]),
        pl.Series([None, None, None], dtype=pl.String),
        pl.Series([day] * 3),
        pl.Series([moment] * 3),
        pl.Series([moment] * 3).dt.cast_time_unit("ms"),
        pl.Series([moment] * 3).dt.replace_time_zone("UTC"),
        pl.Series([moment - moment] * 3),
        pl.Series([moment.time()] * 3),
        pl.Series([Decimal("1.50"), Decimal("2.00"), None]),
        pl.Series([["1"], ["2"], ["1"]]),
        pl.Series([["1", "2"], [], ["1"]]),
        pl.Series([["1"], ["2"], ["1"]], dtype=pl.Array(pl.String, 1)),
        pl.Series([["1", "2"], None, ["1"]]),
        pl.Series([[["1"], ["2"]], [], [["1"]]]),
        pl.Series([[["1", "2"]], [], [["1"]]]),
        pl.Series([{"a": 1}, {"a": 2}, {"a": None}]),
        pl.Series([{"b": 1}, {"b": 2}, {"b": None}]),
        pl.Series([{"a": 1}, {"a": 2}, None]),
    ]
    prints = [
        Manifest(frame().with_columns(more=column), "/", CLASSES).fingerprint()
        for column in columns
    ]
    assert len(set(prints)) == len(columns)


def test_every_nan_is_one_but_the_zeros_are_two() -> None:
    odd = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    plain = manifest(x=[float("nan"), 0.0, 1.0])
    assert manifest(x=[odd, 0.0, 1.0]).fingerprint() == plain.fingerprint()
    assert manifest(x=[float("nan"), -0.0, 1.0]).fingerprint() != plain.fingerprint()


def test_a_column_without_a_fingerprint_is_refused_at_once() -> None:
    for column in (
        pl.Series("o", [object()] * 3, dtype=pl.Object),
        pl.Series("o", [1] * 3, pl.Int128),
    ):
        with pytest.raises(ManifestError, match=r"column 'o' has dtype .*, which cannot be finger"):
            Manifest(frame().with_columns(column), "/", CLASSES)


CELLS: dict[str, st.SearchStrategy[Any]] = {
    "path": st.text("abc/é ", min_size=1, max_size=4).filter(lambda s: s.strip("/") == s),
    "label": st.integers(0, 1),
    "width": st.integers(1, 9),
    "note": st.none() | st.text("ab\0", max_size=3),
    "score": st.none() | st.floats(allow_nan=False),
    "flag": st.none() | st.booleans(),
    "names": st.none() | st.lists(st.none() | st.text("ab", max_size=2), max_size=3),
}
SCHEMA = {
    "path": pl.String,
    "label": pl.Int32,
    "width": pl.Int32,
    "note": pl.String,
    "score": pl.Float64,
    "flag": pl.Boolean,
    "names": pl.List(pl.String),
}


def drawn(rows: list[dict[str, Any]]) -> Manifest:
    table = pl.DataFrame(rows, schema=SCHEMA).with_columns(height=pl.lit(7, pl.Int32))
    return Manifest(table, "/", CLASSES)


ROWS = st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=5)


@settings(max_examples=30)
@given(ROWS, st.data())
def test_any_one_cell_changes_the_fingerprint(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    column = data.draw(st.sampled_from(sorted(CELLS)))
    row = data.draw(st.integers(0, len(rows) - 1))
    value = data.draw(CELLS[column])
    old = rows[row][column]
    assume(repr(value) != repr(old))  # repr tells -0.0 from 0.0
    changed = [dict(cells) for cells in rows]
    changed[row][column] = value
    assert drawn(changed).fingerprint() != drawn(rows).fingerprint()


@settings(max_examples=30)
@given(ROWS, st.data())
def test_the_order_of_the_rows_counts_and_that_of_the_columns_does_not(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    made = drawn(rows)
    columns = data.draw(st.permutations(made.frame.columns))
    assert Manifest(made.frame.select(columns), "/x", CLASSES).fingerprint() == made.fingerprint()
    told = [[repr(row[column]) for column in CELLS] for row in rows]
    turned = drawn(rows[::-1])
    assert (turned.fingerprint() == made.fingerprint()) == (told[::-1] == told)
