"""Tables of pandas, pyarrow and datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from gpufeed import Manifest, ManifestError, read_table
from tests.support.nabirds_data import write_picture

pd = pytest.importorskip("pandas", reason="pandas is not installed")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
datasets = pytest.importorskip("datasets", reason="datasets is not installed")

PATHS = ["0.png", "1.png", "2.png"]
LABELS = ["b", "a", "b"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for number, name in enumerate(PATHS):
        write_picture(tmp_path / name, (10 + number, 20))
    return tmp_path


def labels_of(read: Manifest) -> list[str]:
    return [read.classes[label] for label in read.frame["label"]]


def test_pandas(root: Path) -> None:
    columns = {"path": PATHS, "label": LABELS, "note": [1.5, None, 3.0], "tags": [["x"], [], ["y"]]}
    expected = read_table(pl.DataFrame(columns), root=root).fingerprint()
    frame = pd.DataFrame(columns, index=[7, 8, 9])
    assert read_table(frame, root=root).fingerprint() == expected
    of_pathlib = frame.assign(path=[Path(each) for each in PATHS])
    assert read_table(of_pathlib, root=root).fingerprint() == expected
    assert isinstance(of_pathlib["path"].iloc[0], Path)  # the user's own frame is as it was
    later = frame[frame["note"] > 2]
    assert read_table(later, root=root).frame["path"].to_list() == ["2.png"]


@pytest.mark.parametrize("categories", [["c", "b", "a"], ["b", "a"], ["a", "b"]])
def test_categories_of_pandas_are_the_classes(root: Path, categories: list[str]) -> None:
    label = pd.Categorical(LABELS, categories=categories)
    read = read_table(pd.DataFrame({"path": PATHS, "label": label}), root=root)
    assert read.classes == tuple(categories)
    assert labels_of(read) == LABELS
    as_enum = pl.DataFrame({"path": PATHS, "label": pl.Series(LABELS, dtype=pl.Enum(categories))})
    assert read_table(as_enum, root=root).fingerprint() == read.fingerprint()


def test_categories_of_pandas_may_be_numbers_and_many(root: Path) -> None:
    label = pd.Categorical([130, 1, 130], categories=[*range(200)][::-1])
    read = read_table(pd.DataFrame({"path": PATHS, "label": label}), root=root)
    assert read.frame["label"].to_list() == [69, 198, 69]
    assert labels_of(read) == ["130", "1", "130"]


@pytest.mark.parametrize(
    "label",
    [
        [1.0, 0.0, float("nan")],
        ["b", "a", float("nan")],
        pd.Categorical(["b", "a", None]),
        pd.array([1, 0, None], dtype="Int64"),
        pd.array([True, False, None], dtype="boolean"),
    ],
)
def test_what_pandas_lacks_is_named_by_its_row(root: Path, label: Any) -> None:
    with pytest.raises(ManifestError, match="the table, row 2: label is missing"):
        read_table(pd.DataFrame({"path": PATHS, "label": label}), root=root)
    frame = pd.DataFrame({"path": [*PATHS[:2], None], "label": LABELS})
    with pytest.raises(ManifestError, match="the table, row 2: path is null"):
        read_table(frame, root=root)


def test_columns_that_pandas_cannot_hand_over(root: Path) -> None:
    frame = pd.DataFrame({"path": PATHS, "label": LABELS, "odd": [1, "x", object()]})
    with pytest.raises(ManifestError, match=r"this pandas.DataFrame is not a valid table: \w"):
        read_table(frame, root=root)


def test_pyarrow(root: Path) -> None:
    expected = read_table(pl.DataFrame({"path": PATHS, "label": LABELS}), root=root).fingerprint()
    table = pa.table({"path": PATHS, "label": LABELS})
    coded = pa.table({"path": PATHS, "label": pa.array(LABELS).dictionary_encode()})
    for given in (table, table.to_batches()[0], table.to_reader(), coded):
        assert read_table(given, root=root).fingerprint() == expected


def test_datasets(root: Path) -> None:
    names = ["1", "0", "none"]  # not the numbers that they stand for
    features = datasets.Features(
        {"path": datasets.Value("string"), "label": datasets.ClassLabel(names=names)}
    )
    given = datasets.Dataset.from_dict({"path": PATHS, "label": [0, 1, 0]}, features=features)
    read = read_table(given, root=root)
    assert read.classes == tuple(names)
    assert read.frame["label"].to_list() == [0, 1, 0]
    turned = given.select([2, 1])
    assert read_table(turned, root=root).frame["path"].to_list() == ["2.png", "1.png"]
    hidden = datasets.Dataset.from_dict({"path": PATHS, "label": [0, -1, 0]}, features=features)
    with pytest.raises(ManifestError, match="row 1: label is missing"):
        read_table(hidden, root=root)
    with pytest.raises(ManifestError, match=r"or a file, not datasets.DatasetDict$"):
        read_table(datasets.DatasetDict({"train": given}), root=root)


def test_images_of_datasets(root: Path) -> None:
    images = {"image": [str(root / path) for path in PATHS], "label": [0, 1, 0]}
    given = datasets.Dataset.from_dict(images).cast_column("image", datasets.Image())
    with pytest.raises(
        ManifestError, match=r"holds images rather than their paths; pass image='image'$"
    ):
        read_table(given, path="image")
