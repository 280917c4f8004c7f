"""Tables of one's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufeed.errors import ManifestError
from gpufeed.records import read_table
from gpufeed.source import MemorySource
from tests.support.damaged_arrow import astray
from tests.support.nabirds_data import write_picture


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number in range(4):
        write_picture(tmp_path / "pictures" / f"{number}.png", (10 + number, 20))
    return tmp_path / "pictures"


def table(**columns: Any) -> pl.DataFrame:
    base = {"path": [f"{number}.png" for number in range(4)], "label": ["b", "a", "b", "c"]}
    return pl.DataFrame(base | columns)


def test_a_frame(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = read_table(table(note=[1, None, 3, 4]), root=root)
    assert read.classes == ("a", "b", "c")
    assert read.frame.rows() == [
        ("0.png", 1, 10, 20, 1),
        ("1.png", 0, 11, 20, None),
        ("2.png", 1, 12, 20, 3),
        ("3.png", 2, 13, 20, 4),
    ]
    assert read.frame.columns == ["path", "label", "width", "height", "note"]
    monkeypatch.chdir(root)
    assert read_table(table(note=[1, None, 3, 4])).fingerprint() == read.fingerprint()
    assert read_table(table()).root == root


def write_tsv(frame: pl.DataFrame, file: Path) -> None:
    frame.write_csv(file, separator="\t")


@pytest.mark.parametrize(
    ("ending", "write"),
    [
        (".csv", pl.DataFrame.write_csv),
        (".tsv", write_tsv),
        (".parquet", pl.DataFrame.write_parquet),
        (".PQ", pl.DataFrame.write_parquet),
        (".jsonl", pl.DataFrame.write_ndjson),
        (".ndjson", pl.DataFrame.write_ndjson),
        (".feather", pl.DataFrame.write_ipc),
        (".arrow", pl.DataFrame.write_ipc),
        (".ipc", pl.DataFrame.write_ipc),
    ],
)
def test_a_file(root: Path, ending: str, write: Any) -> None:
    file = root / f"table[1]*{ending}"
    write(table(), file)
    for given_as in (file, str(file)):
        read = read_table(given_as)
        assert read.root == root
        assert read.fingerprint() == read_table(table(), root=root).fingerprint()


@pytest.mark.parametrize(
    ("labels", "classes", "expected"),
    [
        ([3, 1, 3, 0], ("0", "1", "2", "3"), [3, 1, 3, 0]),
        ([True, False, True, True], ("false", "true"), [1, 0, 1, 1]),
        (["10", "9", "10", ""], ("", "10", "9"), [1, 2, 1, 0]),
        (["é", "z", "Z", "z"], ("Z", "z", "é"), [2, 1, 0, 1]),
        (pl.Series(["y", "x", "y", "y"], dtype=pl.Categorical), ("x", "y"), [1, 0, 1, 1]),
        (pl.Series(["y", "x", "y", "y"], dtype=pl.Enum(["y", "x"])), ("y", "x"), [0, 1, 0, 0]),
        (pl.Series([2, 1, 2, 2], dtype=pl.UInt64), ("0", "1", "2"), [2, 1, 2, 2]),
    ],
)
def test_labels_of_any_kind(
    root: Path, labels: Any, classes: tuple[str, ...], expected: Any
) -> None:
    read = read_table(table(label=labels), root=root)
    assert read.classes == classes
    assert read.frame["label"].to_list() == expected
    assert read.frame.schema["label"] == pl.Int32


def test_tables_of_plain_python(root: Path) -> None:
    expected = read_table(table(), root=root).fingerprint()
    columns = table().to_dict(as_series=False)
    for given_as in (
        columns,
        columns | {"path": [Path(path) for path in columns["path"]]},
        table().to_dicts(),
        tuple(table().to_dicts()),
        table().lazy(),
    ):
        assert read_table(given_as, root=root).fingerprint() == expected


def test_what_is_no_number_is_no_label(root: Path) -> None:
    with pytest.raises(ManifestError, match="the table, row 2: label is NaN; give each image a"):
        read_table(table(label=[0.0, 1.0, float("nan"), 1.0]), root=root)


@pytest.mark.parametrize("numbers", [("0.5", "1.5", "2"), ("0", "1", "2")])
def test_nan_in_a_file_is_no_class_beside_numbers(
    root: Path, tmp_path: Path, numbers: tuple[str, ...]
) -> None:
    table(label=[*numbers, "NaN"]).write_csv(tmp_path / "table.csv")
    with pytest.raises(ManifestError, match=r"row 3 \(.*\): label is nan; numbers must be finite"):
        read_table(tmp_path / "table.csv", root=root)
    table(label=["naan", "nan", "rye", "naan"]).write_csv(tmp_path / "table.csv")
    assert read_table(tmp_path / "table.csv", root=root).classes == ("naan", "nan", "rye")


def test_absolute_paths(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a table of its own may lie anywhere; the fingerprint does not depend on where."""
    expected = read_table(table(), root=root)
    absolute = table().with_columns(path=f"{root}/" + pl.col("path"))
    absolute.write_csv(tmp_path / "table.csv")
    monkeypatch.chdir(tmp_path)
    for read in (
        read_table(absolute),
        read_table(tmp_path / "table.csv"),
        read_table(absolute, root=root),
        read_table(absolute, root="pictures"),
        read_table([{"path": "0.png", "label": "b"}, *absolute.to_dicts()[1:]], root="pictures"),
    ):
        assert read.fingerprint() == expected.fingerprint()
        assert read.root == root
    write_picture(tmp_path / "pictures-2" / "é.png", (4, 4))
    write_picture(tmp_path / "x.png", (4, 4))
    further = {"path": [root / "0.png", tmp_path / "pictures-2" / "é.png"], "label": [0, 1]}
    assert read_table(further).frame["path"].to_list() == ["pictures/0.png", "pictures-2/é.png"]
    assert read_table(further).root == tmp_path
    whole = read_table(further, root="/")
    assert [whole.source.name(key) for key in (0, 1)] == [str(path) for path in further["path"]]
    assert read_table({"path": [root / "0.png"] * 2}, label=None).frame["path"][1] == "0.png"


def test_absolute_paths_that_have_no_root(root: Path) -> None:
    paths = [f"{root}/0.png", "1.png", "2.png", "3.png"]
    with pytest.raises(ManifestError) as caught:
        read_table(table(path=paths))
    assert str(caught.value) == (
        "the table, row 1: the path '1.png' is relative, but the table, row 0 has an absolute one; "
        "make all of them absolute, or pass a root that all are below"
    )
    paths[2] = f"{root}-2/2.png"
    with pytest.raises(ManifestError, match=f"row 2: .* and not below the root {root}; leave out"):
        read_table(table(path=paths), root=root)
    with pytest.raises(ManifestError, match="leaves the root through"):
        read_table(table(path=[f"{root}/{number}/../0.png" for number in range(4)]))


def test_links_of_absolute_paths_are_as_suspicious(root: Path, tmp_path: Path) -> None:
    write_picture(tmp_path / "elsewhere" / "e.png", (4, 4))
    (root / "link.png").symlink_to(tmp_path / "elsewhere" / "e.png")
    paths = {"path": [f"{root}/0.png", f"{root}/link.png"]}
    with pytest.raises(ManifestError, match=f"leaves the root {root} through a symbolic link"):
        read_table(paths, label=None)
    assert read_table(paths, label=None, follow_links=True).sizes().tolist() == [[20, 10], [4, 4]]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["3", "2", "3", "2"], ("0", "1", "2", "3")),
        (["0817", "817", "9", "10"], ("0817", "10", "817", "9")),
        (["1", "x", "1", "1"], ("1", "x")),
        (["1.0", "2", "2", "x"], ("1.0", "2", "x")),
    ],
)
def test_labels_in_csv_are_numbers_where_that_loses_nothing(
    root: Path, labels: list[str], classes: tuple[str, ...]
) -> None:
    table(label=labels).write_csv(root / "table.csv")
    assert read_table(root / "table.csv").classes == classes


def test_other_names_for_the_columns(root: Path) -> None:
    frame = table().rename({"path": "file", "label": "species"})
    read = read_table(frame, path="file", label="species", root=root)
    assert read.frame.columns == ["path", "label", "width", "height", "species"]
    assert [read.classes[label] for label in read.frame["label"]] == ["b", "a", "b", "c"]
    assert read.frame["species"].to_list() == ["b", "a", "b", "c"]


def test_paths_may_repeat(root: Path) -> None:
    assert len(read_table(table(path=["0.png"] * 4), root=root)) == 4


def test_sizes_and_boxes_of_the_table_are_taken(root: Path) -> None:
    columns = {name: [1, 2, 3, 4] for name in ("box_x", "box_y", "box_width", "box_height")}
    sizes = {"width": [10, 11, 12, 13], "height": [20] * 4}
    read = read_table(table(**sizes, **columns), root=root)
    assert read.sizes().tolist() == [[20, 10 + number] for number in range(4)]
    assert read.boxes().tolist() == [[n] * 4 for n in (1, 2, 3, 4)]


def test_a_label_that_is_not_asked_for_is_left_out(root: Path) -> None:
    ages = [1.0, 2.0, 3.0, 4.0]
    aged = table(age=ages)
    assert read_table(aged, root=root, label="age").frame["label"].to_list() == ages
    assert "label" not in read_table(aged, root=root, label=None).frame.columns


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({}, {"path": "file"}, "there is no column 'file'; the columns are ['path', 'label']"),
        (
            {"jpg": [b""] * 4},
            {"path": "file"},
            "; pass image='jpg' if that column holds the images",
        ),
        ({}, {"label": "kind"}, "there is no column 'kind'; the columns are ['path', 'label']"),
        ({}, {"label": "path"}, "column 'path' cannot be both the path and the label"),
        (
            {"file": ["x"] * 4},
            {"path": "file"},
            "the column 'file' becomes 'path', but there already is a column of that name; "
            "rename or drop it",
        ),
        ({"label": ["a", None, "b", "c"]}, {}, "row 1: label is missing"),
        ({"path": ["a", None, "b", "c"]}, {}, "row 1: path is null"),
        ({"path": [1, 2, 3, 4]}, {}, "column 'path' must be text, not Int64"),
        (
            {"label": [0.5, 1, 2, 3]},
            {"classes": ["a"]},
            "column 'label' contains Float64 numbers, which have no classes; leave out classes",
        ),
        (
            {"path": ["a", "b", "c/../../d", "e"]},
            {},
            "the path 'c/../../d' leaves the root through",
        ),
        (
            {"path": ["a", "b", "/c", "e"]},
            {},
            "row 2: the path '/c' is absolute and not below the root",
        ),
        ({"width": [1] * 4}, {}, "width and height must be given together; there is only 'width'"),
        (
            {"width": [1, 1, 0, 1], "height": [1] * 4},
            {},
            "row 2 (2.png): width 0 is not a valid size",
        ),
        (
            {"width": [1, None, 0, 1], "height": [1] * 4},
            {},
            "row 1 (1.png): width is null",
        ),
        ({"path": ["0.png", "x.png", "0.png", "0.png"]}, {}, "1 of 4 images are bad: "),
    ],
)
def test_what_it_refuses(
    root: Path, columns: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        read_table(table(**columns), root=root, **options)
    assert message in str(caught.value)


def test_a_link_out_of_the_root(root: Path) -> None:
    (root / "link.png").symlink_to("/etc/hostname")
    with pytest.raises(ManifestError, match=r"the table, row 3: .*through a symbolic link"):
        read_table(table(path=["0.png", "0.png", "0.png", "link.png"]), root=root)
    with pytest.raises(ManifestError, match=r"row 1: .* to /etc/hostname, as do 2 more rows; fo"):
        read_table(table(path=["0.png", "link.png", "link.png", "link.png"]), root=root)
    mixed = table(path=["link.png", "0.png", "none.png", "0.png"])
    found = read_table(mixed, root=root, on_bad_image="drop")
    assert found.frame["path"].to_list() == ["0.png", "0.png"]
    assert found.frame["label"].to_list() == [0, 2]
    assert found.repairs == {"links_dropped": 1, "images_dropped": 1}
    sized = mixed.with_columns(width=pl.Series([1, 10, 3, 4]), height=20)
    found = read_table(sized, root=root, on_bad_image="drop")
    assert found.sizes()[:, 1].tolist() == [10, 3, 4]
    assert found.repairs == {"links_dropped": 1}
    # Rows are named as the table has them.
    box = {"box_x": 0, "box_y": 0, "box_width": 5, "box_height": pl.Series([1, 2, 3, 99])}
    lists = pl.Series("boxes", [[[0.0, 0, 1, 1]]] * 3 + [[[0.0, 0]]])
    for broken, boxes, row in (
        (sized.with_columns(width=pl.Series([1, 2, 0, 4])), None, 2),
        (mixed.with_columns(**box), None, 3),
        (sized.with_columns(lists), "boxes", 3),
    ):
        with pytest.raises(ManifestError, match=f"the table.* row {row}"):
            read_table(broken, root=root, on_bad_image="drop", boxes=boxes)
    with pytest.raises(ManifestError, match=f"every image listed leaves the root {root} thr"):
        read_table(sized.with_columns(path=pl.lit("link.png")), root=root, on_bad_image="drop")


@pytest.mark.parametrize("path", ["itself/1.png", "x" * 300 + "/1.png", "0.png/1.png"])
def test_folders_that_can_not_be(root: Path, path: str) -> None:
    """Only their own images cannot be read."""
    (root / "itself").symlink_to("itself")
    found = read_table(
        table(path=["0.png", "1.png", path, "2.png"]), root=root, on_bad_image="drop"
    )
    assert found.frame["path"].to_list() == ["0.png", "1.png", "2.png"]


def test_what_is_no_table(root: Path) -> None:
    for wrong, message in (
        (root, r"; read_folder reads class folders, and read_table\({\"path\": paths}\) a list"),
        (5, "a table must be a DataFrame of .* a list of dicts, or a file, not int"),
        ([5], "a table must be a DataFrame of .* or a file, not list"),
        (table().lazy().select("x"), 'this polars.LazyFrame is not a valid table: .* column "x"'),
        ({"path": ["0.png"], "label": [1, 2]}, "this dict is not a valid table: .* height of col"),
        ([{"path": "0.png"}], r"no column 'label'; the columns are \['path'\]; pass label= with"),
        ({"label": [1]}, r"no column 'path'; the columns are \['label'\]; pass path= with the na"),
        ({"path": [b"x"], "label": [1]}, "column 'path' holds images .*; pass image='path'"),
        (
            root / "table.pkl",
            "table.pkl ends in '.pkl'; a table must end in one of .csv, .tsv, .jsonl, .ndjson, ",
        ),
        (root / "none.csv", f"cannot read {root}/none.csv: No such file or directory"),
        (table().clear(), "the table is empty"),
    ):
        with pytest.raises(ManifestError, match=message):
            read_table(wrong, root=root)


def write_pipe(file: Path) -> None:
    os.mkfifo(file)


def write_half(file: Path) -> None:
    table().write_parquet(file)
    os.truncate(file, file.stat().st_size // 2)


def write_astray(file: Path) -> None:
    table(path=["a longer path/0.png"] * 4).write_ipc(file, compat_level=pl.CompatLevel.newest())
    astray(file, "a longer path/0.png")


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("a.arrow", write_astray, "FILE is not a valid Arrow IPC file: .* references range 10737"),
        ("a.parquet", write_half, r"FILE is not a valid Parquet file: \w"),
        ("a.parquet", b"", r"FILE is not a valid Parquet file: \w"),
        ("a.parquet", b"path,label\na,1\n", r"FILE is not a valid Parquet file: \w"),
        ("a.parquet", write_pipe, "cannot read FILE: not a regular file but a pipe"),
        ("a.parquet", Path.mkdir, "cannot read FILE: not a regular file but a folder"),
        ("a.csv", write_pipe, "cannot read FILE: not a regular file but a pipe"),
        ("a.csv", b"", r"FILE is not a valid CSV file: \w"),
        ("a.csv", b"path,label\n1,2,3\n", r"FILE is not a valid CSV file: \w"),
        ("a.csv", b"path,label\n\xff,1\n", r"FILE is not a valid CSV file: .*utf-8"),
        (
            "a.csv",
            b"path,label\na\0b,1\n",
            r"FILE, row 0: the path 'a\\x00b' contains a NUL",
        ),
        ("a.csv", table().write_parquet, r"FILE is not a valid CSV file: \w"),
        ("a.jsonl", b"", r"FILE is not a valid JSON Lines file: \w"),
        ("a.jsonl", b"path,label\na,1\n", r"FILE is not a valid JSON Lines file: \w"),
        ("a.arrow", table().write_parquet, r"FILE is not a valid Arrow IPC file: \w"),
        ("a.feather", write_pipe, "cannot read FILE: not a regular file but a pipe"),
        ("a.csv", b"\0" * 99, "FILE: there is no column 'path'; the columns are "),
    ],
)
def test_a_damaged_file_is_named(root: Path, name: str, write: Any, message: str) -> None:
    file = root / name
    file.write_bytes(write) if isinstance(write, bytes) else write(file)
    with pytest.raises(ManifestError, match=message.replace("FILE", str(file))):
        read_table(file)


def test_a_panic_of_polars_is_a_manifest_error(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no Exception."""

    def panic(*_: object, **__: object) -> None:
        raise pl.exceptions.PanicException("index out of bounds\nat line 3")

    for ending, kind in (("parquet", "Parquet"), ("csv", "CSV")):
        (root / f"a.{ending}").write_bytes(b"")
        monkeypatch.setattr(pl, f"read_{ending}", panic)
        message = f"{root}/a.{ending} is not a valid {kind} file: index out of bounds$"
        with pytest.raises(ManifestError, match=message):
            read_table(root / f"a.{ending}")


@given(st.lists(st.text("ab,\"'é\n ", max_size=4), min_size=1, max_size=6))
def test_every_label_is_the_name_of_its_class(labels: list[str]) -> None:
    n = len(labels)
    frame = pl.DataFrame({"label": labels, "width": [1] * n})
    read = read_table(frame.with_columns(height=2), source=MemorySource([b"P4 1 2 \0\0"] * n))
    assert [read.classes[label] for label in read.frame["label"]] == labels
    assert list(read.classes) == sorted(set(labels))


def test_several_files(root: Path, tmp_path: Path) -> None:
    """A list or a pattern of them is the table that they make together."""
    whole = table(note=[1, None, 3, 4])
    for ending, write in (
        (".csv", pl.DataFrame.write_csv),
        (".parquet", pl.DataFrame.write_parquet),
    ):
        for number, part in enumerate((whole[:1], whole[1:], whole[:0])):
            write(
                part.select(sorted(part.columns, reverse=number == 1)),
                tmp_path / f"part-{number}{ending}",
            )
        files = [tmp_path / f"part-{number}{ending}" for number in range(3)]
        for several in (files, f"{tmp_path}/part-*{ending}", tmp_path / f"part-*{ending}"):
            read = read_table(several, root=root)
            assert read.fingerprint() == read_table(whole, root=root).fingerprint()
    table(label=None)[2:].write_parquet(tmp_path / "part-3.parquet")
    with pytest.raises(
        ManifestError, match=r"part-3.parquet has the columns .* must have the same"
    ):
        read_table(f"{tmp_path}/part-*.parquet", root=root)
    whole[2:].with_columns(label=pl.lit(None, pl.String)).write_parquet(tmp_path / "part-3.parquet")
    with pytest.raises(ManifestError, match=r"part-3.parquet, row 0: label is missing"):
        read_table(f"{tmp_path}/part-*.parquet", root=root)
    whole.with_columns(note=pl.lit("text")).write_parquet(tmp_path / "part-3.parquet")
    with pytest.raises(
        ManifestError, match=r"column 'note' is of several types in .*3 other files: Int64, Str"
    ):
        read_table(f"{tmp_path}/part-*.parquet", root=root)
    odd = tmp_path / "odd[1].csv"
    whole.write_csv(odd)
    assert len(read_table(odd, root=root)) == 4


def test_patterns_have_braces_and_find_no_hidden_files(root: Path) -> None:
    """So that what gpufeed itself keeps in `.gpufeed` is not taken for a part of the data."""
    (root / ".gpufeed").mkdir()
    for number, name in enumerate(("1.csv", "2.csv", ".3.csv", ".gpufeed/4.csv")):
        table()[number : number + 1].write_csv(root / name)
    paths = ["0.png", "1.png"]
    for pattern in ("{1..2}.csv", "{1,2}.csv", "*.csv", "**/*.csv", "[12].csv"):
        assert read_table(root / pattern).frame["path"].to_list() == paths, pattern
    assert read_table(root / ".gpufeed" / "*.csv", root=root).frame["path"].to_list() == ["3.png"]
