"""Commands open every format by its name or content, and every manifest that was saved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpufeed
from gpufeed import ConfigError, ManifestError, cli
from gpufeed.tools.find_data import ListOptions
from gpufeed.tools.resolve import list_images, open_manifest
from tests.source.test_array_record import example
from tests.source.test_array_record import write as write_records
from tests.support.formats import COUNT, IMAGES, contents, write

DATA: dict[str, tuple[str, ListOptions]] = {
    "files": ("", ListOptions()),
    "zip": ("images.zip", ListOptions()),
    "arrow": ("train.arrow", ListOptions(image="picture")),
    "parquet": ("train-*.parquet", ListOptions(image="image")),
    "webdataset": ("{000..002}.tar", ListOptions(label="txt")),
    "huggingface": ("set", ListOptions()),
    "lmdb": ("images", ListOptions()),
    "hdf5": ("images.h5", ListOptions()),
    "array_record": ("train-*.array_record", ListOptions()),
}
UNLABELLED = ("lmdb", "array_record")


@pytest.mark.parametrize("name", DATA)
def test_every_format_is_opened(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the rows that its reader gives; by `gpufeed check` too, and as a saved manifest."""
    known = write(name, tmp_path / "data")
    file, options = DATA[name]
    path = str(tmp_path / "data" / file)
    read = open_manifest(path, options=options)
    listed = list_images(path, options)
    unlabelled = ["label"] if name in UNLABELLED else []
    assert read.frame.equals(known.frame.drop(unlabelled))
    assert contents(read) == [bytes(each) for each in IMAGES.contents]
    assert listed.frame["path"].equals(known.frame["path"])
    assert callable(getattr(gpufeed, listed.reader))
    given = [f"--{each}={value}" for each, value in vars(options).items() if value]
    assert cli.main(["check", path, *given]) == 0
    known.save(tmp_path / "a.manifest")
    assert cli.main(["check", str(tmp_path / "a.manifest")]) == 0
    printed = capsys.readouterr().out
    assert printed.count(f": {COUNT} images") == printed.count("No problems found.") == 2
    assert contents(open_manifest(tmp_path / "a.manifest")) == IMAGES.contents
    wrong = ListOptions(root="/") if name in ("arrow", "parquet") else ListOptions(path="x")
    with pytest.raises(
        (ConfigError, ManifestError), match=r"path does not apply|no column 'path'|image"
    ):
        open_manifest(path, options=wrong)


def test_datasets_of_an_hdf5_file_are_named(tmp_path: Path) -> None:
    import h5py

    pixels = np.zeros((3, 4, 5, 3), np.uint8)
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["a/images"], file["a/kind"] = pixels, ["wren", "kite", "wren"]
        file["elsewhere"] = h5py.ExternalLink("/etc/passwd", "x")
    read = open_manifest(tmp_path / "x.hdf5", options=ListOptions(label="a/kind"))
    assert read.classes == ("kite", "wren")
    assert read.frame["label"].to_list() == [1, 0, 1]
    with pytest.raises(ManifestError, match="the dataset 'elsewhere' is a link"):
        open_manifest(tmp_path / "x.hdf5", options=ListOptions(label="elsewhere"))
    with h5py.File(tmp_path / "y.hdf5", "w") as file:
        file["a/images"], file["b"] = pixels, pixels
    with pytest.raises(ManifestError, match=r"has 2 datasets of images; pass image= .*, b"):
        open_manifest(tmp_path / "y.hdf5")
    named = open_manifest(tmp_path / "y.hdf5", options=ListOptions(image="b"))
    assert named.frame["path"].to_list() == ["b/0", "b/1", "b/2"]


def test_examples_in_array_records(tmp_path: Path) -> None:
    """As TFDS writes them, with labels and other features."""
    file = tmp_path / "birds-train.array_record-00000-of-00001"
    features = [
        {"image": [content], "label": [number % 2], "age": [number]}
        for number, content in enumerate(IMAGES.contents)
    ]
    write_records(file, [example(each) for each in features])
    known = gpufeed.read_array_record(file, progress=False)
    assert open_manifest(file).frame.equals(known.frame)
    assert open_manifest(file, options=ListOptions(label="age")).frame["label"].to_list() == [
        *range(COUNT)
    ]
    listed = list_images(file)
    assert (listed.reader, listed.frame["path"].equals(known.frame["path"])) == (
        "read_array_record",
        True,
    )
    file.write_bytes(b"")
    with pytest.raises(ManifestError, match="cannot read ArrayRecord files"):
        open_manifest(file)


def test_a_beton_file(tmp_path: Path) -> None:
    import lzma

    packed = Path(__file__).parents[1] / "source" / "ffcv-1.0.2.beton.xz"
    (tmp_path / "x.beton").write_bytes(lzma.decompress(packed.read_bytes()))
    known = gpufeed.read_beton(tmp_path / "x.beton")
    assert open_manifest(tmp_path / "x.beton").frame.equals(known.frame)
    read = open_manifest(tmp_path / "x.beton", options=ListOptions(image="png"))
    assert len(read) == len(list_images(tmp_path / "x.beton").frame)


def test_several_splits_of_hugging_face_are_named(tmp_path: Path) -> None:
    datasets: Any = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    part = datasets.Dataset.from_dict({"label": [1, 2]})
    datasets.DatasetDict({"train": part, "test": part}).save_to_disk(tmp_path / "set")
    with pytest.raises(ManifestError, match=r"set has several splits; .* of one: test, train"):
        open_manifest(tmp_path / "set")
    with pytest.raises(ManifestError, match="has 0 columns of the type Image"):
        open_manifest(tmp_path / "set" / "train")


def test_a_folder_that_may_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For root there is none, so that the answer of the system is made up."""
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)
    with pytest.raises(
        ManifestError, match=f"cannot read the folder {tmp_path}: permission denied"
    ):
        list_images(tmp_path)
