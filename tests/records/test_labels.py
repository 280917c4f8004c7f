"""Labels mean the same in two manifests, or an error says that they do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpufeed.errors import ConfigError, ManifestError
from gpufeed.records import Manifest, concat, read_folder, read_nabirds, read_table
from tests.support.nabirds_data import write_nabirds, write_picture


class Squares:
    """Images of 9 x 9 pixels."""

    def read(self, keys: Any) -> list[bytes]:
        return [b"P4 9 9 " + bytes(18)] * len(keys)

    def name(self, key: int) -> str:
        return f"{key}.pbm"


def table(labels: Any, **columns: Any) -> pl.DataFrame:
    n = len(labels)
    base = {"path": [f"{row}.jpg" for row in range(n)], "width": [9] * n, "height": [9] * n}
    return pl.DataFrame({**base, "label": labels, **columns})


def read(labels: Any, classes: Any = None) -> Manifest:
    return read_table(table(labels), classes=classes, source=Squares())


def names(manifest: Manifest) -> list[str]:
    return [manifest.classes[label] for label in manifest.frame["label"]]


WORDS = st.lists(st.text("ab1 é", max_size=3), min_size=1, max_size=6)


@settings(max_examples=40)
@given(WORDS, WORDS, st.randoms())
def test_text_is_numbered_by_a_list_in_any_order(
    train: list[str], val: list[str], random: Any
) -> None:
    classes = list({*train, *val})
    random.shuffle(classes)
    one = read(train, classes)
    other = read(val, one)
    assert one.classes == other.classes == tuple(classes)
    assert (names(one), names(other)) == (train, val)
    assert one.frame.schema["label"] == pl.Int32
    one.check_same_classes(other)


NUMBERS = st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=6)


@settings(max_examples=40)
@given(NUMBERS, st.data())
def test_renumbered_integers_keep_their_names_in_a_second_table(
    train: list[int], data: Any
) -> None:
    one = read(train, "renumber")
    assert one.classes == tuple(map(str, sorted(set(train))))
    changed = sum(label != number for label, number in zip(one.frame["label"], train, strict=True))
    assert one.repairs == ({"labels_renumbered": changed} if changed else {})
    assert ("labels_renumbered" in repr(one)) == bool(changed)
    val = data.draw(st.lists(st.sampled_from(train), min_size=1))
    assert names(read(val, one)) == [str(number) for number in val]
    assert names(one) == [str(number) for number in train]


@settings(max_examples=40)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_integers_are_kept(labels: list[int]) -> None:
    """As torch's losses and Hugging Face's ClassLabel take them."""
    made = read(labels)
    assert made.frame["label"].to_list() == labels
    assert made.classes == tuple(str(number) for number in range(max(labels) + 1))
    assert made.repairs == {}
    named = read(labels, [f"class {number}" for number in range(41)])
    assert named.frame["label"].to_list() == labels
    assert named.repairs == {}
    assert read(labels, [str(number) for number in range(41)]).frame["label"].to_list() == labels


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            [3, -1],
            'the table, row 1: label -1 is negative; classes="renumber" numbers the distinct '
            "labels from 0, and classes=train as the manifest `train` does, or drop such rows",
        ),
        (
            [3, 5, 1_234_567],
            "the table, row 2: label 1234567 is out of proportion to the 3 distinct ones; as a "
            'label, it would make 1,234,568 classes; classes="renumber" numbers',
        ),
        (pl.Series([2**63], dtype=pl.UInt64), "label 9223372036854775808 is out of proportion"),
        ([100_000], "label 100000 is out of proportion to the 1 distinct ones"),
    ],
)
def test_integers_that_are_no_labels(labels: Any, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read(labels)
    assert message in str(caught.value)
    assert len(read(labels, "renumber").classes) == len(labels)


def test_large_integers_are_labels_where_many_occur() -> None:
    assert len(read([99_999]).classes) == 100_000
    many = [10 * number for number in range(10_001)]
    assert len(read(many).classes) == 100_001
    with pytest.raises(ManifestError, match="label 100000 is out of proportion to the 10,000 dist"):
        read(many[1:])


def test_integers_in_csv_are_integers(tmp_path: Path) -> None:
    table(["5", "2"]).write_csv(tmp_path / "train.csv")
    made = read_table(tmp_path / "train.csv", source=Squares())
    assert made.frame["label"].to_list() == [5, 2]
    assert read_table(tmp_path / "train.csv", source=Squares(), classes="renumber").classes == (
        "2",
        "5",
    )
    # "1" stays itself where a second file happens to have integers only.
    table(["1", "2", "x"]).write_csv(tmp_path / "text.csv")
    table(["2", "1"]).write_csv(tmp_path / "val.csv")
    text = read_table(tmp_path / "text.csv", source=Squares())
    assert names(read_table(tmp_path / "val.csv", source=Squares(), classes=text)) == ["2", "1"]


def test_a_dtype_with_classes_of_its_own_keeps_them() -> None:
    kind = pl.Enum(["owl", "wren", "auk"])
    for labels in (["auk", "owl"], ["auk"]):
        made = read(pl.Series(labels, dtype=kind))
        assert made.classes == ("owl", "wren", "auk")
        assert names(made) == labels
    assert read([True]).frame["label"].to_list() == [1]
    assert read([True]).classes == read([False]).classes == ("false", "true")


@pytest.mark.parametrize(
    ("labels", "classes", "error", "message"),
    [
        (
            ["wren", "owl", "jay", "owl"],
            ["auk", "wren"],
            ManifestError,
            "the table: 2 labels are not among the 2 classes given: 'owl', 'jay'; pass classes "
            "that include them, or leave out their images",
        ),
        (list("abcdefgh"), ["h"], ManifestError, "'a', 'b', 'c', 'd', 'e' and 2 more; pass"),
        (["a\nb" * 500], [], ManifestError, r"1 label is not among the 0 classes given: 'a\nba"),
        (
            [0, 2],
            ["auk", "wren"],
            ManifestError,
            "the table: label 2 is not in [0, 2), the range of the classes given; integers index "
            "them, since none of their names is an integer; pass the names of all classes",
        ),
        ([-1], ["auk", "wren"], ManifestError, "label -1 is not in [0, 2)"),
        ([0], [], ManifestError, "label 0 is not in [0, 0)"),
        ([1, 2], ["1", "x", "y"], ManifestError, "1 label is not among the 3 classes given: '2'"),
        ([True], ["no", "yes"], ManifestError, "1 label is not among the 2 classes given: 'true'"),
        (["a"], ["a", "b", "b"], ConfigError, "classes has the name 'b' more than once"),
        (["a"], "train.csv", ConfigError, "classes must be a list of names in the order of their"),
        (["a"], {"a", "b"}, ConfigError, "classes must be a list of names"),
        (["a"], {"a": 1, "b": 0}, ConfigError, "classes must be a list of names"),
        (["a"], pl.Series(["a"]), ConfigError, "classes must be a list of names"),
        (["a"], ["a", 1], ConfigError, "or a manifest, not ['a', 1]"),
    ],
)
def test_what_it_refuses(labels: Any, classes: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        read(labels, classes)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 600


def test_names_may_repeat_where_integers_index_them() -> None:
    """As "crane" does in ImageNet's list."""
    assert read([1, 0], ["crane", "crane"]).frame["label"].to_list() == [1, 0]


# --- every reader ------------------------------------------------------------------------------


def of_table(_: Path) -> Callable[..., Manifest]:
    return lambda classes=None: read(["owl", "wren"], classes)


def of_folder(folder: Path) -> Callable[..., Manifest]:
    for name in ("owl", "wren"):
        write_picture(folder / name / "1.png", (4, 5))
    return lambda classes=None: read_folder(folder, classes=classes)


def of_nabirds(folder: Path) -> Callable[..., Manifest]:
    write_nabirds(folder)
    return lambda classes=None: read_nabirds(folder, "species", classes=classes)


@pytest.mark.parametrize("made", [of_table, of_folder, of_nabirds])
def test_every_reader_takes_classes(made: Callable[..., Any], tmp_path: Path) -> None:
    reading = made(tmp_path)
    plain = reading()
    classes = ["no such bird", *reversed(plain.classes)]
    given = reading(classes)
    assert given.classes == tuple(classes)
    assert names(given) == names(plain)
    assert given.frame.drop("label").equals(plain.frame.drop("label"))
    assert reading(given).fingerprint() == given.fingerprint()
    reading(plain).check_same_classes(plain)
    with pytest.raises(ManifestError, match=f"classes given: '{plain.classes[0]}'; pass classes"):
        reading(plain.classes[1:])
    with pytest.raises(ConfigError, match="classes must be a list of names"):
        reading("wren")


# --- the labels of boxes -----------------------------------------------------------------------


def boxed(kinds: Any, **options: Any) -> Manifest:
    boxes = [[[0, 0, 2, 2]] * len(each) for each in kinds]
    frame = table([0] * len(kinds), where=boxes, kind=kinds)
    return read_table(frame, boxes="where", box_labels="kind", source=Squares(), **options)


def kinds_of(manifest: Manifest) -> list[str]:
    return [manifest.box_classes[label] for label in manifest.objects()[1]]


def test_boxes_are_labelled_by_a_list() -> None:
    train = boxed([["dog", "cat"], ["cow"]])
    val = boxed([["dog"], []], classes=train)
    assert val.box_classes == train.box_classes == ("cat", "cow", "dog")
    assert kinds_of(val) == ["dog"]
    given = boxed([["dog"], ["cat"]], box_classes=["dog", "emu", "cat"])
    assert (kinds_of(given), given.objects()[1].tolist()) == (["dog", "cat"], [0, 2])
    assert kinds_of(boxed([[1, 0], []], box_classes=["dog", "cat"])) == ["cat", "dog"]
    # A frame that was read before keeps all its classes.
    frame = given.frame[:1]
    again = read_table(frame, boxes="boxes", box_labels="box_labels", source=Squares())
    assert again.box_classes == given.box_classes
    with pytest.raises(ManifestError, match=r"column 'kind': 1 label is not among .* given: 'emu'"):
        boxed([["emu"]], classes=train)
    with pytest.raises(ConfigError, match="classes has the name 'N/A' more than once"):
        boxed([[0]], box_classes=["dog", "N/A", "N/A"])
    with pytest.raises(ConfigError, match="box_classes is given, but box_labels is not"):
        read_table(table([0]), box_classes=["dog"], source=Squares())
    with pytest.raises(ConfigError, match="box_classes must be a list of names"):
        boxed([["dog"]], box_classes="dog")


def test_boxes_of_several_manifests_are_renumbered() -> None:
    """By their names, as classes are; so are other Enums."""
    one, other = boxed([["dog"], ["cow"]]), boxed([["cat", "dog"], []])
    sexes = (pl.Series("sex", names, dtype=pl.Enum(names)) for names in (["m", "f"], ["f", "?"]))
    one, other = (
        Manifest(each.frame.with_columns(sex), each.source, each.classes)
        for each, sex in zip((one, other), sexes, strict=True)
    )
    both = concat([one, other])
    assert both.box_classes == ("cow", "dog", "cat")
    assert kinds_of(both) == ["dog", "cow", "cat", "dog"]
    assert both.frame["sex"].to_list() == ["m", "f", "f", "?"]
    with pytest.raises(ManifestError) as caught:
        concat([one, boxed([[1]])])
    assert str(caught.value) == (
        "column 'box_labels' has dtype List(Enum(categories=['cow', 'dog'])) in one manifest and "
        "List(Int32) in another; cast or drop it first"
    )
    aged = (Manifest(table([0], age=age), Squares(), ["x"]) for age in ([3], ["3"]))
    with pytest.raises(ManifestError, match=r"'age' has dtype Int64 in one .* String in another"):
        concat(aged)


# --- two manifests -----------------------------------------------------------------------------


def test_classes_that_differ_are_told() -> None:
    train, val = read(["Bald Eagle", "Barred Owl"]), read(["Barred Owl"])
    with pytest.raises(ManifestError) as caught:
        train.check_same_classes(val)
    assert str(caught.value) == (
        "the classes of the two manifests differ: label 0 is 'Bald Eagle' here and 'Barred Owl' in "
        "the other; label 1 is 'Barred Owl' here and no class in the other; read one with classes= "
        "the other, or both with the same list"
    )
    train.check_same_classes(read(["Barred Owl"], train))
    train.check_same_classes(train.filter(pl.col("label") == 1))
    with pytest.raises(ManifestError, match=r"label 2 is no class here .*; and 4 more; read one"):
        read(["a", "b"]).check_same_classes(read(list("bcdefgh")))
    one, other = boxed([["dog"]]), boxed([["cat"]])
    with pytest.raises(ManifestError, match="the box_classes of the two manifests differ: label 0"):
        one.check_same_classes(other)
    one.check_same_classes(read([0]))
